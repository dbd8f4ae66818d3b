import type { toStackedChart } from '../../core/charts/stacked.js';
import { toTrend } from '../../core/charts/trend.js';
import type { Context } from '../../core/http/context.js';
import { formatCompact, formatDecimal, formatShortDay } from '../../core/pages/format.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { OverviewRequest, ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';
import { capsOf, toCap } from '../entitlements/caps.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { MAX_PRODUCTS, readProducts } from '../reports/choices.js';
import { readAll } from '../reports/explorer.js';
import { formatPeriod, stepsOf, type Period } from '../reports/period.js';
import { parseUsageRequest } from '../reports/report.js';
import { listCurrentUse, readProgress } from './overview-queries.js';

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
  const month = inEffect.length > 0 ? await readMonth(context, request, now) : undefined;
  const summary = `${month?.report.unit === 'credits' ? 'Credits' : 'Events'} on each day of this month`;
  const trends = month && toTrends(summary, month.report.chart);
  const limits = await readLimitViews(
    db,
    inEffect.map(({ productId, usageMetric: metric }) => ({ orgId, livemode, productId, metric })),
    now.getTime(),
  );
  const products = inEffect.map((product, i) => ({
    ...product,
    cap: toCap(product),
    limit: limits[i]!.toSorted((a, b) => b.share - a.share)[0],
    trend: trends?.get(product.productName),
  }));
  const data = {
    livemode,
    firstEvents:
      events <= FIRST_EVENTS ? { count: events, isElsewhere: (livemode ? live : test) === 0 } : undefined,
    products,
    report: month?.report,
    account: month?.account,
    ...capsOf(products),
  };
  return { view: 'metering/overview/usage', data };
};

/** By product. The heights are in proportion to the quantities. */
function toTrends(summary: string, { legend, bars }: ReturnType<typeof toStackedChart>) {
  const heightOf = (parts: (typeof bars)[number]['parts'], own: number) =>
    Number(parts.find(({ place }) => place === own)?.height ?? 0);
  return new Map(
    legend.map(({ name }, i) => [
      name,
      toTrend(
        summary,
        bars.map(({ parts }) => heightOf(parts, i)),
      ),
    ]),
  );
}

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
