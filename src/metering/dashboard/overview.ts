import { compareDecimals, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { toTrend } from '../../core/charts/trend.js';
import type { Orm } from '../../core/db/client.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { formatCompact, formatCount, formatDay, formatDecimal } from '../../core/pages/format.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';
import { readKeySteps, readProductSums, toKeySeries } from '../events/page-queries.js';
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
    listCurrentUse(db.orm, orgId, { now, livemode, limit: SHOWN_PRODUCTS }),
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
  // The page leads with the product nearest to its cap.
  const [first] = inEffect;
  const scope = { orgId, livemode };
  const [days, usedBefore] = first
    ? await Promise.all([readDays(db.orm, scope, first, now), readUseBefore(db.orm, scope, first, now)])
    : [];
  const products = inEffect.map((product) => ({ ...product, cap: toCap(product) }));
  const data = {
    livemode,
    firstEvents:
      events <= FIRST_EVENTS ? { count: events, isElsewhere: (livemode ? live : test) === 0 } : undefined,
    lead: first && { ...products[0]!, usedBefore },
    hasMoreProducts: products.length > 1,
    days,
    /** 80% to 100%. */
    nearCap: products.filter(({ cap }) => cap?.isNear),
    overCap: products.filter(({ cap }) => cap?.isOver),
  };
  return { view: 'metering/overview/usage', data };
};

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

interface Scope {
  orgId: string;
  livemode: boolean;
}

/** In the same part of last month, up to the same hour. */
async function readUseBefore(orm: Orm, { orgId, livemode }: Scope, { productId }: ProductUse, now: Date) {
  const before = periodBefore(monthPeriod(now), now)!;
  const sums = await readProductSums(orm, orgId, { ...before, livemode, productIds: [productId] });
  return sumDecimals(sums.map(({ quantity }) => quantity));
}

/** Stacks the keys' usage from the first day with usage. */
async function readDays(orm: Orm, scope: Scope, { productId, usageMetric }: ProductUse, now: Date) {
  const period = parsePeriod('last30', {}, now);
  const range = { ...period, metric: usageMetric, maxKeys: SHOWN_KEYS };
  const rows = await readKeySteps(orm, { ...scope, productId }, range);
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
