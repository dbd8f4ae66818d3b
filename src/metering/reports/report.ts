import { z } from 'zod';
import type { Viewer } from '../../accounts/portal/viewer.js';
import { MAX_SERIES } from '../../core/charts/stacked.js';
import { groupBy } from '../../core/collections.js';
import type { Orm } from '../../core/db/client.js';
import { sumDecimals } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { parseInput } from '../../core/http/validate.js';
import { fieldError, requireOnce } from '../../core/pages/form.js';
import { findArchived } from '../events/event-queries.js';
import { NO_METRIC } from '../entitlements/table.js';
import {
  findLatest,
  listRotations,
  readSums,
  selectSums,
  toKeySeries,
  type Narrowing,
  type UsageProduct,
  type UsageScope,
  type UsageSum,
} from '../events/page-queries.js';
import { dimensionValue, rangeSchemas, usageQuerySchema } from '../events/page-schema.js';
import { toCap } from '../entitlements/caps.js';
import { chooseKey, scopeOf, type PageDeps } from './choices.js';
import { placeOfPart, readEventSteps, readInTime, type EventPart } from './credits/queries.js';
import { listSeries } from './operator/queries.js';
import { addMonths, includes, monthPeriod, parsePeriod, readBefore, stepsOf, type Period } from './period.js';
import { toProjection } from './projection.js';

export type UsageRequest = ReturnType<typeof parseUsageRequest>;

export const DIMENSION = 'dimension.';

export function parseUsageRequest(query: object, now: Date, viewer: Pick<Viewer, 'home' | 'subject'>) {
  requireOnce(query);
  const { range, sum, ...request } = parseInput(usageQuerySchema, query);
  const { hour } = range === 'day' ? parseInput(rangeSchemas.day, query) : {};
  const showsKeys = viewer.home === '/dashboard';
  return {
    ...request,
    subject: viewer.subject ?? request.subject,
    key: showsKeys ? request.key : undefined,
    showsKeys,
    path: `${viewer.home}/usage`,
    isOfSubject: viewer.subject !== undefined,
    /** An hour of the day; only the list of events is narrowed to it. */
    hour,
    isSum: sum === '1' && range === 'month',
    period: parsePeriod(range, query, now),
    values: parseValues(query),
  };
}

/** By dimension. */
export function parseValues(query: object): Record<string, string> {
  const given = Object.entries(query).filter(([name]) => name.startsWith(DIMENSION));
  const values = parseInput(
    z.object(Object.fromEntries(given.map(([name]) => [name, dimensionValue]))),
    query,
  );
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name.slice(DIMENSION.length), value]),
  );
}

export type UsageReport = Awaited<ReturnType<typeof readReport>>;

const MAX_KEYS = 20;

export type ReportDeps = PageDeps & Pick<Context, 'db'>;

export async function readReport(
  deps: ReportDeps,
  orgId: string,
  product: UsageProduct,
  request: UsageRequest,
) {
  const { orm, clock } = deps;
  const { mode, period, metric: wanted, subject } = request;
  const now = new Date(clock.now());
  const { key, narrowing, isWhole, isMixed } = await readNarrowing(orm, orgId, request, product);
  const scope = scopeOf(orgId, product, mode);
  const { sums, ofKeys, unsplit } = await readOwnSums(orm, scope, period, narrowing, isMixed);
  const metrics = metricsOf(sums, product, wanted);
  const metric = wanted ?? chooseMetric(sums, product);
  const steps = toSteps(sums.filter((sum) => sum.metric === metric));
  const ofMetric = ofKeys.filter((sum) => sum.metric === metric);
  const keys = ofMetric.filter((sum) => sum.start === null);
  const stacks = stacksOf(product, request, unsplit === undefined);
  const by =
    stacks.find((name) => name === request.by) ?? (request.by || request.showsKeys ? stacks[0] : undefined);
  const before = await readBefore(period, now, async (range) => {
    const earlier = await readPart(orm, scope, range, narrowing, isMixed);
    return earlier && toSteps(earlier).filter((step) => step.metric === metric);
  });
  const latest =
    steps.length === 0 && subject === undefined ? await findLatest(orm, orgId, product.id) : undefined;
  const days = [...(before?.rows ?? []), ...steps];
  const month = metric === product.usageMetric && !request.isOfSubject ? capMonthOf(period, now) : undefined;
  const ofMonth = isWhole && month === period ? days : undefined;
  const cap = month && (await readCap(orm, scope, product, metric, month, now, ofMonth));
  return {
    product,
    request,
    metric,
    /** All that the product now counts or counted in the period, over all API keys. */
    metrics,
    /** The rows contain only this key's usage. They are empty if the key belongs to the other mode. */
    key,
    steps,
    total: addUp(steps),
    /** Undefined if no page can show the previous period. */
    before,
    /** Regardless of the key. */
    keys,
    keysBefore:
      before && keys.length > 0
        ? (
            (await readPart(orm, scope, before.same, narrowing, subject !== undefined, MAX_KEYS)) ?? []
          ).filter((sum) => sum.metric === metric && sum.apiKeyId !== null)
        : [],
    keyCount: keys[0]?.count ?? 0,
    narrowing,
    /** A subject with an API key or a dimension, counted from the events. */
    isMixed,
    unsplit,
    stacks,
    by,
    /** By step; undefined for a single one. */
    series:
      by === undefined || (by === 'key' && keys.length < 2)
        ? undefined
        : by === 'key'
          ? toKeySeries(
              ofMetric.filter(({ start }) => start !== null),
              stepsOf(period),
            )
          : await readByPart(deps, { ...scope, ...narrowing }, product, { by, metric, period }),
    latest: latest && { live: toDate(latest.live), test: toDate(latest.test) },
    isWhole,
    /** Counts the whole Organization's month, also if filters select a part of its usage. */
    balance: cap?.balance,
    projection: toProjection(days, period, now),
    capPace: isWhole ? cap?.pace : undefined,
  };
}

