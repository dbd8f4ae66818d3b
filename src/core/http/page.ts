import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.js';
import { sendJson, toJson } from './json.js';
import { parseOptions } from './validate.js';

export const pageSchema = z.object({
  limit: z.coerce
    .number('must be a whole number from 1 to 500')
    .int()
    .min(1)
    .max(500)
    .default(100)
    .describe('The maximum number to return, 1 to 500.'),
  cursor: z
    .string()
    .regex(/^[\w-]{1,2000}$/, 'is not a cursor from an earlier response')
    .optional()
    .describe('The `nextCursor` of the previous page.'),
});

export const idCursorField = z
  .string()
  .regex(/^[\w-]{22}$/, 'is not a cursor from this list')
  .optional();

export const toCursor = (key: string): string => Buffer.from(key).toString('base64url');

/** Cursors come from the caller, so the decoded key must be validated. */
export const fromCursor = (cursor: string): string => Buffer.from(cursor, 'base64url').toString();

export interface Range {
  after: string | undefined;
  limit: number;
}

/** A cursor is the key of the last row seen, so every page costs the same and concurrent changes do not shift pages. */
export function readRange(req: Request, keySchema: z.ZodType<string>): Range {
  const { limit, cursor } = parseQuery(pageSchema, req.query);
  if (cursor === undefined) return { after: undefined, limit };
  const key = keySchema.safeParse(fromCursor(cursor));
  if (!key.success)
    throw new AppError('invalid_request', 'The query parameter cursor is not a cursor from this list.');
  return { after: key.data, limit };
}

export function parseQuery<T extends z.ZodType>(schema: T, query: Request['query']): z.output<T> {
  const parsed = schema.safeParse(query, parseOptions);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  if (issue.code === 'unrecognized_keys') throw queryError(issue.keys[0]!, 'is not known');
  const name = String(issue.path[0]);
  throw queryError(name, Array.isArray(query[name]) ? 'must appear only once' : issue.message);
}

export const queryError = (name: string, detail: string): AppError =>
  new AppError('invalid_request', `The query parameter ${name} ${detail}.`);

/** `rows` must hold one row more than `limit` if there is a next page. */
export function cutPage<T>(rows: readonly T[], limit: number, cursorOf: (last: T) => string) {
  const page = rows.slice(0, limit);
  return { page, nextCursor: rows.length > limit ? cursorOf(page.at(-1)!) : undefined };
}

export const sendPage = <T>(res: Response, name: string, parts: PageParts<T>): void =>
  sendJson(res, 200, toJson(pageJson(name, parts)));

export function pageJson<T>(name: string, { rows, limit, keyOf, present }: PageParts<T>) {
  const { page, nextCursor = null } = cutPage(rows, limit, (last) => toCursor(keyOf(last)));
  return { [name]: page.map(present), nextCursor };
}

interface PageParts<T> {
  rows: T[];
  limit: number;
  keyOf: (row: T) => string;
  present: (row: T) => object;
}
