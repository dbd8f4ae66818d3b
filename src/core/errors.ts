export const commonStatuses = {
  invalid_json: 400,
  invalid_request: 400,
  session_cookie_not_allowed: 400,
  key_in_query_string: 400,
  missing_key: 401,
  invalid_key: 401,
  key_expired: 401,
  key_revoked: 401,
  not_signed_in: 401,
  insufficient_scope: 403,
  forbidden_role: 403,
  cross_site_request: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  key_not_active: 409,
  key_already_rotated: 409,
  idempotency_conflict: 409,
  body_too_large: 413,
  batch_too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  headers_too_large: 431,
  unavailable: 503,
  clock_off: 503,
  internal: 500,
} as const;

type CommonStatuses = typeof commonStatuses;

/** Clients switch on the codes, so meanings never change. Other layers add their own with `declare module`. */
export interface ErrorStatuses extends CommonStatuses {}

export type ErrorCode = keyof ErrorStatuses;
export type StatusByCode = Readonly<Record<ErrorCode, number>>;

/** Default: the status's reason phrase. */
export type ErrorTitles = Partial<Record<ErrorCode, string>>;

/** `pointer` is an RFC 6901 JSON pointer into the request body. */
export interface ErrorPlace {
  index?: number;
  pointer: string;
  code: ErrorCode;
  detail: string;
}

export interface AppErrorOptions {
  cause?: unknown;
  errors?: ErrorPlace[];
  /** Sent as `Retry-After`. */
  retryAfterSeconds?: number;
  /** Sent as `Allow`. */
  allow?: string;
  members?: ProblemMembers;
  /** Heads the error page. Default: the code's title. */
  pageTitle?: string;
}

export interface ProblemMembers {
  limit?: object;
}

/** Any other error is a bug and results in a generic 500. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly errors: ErrorPlace[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly allow: string | undefined;
  readonly members: ProblemMembers | undefined;
  readonly pageTitle: string | undefined;

  constructor(code: ErrorCode, detail: string, options: AppErrorOptions = {}) {
    super(detail, { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.errors = options.errors;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.allow = options.allow;
    this.members = options.members;
    this.pageTitle = options.pageTitle;
  }
}

/** `detail` completes a sentence that begins with the pointer: `must not be blank`. */
export const placeError = (code: ErrorCode, pointer: string, detail: string): AppError =>
  new AppError(code, `${pointer} ${detail}`, { errors: [{ pointer, code, detail }] });

/** @throws AppError not_found without a value */
export function found<T>(value: T | undefined, detail: string): T {
  if (value === undefined) throw new AppError('not_found', detail);
  return value;
}

/** The first in the chain of causes. */
export function codeOf(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code } = e as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return undefined;
}