const addUp = (steps: ReturnType<typeof toSteps>) => ({
  quantity: sumDecimals(steps.map(({ quantity }) => quantity)),
  events: sumDecimals(steps.map(({ events }) => events)),
});

/** @param days of the whole product in the month and the one before, if they are known */
async function readCap(
  orm: Orm,
  scope: UsageScope,
  { unitCap }: UsageProduct,
  metric: string,
  month: Period,
  now: Date,
  days: ReturnType<typeof toSteps> | undefined,
) {
  if (unitCap === null) return undefined;
  const range = { ...month, from: addMonths(month.from, -1), maxKeys: 0 };
  const all = days ?? toSteps(await readSums(orm, scope, range)).filter((step) => step.metric === metric);
  const { quantity: usedThisMonth } = addUp(all.filter(({ start }) => start >= month.from.getTime()));
  return { balance: toCap({ unitCap, usedThisMonth }), pace: toProjection(all, month, now) };
}

/** A cap is for a month: the chosen one, or the current one that a chosen period is part of. */
export const capMonthOf = (period: Period, now: Date): Period | undefined =>
  period.range === 'month' ? period : includes(period, now) ? monthPeriod(now) : undefined;

/** Undefined if the events, which alone tell a subject's usage by another filter, cannot be read. */
async function readPart(
  orm: Orm,
  scope: UsageScope,
  period: Period,
  part: Narrowing,
  isOfEvents: boolean,
  maxKeys = 0,
) {
  const range = { ...period, maxKeys, ...part };
  if (!isOfEvents) return readSums(orm, scope, range);
  if (await findObstacle(orm, scope, period)) return undefined;
  return readInTime<UsageSum>(orm, selectSums(scope, { ...range, isOfEvents: true }));
}

async function readOwnSums(orm: Orm, scope: UsageScope, period: Period, part: Narrowing, isMixed: boolean) {
  const { from, to, stepMs } = period;
  const range = { from, to, stepMs, maxKeys: MAX_KEYS, maxSeries: MAX_SERIES, ...part };
  const obstacle = await findObstacle(orm, scope, period);
  const ofEvents =
    part.subject === undefined || obstacle
      ? undefined
      : await readInTime<UsageSum>(orm, selectSums(scope, { ...range, isOfEvents: true }));
  const unsplit = obstacle ?? (part.subject !== undefined && !ofEvents ? 'so many events' : undefined);
  if (isMixed && unsplit)
    throw fieldError('subject', `cannot be combined with another filter in a period of ${unsplit}`);
  const sums = isMixed
    ? ofEvents!
    : await readSums(orm, scope, { ...range, maxSeries: part.subject === undefined ? MAX_SERIES : 0 });
  const ofKeys = (ofEvents ?? sums).filter(({ apiKeyId }) => apiKeyId !== null);
  return { sums, ofKeys, unsplit };
}

