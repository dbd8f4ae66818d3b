import type { Request, Response } from 'express';
import type { z } from 'zod';
import { byOperator } from '../session/authority.js';
import type { Clock } from '../../core/clock.js';
import { AppError } from '../../core/errors.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { plainly } from '../../core/http/validate.js';
import type { Put, Source } from '../source.js';
import { emailSchema, slugSchema } from './schema.js';
import { whereaboutsOf } from '../session/session.js';

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
  const parsed = schema.safeParse(value, plainly);
  if (parsed.success) return parsed.data;
  throw new AppError('invalid_request', `The path parameter ${name} ${parsed.error.issues[0]!.message}.`);
}

export const sourceOf = (req: Request, res: Response, clock: Clock): Source => ({
  ...whereaboutsOf(req, res, clock),
  actor: byOperator(res).actor,
});

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
