import { STATUS_CODES } from 'node:http';
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import { isDatabaseUnavailable } from '../db/client.js';
import { toJson } from './json.js';
import { AppError, type ErrorCode, type ErrorPlace } from '../errors.js';

/** The status of each code: the one place where the logic's words become HTTP. */
export const statusByCode: Record<ErrorCode, number> = {
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
  entitlement_required: 403,
  entitlement_read_only: 403,
  live_trading_disabled: 403,
  not_found: 404,
  entitlement_not_found: 404,
  event_not_found: 404,
  unknown_station: 404,
  unknown_market: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  key_not_active: 409,
  key_already_rotated: 409,
  idempotency_conflict: 409,
  backfill_state: 409,
  limit_reached: 409,
  market_closed: 409,
  body_too_large: 413,
  batch_too_large: 413,
  unsupported_media_type: 415,
  unknown_metric: 422,
  timestamp_out_of_range: 422,
  quantity_out_of_range: 422,
  insufficient_funds: 422,
  insufficient_position: 422,
  risk_limit: 422,
  price_moved: 422,
  rate_limited: 429,
  headers_too_large: 431,
  unavailable: 503,
  market_data_unavailable: 503,
  market_data_stale: 503,
  internal: 500,
};

/** RFC 9457 problem details with the stable `code` that clients switch on. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: ErrorCode;
  detail: string;
  requestId: string;
  errors?: ErrorPlace[];
  limit?: object;
}

const bearerCodes = new Set<ErrorCode>(['missing_key', 'invalid_key', 'key_expired', 'key_revoked']);

/** The problem that `error` stands for. `type` is the address of the code's explanation. */
export function toProblem(error: AppError, requestId: string): Problem {
  const status = statusByCode[error.code];
  return {
    type: `/docs/errors#${error.code}`,
    title: STATUS_CODES[status] ?? 'Error',
    status,
    code: error.code,
    detail: error.message,
    requestId,
    ...(error.errors ? { errors: error.errors } : {}),
    ...(error.limit ? { limit: error.limit } : {}),
  };
}

/** Answers with the problem that `error` stands for. Nothing of an unexpected error leaves the process. */
export function sendProblem(res: Response, error: AppError): void {
  const problem = toProblem(error, String(res.getHeader('X-Request-Id') ?? ''));
  res.statusCode = problem.status;
  res.setHeader('Content-Type', 'application/problem+json; charset=utf-8');
  setProblemHeaders(res, error);
  res.end(toJson(problem));
}

/** What an error says in headers, whether its body is a problem or a page. */
export function setProblemHeaders(res: Response, error: AppError): void {
  res.setHeader('Cache-Control', 'no-store');
  if (bearerCodes.has(error.code)) res.setHeader('WWW-Authenticate', 'Bearer');
  if (error.retryAfterSeconds !== undefined)
    res.setHeader('Retry-After', String(Math.max(1, Math.ceil(error.retryAfterSeconds))));
  if (error.allow !== undefined) res.setHeader('Allow', error.allow);
}

/** Turns whatever was thrown into the failure that the caller is told about. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (isDatabaseUnavailable(error)) {
    return new AppError('unavailable', 'The database cannot be reached at the moment.', {
      cause: error,
      retryAfterSeconds: 1,
    });
  }
  const { type, status } = error as { type?: unknown; status?: unknown };
  if (type === 'entity.parse.failed')
    return new AppError('invalid_json', 'The body is not valid JSON.', { cause: error });
  if (type === 'entity.too.large')
    return new AppError('body_too_large', 'The body is too large.', { cause: error });
  if (type === 'encoding.unsupported' || type === 'charset.unsupported') {
    return new AppError('unsupported_media_type', 'Send UTF-8 JSON, plain or gzip.', { cause: error });
  }
  if (status === 400)
    return new AppError('invalid_request', 'The request could not be read.', { cause: error });
  return new AppError('internal', 'Something went wrong on our side. The request id finds it in the log.', {
    cause: error,
  });
}

export const nothingHere = (): AppError => new AppError('not_found', 'There is nothing at this address.');

/** Hides that there is anything. */
export const notFound: RequestHandler = (_req, _res, next) => next(nothingHere());

export const problemHandler: ErrorRequestHandler = (thrown, _req, res, next) => {
  const error = toAppError(thrown);
  res.locals.error = error;
  if (res.headersSent) {
    next(thrown);
    return;
  }
  sendProblem(res, error);
};
