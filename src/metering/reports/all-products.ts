import { sumDecimals } from '../../core/decimal.js';
import { formatGrowth, formatShare } from '../../core/pages/format.js';
import { readProductSums, type ProductSum, type UsageProduct } from '../events/page-queries.js';
import type { PageDeps } from './choices.js';
import { readBefore, stepsOf } from './period.js';
import { toProjection } from './projection.js';
import { linksOf, toUsageChart } from './report-view.js';
import type { UsageRequest } from './report.js';

/** Metrics differ, so the chart and the shares count events. */
export async function readAllProducts(
  { orm, clock }: PageDeps,
  orgId: string,
  products: UsageProduct[],
  request: UsageRequest,
) {
  const { mode, period } = request;
  const now = new Date(clock.now());
  const ask = { productIds: products.map(({ id }) => id), livemode: mode === 'live' };
  const sums = await readProductSums(orm, orgId, { ...ask, ...period });
  const before = await readBefore(period, now, (range) => readProductSums(orm, orgId, { ...ask, ...range }));
  const rows = products
    .map((product) => {
      const isOf = ({ productId }: ProductSum) => productId === product.id;
      const own = sums.filter(isOf);
      return { product, own, events: sumEvents(own), earlier: before?.sameRows.filter(isOf) ?? [] };
    })
    .filter(({ own, earlier }) => own.length > 0 || earlier.length > 0)
    .sort((a, b) => Number(b.events) - Number(a.events));
  const total = sumEvents(sums);
  const toEvents = (list: ProductSum[]) => list.map(({ start, events }) => ({ start, quantity: events }));
  const link = linksOf(request);
  return {
    isEmpty: sums.length === 0,
    total,
    before: before && {
      total: sumEvents(before.sameRows),
      growth: formatGrowth(total, sumEvents(before.sameRows)),
    },
    chart: toUsageChart({
      request,
      unit: 'events',
      by: 'product',
      series: rows.map(({ product, own }) => {
        const byStart = new Map(own.map(({ start, events }) => [start, events]));
        return { name: product.name, values: stepsOf(period).map((at) => byStart.get(at.getTime()) ?? '0') };
      }),
      before: before && { ...before, rows: toEvents(before.rows) },
      projection: toProjection([...toEvents(before?.rows ?? []), ...toEvents(sums)], period, now),
      now,
    }),
    parts: [
      {
        name: 'product',
        more: 0,
        rows: rows.map(({ product, own, earlier, events }) => {
          const [quantity, quantityBefore] = [own, earlier].map((list) =>
            sumDecimals(list.map((sum) => sum.quantity)),
          ) as [string, string];
          return {
            value: product.name,
            href: link({ product: product.slug }),
            quantity,
            unit: product.usageMetric,
            growth: formatGrowth(quantity, quantityBefore),
            quantityBefore,
            share: formatShare(events, total),
            events,
          };
        }),
      },
    ],
  };
}

const sumEvents = (sums: readonly ProductSum[]): string => sumDecimals(sums.map(({ events }) => events));
