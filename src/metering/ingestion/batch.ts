import { z } from 'zod';
import { dimensionsJson } from '../entitlements/dimensions.js';
import { isDecimalAbove } from '../../core/decimal.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { parseNumbersAsText } from '../../core/http/json.js';
import type { JsonBody } from '../../core/http/body.js';
import { parseInput, parseItems, readItems, requireFew } from '../../core/http/validate.js';
import { DAY_MS, MINUTE_MS, monthOf } from '../../core/time.js';
import { batchFrameSchema, isUsageEvent, MAX_EVENTS, usageEventSchema, type UsageEvent } from './schema.js';

export const MAX_PAST_MS = 7 * DAY_MS;
/** For a batch with `takesOld`. */
export const OLD_PAST_MS = 400 * DAY_MS;
const MAX_FUTURE_MS = 5 * MINUTE_MS;

/**
 * Keys are remembered for `horizonMonths` whole months after the event's month. Older months may be archived; events
 * dated in them are more than a week old and refused anyway.
 */
export function firstRemembered(horizonMonths: number, nowMs: number): string {
  const now = new Date(nowMs);
  return monthOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - horizonMonths, 1));
}

export interface BatchPair {
  slug: string;
  metric: string;
  /** JSON, and the first day of the month; undefined without dimensions, except the month with `takesOld`. */
  dimensions: string | undefined;
  month: string | undefined;
  /** The largest quantity among the pair's events, an exact decimal. */
  largest: string;
}

/** Validated events, as columns for the statement. */
export interface Batch {
  /** For an operator's batch, the Organization's id and the mode, from `operatorSender`. */
  hashedSecret: string;
  /** The Organization of an operator's batch; undefined if the key names it. */
  orgId: string | undefined;
  /** Events may be 400 days old. Such batches share flushes of their own. */
  takesOld: boolean;
  /** Recorded together with the batch submitted before it. */
  isContinuation: boolean;
  /** If true, records the valid events and reports the others. If false, records all events or none. */
  isLenient: boolean;
  /** Milliseconds since the epoch. The default time of its events. */
  receivedAtMs: number;
  /** Distinct products, metrics and dimensions in order of first use. */
  pairs: BatchPair[];
  /** One value per event: index in `pairs`, key, exact quantity, and RFC 3339 time if given. */
  pairOf: number[];
  keys: string[];
  quantities: string[];
  times: (string | undefined)[];
  /** One per event; empty without a subject. */
  subjects: string[];
  hasSubjects: boolean;
  /** Outside the accepted window. */
  outOfRange: Set<number>;
  /** Events above their product's maximum quantity, with that maximum. */
  aboveCeiling: ReadonlyMap<number, string>;
  /** In bytes; counts toward the queue's limit. */
  bytes: number;
}

/** Stands in a batch for the secret that an operator's call does not have. No hash has this form. */
export const operatorSender = (orgId: string, livemode: boolean): string => `${orgId} ${livemode}`;

/** By default, `takesOld` is true for an operator. */
export interface BatchInput
  extends
    Pick<ParsedEvents, 'events' | 'exactQuantities'>,
    Pick<Batch, 'hashedSecret' | 'isLenient' | 'receivedAtMs' | 'bytes'>,
    Partial<Pick<Batch, 'orgId' | 'takesOld' | 'isContinuation'>> {}

/** Finds a pair's number: first by product and metric, then by each dimension's key and value, then by month. */
interface Known {
  pair?: number;
  next: Map<string, Known>;
}

export function toBatch(input: BatchInput): Batch {
  const { events, exactQuantities, receivedAtMs, takesOld = input.orgId !== undefined } = input;
  // Spreading the input would cost more than everything else here.
  const batch: Batch = {
    hashedSecret: input.hashedSecret,
    orgId: input.orgId,
    takesOld,
    isContinuation: input.isContinuation ?? false,
    isLenient: input.isLenient,
    receivedAtMs,
    pairs: [],
    pairOf: [],
    keys: [],
    quantities: [],
    times: [],
    subjects: [],
    hasSubjects: false,
    outOfRange: new Set(),
    aboveCeiling: new Map(),
    bytes: input.bytes,
  };
  const known: Known = { next: new Map() };
  const maxPastMs = takesOld ? OLD_PAST_MS : MAX_PAST_MS;
  let pair = -1;
  for (const [i, event] of events.entries()) {
    // Usually the previous event's product.
    if (
      pair < 0 ||
      takesOld ||
      event.dimensions !== undefined ||
      event.productSlug !== batch.pairs[pair]!.slug ||
      event.metric !== batch.pairs[pair]!.metric ||
      batch.pairs[pair]!.dimensions !== undefined
    ) {
      pair = numberOfPair(batch, known, event);
    }
    batch.pairOf.push(pair);
    batch.subjects.push(event.subject ?? '');
    if (event.subject !== undefined) batch.hasSubjects = true;
    batch.keys.push(event.idempotencyKey);
    const quantity = exactQuantities.get(i) ?? String(event.quantity ?? 1);
    batch.quantities.push(quantity);
    const own = batch.pairs[pair]!;
    if (isDecimalAbove(quantity, own.largest)) own.largest = quantity;
    batch.times.push(event.occurredAt === undefined ? undefined : toStorableTime(event.occurredAt));
    if (event.occurredAt !== undefined && !isInWindow(event.occurredAt, receivedAtMs, maxPastMs))
      batch.outOfRange.add(i);
  }
  return batch;
}