/** Instead of one product. Undefined if there is only one, and for a subject's own page. */
export const isOfAll = (products: readonly UsageProduct[], { product, isOfSubject }: UsageRequest): boolean =>
  products.length > 1 && product === undefined && !isOfSubject;

/** The key with the keys that it was rotated from and to, the subject, and one product's dimensions. */
export async function readNarrowing(orm: Orm, orgId: string, request: UsageRequest, product?: UsageProduct) {
  const key = await chooseKey(orm, orgId, request.key);
  const where = product ? placesOf(product, request) : [];
  const apiKeyIds = key && (await listRotations(orm, orgId, key.id));
  const { subject } = request;
  const isNarrow = key !== undefined || where.length > 0;
  if (!product && key && subject !== undefined)
    throw fieldError('subject', 'cannot be combined with an API key over all products');
  return {
    key,
    narrowing: { apiKeyIds, where, subject },
    isWhole: subject === undefined && !isNarrow,
    isMixed: subject !== undefined && isNarrow,
  };
}

const toSteps = (sums: UsageSum[]) =>
  sums
    .filter((sum) => sum.start !== null && sum.apiKeyId === null)
    .map(({ metric, start, keyQuantity, keyEvents }) => ({
      metric,
      start: Date.parse(start!),
      quantity: keyQuantity ?? '0',
      events: keyEvents ?? '0',
    }));

/** More than 31 days of the combinations that can have sums in one month, or of the largest subjects. */
const MAX_POINTS = 20_000;

/** Undefined if there are too many points. */
async function readByPart(
  { orm, db }: ReportDeps,
  part: UsageScope & Narrowing,
  { dimensions }: UsageProduct,
  { by, metric, period }: { by: string; metric: string; period: Period },
) {
  const { from, to, range } = period;
  const isSubject = by === 'subject';
  const place = placeOfPart(by, dimensions);
  const isStored = isSubject ? !part.apiKeyIds && !part.where?.length : part.subject === undefined;
  if (!isStored) {
    const points = await readAllEventSteps(orm, part, { ...period, metric, place, limit: MAX_POINTS }, part);
    return points && toSeries(points, by, period);
  }
  const points = await listSeries(db, {
    ...part,
    from,
    to,
    granularity: range === 'day' ? 'hour' : 'day',
    isByKey: false,
    byDimension: isSubject ? undefined : place,
    subjects: isSubject ? { only: undefined } : undefined,
    limit: MAX_POINTS,
  });
  if (points.length === MAX_POINTS) return undefined;
  const own = points.filter((point) => point.metric === metric);
  return toSeries(
    own.map((point) => ({ ...point, start: Date.parse(point.start) })),
    by,
    period,
  );
}

/** Undefined if these are archived, too many, or cannot be read in time. */
export async function readAllEventSteps(
  orm: Orm,
  scope: UsageScope,
  query: Parameters<typeof readEventSteps>[2] & Period,
  part: Narrowing,
) {
  if (await findObstacle(orm, scope, query)) return undefined;
  const steps = await readEventSteps(orm, scope, query, part);
  return steps && steps.length < query.limit ? steps : undefined;
}

/** A report's credits by step; its chart in them is stacked by the dearest parts. Undefined if the events cannot be read. */
export async function readCosts(
  { orm, clock }: PageDeps,
  scope: UsageScope,
  { product, metric, by = '', series, keys, narrowing, before: other, request }: UsageReport,
  parts: readonly EventPart[],
) {
  const { period, measure } = request;
  const now = new Date(clock.now());
  const place = placeOfPart(by, product.dimensions);
  const largest = parts.flatMap((part) => (part.place === place && part.value !== null ? part.value : []));
  const read = async (range: Period, stack: number | undefined) => {
    const query = { ...range, metric, place: stack, largest, limit: MAX_POINTS };
    const steps = await readAllEventSteps(orm, scope, query, narrowing);
    return steps?.map(({ start, value, credits }) => ({ start, value, quantity: credits }));
  };
  const from = other?.whole.from ?? period.from;
  const hours = await read({ ...period, from, stepMs: HOUR_MS }, undefined);
  const toSums = (list: Point[], { from, to, stepMs }: Period) => {
    const own = list.filter(({ start }) => start >= from.getTime() && start < to.getTime());
    return [...groupBy(own, ({ start }) => start - (start % stepMs))].map(([start, of]) => {
      return { start, quantity: sumDecimals(of.map(({ quantity }) => quantity)) };
    });
  };
  const points = measure ? await read(period, series && place) : hours;
  if (!points) return undefined;
  const steps = toSums(points, period);
  const before = other && (await readBefore(period, now, async (range) => hours && toSums(hours, range)));
  const ofKeys = points.flatMap(({ value, start, quantity }) => {
    const key = keys.find(({ apiKeyId }) => apiKeyId === value);
    return key ? { ...key, start: new Date(start).toISOString(), quantity } : [];
  });
  const stacked = by === 'key' ? toKeySeries(ofKeys, stepsOf(period)) : toSeries(points, by, period);
  const projection = toProjection([...(before?.rows ?? []), ...steps], period, now);
  return { steps, before, series: series && stacked, projection };
}

