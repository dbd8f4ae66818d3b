/** What an API key may be made for. */
export const scopes = ['usage:write', 'entitlements:read', 'trading:read', 'trading:write'] as const;
export type Scope = (typeof scopes)[number];

/** What keys can be made for here: nothing about trading where there are no markets. */
export const scopesOf = ({ hasMarkets }: { hasMarkets: boolean }): readonly Scope[] =>
  hasMarkets ? scopes : scopes.filter((scope) => !scope.startsWith('trading:'));
