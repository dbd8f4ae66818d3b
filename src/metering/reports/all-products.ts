import { toTrend } from '../../core/charts/trend.js';
import { sumDecimals } from '../../core/decimal.js';
import { toAddress } from '../../core/pages/address.js';
import { formatCount, formatDecimal, formatGrowth } from '../../core/pages/format.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { MAX_PRODUCTS, type PageDeps } from './choices.js';
import { readProductSums, type ProductSum, type UsageProduct } from '../events/page-queries.js';
import type { Mode } from '../events/page-schema.js';
import {
  formatPeriod,
  formatSpan,
  periodBefore,
  stepName,
  stepsOf,
  toPeriodQuery,
  type Period,
} from './period.js';
import { axisName, USAGE_PATH } from './report-view.js';

/** For the page of all products. */
export async function readAllProducts(
  { orm, clock }: PageDeps,
  orgId: string,
  listed: UsageProduct[],
  { mode, period }: { mode: Mode; period: Period },
) {
  const products = listed.slice(0, MAX_PRODUCTS);
  const asked = { productIds: products.map(({ id }) => id), livemode: mode === 'live' };
  const before = periodBefore(period, new Date(clock.now()));
  const sums = await readProductSums(orm, orgId, { ...asked, ...period });
  const earlier = before ? await readProductSums(orm, orgId, { ...asked, ...before }) : [];
  return toProductsView({ products, mode, period, before, sums, earlier });
}

interface ProductsPage {
  products: UsageProduct[];
  mode: Mode;
  period: Period;
  before: Period | undefined;
  sums: ProductSum[];
  earlier: ProductSum[];
}

function toProductsView({ products, mode, period, before, sums, earlier }: ProductsPage) {
  const rows = products
    .map((product) => {
      const isOf = ({ productId }: ProductSum) => productId === product.id;
      return { product, own: sums.filter(isOf), earlier: earlier.filter(isOf) };
    })
    .filter(({ own, earlier }) => own.length > 0 || earlier.length > 0)
    .map((row) => ({ ...row, events: sumDecimals(row.own.map((sum) => sum.events)) }))
    .sort((a, b) => Number(b.events) - Number(a.events));
  return {
    isEmpty: sums.length === 0,
    chart: toProductsChart(rows, period),
    beforeName: before && formatSpan(before),
    rows: rows.map(({ product, own, earlier, events }) => {
      const quantity = sumDecimals(own.map((sum) => sum.quantity));
      const quantityBefore = sumDecimals(earlier.map((sum) => sum.quantity));
      const byStart = new Map(own.map((sum) => [sum.start, Number(sum.quantity)]));
      const values = stepsOf(period).map((start) => byStart.get(start.getTime()) ?? 0);
      return {
        product,
        href: toAddress(USAGE_PATH, { product: product.slug, mode, ...toPeriodQuery(period) }),
        events,
        quantity,
        quantityBefore,
        growth: formatGrowth(quantity, quantityBefore),
        trend: toTrend(
          `${product.usageMetric} in ${formatPeriod(period)}: ${formatDecimal(quantity)}`,
          values,
        ),
      };
    }),
  };
}

/** Metrics differ, so the chart counts events. */
function toProductsChart(rows: { product: UsageProduct; own: ProductSum[] }[], period: Period) {
  const isHour = period.range === 'day';
  const steps = stepsOf(period);
  return toStackedChart({
    title: `Events by ${isHour ? 'hour' : 'day'} and product, ${formatPeriod(period)}`,
    stepName: isHour ? 'Hour (UTC)' : 'Day (UTC)',
    steps: steps.map((start) => ({ axis: axisName(start, period), name: stepName(start, isHour) })),
    series: rows.map(({ product, own }) => {
      const byStart = new Map(own.map((sum) => [sum.start, sum.events]));
      return { name: product.name, values: steps.map((start) => byStart.get(start.getTime()) ?? '0') };
    }),
    nameOthers: (count) => formatCount(count, 'other product'),
    format: (events) => `${formatDecimal(events)} ${events === '1' ? 'event' : 'events'}`,
  });
}
