import type { Request } from 'express';
import { z } from 'zod';
import { isUuid } from '../../core/http/path-id.js';
import { parseInput } from '../../core/http/validate.js';
import { fieldError } from '../../core/pages/form.js';
import { readQuery, requireOnce } from '../../core/pages/query-form.js';
import { tradeModes } from '../ledger/orders-table.js';
import { curveRanges, type CurveRange } from '../portfolio/portfolio-curve.js';
import type { WordPosition } from '../portfolio/queries-history.js';

/** What the pages' addresses may say. What else stands there is nobody's concern. */
const pageQuerySchema = z.object({
  mode: z.enum(tradeModes, 'must be paper or live').optional(),
  range: z.enum(Object.keys(curveRanges) as CurveRange[], 'must be day, week, month or year').optional(),
  cursor: z.string().optional(),
});

/** @throws AppError invalid_request */
export function readPageQuery(req: Request) {
  const query = readQuery(req);
  requireOnce(query);
  const { mode = 'paper', range = 'week', cursor } = parseInput(pageQuerySchema, query);
  return { mode, range, cursor };
}

/** A cursor of the list of orders: an order's id. */
export function readOrderCursor(cursor: string | undefined): string | undefined {
  if (cursor !== undefined && !isUuid(cursor)) throw unknownCursor();
  return cursor;
}

const wordCursor = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([\w.-]{1,100}) (\d{1,9})$/;

export const encodeWordCursor = ({ at, ticker, n }: WordPosition): string =>
  Buffer.from(`${at} ${ticker} ${n}`).toString('base64url');

export function readWordCursor(cursor: string | undefined): WordPosition | undefined {
  if (cursor === undefined) return undefined;
  const [, at, ticker, n] = wordCursor.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (at === undefined || ticker === undefined || !z.iso.datetime().safeParse(at).success)
    throw unknownCursor();
  return { at, ticker, n: Number(n) };
}

const unknownCursor = () => fieldError('cursor', 'is not one that this list gave out');
