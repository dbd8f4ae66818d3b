import type { Request, Response } from 'express';
import type { z } from 'zod';
import { byOperator } from '../session/authority.js';
import { change, rehearse, type ChangeDeps } from '../../audit/audit.js';
import type { Clock } from '../../../core/time.js';
import type { Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { readJsonBody } from '../../../core/http/body.js';
import { parseExactly, parseOptions } from '../../../core/http/validate.js';
import type { Put, Source } from '../source.js';
import { emailSchema, slugSchema } from './schema.js';
import { whereaboutsOf } from '../session/session.js';

/** Room for several text fields of maximum length, even if every character is escaped. */
export const MAX_BODY_BYTES = 16 * 1024;

export function readSlug(req: Request, name: 'slug' | 'productSlug' = 'slug'): string {
  return readParameter(slugSchema, name, req.params[name]);
}

export function readEmail(req: Request): string {
  return readParameter(emailSchema, 'email', String(req.params.email).trim().toLowerCase());
}

export function readParameters(req: Request): Record<string, string> {
  const params = { ...(req.params as Record<string, string>) };
  if ('slug' in params) params.slug = readSlug(req);
  if ('productSlug' in params) params.productSlug = readSlug(req, 'productSlug');
  if ('email' in params) params.email = readEmail(req);
  return params;
}

function readParameter(schema: z.ZodType<string>, name: string, value: unknown): string {
  const parsed = schema.safeParse(value, parseOptions);
  if (parsed.success) return parsed.data;
  throw new AppError('invalid_request', `The path parameter ${name} ${parsed.error.issues[0]!.message}.`);
}

export async function readInput<Schema extends z.ZodType>(req: Request, res: Response, schema: Schema) {
  const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
  return parseExactly(schema, value);
}

export const sourceOf = (req: Request, res: Response, clock: Clock): Source => ({
  ...whereaboutsOf(req, res, clock),
  actor: byOperator(res).actor,
});

export function changeAsOperator<T>(
  deps: ChangeDeps,
  req: Request,
  res: Response,
  work: (tx: Tx, source: Source) => Promise<T>,
): Promise<T> {
  const by = byOperator(res);
  const source = sourceOf(req, res, deps.clock);
  return change(deps, by, (tx) => work(tx, source));
}

export const rehearseAsOperator = <T>(
  deps: ChangeDeps,
  req: Request,
  res: Response,
  work: (tx: Tx, source: Source) => Promise<T>,
): Promise<T> => rehearse(deps, byOperator(res), (tx) => work(tx, sourceOf(req, res, deps.clock)));

/** 201 for a created resource, 200 for an existing one, changed or not. */
export function answerPut<T>(res: Response, { isNew, resource }: Put<T>, present: (resource: T) => object) {
  res.status(isNew ? 201 : 200);
  return present(resource);
}

export function sendDeleted(res: Response): void {
  res.status(204).end();
}
