import { STATUS_CODES } from 'node:http';
import type { Application, ErrorRequestHandler, RequestHandler, Response } from 'express';
import { isDatabaseUnavailable } from '../db/client.js';
import { toJson } from './json.js';
import { requestIdOf } from './request.js';
import {
  AppError,
  commonStatuses,
  type ErrorCode,
  type ErrorPlace,
  type ProblemMembers,
  type StatusByCode,
} from '../errors.js';

/** RFC 9457 problem details with a stable `code`. */
export interface Problem extends ProblemMembers {
  type: string;
  title: string;
  status: number;
  code: ErrorCode;
  detail: string;
  requestId: string;
  errors?: ErrorPlace[];
}

const bearerCodes = new Set<ErrorCode>(['missing_key', 'invalid_key', 'key_expired', 'key_revoked']);

export function toProblem(error: AppError, status: number, requestId: string): Problem {
  return {
    type: `/docs/errors#${error.code}`,
    title: STATUS_CODES[status] ?? 'Error',
    status,
    code: error.code,
    detail: error.message,
    requestId,
    ...(error.errors ? { errors: error.errors } : {}),
    ...error.members,
  };
}

const STATUSES = 'error statuses';

export const setErrorStatuses = (app: Application, statuses: StatusByCode): unknown =>
  app.set(STATUSES, statuses);

export const statusOf = ({ app }: Response, code: ErrorCode): number =>
  ((app.get(STATUSES) as StatusByCode | undefined) ?? (commonStatuses as StatusByCode))[code];

/** The access log reads the error from `res.locals`. */
export function beginProblem(res: Response, error: AppError): void {
  res.locals.error = error;
  res.statusCode = statusOf(res, error.code);
  res.setHeader('Cache-Control', 'no-store');
  if (bearerCodes.has(error.code)) res.setHeader('WWW-Authenticate', 'Bearer');
  if (error.retryAfterSeconds !== undefined)
    res.setHeader('Retry-After', String(Math.max(1, Math.ceil(error.retryAfterSeconds))));
  if (error.allow !== undefined) res.setHeader('Allow', error.allow);
}

export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (isDatabaseUnavailable(error))
    return new AppError('unavailable', 'The database cannot be reached at the moment.', {
      cause: error,
      retryAfterSeconds: 1,
    });
  const { type, status } = error as { type?: string; status?: unknown };
  const [code, detail] = parserErrors.get(type) ?? (status === 400 ? unreadable : defect);
  return new AppError(code, detail, { cause: error });
}

type Refusal = [code: ErrorCode, detail: string];
const unsupported: Refusal = ['unsupported_media_type', 'Send UTF-8 JSON, plain or gzip.'];
const unreadable: Refusal = ['invalid_request', 'The request could not be read.'];
const defect: Refusal = [
  'internal',
  'Something went wrong on our side. Quote the request id when you report it.',
];

/** By the type that Express's parsers set. */
const parserErrors = new Map<string | undefined, Refusal>([
  ['entity.parse.failed', ['invalid_json', 'The body is not valid JSON.']],
  ['entity.too.large', ['body_too_large', 'The body is too large.']],
  ['encoding.unsupported', unsupported],
  ['charset.unsupported', unsupported],
]);

export const nothingHere = (): AppError => new AppError('not_found', 'Nothing exists at this address.');

export const notFound: RequestHandler = (_req, _res, next) => next(nothingHere());

/** Details of unexpected errors never leave the process. */
export const problemHandler: ErrorRequestHandler = (thrown, _req, res, next) => {
  const error = toAppError(thrown);
  res.locals.error = error;
  if (res.headersSent) {
    next(thrown);
    return;
  }
  beginProblem(res, error);
  res.setHeader('Content-Type', 'application/problem+json; charset=utf-8');
  res.end(toJson(toProblem(error, res.statusCode, requestIdOf(res))));
};
