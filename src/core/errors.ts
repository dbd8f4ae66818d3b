/** Every code a response can carry. Clients switch on these words, so they never change meaning. */
export type ErrorCode =
  | 'invalid_json'
  | 'invalid_request'
  | 'session_cookie_not_allowed'
  | 'key_in_query_string'
  | 'missing_key'
  | 'invalid_key'
  | 'key_expired'
  | 'key_revoked'
  | 'not_signed_in'
  | 'insufficient_scope'
  | 'forbidden_role'
  | 'cross_site_request'
  | 'entitlement_required'
  | 'entitlement_read_only'
  | 'live_trading_disabled'
  | 'not_found'
  | 'entitlement_not_found'
  | 'event_not_found'
  | 'unknown_station'
  | 'unknown_market'
  | 'method_not_allowed'
  | 'request_timeout'
  | 'key_not_active'
  | 'key_already_rotated'
  | 'idempotency_conflict'
  | 'backfill_state'
  | 'limit_reached'
  | 'market_closed'
  | 'body_too_large'
  | 'batch_too_large'
  | 'unsupported_media_type'
  | 'unknown_metric'
  | 'timestamp_out_of_range'
  | 'quantity_out_of_range'
  | 'insufficient_funds'
  | 'insufficient_position'
  | 'risk_limit'
  | 'price_moved'
  | 'rate_limited'
  | 'headers_too_large'
  | 'unavailable'
  | 'market_data_unavailable'
  | 'market_data_stale'
  | 'internal';

/** One offending place. `pointer` is an RFC 6901 JSON pointer into the request body. */
export interface ErrorPlace {
  index?: number;
  pointer: string;
  code: ErrorCode;
  detail: string;
}

export interface AppErrorOptions {
  cause?: unknown;
  errors?: ErrorPlace[];
  /** Seconds until a repeat may succeed; becomes `Retry-After`. */
  retryAfterSeconds?: number;
  /** The methods that the address takes; becomes `Allow`. */
  allow?: string;
  /** Of `limit_reached`: the limit, as answers show it. */
  limit?: object;
}

/** A failure the caller is told about. Anything else that is thrown is a bug and answers a bland 500. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly errors: ErrorPlace[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly allow: string | undefined;
  readonly limit: object | undefined;

  constructor(code: ErrorCode, detail: string, options: AppErrorOptions = {}) {
    super(detail, { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.errors = options.errors;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.allow = options.allow;
    this.limit = options.limit;
  }
}

/** Refuses input for one place of it. `detail` goes on where the place ends: `must not be blank`. */
export const placeError = (code: ErrorCode, pointer: string, detail: string): AppError =>
  new AppError(code, `${pointer} ${detail}`, { errors: [{ pointer, code, detail }] });
