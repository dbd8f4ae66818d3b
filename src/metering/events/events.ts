import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { multiplyDecimals } from '../../core/decimal.js';
import { ExactNumber } from '../../core/http/json.js';
import { fromCursor, toCursor } from '../../core/http/page.js';
import { parseInput } from '../../core/http/validate.js';
import type { CsvCell } from '../../core/pages/csv.js';
import { decodeDimensions } from '../entitlements/dimensions.js';
import { fieldError, requireOnce } from '../../core/pages/form.js';
import {
  currentQuantity,
  listEvents,
  listMatches,
  type EventCorrection,
  type EventPosition,
  type EventRange,
  type EventRow,
  type EventScope,
} from './event-queries.js';
import type { Narrowing } from './page-queries.js';
import { eventsQuerySchema } from './page-schema.js';

export interface EventFilter {
  from?: string | undefined;
  to?: string | undefined;
  /** All events if it names no part. */
  part?: Narrowing | undefined;
}

/** An idempotency key looks up that event alone; the other fields are ignored. Times are RFC 3339 in UTC. */
export function parseEventsRequest(query: object) {
  requireOnce(query);
  const request = parseInput(eventsQuerySchema, query);
  const { from, to, cursor } = request;
  if (from !== undefined && to !== undefined && Date.parse(to) <= Date.parse(from))
    throw fieldError('to', 'must be later than the start time');
  return { ...request, after: cursor === undefined ? undefined : decodePosition(cursor) };
}

const PAGE_SIZE = 50;

/** Per page: at most one second's work, even if nothing matches. */
const SCAN = 5_000;

export async function readEventPage(
  orm: Orm,
  scope: EventScope,
  { from, to, after, part, limit = PAGE_SIZE }: EventFilter & Partial<Pick<EventRange, 'after' | 'limit'>>,
) {
  const range: EventRange = { from, to, after, order: 'newest first', limit: limit + 1 };
  const match = matchOf(part);
  const rows = match && (await listMatches(orm, scope, { ...range, match: { ...match, scan: SCAN } }));
  const events = rows ? rows.filter(({ isMatch }) => isMatch) : await listEvents(orm, scope, range);
  const page = events.slice(0, limit);
  const end = rows?.find(({ isLastScanned }) => isLastScanned);
  const last = events.length > limit ? page.at(-1) : end;
  return {
    events: page,
    nextCursor: last && encodePosition(last),
    /** Set if the search stopped before the page was full. */
    searchedTo: events.length > limit ? undefined : end?.occurredAt,
  };
}

function matchOf(part: Narrowing = {}): Narrowing | undefined {
  const { apiKeyIds, subject, where = [] } = part;
  return apiKeyIds || subject !== undefined || where.length > 0 ? part : undefined;
}

const position = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([^\p{Cc}\p{Cs}]{1,255})$/u;

const encodePosition = ({ occurredAt, idempotencyKey }: EventPosition): string =>
  toCursor(`${occurredAt} ${idempotencyKey}`);

export function decodePosition(cursor: string): EventPosition {
  const [, occurredAt, idempotencyKey] = position.exec(fromCursor(cursor)) ?? [];
  if (
    occurredAt === undefined ||
    idempotencyKey === undefined ||
    !z.iso.datetime().safeParse(occurredAt).success
  )
    throw fieldError('cursor', 'is not a cursor from this list');
  return { occurredAt, idempotencyKey };
}

/** Round trips are negligible, and other requests are not delayed. */
const BATCH_SIZE = 2_000;

/** Oldest first. Each batch is a statement, so neither memory nor a transaction grows with the export. */
export async function* exportEvents(
  orm: Orm,
  scope: EventScope,
  { from, to, part }: EventFilter,
  keys: readonly string[],
): AsyncGenerator<CsvCell[][]> {
  const toCells = (event: EventRow) => readCells(event, keys);
  const match = matchOf(part);
  let after: EventPosition | undefined;
  do {
    const range: EventRange = { from, to, after, order: 'oldest first', limit: BATCH_SIZE };
    if (match) {
      const rows = await listMatches(orm, scope, { ...range, match: { ...match, scan: BATCH_SIZE } });
      yield rows.filter(({ isMatch }) => isMatch).map(toCells);
      after = rows.find(({ isLastScanned }) => isLastScanned);
    } else {
      const events = await listEvents(orm, scope, range);
      yield events.map(toCells);
      after = events.length < BATCH_SIZE ? undefined : events.at(-1);
    }
  } while (after);
}

/** Correction columns show the latest correction. */
const columns: [name: string, read: (event: EventRow, last: EventCorrection | undefined) => CsvCell][] = [
  ['idempotency_key', ({ idempotencyKey }) => idempotencyKey],
  ['occurred_at', ({ occurredAt }) => occurredAt],
  ['received_at', ({ receivedAt }) => receivedAt],
  ['quantity', ({ quantity }) => new ExactNumber(quantity)],
  ['counted_quantity', (event) => new ExactNumber(currentQuantity(event))],
  ['metric', ({ metric }) => metric],
  ['product', ({ productSlug }) => productSlug],
  ['mode', ({ livemode }) => (livemode ? 'live' : 'test')],
  ['api_key_id', ({ apiKeyId }) => apiKeyId],
  ['api_key_name', ({ keyName }) => keyName],
  ['api_key_prefix', ({ keyPrefix }) => keyPrefix],
  ['corrected_at', (_event, last) => last?.correctedAt ?? null],
  ['corrected_by', (_event, last) => (last ? authorOf(last) : null)],
  ['correction_reason', (_event, last) => last?.reason ?? null],
  ['subject', ({ subject }) => (subject === '' ? null : subject)],
  ['credits', (event) => (event.creditPrice === '0' ? null : new ExactNumber(creditsOf(event)))],
];

/** For the quantity that counts now. */
export const creditsOf = (event: EventRow): string =>
  multiplyDecimals(currentQuantity(event), event.creditPrice);

/** @param keys the products' dimensions */
export const eventColumns = (keys: readonly string[]): string[] => [
  ...columns.map(([name]) => name),
  ...keys.map((key) => `dimension.${key}`),
];

function readCells(event: EventRow, keys: readonly string[]): CsvCell[] {
  const dimensions = decodeDimensions(event.keys, event.dimensions) ?? {};
  return [
    ...columns.map(([, read]) => read(event, event.corrections?.at(-1))),
    ...keys.map((key) => (Object.hasOwn(dimensions, key) ? dimensions[key]! : null)),
  ];
}

/** @param namesOperators for pages of the console */
export function authorOf({ actor, author }: EventCorrection, namesOperators = false): string {
  if (actor.startsWith('operator')) return (namesOperators && author) || 'The operator';
  if (actor === 'system') return 'The service';
  if (actor.startsWith('api_key:')) return author ?? 'An API key';
  return author ?? 'A former member';
}
