/**
 * Names used by routes and examples. A product adds its own where it declares its part of the reference: `declare
 * module '…/names.js' { interface Tags extends Record<keyof typeof tags, string> {} }`.
 */

/** Groups of routes. */
export interface Tags extends Record<
  'API keys' | 'Webhooks' | 'Signing in' | 'Operator' | 'Service',
  string
> {}
export type Tag = keyof Tags;

export interface Limits extends Record<'bad-keys' | 'documents' | 'key-changes' | 'sign-ins', string> {}
export type Limit = keyof Limits;

/** States of the service that examples need. */
export interface Circumstances extends Record<
  'limit_used_up' | 'database_unreachable' | 'clock_off' | 'defect' | 'draining' | 'metrics_protected',
  string
> {}
export type Circumstance = keyof Circumstances;

/** Callers used in examples. Every service has these. */
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

/** Permissions of an API key. Each part of the service adds its own. */
export interface Scopes {}
export type Scope = keyof Scopes;
