import { randomInt } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { DAY_MS, MINUTE_MS } from './time.js';

/** The id of a page's last row, as the 22 characters that callers hand back without reading them. */
export const encodeCursor = (id: string): string =>
  Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

export const decodeCursor = (cursor: string): string =>
  Buffer.from(cursor, 'base64url')
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

const version7 = /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
const MAX_AGE_MS = DAY_MS;
/** Instances whose clocks differ take each other's ids. */
const MAX_AHEAD_MS = 5 * MINUTE_MS;

/** An id for a form to carry: what the form makes gets it, so that sending the form twice makes one thing. */
export const newFormId = (nowMs: number): string => uuid({ msecs: nowMs });

/** True for a UUIDv7 of the last day. Ids stay in the order in which things were made, and no caller chooses one. */
export function isFreshId(id: string, nowMs: number): boolean {
  if (!version7.test(id)) return false;
  const madeAtMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return madeAtMs >= nowMs - MAX_AGE_MS && madeAtMs <= nowMs + MAX_AHEAD_MS;
}

/** Room for more ids in a millisecond than one process makes. */
const FIRST_SEQUENCES = 2 ** 30;
let last = { msecs: 0, seq: 0 };

/** A UUIDv7. Those of one process sort as they were made, also within one millisecond. */
export function newId(nowMs: number): string {
  last = { msecs: nowMs, seq: last.msecs === nowMs ? last.seq + 1 : randomInt(FIRST_SEQUENCES) };
  return uuid(last);
}
