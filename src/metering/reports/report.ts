import { z } from 'zod';
import { MAX_SERIES } from '../../core/charts/stacked.js';
import { addDecimals, compareDecimals, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { parseInput } from '../../core/http/validate.js';
import type { Context } from '../../core/http/context.js';
import { groupBy } from '../../core/collections.js';
import { fieldError, requireOnce } from '../../core/pages/form.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { chooseKey, scopeOf, type PageDeps } from './choices.js';
import { NO_METRIC } from '../entitlements/table.js';
import { findArchived } from '../events/event-queries.js';
import {
  findLatest,
  listRotations,
  readKeySteps,
  readPace,
  readSums,
  toKeySeries,
  type Narrowing,
  type UsageProduct,
  type UsageScope,
  type UsageSum,
} from '../events/page-queries.js';
import { dimensionValue, usageQuerySchema } from '../events/page-schema.js';
import { listSeries } from './operator/queries.js';
import { includes, parsePeriod, periodBefore, stepsOf, type Period } from './period.js';

export interface UsageRequest extends Omit<z.output<typeof usageQuerySchema>, 'range'> {
  period: Period;
  /** The values to which the usage is narrowed, by dimension. */
  values: Record<string, string>;
}

export const DIMENSION = 'dimension.';

export function parseUsageRequest(query: object, now: Date): UsageRequest {
  requireOnce(query);
  const { range, ...request } = parseInput(usageQuerySchema, query);
  const values = Object.entries(query).filter(([name]) => name.startsWith(DIMENSION));
  for (const [name, value] of values)
    parseInput(z.object({ [name]: dimensionValue }), { [name]: value as unknown });
  return {
    ...request,
    period: parsePeriod(range, query, now),
    values: Object.fromEntries(
      values.map(([name, value]) => [name.slice(DIMENSION.length), value as string]),
    ),
  };
}

/** Corresponds to the elapsed part of the current period. */
interface Comparison {
  period: Period;
  /** By step within the period. */
  quantities: string[];
  total: string;
}

export type UsageReport = Awaited<ReturnType<typeof readReport>>;
export type UsageRow = UsageReport['rows'][number];

const MAX_KEYS = 50;

export async function readReport(
  deps: PageDeps & Pick<Context, 'db'>,
  orgId: string,
  product: UsageProduct,
  request: UsageRequest,
) {
  const { orm, clock } = deps;
  const { mode, period, key: keyId, metric: wanted, by, values, subject } = request;
  const key = await chooseKey(orm, orgId, keyId);
  const narrowing = {
    apiKeyIds: key && (await listRotations(orm, orgId, key.id)),
    where: placesOf(product, request),
    subject,
  };
  const scope = scopeOf(orgId, product, mode);
  const { from, to, stepMs } = period;
  const sums = await readSums(orm, scope, { from, to, stepMs, maxKeys: MAX_KEYS, ...narrowing });
  const metrics = metricsOf(sums, product, wanted);
  const metric = wanted ?? chooseMetric(sums, product);
  const own = sums.filter((sum) => sum.metric === metric);
  const steps = own.filter((sum) => sum.start !== null);
  const keys = own.filter((sum) => sum.apiKeyId !== null);
  const latest = own.length === 0 ? await findLatest(orm, orgId, product.id) : undefined;
  const report = {
    product,
    mode,
    period,
    metric,
    /** All that the product now counts or counted in the period, over all API keys. */
    metrics,
    /** The rows contain only this key's usage. They are empty if the key belongs to the other mode. */
    key,
    rows: toRows(steps, period, new Date(clock.now())),
    total: {
      quantity: sumDecimals(steps.map((sum) => sum.keyQuantity ?? '0')),
      events: sumDecimals(steps.map((sum) => sum.keyEvents ?? '0')),
    },
    /** Undefined if no page can show the previous period. */
    before: await readBefore(),
    /** Regardless of filters. */
    keys: keys.map((sum) => ({
      id: sum.apiKeyId!,
      name: sum.keyName,
      prefix: sum.keyPrefix,
      quantity: sum.quantity,
      events: sum.events,
    })),
    keyCount: keys[0]?.count ?? 0,
    values,
    subject,
    by,
    narrowing,
    /** By step; undefined for a single one. */
    series: await readBy(),
    /** The last hour with usage in each mode, if the period has none. */
    latest: latest && { live: toDate(latest.live), test: toDate(latest.test) },
    /** The rows still include the archived events. */
    archived: await findArchived(orm, orgId, {
      of: scope,
      from: from.toISOString(),
      to: to.toISOString(),
    }),
  };
  const isWhole = key === undefined && subject === undefined && narrowing.where.length === 0;
  const isCapped = period.range === 'month' && isWhole && metric === product.usageMetric;
  /** For a whole month of the whole Organization against a cap. */
  const balance =
    isCapped && product.unitCap !== null
      ? toBalance(report.total.quantity, product.unitCap, await project())
      : undefined;
  return { ...report, balance };

  async function readBefore(): Promise<Comparison | undefined> {
    const before = periodBefore(period, new Date(clock.now()));
    if (!before) return undefined;
    const range = { from: before.from, to: before.to, stepMs, maxKeys: 0, ...narrowing };
    const found = (await readSums(orm, scope, range)).filter((sum) => sum.metric === metric);
    const byStart = new Map(found.map((sum) => [Date.parse(sum.start!), sum.keyQuantity ?? '0']));
    const quantities = stepsOf(before).map((start) => byStart.get(start.getTime()) ?? '0');
    return { period: before, quantities, total: sumDecimals(found.map((sum) => sum.keyQuantity ?? '0')) };
  }

  async function readBy() {
    if (by !== 'key') return readByPart(deps, { ...scope, ...narrowing }, product, { by, metric, period });
    if (key !== undefined || keys.length < 2) return undefined;
    const rows = await readKeySteps(orm, scope, {
      ...narrowing,
      from,
      to,
      stepMs,
      metric,
      maxKeys: MAX_SERIES,
    });
    return toKeySeries(rows, stepsOf(period)).filter(({ place }) => place <= MAX_SERIES);
  }

  async function project(): Promise<Projection | undefined> {
    if (!includes(period, new Date(clock.now()))) return undefined;
    const used = Number(report.total.quantity);
    return projectMonth(deps, scope, { metric, month: period, used, unitCap: Number(product.unitCap) });
  }
}

/** More than 31 days of the combinations that can have sums in one month, or of the largest subjects. */
const MAX_POINTS = 20_000;

/** Undefined if there are too many points. */
async function readByPart(
  { db }: Pick<Context, 'db'>,
  scope: UsageScope & Narrowing,
  { dimensions }: UsageProduct,
  { by, metric, period }: { by: string; metric: string; period: Period },
) {
  const { from, to, range } = period;
  const isSubject = by === 'subject';
  const points = await listSeries(db, {
    ...scope,
    from,
    to,
    granularity: range === 'day' ? 'hour' : 'day',
    isByKey: false,
    byDimension: isSubject ? undefined : dimensions.indexOf(by) + 1,
    subjects: isSubject ? { only: scope.subject } : undefined,
    limit: MAX_POINTS,
  });
  if (points.length === MAX_POINTS) return undefined;
  const own = points.filter((point) => point.metric === metric);
  return [...groupBy(own, ({ value, isOther }) => (isOther ? 'All others' : value || `No ${by}`))].map(
    ([name, ofName]) => {
      const byStart = new Map(ofName.map(({ start, quantity }) => [Date.parse(start), quantity]));
      return { name, quantities: stepsOf(period).map((start) => byStart.get(start.getTime()) ?? '0') };
    },
  );
}

/** @throws AppError for a part that the product does not have, or that is not stored */
function placesOf({ dimensions, countsSubjects }: UsageProduct, { by, values, subject, key }: UsageRequest) {
  const parts = ['key', ...dimensions, ...(countsSubjects ? ['subject'] : [])];
  if (!parts.includes(by)) throw fieldError('by', `must be ${parts.join(', ')}`);
  const names = Object.keys(values);
  if (by === 'subject' || subject !== undefined) {
    const other =
      key === undefined ? (names[0] ?? (by !== 'subject' && by !== 'key' ? by : undefined)) : 'key';
    if (other !== undefined)
      throw fieldError('by', `cannot be combined: sums of a subject by ${other} are not kept`);
  }
  const unknown = names.find((name) => !dimensions.includes(name));
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
    const steps = sums.filter((sum) => sum.metric === metric && sum.start !== null);
    return { metric, quantity: sumDecimals(steps.map((sum) => sum.quantity)) };
  });
}