/**
 * The same dimensions in another order form a separate pair; the statement adds the two together. With `takesOld`,
 * pairs always have a month, because the statement refuses archived months.
 */
function numberOfPair(batch: Batch, known: Known, event: UsageEvent): number {
  const { productSlug: slug, metric, occurredAt, dimensions = {} } = event;
  const toMonth = () => monthOf(occurredAt === undefined ? batch.receivedAtMs : Date.parse(occurredAt));
  let month = batch.takesOld ? toMonth() : undefined;
  let own = follow(follow(known, slug), metric);
  for (const key in dimensions) {
    month ??= toMonth();
    own = follow(follow(own, key), dimensions[key]!);
  }
  if (month !== undefined) own = follow(own, month);
  own.pair ??=
    batch.pairs.push({ slug, metric, dimensions: dimensionsJson(dimensions), month, largest: '0' }) - 1;
  return own.pair;
}

function follow({ next }: Known, part: string): Known {
  let known = next.get(part);
  if (known === undefined) next.set(part, (known = { next: new Map() }));
  return known;
}

/** Control characters are refused in all parts, so line feeds separate them safely. */
export const pairName = ({ slug, metric, dimensions, month }: Omit<BatchPair, 'largest'>): string =>
  month === undefined ? `${slug}\n${metric}` : `${slug}\n${metric}\n${month}\n${dimensions}`;

export function leaveOut(batch: Batch, aboveCeiling: Batch['aboveCeiling']): Batch {
  const pairs = batch.pairs.map((pair) => ({ ...pair, largest: '0' }));
  for (const [i, quantity] of batch.quantities.entries()) {
    const pair = pairs[batch.pairOf[i]!]!;
    if (!aboveCeiling.has(i) && isDecimalAbove(quantity, pair.largest)) pair.largest = quantity;
  }
  return { ...batch, pairs, aboveCeiling };
}

/** Whether a time is at most 7 days (or `maxPastMs`) before and at most 5 minutes after the receipt. */
export function isInWindow(time: string, receivedAtMs: number, maxPastMs = MAX_PAST_MS): boolean {
  const ms = Date.parse(time);
  return ms >= receivedAtMs - maxPastMs && ms <= receivedAtMs + MAX_FUTURE_MS;
}

/** Postgres rounds times finer than microseconds, perhaps into the next month, and refuses offsets of 16 hours. */
export function toStorableTime(time: string): string {
  const cut = time.length > 27 ? time.replace(/(\.\d{6})\d+/, '$1') : time;
  if (cut.endsWith('Z') || !/[+-](1[6-9]|2\d):\d\d$/.test(cut)) return cut;
  const fraction = /\.\d+/.exec(cut)?.[0] ?? '';
  return `${new Date(cut).toISOString().slice(0, 19)}${fraction}Z`;
}

/** Passes the index in `pairs`, the time (ms since the epoch) and the event's index. Allocates nothing. */
function eachRecordable(batch: Batch, take: (pair: number, ms: number, i: number) => void): void {
  for (let i = 0; i < batch.pairOf.length; i++) {
    if (batch.outOfRange.has(i) || batch.aboveCeiling.has(i)) continue;
    const time = batch.times[i];
    take(batch.pairOf[i]!, time === undefined ? batch.receivedAtMs : Date.parse(time), i);
  }
}

/** Each total is `<index in pairs> <month>`. */
export function totalsOf(batch: Batch): Set<string> {
  const totals = new Set<string>();
  eachRecordable(batch, (pair, ms) => totals.add(`${pair} ${monthOf(ms)}`));
  return totals;
}

/** For each pair, in ms since the epoch; undefined without recordable events. */
export function latestTimes(batch: Batch): (number | undefined)[] {
  const latest: (number | undefined)[] = batch.pairs.map(() => undefined);
  eachRecordable(batch, (pair, ms) => {
    if (latest[pair] === undefined || ms > latest[pair]) latest[pair] = ms;
  });
  return latest;
}

