import { compareDecimals, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { toTrend } from '../../core/charts/trend.js';
import type { Orm } from '../../core/db/client.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { formatCompact, formatCount, formatDay, formatDecimal } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';
import {
  readKeySteps,
  readProductSums,
  toKeySeries,
  type KeyStep,
  type ProductSum,
} from '../events/page-queries.js';
import {
  formatPeriod,
  monthPeriod,
  parsePeriod,
  periodBefore,
  stepsOf,
  type Period,
} from '../reports/period.js';
import { axisName } from '../reports/report-view.js';
import { listCurrentUse, readProgress, type ProductUse } from './overview-queries.js';

const SHOWN_PRODUCTS = 12;

const NEAR = 0.8;

/** Up to this many events, the page announces new ones. */
const FIRST_EVENTS = 10;

/** The first steps until the first event arrives. */
export const readOverviewPanel: ReadOverviewPanel = async (
  { db, clock },
  { session: { orgId, role }, livemode, origin },
) => {
  const now = new Date(clock.now());
  const [inEffect, { hasKey, canSend, live, test }] = await Promise.all([
    listCurrentUse(db.orm, orgId, { now, livemode, limit: SHOWN_PRODUCTS + 1 }),
    readProgress(db.orm, orgId, now),
  ]);
  const events = live + test;
  if (events === 0) {
    const example = await findLiveProduct(db.orm, orgId, now);
    const sendLine = example && toSendLine(origin, example);
    const readOnly = inEffect[0]?.productName;
    const data = { hasKey, canSend, mayChangeKeys: isManager(role), example, readOnly, sendLine };
    return { view: 'metering/overview/first-steps', isAlone: true, data };
  }
  const shown = inEffect.slice(0, SHOWN_PRODUCTS);
  const trend = parsePeriod('last30', {}, now);
  const before = periodBefore(monthPeriod(now), now)!;
  // Each query may read thousands of hourly sums.
  const [first, ...others] = shown;
  const [keySteps, daysOfOthers, daysBefore] = await Promise.all([
    first ? readKeyDays(db.orm, { orgId, livemode }, first, trend) : [],
    readProductSums(db.orm, orgId, { ...trend, livemode, productIds: others.map(idOf) }),
    readProductSums(db.orm, orgId, { ...before, livemode, productIds: shown.map(idOf) }),
  ]);
  const products = shown.map((product) => {
    const isOf = ({ productId }: ProductSum) => productId === product.productId;
    return {
      ...product,
      cap: toCap(product),
      trend: toUseTrend(product.usageMetric, product === first ? keySteps : daysOfOthers.filter(isOf), trend),
      /** Up to the same hour. */
      usedBefore: sumDecimals(daysBefore.filter(isOf).map((day) => day.quantity)),
    };
  });
  const data = {
    livemode,
    firstEvents:
      events <= FIRST_EVENTS ? { count: events, isElsewhere: (livemode ? live : test) === 0 } : undefined,
    products,
    /** The page leads with the first product. */
    days: first && toDays(keySteps, first.usageMetric, trend),
    hasMoreProducts: inEffect.length > SHOWN_PRODUCTS,
    /** 80% to 100%. */
    nearCap: products.filter(({ cap }) => cap?.isNear),
    overCap: products.filter(({ cap }) => cap?.isOver),
  };
  return { view: 'metering/overview/usage', data };
};

const idOf = ({ productId }: ProductUse): string => productId;

const toSendLine = (origin: string, { slug, usageMetric }: { slug: string; usageMetric: string }) =>
  sendEventLine(origin, 'YOUR_API_KEY', {
    productSlug: slug,
    metric: usageMetric,
    quantity: 1,
    idempotencyKey: 'first-event',
  });

/** @param sums one or more per day */
export function toUseTrend(
  usageMetric: string,
  sums: readonly { start: number; quantity: string }[],
  period: Period,
) {
  const byStart = new Map<number, number>();
  for (const { start, quantity } of sums) byStart.set(start, (byStart.get(start) ?? 0) + Number(quantity));
  const values = stepsOf(period).map((start) => byStart.get(start.getTime()) ?? 0);
  const most = formatCompact(Math.max(...values));
  return toTrend(`${usageMetric} by day, ${formatPeriod(period)}: at most ${most} a day`, values);
}

/** In each bar. */
const SHOWN_KEYS = 5;

/** Even if usage began later. */
const MIN_DAYS = 7;

const readKeyDays = (
  orm: Orm,
  scope: { orgId: string; livemode: boolean },
  { productId, usageMetric }: ProductUse,
  { from, to }: Period,
): Promise<KeyStep[]> =>
  readKeySteps(
    orm,
    { ...scope, productId },
    { metric: usageMetric, from, to, stepMs: DAY_MS, maxKeys: SHOWN_KEYS },
  );

/** Stacks the keys' usage from the first day with usage. */
function toDays(rows: readonly KeyStep[], usageMetric: string, period: Period) {
  if (rows.length === 0) return undefined;
  const first = Math.min(...rows.map(({ start }) => start));
  const all = stepsOf(period);
  const steps = all.filter((start, i) => start.getTime() >= first || i >= all.length - MIN_DAYS);
  const series = toKeySeries(rows, steps).map(({ place, name, keyCount, quantities }) => ({
    place,
    name,
    count: keyCount - SHOWN_KEYS,
    values: quantities,
  }));
  const chart = toStackedChart({
    title: `${usageMetric} by day and API key, ${formatDay(steps[0]!)} – ${formatDay(steps.at(-1)!)}`,
    stepName: 'Day (UTC)',
    steps: steps.map((start) => ({ axis: axisName(start, period), name: formatDay(start) })),
    series: series.filter(({ place }) => place <= SHOWN_KEYS),
    others: series.find(({ place }) => place > SHOWN_KEYS),
    nameOthers: (count) => formatCount(count, 'other key'),
    format: (decimal) => `${formatDecimal(decimal)} ${usageMetric}`,
  });
  return {
    chart,
    /** Before the first usage. */
    omitted: all.length - steps.length,
  };
}

export function toCap({ unitCap, usedThisMonth: used }: ProductUse) {
  if (unitCap === null) return undefined;
  const isUsed = compareDecimals(used, '0') > 0;
  const share = Number(unitCap) > 0 ? Number(used) / Number(unitCap) : isUsed ? Infinity : 0;
  const isOver = compareDecimals(used, unitCap) > 0;
  return {
    unitCap,
    remaining: subtractDecimals(unitCap, used),
    above: subtractDecimals(used, unitCap),
    /** A double, for drawing. */
    share,
    isNear: share >= NEAR && !isOver,
    isOver,
  };
}
