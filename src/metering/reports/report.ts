import type { z } from 'zod';
import { MAX_SERIES } from '../../core/charts/stacked.js';
import type { Orm } from '../../core/db/client.js';
import { addDecimals, compareDecimals, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { parseInput } from '../../core/http/validate.js';
import { requireOnce } from '../../core/pages/form.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { chooseKey, scopeOf, type PageDeps } from './choices.js';
import { NO_METRIC } from '../entitlements/table.js';
import { findArchived } from '../events/event-queries.js';
import {
  findLatest,
  readKeySteps,
  readPace,
  readSums,
  toKeySeries,
  type UsageProduct,
  type UsageScope,
  type UsageSum,
} from '../events/page-queries.js';
import { usageQuerySchema } from '../events/page-schema.js';
import { includes, parsePeriod, periodBefore, stepsOf, type Period } from './period.js';

export interface UsageRequest extends Omit<z.output<typeof usageQuerySchema>, 'range'> {
  period: Period;
}

export function parseUsageRequest(query: object, now: Date): UsageRequest {
  requireOnce(query);
  const { range, ...request } = parseInput(usageQuerySchema, query);
  return { ...request, period: parsePeriod(range, query, now) };
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
  deps: PageDeps,
  orgId: string,
  product: UsageProduct,
  { mode, period, key: keyId, metric: wanted }: UsageRequest,
) {
  const { orm, clock } = deps;
  const key = await chooseKey(orm, orgId, keyId);
  const scope = scopeOf(orgId, product, mode);
  const { from, to, stepMs } = period;
  const sums = await readSums(orm, scope, { from, to, stepMs, apiKeyId: keyId, maxKeys: MAX_KEYS });
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
    /** By step; undefined if the rows contain only one key's usage. */
    byKey: key === undefined && keys.length > 1 ? await readByKey(orm, scope, period, metric) : undefined,
    /** The last hour with usage in each mode, if the period has none. */
    latest: latest && { live: toDate(latest.live), test: toDate(latest.test) },
    /** The rows still include the archived events. */
    archived: await findArchived(orm, orgId, {
      of: scope,
      from: from.toISOString(),
      to: to.toISOString(),
    }),
  };
  const isCapped = period.range === 'month' && key === undefined && metric === product.usageMetric;
  /** For a whole month of the whole Organization against a cap. */
  const balance =
    isCapped && product.unitCap !== null
      ? toBalance(report.total.quantity, product.unitCap, await project())
      : undefined;
  return { ...report, balance };

  async function readBefore(): Promise<Comparison | undefined> {
    const before = periodBefore(period, new Date(clock.now()));
    if (!before) return undefined;
    const range = { from: before.from, to: before.to, stepMs, apiKeyId: keyId, maxKeys: 0 };
    const found = (await readSums(orm, scope, range)).filter((sum) => sum.metric === metric);
    const byStart = new Map(found.map((sum) => [Date.parse(sum.start!), sum.keyQuantity ?? '0']));
    const quantities = stepsOf(before).map((start) => byStart.get(start.getTime()) ?? '0');
    return { period: before, quantities, total: sumDecimals(found.map((sum) => sum.keyQuantity ?? '0')) };
  }

  async function project(): Promise<Projection | undefined> {
    if (!includes(period, new Date(clock.now()))) return undefined;
    const used = Number(report.total.quantity);
    return projectMonth(deps, scope, { metric, month: period, used, unitCap: Number(product.unitCap) });
  }
}

async function readByKey(orm: Orm, scope: UsageScope, period: Period, metric: string) {
  const { from, to, stepMs } = period;
  const rows = await readKeySteps(orm, scope, { from, to, stepMs, metric, maxKeys: MAX_SERIES });
  return toKeySeries(rows, stepsOf(period)).filter(({ place }) => place <= MAX_SERIES);
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
