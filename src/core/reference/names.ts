/**
 * A product adds its names where it declares its part of the reference: `declare module '…/names.js' { interface Tags
 * extends Record<keyof typeof tags, string> {} }`.
 */

export interface Tags extends Record<
  'API keys' | 'On behalf of customers' | 'Webhooks' | 'Signing in' | 'Operator' | 'Service',
  string
> {}
export type Tag = keyof Tags;

export interface Limits extends Record<
  'bad-keys' | 'documents' | 'service' | 'key-changes' | 'sign-ins',
  string
> {}
export type Limit = keyof Limits;

export interface Circumstances extends Record<
  'limit_used_up' | 'database_unreachable' | 'clock_off' | 'defect' | 'draining' | 'metrics_protected',
  string
> {}
export type Circumstance = keyof Circumstances;

/** Every service has these. */
export interface Credentials extends Record<
  | 'none'
  | 'liveKey'
  | 'expiredKey'
  | 'revokedKey'
  | 'unknownKey'
  | 'ownerSession'
  | 'newcomerSession'
  | 'operator'
  | 'wrongOperator'
  | 'serviceKey'
  | 'narrowServiceKey'
  | 'expiredServiceKey'
  | 'revokedServiceKey'
  | 'unknownServiceKey',
  string
> {}
export type Credential = keyof Credentials;

/** Each part of the service adds its own. */
export interface Scopes {}
export type Scope = keyof Scopes;