/** The current metric, unless the period has only usage of an earlier one. */
function chooseMetric(sums: UsageSum[], { usageMetric }: UsageProduct): string {
  const isCounted = sums.length === 0 || sums.some((sum) => sum.metric === usageMetric);
  return isCounted ? usageMetric : sums[0]!.metric;
}

/** Per hour or day, without future steps. `soFar` is the running total. */
function toRows(sums: UsageSum[], period: Period, now: Date) {
  const byStart = new Map(sums.map((sum) => [Date.parse(sum.start!), sum]));
  const last = Math.max(now.getTime(), ...byStart.keys());
  let soFar = '0';
  return stepsOf(period)
    .filter((start) => start.getTime() <= last || period.from > now)
    .map((start) => {
      const sum = byStart.get(start.getTime());
      const quantity = sum?.keyQuantity ?? '0';
      soFar = addDecimals(soFar, quantity);
      return { start, quantity, events: sum?.keyEvents ?? '0', soFar };
    });
}

export type Balance = ReturnType<typeof toBalance>;

function toBalance(used: string, unitCap: string, projection: Projection | undefined) {
  return {
    unitCap,
    used,
    remaining: subtractDecimals(unitCap, used),
    excess: subtractDecimals(used, unitCap),
    isOver: compareDecimals(used, unitCap) > 0,
    projection,
  };
}

