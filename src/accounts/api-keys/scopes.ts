export const scopes = [
  'usage:write',
  'usage:read',
  'usage:correct',
  'entitlements:read',
  'trading:read',
  'trading:write',
] as const;
export type Scope = (typeof scopes)[number];

export const serviceScopes = [
  'usage:write',
  'usage:read',
  'usage:correct',
  'usage:backfill',
  'entitlements:read',
  'keys:verify',
] as const;
export type ServiceScope = (typeof serviceScopes)[number];

declare module '../../core/reference/names.js' {
  interface Scopes extends Record<(typeof scopes)[number] | (typeof serviceScopes)[number], string> {}
}

export const isOfMarkets = (scope: Scope): boolean => scope.startsWith('trading:');
