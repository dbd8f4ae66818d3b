import { listKeyNames } from '../../accounts/api-keys/queries.js';
import type { Context } from '../../core/http/context.js';
import { ExactNumber } from '../../core/http/json.js';
import type { CsvCell, CsvFile } from '../../core/pages/csv.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import { eventColumns, exportEvents, type EventFilter } from '../events/events.js';
import type { UsageProduct } from '../events/page-queries.js';
import type { Mode } from '../events/page-schema.js';
import { eventScopeOf, scopeOf } from './choices.js';
import { partPlaces, placeOfPart } from './credits/queries.js';
import { listSeries } from './operator/queries.js';
import { daysOf, toDateText, toPeriodQuery, type Period } from './period.js';
import { DIMENSION, readAllEventSteps, type UsageReport } from './report.js';

/** Rows of a month are read at once. */
const CHUNK_MS = 31 * DAY_MS;
/** More than 31 days of thousands of keys. */
const MAX_POINTS = 500_000;

export type UsagePart = Pick<UsageReport, 'product' | 'metric' | 'request' | 'narrowing' | 'isMixed'> & {
  /** The chart’s stack; undefined for API keys. */
  by: string | undefined;
};

/** One or several products by step and by what the chart is divided by. */
export function toUsageCsv(context: Context, orgId: string, parts: UsagePart[]): CsvFile {
  const { product, request, by } = parts[0]!;
  const { mode, period } = request;
  const step = period.range === 'day' ? 'hour_utc' : 'day_utc';
  const names = by === undefined ? ['api_key_id', 'api_key_name'] : [by === 'subject' ? by : DIMENSION + by];
  const { range: _range, ...query } = toPeriodQuery(period);
  const days = Object.values(query).length > 0 ? query : daysOf(period);
  const name = parts.length === 1 ? product.slug : 'all-products';
  return {
    filename: `usage-${name}-${mode}-${Object.values(days).join('-to-')}.csv`,
    columns: [step, 'product', 'metric', 'mode', ...names, 'quantity', 'events', 'credits'],
    pieces: readAllRows(context, orgId, parts),
  };
}

async function* readAllRows(context: Context, orgId: string, parts: UsagePart[]) {
  for (const part of parts) yield* readRows(context, orgId, part);
}

async function* readRows(
  { db }: Context,
  orgId: string,
  { product, metric, request, narrowing, isMixed, by }: UsagePart,
): AsyncGenerator<CsvCell[][]> {
  const { mode, period, subject } = request;
  const isDay = period.range === 'day';
  const scope = scopeOf(orgId, product, mode);
  const names = await listKeyNames(db.orm, orgId);
  const ofKeys = by === undefined;
  const whole = subject === undefined ? partPlaces.key : undefined;
  const place = ofKeys ? whole : placeOfPart(by, product.dimensions);
  const isSubject = by === 'subject';
  const { apiKeyIds, where } = narrowing;
  const isStored = ofKeys ? !isMixed : isSubject ? !apiKeyIds && !where?.length : subject === undefined;
  const listPoints = async (chunk: Period) => {
    const points = await listSeries(db, {
      ...scope,
      ...chunk,
      granularity: isDay ? 'hour' : 'day',
      isByKey: ofKeys && subject === undefined,
      byDimension: ofKeys || isSubject ? undefined : place,
      apiKeyIds,
      where,
      subjects:
        subject !== undefined || (isSubject && product.countsSubjects) ? { only: subject } : undefined,
      limit: MAX_POINTS,
    });
    return points
      .filter((point) => point.metric === metric && !(ofKeys && point.isOther))
      .map(({ start, isOther, apiKeyId = null, value = apiKeyId, quantity, events }) => {
        const name = isOther ? 'All others' : value;
        return { start: Date.parse(start), value: name, quantity, events, credits: null };
      });
  };
  for (let start = period.from.getTime(); start < period.to.getTime(); start += CHUNK_MS) {
    const to = new Date(Math.min(start + CHUNK_MS, period.to.getTime()));
    const chunk = { ...period, from: new Date(start), to };
    const query = { ...chunk, metric, place, limit: MAX_POINTS };
    const steps = await readAllEventSteps(db.orm, scope, query, narrowing);
    if (!isStored && !steps) throw new Error('The events of a part could not be read in time.');
    const points = steps ?? (await listPoints(chunk));
    yield points
      .toSorted((a, b) => a.start - b.start)
      .map(({ start, value, quantity, events, credits }) => {
        const at = new Date(start);
        return [
          isDay ? at : toDateText(at),
          product.slug,
          metric,
          mode,
          ...(ofKeys ? [value, value && (names.get(value) ?? 'Operator')] : [value || null]),
          new ExactNumber(quantity),
          new ExactNumber(events),
          credits === null ? null : new ExactNumber(credits),
        ];
      });
  }
}

/** An event may be dated this far after its receipt. */
const AHEAD_MS = 5 * MINUTE_MS;

export function toEventsCsv(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  orgId: string,
  products: readonly UsageProduct[],
  { mode, ...filter }: EventFilter & { mode: Mode },
): CsvFile {
  const now = new Date(clock.now()).toISOString();
  const latest = new Date(clock.now() + AHEAD_MS + 1).toISOString();
  // New events could keep the export running forever.
  const to = filter.to !== undefined && filter.to < latest ? filter.to : latest;
  const minute = (time: string) => `${time.slice(0, 16).replaceAll(/[-:]/g, '')}Z`;
  const first = filter.from === undefined ? '' : `${minute(filter.from)}-`;
  const name = products.length === 1 ? products[0]!.slug : 'all-products';
  const keys = [...new Set(products.flatMap(({ dimensions }) => dimensions))];
  return {
    filename: `events-${name}-${mode}-${first}to-${minute(to < now ? to : now)}.csv`,
    columns: eventColumns(keys),
    pieces: exportEvents(db.orm, eventScopeOf(orgId, products, mode), { ...filter, to }, keys),
  };
}
