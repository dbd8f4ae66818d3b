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
  'portal:create',
  'portal:keys',
] as const;
export type ServiceScope = (typeof serviceScopes)[number];
export type AnyScope = Scope | ServiceScope;

declare module '../../core/reference/names.js' {
  interface Scopes extends Record<(typeof scopes)[number] | (typeof serviceScopes)[number], string> {}
}

export const isOfMarkets = (scope: AnyScope): boolean => scope.startsWith('trading:');
