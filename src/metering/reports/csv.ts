import { listKeyNames } from '../../accounts/api-keys/queries.js';
import type { Orm } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { ExactNumber } from '../../core/http/json.js';
import type { CsvCell, CsvFile } from '../../core/pages/csv.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import { findArchived } from '../events/event-queries.js';
import { eventColumns, exportEvents, type EventFilter } from '../events/events.js';
import type { Narrowing, UsageProduct, UsageScope } from '../events/page-queries.js';
import type { Mode } from '../events/page-schema.js';
import { eventScopeOf, scopeOf } from './choices.js';
import { partPlaces, readEventSteps } from './credits/queries.js';
import { listSeries } from './operator/queries.js';
import { daysOf, toDateText, toPeriodQuery, type Period } from './period.js';
import type { UsageReport } from './report.js';

/** Rows of a month are read at once. */
const CHUNK_MS = 31 * DAY_MS;
/** More than 31 days of thousands of keys. */
const MAX_POINTS = 500_000;

const columns = ['product', 'metric', 'mode', 'api_key_id', 'api_key_name', 'quantity', 'events', 'credits'];

/** By step and API key, or by step for a subject. */
export function toUsageCsv(context: Context, orgId: string, report: UsageReport): CsvFile {
  const { product, request } = report;
  const { mode, period } = request;
  const { range: _range, ...query } = toPeriodQuery(period);
  const days = Object.values(query).length > 0 ? query : daysOf(period);
  return {
    filename: `usage-${product.slug}-${mode}-${Object.values(days).join('-to-')}.csv`,
    columns: [period.range === 'day' ? 'hour_utc' : 'day_utc', ...columns],
    pieces: readRows(context, orgId, report),
  };
}

async function* readRows(
  { db }: Context,
  orgId: string,
  { product, metric, request, narrowing, isMixed }: UsageReport,
): AsyncGenerator<CsvCell[][]> {
  const { mode, period, subject } = request;
  const isDay = period.range === 'day';
  const scope = scopeOf(orgId, product, mode);
  const names = await listKeyNames(db.orm, orgId);
  const listPoints = async (chunk: Period) => {
    const points = await listSeries(db, {
      ...scope,
      ...chunk,
      granularity: isDay ? 'hour' : 'day',
      isByKey: subject === undefined,
      apiKeyIds: narrowing.apiKeyIds,
      where: narrowing.where,
      subjects: subject === undefined ? undefined : { only: subject },
      limit: MAX_POINTS,
    });
    return points
      .filter((point) => point.metric === metric && !point.isOther)
      .map(({ apiKeyId = null, ...point }) => ({ ...point, apiKeyId, start: new Date(point.start) }));
  };
  for (const chunk of chunksOf(period)) {
    const steps = await readSteps(db.orm, scope, { ...chunk, metric }, narrowing);
    if (isMixed && !steps) throw new Error('The events of a subject could not be read in time.');
    const points = await (isMixed
      ? steps!.map(({ start, ...step }) => ({ ...step, start: new Date(start), apiKeyId: null }))
      : listPoints(chunk));
    const costs =
      steps && new Map(steps.map(({ start, value, credits }) => [`${start} ${value ?? ''}`, credits]));
    yield points
      .toSorted((a, b) => Number(a.start) - Number(b.start))
      .map(({ start: at, apiKeyId, quantity, events }) => {
        const cost = costs?.get(`${at.getTime()} ${apiKeyId ?? ''}`) ?? (costs && '0');
        return [
          isDay ? at : toDateText(at),
          product.slug,
          metric,
          mode,
          apiKeyId,
          apiKeyId && (names.get(apiKeyId) ?? 'Operator'),
          new ExactNumber(quantity),
          new ExactNumber(events),
          cost === undefined ? null : new ExactNumber(cost),
        ];
      });
  }
}

/** Undefined if some of the events are archived, or if they are too many to read in time. */
async function readSteps(
  orm: Orm,
  scope: UsageScope,
  range: Pick<Period, 'from' | 'to' | 'stepMs'> & { metric: string },
  part: Narrowing,
) {
  const { orgId, productId, livemode } = scope;
  const [from, to] = [range.from.toISOString(), range.to.toISOString()];
  if (await findArchived(orm, orgId, { of: { productIds: [productId], livemode }, from, to }))
    return undefined;
  const place = part.subject === undefined ? partPlaces.key : undefined;
  return readEventSteps(orm, scope, { ...range, place, limit: MAX_POINTS }, part);
}

function chunksOf({ from, to, ...period }: Period): Period[] {
  const count = Math.ceil((to.getTime() - from.getTime()) / CHUNK_MS);
  return Array.from({ length: count }, (_, i) => {
    const start = from.getTime() + i * CHUNK_MS;
    return { ...period, from: new Date(start), to: new Date(Math.min(start + CHUNK_MS, to.getTime())) };
  });
}

/** An event may be dated this far after its receipt. */
const AHEAD_MS = 5 * MINUTE_MS;

export function toEventsCsv(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  orgId: string,
  product: UsageProduct,
  { mode, ...filter }: EventFilter & { mode: Mode },
): CsvFile {
  const latest = new Date(clock.now() + AHEAD_MS + 1).toISOString();
  // New events could keep the export running forever.
  const to = filter.to !== undefined && filter.to < latest ? filter.to : latest;
  const minute = (time: string) => `${time.slice(0, 16).replaceAll(/[-:]/g, '')}Z`;
  const first = filter.from === undefined ? 'first' : minute(filter.from);
  return {
    filename: `events-${product.slug}-${mode}-${first}-to-${minute(to)}.csv`,
    columns: eventColumns(product.dimensions),
    pieces: exportEvents(db.orm, eventScopeOf(orgId, [product], mode), { ...filter, to }, product.dimensions),
  };
}
