import type { Router } from 'express';
import { toTrend } from '../../core/charts/trend.js';
import { sumDecimals } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { formatCount, formatDecimal, formatGrowth } from '../../core/pages/format.js';
import { type FormFields, readQuery, requireOnce, tryQuery } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { MAX_PRODUCTS, readProducts, toPeriodChoices } from './choices.js';
import { readProductSums, type ProductSum, type UsageProduct } from '../events/page-queries.js';
import { productsQuerySchema, type Mode } from '../events/page-schema.js';
import {
  formatPeriod,
  formatSpan,
  monthPeriod,
  parsePeriod,
  periodBefore,
  stepName,
  stepsOf,
  toPeriodQuery,
  type Period,
} from './period.js';
import { axisName, USAGE_PATH } from './report-view.js';

export const PRODUCTS_PATH = '/dashboard/usage/products';

/** Metrics differ, so the chart counts events. */
export function addProductPages(router: Router, context: Context): void {
  const { db, clock } = context;

  router.get('/usage/products', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const now = new Date(clock.now());
    const { form, result: request } = await tryQuery(res, query, () =>
      Promise.resolve(parseQuery(query, now)),
    );
    const { mode, period } = request ?? { mode: 'live' as const, period: monthPeriod(now) };
    const listed = await readProducts({ orm: db.orm, clock }, orgId, mode);
    const products = listed.slice(0, MAX_PRODUCTS);
    const asked = { productIds: products.map(({ id }) => id), livemode: mode === 'live' };
    const before = periodBefore(period, now);
    const data = {
      products,
      mode,
      period,
      before,
      sums: request ? await readProductSums(db.orm, orgId, { ...asked, ...period }) : [],
      earlier: request && before ? await readProductSums(db.orm, orgId, { ...asked, ...before }) : [],
    };
    const page = { view: 'metering/usage/products', title: 'Usage of all products', section: 'usage' };
    await renderPage(context, req, res, page, {
      ...toPeriodChoices(PRODUCTS_PATH, data, query, {}, now),
      form: { ...form, values: { ...toPeriodQuery(period), ...form.values } },
      usageHref: toAddress(USAGE_PATH, { mode, ...toPeriodQuery(period) }),
      maxProducts: listed.length > MAX_PRODUCTS ? MAX_PRODUCTS : undefined,
      report: request && toProductsView(data),
    });
  });
}

function parseQuery(query: FormFields, now: Date) {
  requireOnce(query);
  const { mode, range } = parseInput(productsQuerySchema, query);
  return { mode, period: parsePeriod(range, query, now) };
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
