import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.js';
import { sendJson, toJson } from './json.js';

export const pageSchema = z.object({
  limit: z.coerce
    .number('must be a whole number')
    .int('must be a whole number')
    .min(1)
    .max(500)
    .default(100)
    .describe('How many at most, 1 to 500.'),
  cursor: z
    .string()
    .regex(/^[\w-]{1,400}$/, 'is not one that a list gave out')
    .optional()
    .describe('The `nextCursor` of the page before.'),
});

/** Part of a list that is ordered by a unique key: at most `limit` rows beyond `after`. */
export interface Range {
  after: string | undefined;
  limit: number;
}

/**
 * Reads `?limit=` and `?cursor=`. A cursor is the key of the last row seen, so that a list costs the same on every page and
 * no other change shifts it.
 * @throws AppError invalid_request that names the query parameter
 */
export function readRange(req: Request, keySchema: z.ZodType<string>): Range {
  const parsed = pageSchema.safeParse(req.query);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    throw new AppError('invalid_request', `The query parameter ${String(path[0])}: ${message}.`);
  }
  const { limit, cursor } = parsed.data;
  if (cursor === undefined) return { after: undefined, limit };
  const key = keySchema.safeParse(Buffer.from(cursor, 'base64url').toString());
  if (!key.success)
    throw new AppError('invalid_request', 'The query parameter cursor is not one that this list gave out.');
  return { after: key.data, limit };
}

/** Answers with one page. A query reads one row more than the limit, which tells whether there is a next page. */
export function sendPage<T>(
  res: Response,
  name: string,
  { rows, limit, keyOf, present }: PageParts<T>,
): void {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  const nextCursor = last === undefined ? null : Buffer.from(keyOf(last)).toString('base64url');
  sendJson(res, 200, toJson({ [name]: page.map(present), nextCursor }));
}

interface PageParts<T> {
  rows: T[];
  limit: number;
  keyOf: (row: T) => string;
  present: (row: T) => object;
}