const PACE_DAYS = 7;

/** In doubles; every page labels it as an estimate. */
interface Projection {
  /** Per day over the last seven days. */
  perDay: number;
  /** Fewer than seven if the first usage was later. */
  paceDays: number;
  total: number;
  /** Undefined if the cap already was reached, or will not be this month. */
  capReachedAt: Date | undefined;
}

/**
 * A whole week gives a quiet weekend its proper weight. A product whose first usage is less than a day old has no pace
 * yet.
 * @param used so far in the month
 */
async function projectMonth(
  { orm, clock }: PageDeps,
  scope: UsageScope,
  { metric, month, used, unitCap }: { metric: string; month: Period; used: number; unitCap: number },
): Promise<Projection | undefined> {
  const now = clock.now();
  const to = new Date(now - (now % HOUR_MS));
  const from = new Date(to.getTime() - PACE_DAYS * DAY_MS);
  const { quantity, firstHour, isOlder } = await readPace(orm, scope, metric, { from, to });
  if (quantity === null || firstHour === null) return undefined;
  const days = (to.getTime() - (isOlder ? from.getTime() : Date.parse(firstHour))) / DAY_MS;
  if (days < 1) return undefined;
  const perDay = Number(quantity) / days;
  const total = used + perDay * ((month.to.getTime() - now) / DAY_MS);
  const reachedMs = now + ((unitCap - used) / perDay) * DAY_MS;
  const isReached = perDay > 0 && used <= unitCap && reachedMs < month.to.getTime();
  return { perDay, paceDays: days, total, capReachedAt: isReached ? new Date(reachedMs) : undefined };
}

export const projectAt = (used: number, { perDay }: Projection, now: number, at: number): number =>
  used + perDay * ((at - now) / DAY_MS);
