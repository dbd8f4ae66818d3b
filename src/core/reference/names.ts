/**
 * The names that routes and examples use. A product adds its own where it declares its part of the reference:
 * `declare module '…/names.js' { interface Tags extends Record<keyof typeof tags, string> {} }`.
 */

/** Groups of routes. */
export interface Tags extends Record<
  'API keys' | 'Webhooks' | 'Signing in' | 'Operator' | 'Service',
  string
> {}
export type Tag = keyof Tags;

/** Rate limits. */
export interface Limits extends Record<'bad-keys' | 'documents' | 'key-changes' | 'sign-ins', string> {}
export type Limit = keyof Limits;

/** States of the service in which an example takes place. */
export interface Circumstances extends Record<
  'limit_used_up' | 'database_unreachable' | 'defect' | 'draining' | 'metrics_protected',
  string
> {}
export type Circumstance = keyof Circumstances;

/** Callers of the examples that every service has. */
export interface Credentials extends Record<
  | 'none'
  | 'liveKey'
  | 'expiredKey'
  | 'revokedKey'
  | 'unknownKey'
  | 'ownerSession'
  | 'newcomerSession'
  | 'operator'
  | 'wrongOperator',
  string
> {}
export type Credential = keyof Credentials;

/** What an API key may do. Each part of the service adds its own. */
export interface Scopes {}
export type Scope = keyof Scopes;