type Point = { start: number; quantity: string } & Partial<Pick<EventPart, 'value'>>;

const toSeries = (points: readonly Point[], by: string, period: Period) =>
  [...groupBy(points, ({ value }) => (value === null ? 'All others' : value || `No ${by}`))].map(
    ([name, ofName]) => {
      const byStart = new Map(ofName.map(({ start, quantity }) => [start, quantity]));
      const quantities = stepsOf(period).map((start) => byStart.get(start.getTime()) ?? '0');
      return { name, quantities, isLast: !ofName[0]!.value };
    },
  );

const MAX_SPLIT_DAYS = 92;

/** Credits, and a subject's usage by API key or dimension, are counted from the events. */
export async function findObstacle(
  orm: Orm,
  { orgId, productId, livemode }: UsageScope,
  { from, to }: Period,
) {
  if (to.getTime() - from.getTime() > MAX_SPLIT_DAYS * DAY_MS) return `more than ${MAX_SPLIT_DAYS} days`;
  const of = { productIds: [productId], livemode };
  const archived = await findArchived(orm, orgId, { of, from: from.toISOString(), to: to.toISOString() });
  return archived && 'archived events';
}

/** The parts that no filter has chosen. */
function stacksOf(
  { dimensions, countsSubjects }: UsageProduct,
  { key, values, subject, showsKeys, isOfSubject }: UsageRequest,
  isSplit: boolean,
): string[] {
  const isNarrow = key !== undefined || Object.keys(values).length > 0;
  return [
    ...(subject === undefined || isSplit
      ? [
          ...(showsKeys && key === undefined ? ['key'] : []),
          ...dimensions.filter((name) => !Object.hasOwn(values, name)),
        ]
      : []),
    ...(countsSubjects && subject === undefined && !isOfSubject && (isSplit || !isNarrow) ? ['subject'] : []),
  ];
}

/** @throws AppError for a part that the product does not have */
function placesOf({ dimensions, countsSubjects }: UsageProduct, { by, values, showsKeys }: UsageRequest) {
  const parts = [...(showsKeys ? ['key'] : []), ...dimensions, ...(countsSubjects ? ['subject'] : [])];
  if (by !== undefined && !['subject', ...parts].includes(by))
    throw fieldError('by', `must be ${parts.join(', ')}`);
  const unknown = Object.keys(values).find((name) => !dimensions.includes(name));
  if (unknown !== undefined) throw fieldError(DIMENSION + unknown, 'is not a dimension of this product');
  return Object.entries(values).map(([name, value]) => ({ place: dimensions.indexOf(name) + 1, value }));
}

const toDate = (time: string | null): Date | null => (time === null ? null : new Date(time));

function metricsOf(sums: UsageSum[], { usageMetric }: UsageProduct, wanted: string | undefined) {
  const metrics = new Set([
    usageMetric,
    ...(wanted === undefined ? [] : [wanted]),
    ...sums.map((sum) => sum.metric),
  ]);
  const named = [...metrics].filter((metric) => metric !== NO_METRIC || metrics.size === 1);
  return named.map((metric) => {
    const steps = sums.filter((sum) => sum.metric === metric && sum.start !== null && sum.apiKeyId === null);
    return { metric, quantity: sumDecimals(steps.map((sum) => sum.quantity)) };
  });
}

/** The current metric, unless the period has only usage of an earlier one. */
function chooseMetric(sums: UsageSum[], { usageMetric }: UsageProduct): string {
  const isCounted = sums.length === 0 || sums.some((sum) => sum.metric === usageMetric);
  return isCounted ? usageMetric : sums[0]!.metric;
}
