export const scopes = [
  'usage:write',
  'usage:read',
  'usage:correct',
  'entitlements:read',
  'trading:read',
  'trading:write',
] as const;
export type Scope = (typeof scopes)[number];

declare module '../../core/reference/names.js' {
  interface Scopes extends Record<(typeof scopes)[number], string> {}
}

export const isOfMarkets = (scope: Scope): boolean => scope.startsWith('trading:');
