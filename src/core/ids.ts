import { randomInt } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { DAY_MS, MINUTE_MS } from './time.js';

/** 22 characters. */
export const encodeCursor = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

export const decodeCursor = (cursor: string): string =>
  Buffer.from(cursor, 'base64url')
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

const version7 = /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
const MAX_AGE_MS = DAY_MS;
/** Instances' clocks differ. */
const MAX_AHEAD_MS = 5 * MINUTE_MS;

/** Submitting the form twice creates only one record. */
export const newFormId = (nowMs: number): string => uuid({ msecs: nowMs });

/** UUIDv7 created within the last day: ids stay in creation order, and callers can choose little. */
export function isFreshId(id: string, nowMs: number): boolean {
  if (!version7.test(id)) return false;
  const madeAtMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return madeAtMs >= nowMs - MAX_AGE_MS && madeAtMs <= nowMs + MAX_AHEAD_MS;
}

/** Leaves room for more ids per millisecond than one process can create. */
const FIRST_SEQUENCES = 2 ** 30;
let last = { msecs: 0, seq: 0 };

/** UUIDv7. Ids from one process sort in creation order, even within a millisecond. */
export function newId(nowMs: number): string {
  last = { msecs: nowMs, seq: last.msecs === nowMs ? last.seq + 1 : randomInt(FIRST_SEQUENCES) };
  return uuid(last);
}

/** @param ms since the epoch */
export function firstIdOf(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
