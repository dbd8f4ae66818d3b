import { AppError } from '../../../core/errors.js';
import type { Database, Orm } from '../../../core/db/client.js';
import { addDecimals } from '../../../core/decimal.js';
import { queryError } from '../../../core/http/page.js';
import { exact } from '../../../core/http/json.js';
import { DAY_MS, HOUR_MS } from '../../../core/time.js';
import { decodeDimensions } from '../../entitlements/dimensions.js';
import { listSeries, type SeriesPoint, type SeriesRange } from '../operator/queries.js';
import { requireWholeSteps } from '../operator/steps.js';
import { countCorrections, listEventsOf, type EventRow } from '../../events/event-queries.js';
import type { UsageScope } from '../../events/page-queries.js';
import { MAX_LOOKUP_CORRECTIONS, MAX_POINTS, MAX_SUMS, type AuthorKind } from './schema.js';

type Reader = Pick<UsageScope, 'orgId' | 'livemode'>;

type Steps = Pick<SeriesRange, 'from' | 'to'> & {
  granularity: 'hour' | 'day' | 'month';
  /** By API key, subject or dimension value. */
  isDivided: boolean;
};

/** For sums by API key, subject or dimension value, which are stored only by hour: a year and the month before it. */
const MAX_DIVIDED_MONTHS = 13;

export function requireFewSteps(range: Steps): void {
  requireWholeSteps(range, queryError);
  const { from, to, granularity, isDivided } = range;
  const most = isDivided && granularity === 'month' ? MAX_DIVIDED_MONTHS : MAX_POINTS;
  const count = countSteps(from, to, granularity);
  if (count > most)
    throw queryError('to', `must be at most ${most} ${granularity}s after from. This range has ${count}`);
}

function countSteps(from: Date, to: Date, granularity: Steps['granularity']): number {
  if (granularity !== 'month')
    return (to.getTime() - from.getTime()) / (granularity === 'day' ? DAY_MS : HOUR_MS);
  return (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth();
}

export async function readSeries(
  db: Pick<Database, 'shards'>,
  range: Omit<SeriesRange, 'limit'>,
  dimension?: string,
) {
  const sums = await listSeries(db, { ...range, limit: MAX_SUMS + 1 });
  if (sums.length > MAX_SUMS) {
    const many = `more than ${MAX_SUMS.toLocaleString('en')} points`;
    throw range.productId === undefined
      ? queryError('productSlug', `is required, because all products together have ${many}`)
      : queryError('to', `must be closer to from, because the range has ${many}`);
  }
  return toSeries(sums, range.subjects !== undefined, dimension);
}

interface Series {
  productSlug: string;
  metric: string;
  apiKeyId?: string;
  subject?: string;
  dimensions?: Record<string, string | null>;
  other?: true;
  points: { start: string; quantity: ReturnType<typeof exact>; events: number }[];
  total: string;
}

function toSeries(sums: SeriesPoint[], isBySubject: boolean, dimension: string | undefined) {
  const all: Series[] = [];
  let last: string | undefined;
  for (const { product, metric, apiKeyId, value, isOther, start, quantity, events } of sums) {
    let series = all.at(-1);
    const name = [product, metric, apiKeyId, value, isOther].join('\n');
    if (!series || name !== last) {
      last = name;
      series = { productSlug: product, metric, ...(apiKeyId ? { apiKeyId } : {}), points: [], total: '0' };
      if (isOther) series.other = true;
      else if (isBySubject) series.subject = value!;
      else if (dimension !== undefined) series.dimensions = { [dimension]: value || null };
      all.push(series);
    }
    series.points.push({ start, quantity: exact(quantity), events: Number(events) });
    series.total = addDecimals(series.total, quantity);
  }
  return all.map((series) => ({ ...series, total: exact(series.total) }));
}

const presentEvent = (event: EventRow) => ({
  idempotencyKey: event.idempotencyKey,
  productSlug: event.productSlug,
  metric: event.metric,
  quantity: exact(event.quantity),
  occurredAt: event.occurredAt,
  receivedAt: event.receivedAt,
  livemode: event.livemode,
  apiKeyId: event.apiKeyId,
  ...(event.subject === '' ? {} : { subject: event.subject }),
  ...(event.dimensions === '' ? {} : { dimensions: decodeDimensions(event.keys, event.dimensions) }),
  corrections: (event.corrections ?? []).map(({ actor, ...correction }) => ({
    correctionKey: correction.correctionKey,
    previousQuantity: exact(correction.previousQuantity),
    quantity: exact(correction.quantity),
    reason: correction.reason,
    correctedAt: correction.correctedAt,
    correctedBy: authorKindOf(actor),
  })),
});

function authorKindOf(actor: string): AuthorKind {
  if (actor.startsWith('operator') || actor === 'system') return 'operator';
  return actor.startsWith('api_key:') ? 'api_key' : 'member';
}

export async function readEvent(orm: Orm, reader: Reader, idempotencyKey: string) {
  const [event] = await listEventsOf(orm, reader, [idempotencyKey]);
  if (!event) throw new AppError('event_not_found', `No event ${idempotencyKey} was recorded.`);
  return presentEvent(event);
}

/** In the order of the keys. @throws AppError batch_too_large if the corrections are too many for one response */
export async function lookUpEvents(orm: Orm, reader: Reader, idempotencyKeys: string[]) {
  const distinct = [...new Set(idempotencyKeys)];
  requireFewCorrections(await countCorrections(orm, reader.orgId, distinct, MAX_LOOKUP_CORRECTIONS + 1));
  const found = await listEventsOf(orm, reader, distinct);
  const byKey = new Map(found.map((event) => [event.idempotencyKey, presentEvent(event)]));
  const results = idempotencyKeys.map((idempotencyKey) => {
    const event = byKey.get(idempotencyKey);
    return event ? { idempotencyKey, recorded: true, event } : { idempotencyKey, recorded: false };
  });
  // The response repeats the corrections of an event that was requested several times.
  requireFewCorrections(results.reduce((sum, { event }) => sum + (event?.corrections.length ?? 0), 0));
  return results;
}

function requireFewCorrections(count: number): void {
  if (count <= MAX_LOOKUP_CORRECTIONS) return;
  const most = MAX_LOOKUP_CORRECTIONS.toLocaleString('en');
  throw new AppError(
    'batch_too_large',
    `These events have more than ${most} corrections in total. Request fewer events at once.`,
  );
}
