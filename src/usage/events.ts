import { z } from 'zod';
import type { Orm } from '../core/db/client.js';
import { ExactNumber } from '../core/http/json.js';
import { parseInput } from '../core/http/validate.js';
import type { CsvCell } from '../core/pages/csv.js';
import { fieldError } from '../core/pages/form.js';
import { requireOnce } from '../core/pages/query-form.js';
import {
  listEvents,
  type EventPosition,
  type EventRange,
  type EventRow,
  type UsageScope,
} from './page-queries.js';
import { eventsQuerySchema, type Mode } from './page-schema.js';

export interface EventsRequest {
  /** Looks for this one event; the rest does not matter then. */
  idempotencyKey: string | undefined;
  product: string | undefined;
  mode: Mode;
  /** RFC 3339 in UTC; undefined is without bound. */
  from: string | undefined;
  to: string | undefined;
  cursor: string | undefined;
  after: EventPosition | undefined;
}

/** @throws AppError invalid_request that names the field */
export function parseEventsRequest(query: object): EventsRequest {
  requireOnce(query);
  const { idempotencyKey, product, mode = 'live', from, to, cursor } = parseInput(eventsQuerySchema, query);
  const request = { idempotencyKey, product, mode, from: toUtc(from), to: toUtc(to) };
  if (
    request.from !== undefined &&
    request.to !== undefined &&
    Date.parse(request.to) <= Date.parse(request.from)
  )
    throw fieldError('to', 'must be later than the time it starts from');
  return { ...request, cursor, after: cursor === undefined ? undefined : decodePosition(cursor) };
}

const toUtc = (time: string | undefined): string | undefined =>
  time === undefined || time.endsWith('Z') ? time : `${time}Z`;

const PAGE_SIZE = 50;

export async function readEventPage(orm: Orm, scope: UsageScope, { from, to, after }: EventsRequest) {
  const range: EventRange = { from, to, after, order: 'newest first', limit: PAGE_SIZE + 1 };
  const events = await listEvents(orm, scope, range);
  const page = events.slice(0, PAGE_SIZE);
  return { events: page, nextCursor: events.length > PAGE_SIZE ? encodePosition(page.at(-1)!) : undefined };
}

const position = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([^\p{Cc}\p{Cs}]{1,255})$/u;

const encodePosition = ({ occurredAt, idempotencyKey }: EventPosition): string =>
  Buffer.from(`${occurredAt} ${idempotencyKey}`).toString('base64url');

function decodePosition(cursor: string): EventPosition {
  const [, occurredAt, idempotencyKey] = position.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (
    occurredAt === undefined ||
    idempotencyKey === undefined ||
    !z.iso.datetime().safeParse(occurredAt).success
  )
    throw fieldError('cursor', 'is not one that this list gave out');
  return { occurredAt, idempotencyKey };
}

/** Large enough that the round trips do not count, small enough that no other request waits for one. */
const BATCH_SIZE = 2_000;

/**
 * The events of a range, oldest first, a batch at a time: each is a statement of its own that begins behind the last
 * event before, so that neither memory nor a transaction grows with what is exported.
 */
export async function* exportEvents(
  orm: Orm,
  scope: UsageScope,
  { from, to }: Pick<EventsRequest, 'from' | 'to'>,
): AsyncGenerator<CsvCell[][]> {
  let after: EventPosition | undefined;
  do {
    const range: EventRange = { from, to, after, order: 'oldest first', limit: BATCH_SIZE };
    const events = await listEvents(orm, scope, range);
    yield events.map(toCells);
    after = events.length < BATCH_SIZE ? undefined : events.at(-1);
  } while (after);
}

export const eventColumns = [
  'idempotency_key',
  'occurred_at',
  'received_at',
  'quantity',
  'metric',
  'product',
  'mode',
  'api_key_id',
  'api_key_name',
  'api_key_prefix',
];

const toCells = (event: EventRow): CsvCell[] => [
  event.idempotencyKey,
  event.occurredAt,
  event.receivedAt,
  new ExactNumber(event.quantity),
  event.metric,
  event.productSlug,
  event.livemode ? 'live' : 'test',
  event.apiKeyId,
  event.keyName,
  event.keyPrefix,
];
