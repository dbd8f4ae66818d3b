export const scopes = [
  'usage:write',
  'usage:read',
  'usage:correct',
  'entitlements:read',
  'trading:read',
  'trading:write',
] as const;
export type Scope = (typeof scopes)[number];

export const isOfMarkets = (scope: Scope): boolean => scope.startsWith('trading:');
