import type { Request, Response } from 'express';
import type { z } from 'zod';
import { byOperator } from '../session/authority.js';
import type { Clock } from '../../core/clock.js';
import { AppError } from '../../core/errors.js';
import { sendJson, toJson } from '../../core/http/json.js';
import type { Put, Source } from './change.js';
import { emailSchema, slugSchema } from './schema.js';

/** The longest texts, escaped, fit several times. */
export const MAX_BODY_BYTES = 16 * 1024;

/** @throws AppError invalid_request that names the path parameter */
export function readSlug(req: Request, name: 'slug' | 'productSlug' = 'slug'): string {
  return readParameter(slugSchema, name, req.params[name]);
}

/** @throws AppError invalid_request that names the path parameter */
export function readEmail(req: Request): string {
  return readParameter(emailSchema, 'email', String(req.params.email).trim().toLowerCase());
}

function readParameter(schema: z.ZodType<string>, name: string, value: unknown): string {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AppError(
    'invalid_request',
    `The path parameter ${name} ${parsed.error.issues[0]?.message ?? 'is not valid'}.`,
  );
}

export function sourceOf(req: Request, res: Response, clock: Clock): Source {
  return {
    actor: byOperator(res).actor,
    at: new Date(clock.now()),
    ip: req.ip,
    requestId: String(res.getHeader('X-Request-Id')),
  };
}

/** 201 for what was made now, 200 for what was there, changed or not. */
export function sendPut<T>(
  res: Response,
  { isNew, resource }: Put<T>,
  present: (resource: T) => object,
): void {
  sendJson(res, isNew ? 201 : 200, toJson(present(resource)));
}

export function sendDeleted(res: Response): void {
  res.status(204).end();
}