/** For each subject of a pair, in ms since the epoch. */
export function latestBySubject(batch: Batch, own: number): Map<string, number> {
  const latest = new Map<string, number>();
  eachRecordable(batch, (pair, ms, i) => {
    const subject = batch.subjects[i]!;
    if (pair === own && subject !== '' && !(ms <= (latest.get(subject) ?? -Infinity)))
      latest.set(subject, ms);
  });
  return latest;
}

const manyDigits = /(?<!\\)"quantity"\s*:\s*-?[\d.]{16,}/;

const MAX_DIGITS = 100;

/** A JSON pointer into the request body. */
export type PointerOf = (index: number, field: keyof UsageEvent) => string;

export const pointerInBatch: PointerOf = (index, field) => `/events/${index}/${field}`;

/**
 * Bodies without a number of 16 or more digits (nearly all) are not parsed twice ("JSON and HTTP by hand" in
 * bench/README.md). Only an unescaped closing quote followed by a colon ends a field name, so a text value that merely
 * contains it does not count.
 * @param quantitiesIn reads the quantities of a parsed body, by event
 * @throws AppError invalid_request naming the event whose quantity has more than 100 digits
 */
export function findExactQuantities(
  text: string,
  quantitiesIn: (body: unknown) => unknown[],
  pointerOf: PointerOf,
): Map<number, string> {
  const exact = new Map<number, string>();
  if (!manyDigits.test(text)) return exact;
  for (const [i, quantity] of quantitiesIn(parseNumbersAsText(text)).entries()) {
    if (typeof quantity !== 'string') continue;
    const digits = quantity.replace(/[eE].*$/, '').length;
    if (digits > MAX_DIGITS) {
      const detail = `has more than ${MAX_DIGITS} digits`;
      const place = { index: i, pointer: pointerOf(i, 'quantity'), code: 'invalid_request' as const, detail };
      throw new AppError('invalid_request', `${place.pointer} ${detail}`, { errors: [place] });
    }
    // A double cannot distinguish such a value from zero.
    if (digits >= 16 && Number(quantity) !== 0) exact.set(i, quantity);
  }
  return exact;
}

export interface ParsedEvents {
  events: UsageEvent[];
  /** By event index, where a double would round. */
  exactQuantities: ReadonlyMap<number, string>;
  pointerOf: PointerOf;
  /** For a lenient request: the readable events' indexes in the body, and the errors of the others. */
  unreadable?: { indexes: readonly number[]; places: readonly ErrorPlace[] };
}

export const quantitiesInBatch = (body: unknown): unknown[] =>
  (body as { events: ({ quantity?: unknown } | null)[] }).events.map((event) => event?.quantity);

const usageEventsSchema = z.array(usageEventSchema);

/** @throws AppError invalid_request; a lenient request only if no event can be read */
export function parseUsageBatch({ value, text }: JsonBody, isLenient: boolean): ParsedEvents {
  requireFewEvents((value as { events?: unknown } | null)?.events);
  const { events: sent } = parseInput(batchFrameSchema, value);
  const exactQuantities = findExactQuantities(text, quantitiesInBatch, pointerInBatch);
  return parseEvents(sent, exactQuantities, isLenient);
}

export function parseEvents(
  sent: unknown[],
  exactQuantities: ReadonlyMap<number, string>,
  isLenient: boolean,
): ParsedEvents {
  const all = { exactQuantities, pointerOf: pointerInBatch };
  if (sent.every(isUsageEvent)) return { ...all, events: sent };
  return readEvents(usageEventsSchema, sent, { ...all, path: ['events'], isLenient });
}

export function readEvents<T extends z.ZodType<UsageEvent>>(
  schema: z.ZodArray<T>,
  sent: unknown[],
  options: Pick<ParsedEvents, 'exactQuantities' | 'pointerOf'> & { path: string[]; isLenient: boolean },
): ParsedEvents {
  const { path, isLenient, exactQuantities, pointerOf } = options;
  if (!isLenient) return { events: parseItems(schema, sent, path), exactQuantities, pointerOf };
  const { values: events, indexes, places } = readItems(schema, sent, path);
  if (places.length === 0) return { events, exactQuantities, pointerOf };
  const exact = indexes.flatMap((from, to): [number, string][] => {
    const quantity = exactQuantities.get(from);
    return quantity === undefined ? [] : [[to, quantity]];
  });
  return { events, exactQuantities: new Map(exact), pointerOf, unreadable: { indexes, places } };
}

export const requireFewEvents = (sent: unknown) => requireFew(sent, 'A batch can have', MAX_EVENTS, 'events');
