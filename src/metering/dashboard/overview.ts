import { toTrend } from '../../core/charts/trend.js';
import type { Context } from '../../core/http/context.js';
import { formatCompact, formatDecimal, formatShortDay } from '../../core/pages/format.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { OverviewRequest, ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { listCurrentUse, type ProductUse } from '../events/current-use.js';
import { findLiveProduct } from '../entitlements/queries.js';
import { capsOf, toCap } from '../entitlements/caps.js';
import { readAllLimits } from '../entitlements/pages.js';
import type { ProductSum } from '../events/page-queries.js';
import { MAX_PRODUCTS, readProducts } from '../reports/choices.js';
import { readAll } from '../reports/explorer.js';
import { formatPeriod, parsePeriod, stepsOf, type Period } from '../reports/period.js';
import { parseUsageRequest } from '../reports/report.js';
import { readProgress } from './overview-queries.js';

const SHOWN_PRODUCTS = 12;

/** Up to this many events, the page announces new ones. */
const FIRST_EVENTS = 10;

export const readOverviewPanel: ReadOverviewPanel = async (context, request) => {
  const { db, clock } = context;
  const { livemode, origin } = request;
  const { orgId, role } = request.session;
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
  const [month, limits] = await Promise.all([
    inEffect.length > 0 ? readMonth(context, request, now) : undefined,
    readAllLimits(db, { orgId, livemode }, inEffect, now.getTime()),
  ]);
  const trends = toUseTrends(month?.daySums ?? [], inEffect, now);
  const products = inEffect.map((product, i) => {
    const isOwn = ({ productSlug }: { productSlug: string }) => productSlug === product.productSlug;
    // With the day when the pace reaches it.
    const cap = month?.report.caps.nearCap.find(isOwn)?.cap ?? toCap(product);
    const [fullest] = limits.filter(isOwn).toSorted((a, b) => b.cap.share - a.cap.share);
    return {
      ...product,
      cap,
      bounds: [...(cap ? [{ cap, isBlock: false }] : []), ...(fullest ? [fullest] : [])],
      trend: trends[i]!,
    };
  });
  const data = {
    livemode,
    firstEvents:
      events <= FIRST_EVENTS ? { count: events, isElsewhere: (livemode ? live : test) === 0 } : undefined,
    products,
    report: month?.report,
    account: month?.account,
    creditsEnd: month?.creditsEnd,
    ...capsOf([...products, ...limits]),
  };
  return { view: 'metering/overview/usage', data };
};

async function readMonth(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { session: { orgId }, livemode }: OverviewRequest,
  now: Date,
) {
  const viewer = { orgId, home: '/dashboard', subject: undefined, shows: () => true } as const;
  const mode = livemode ? 'live' : 'test';
  const products = await readProducts({ orm: db.orm, clock }, orgId, mode);
  const request = parseUsageRequest({ mode }, now, viewer);
  return readAll({ db, clock }, viewer, products.slice(0, MAX_PRODUCTS), request, now);
}

const toSendLine = (origin: string, { slug, usageMetric }: { slug: string; usageMetric: string }) =>
  sendEventLine(origin, 'YOUR_API_KEY', {
    productSlug: slug,
    metric: usageMetric,
    quantity: 1,
    idempotencyKey: 'first-event',
  });

/** By product, over the last 30 days. */
export const toUseTrends = (
  sums: readonly ProductSum[],
  products: readonly Pick<ProductUse, 'productId' | 'usageMetric'>[],
  now: Date,
) =>
  products.map((product) => {
    const own = sums.filter(({ productId }) => productId === product.productId);
    return toUseTrend(product.usageMetric, own, lastDays(now));
  });

export const lastDays = (now: Date) => parsePeriod('last30', {}, now);

/** @param sums one or more per day */
export function toUseTrend(
  usageMetric: string,
  sums: readonly { start: number; quantity: string }[],
  period: Period,
) {
  const byStart = new Map<number, number>();
  for (const { start, quantity } of sums) byStart.set(start, (byStart.get(start) ?? 0) + Number(quantity));
  const days = stepsOf(period);
  const values = days.map((start) => byStart.get(start.getTime()) ?? 0);
  const titles = days.map((day, i) => `${formatShortDay(day)}: ${formatDecimal(values[i]!)}`);
  const most = formatCompact(Math.max(...values));
  const summary = `${usageMetric} by day, ${formatPeriod(period)}: at most ${most} a day`;
  return { ...toTrend(summary, values), titles };
}
