import { randomInt } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { DAY_MS, MINUTE_MS } from './time.js';

/** Encodes the id of a page's last row as the opaque 22-character cursor that callers send back. */
export const encodeCursor = (id: string): string =>
  Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

export const decodeCursor = (cursor: string): string =>
  Buffer.from(cursor, 'base64url')
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

const version7 = /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
const MAX_AGE_MS = DAY_MS;
/** How far in the future an id's time may be, because instances' clocks differ. */
const MAX_AHEAD_MS = 5 * MINUTE_MS;

/** Id for the record that a form creates. Submitting the form twice creates only one record. */
export const newFormId = (nowMs: number): string => uuid({ msecs: nowMs });

/**
 * True for a UUIDv7 created within the last day. This keeps ids in creation order and limits what callers can choose.
 */
export function isFreshId(id: string, nowMs: number): boolean {
  if (!version7.test(id)) return false;
  const madeAtMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return madeAtMs >= nowMs - MAX_AGE_MS && madeAtMs <= nowMs + MAX_AHEAD_MS;
}

/**
 * Upper bound of the random number at which each millisecond's sequence starts. It leaves room for more ids per
 * millisecond than one process can create.
 */
const FIRST_SEQUENCES = 2 ** 30;
let last = { msecs: 0, seq: 0 };

/** Returns a UUIDv7. Ids from one process sort in creation order, even within a millisecond. */
export function newId(nowMs: number): string {
  last = { msecs: nowMs, seq: last.msecs === nowMs ? last.seq + 1 : randomInt(FIRST_SEQUENCES) };
  return uuid(last);
}

/** Lower bound of all UUIDv7 ids from a time onwards. @param ms since the epoch */
export function firstIdOf(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
