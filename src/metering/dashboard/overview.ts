import { toTrend } from '../../core/charts/trend.js';
import type { Context } from '../../core/http/context.js';
import { formatCompact } from '../../core/pages/format.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { OverviewRequest, ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';
import { capsOf, toCap } from '../entitlements/caps.js';
import { MAX_PRODUCTS, readProducts } from '../reports/choices.js';
import { readAll } from '../reports/pages.js';
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
  const chart = month?.report.chart;
  const unit = month?.report.unit === 'credits' ? 'Credits' : 'Events';
  const products = inEffect.map((product) => {
    const place = chart?.legend.findIndex(({ name }) => name === product.productName) ?? -1;
    const days = chart?.bars.map(({ parts }) => heightOf(parts.find((part) => part && part.place === place)));
    const trend = place === -1 ? undefined : toTrend(`${unit} on each day of this month`, days!);
    return { ...product, cap: toCap(product), trend };
  });
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

/** In proportion to the quantity. */
const heightOf = (part: 0 | { height: string } | undefined): number => (part ? Number(part.height) : 0);

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
  const values = stepsOf(period).map((start) => byStart.get(start.getTime()) ?? 0);
  const most = formatCompact(Math.max(...values));
  return toTrend(`${usageMetric} by day, ${formatPeriod(period)}: at most ${most} a day`, values);
}
