import type { Router } from 'express';
import type { Context } from '../../core/http/context.js';
import { ExactNumber } from '../../core/http/json.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { sendCsv, type CsvCell, type CsvFile } from '../../core/pages/csv.js';
import { textField, type FormFields, type FormState, readQuery, tryQuery } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { compareDecimals, sumDecimals } from '../../core/decimal.js';
import { formatShare } from '../../core/pages/format.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import {
  accountOf,
  chooseProduct,
  inOnePiece,
  MAX_PRODUCTS,
  readProducts,
  requireProduct,
  scopeOf,
  toPeriodChoices,
  toProductOptions,
} from './choices.js';
import { addCorrectionPages } from './correction-pages.js';
import { addEventPages } from './event-pages.js';
import { listHolds, type Narrowing, type UsageProduct } from '../events/page-queries.js';
import { listSeries } from './operator/queries.js';
import { daysOf, monthPeriod, toDateText, toPeriodQuery } from './period.js';
import { readAlerts } from '../notices/pages.js';
import { readAllProducts } from './all-products.js';
import { readCost } from './credits/pages.js';
import { toReportView, USAGE_PATH } from './report-view.js';
import { DIMENSION, parseUsageRequest, readReport, type UsageReport, type UsageRequest } from './report.js';

export function usagePages(context: Context): Router {
  const { db, clock, log } = context;
  const deps = { orm: db.orm, clock, db };
  const router = pageRouter();

  router.get('/usage', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const now = new Date(clock.now());
    const products = await readProducts(deps, orgId, query.mode === 'test' ? 'test' : 'live');
    let request: UsageRequest | undefined;
    const { form, result } = await tryQuery(res, query, async () => {
      request = parseUsageRequest(query, now);
      const { product: slug, key, metric, subject, mode } = request;
      if (products.length > 1 && [slug, key, metric, subject].every((choice) => choice === undefined))
        return {
          all: await readAllProducts(deps, orgId, products, request),
          cost: await readCost(db.orm, accountOf(orgId, mode), now),
        };
      const product = await chooseProduct(db.orm, orgId, products, slug);
      return { report: product && (await readReport(deps, orgId, product, request)) };
    });
    const { report, all, cost } = result ?? {};
    const page = { view: 'metering/usage/usage', title: 'Usage', section: 'usage' };
    await renderPage(context, req, res, page, {
      ...toUsageView({ query, form, products, request, report, now }),
      all,
      cost,
      alerts: await readAlerts(context, sessionOf(res)),
      maxProducts: products.length > MAX_PRODUCTS ? MAX_PRODUCTS : undefined,
      ...(report ? await readHeld(context, orgId, report, now) : { limits: [], holds: [] }),
      parts: report ? await readParts(context, orgId, report) : [],
    });
  });

  router.get('/usage.csv', async (req, res) => {
    const { orgId } = sessionOf(res);
    const request = parseUsageRequest(readQuery(req), new Date(clock.now()));
    const product = await requireProduct(deps, orgId, request);
    await sendCsv(log, req, res, toUsageCsv(await readReport(deps, orgId, product, request)));
  });

  router.get('/usage/products', (req, res) =>
    res.redirect(301, toAddress(USAGE_PATH, readQuery(req) as Query)),
  );
  addEventPages(router, context);
  addCorrectionPages(router, context);
  return router;
}

const MAX_HOLDING_KEYS = 20;
/** More than the number of values that can have sums in one month. */
const MAX_PARTS = 2_000;

/** Regardless of the period shown. */
async function readHeld({ db }: Context, orgId: string, { product, metric, mode }: UsageReport, now: Date) {
  if (metric !== product.usageMetric) return { limits: [], holds: [] };
  const scope = scopeOf(orgId, product, mode);
  const [limits] = await readLimitViews(db, [{ ...scope, metric }], now.getTime());
  return { limits, holds: await listHolds(db.orm, scope, metric, now, MAX_HOLDING_KEYS) };
}

const SHOWN_PARTS = 20;

/** By dimension and by subject. */
export async function readParts(
  { db }: Context,
  orgId: string,
  {
    product,
    metric,
    mode,
    period,
    narrowing: { subject, ...narrowing } = {},
  }: Pick<UsageReport, 'product' | 'metric' | 'mode' | 'period'> & { narrowing?: Narrowing },
) {
  const { id: productId, dimensions, countsSubjects } = product;
  const { livemode } = scopeOf(orgId, product, mode);
  // Sums of a subject are not stored by dimension or API key.
  if (subject !== undefined) return [];
  const isWhole = !narrowing.apiKeyIds && !narrowing.where?.length;
  const range = {
    ...period,
    ...narrowing,
    granularity: 'total' as const,
    orgId,
    productId,
    livemode,
    isByKey: false,
    limit: MAX_PARTS,
  };
  const asked = [
    ...dimensions.map((name, i) => ({ name, by: { byDimension: i + 1 } })),
    ...(countsSubjects && isWhole ? [{ name: 'subject', by: { subjects: { only: undefined } } }] : []),
  ];
  const parts = [];
  for (const { name, by } of asked) {
    const rows = (await listSeries(db, { ...range, ...by })).filter((row) => row.metric === metric);
    if (!rows.some(({ value, isOther }) => value || isOther)) continue;
    const sorted = rows.toSorted(
      (a, b) => Number(a.isOther) - Number(b.isOther) || compareDecimals(b.quantity, a.quantity),
    );
    const whole = sumDecimals(rows.map(({ quantity }) => quantity));
    const shown = sorted
      .slice(0, SHOWN_PARTS)
      .map((row) => ({ ...row, share: formatShare(row.quantity, whole) }));
    parts.push({ name, rows: shown, more: rows.length - shown.length });
  }
  return parts;
}

interface UsagePage {
  query: FormFields;
  form: FormState;
  products: UsageProduct[];
  request: UsageRequest | undefined;
  /** Undefined if the request is invalid or there is no product. */
  report: UsageReport | undefined;
  now: Date;
}

/** The controls stay in place even if the query is invalid. */
function toUsageView({ query, form, products, request, report, now }: UsagePage) {
  const shown = request ?? { mode: 'live' as const, period: monthPeriod(now) };
  const asked = toPeriodQuery(shown.period);
  const product = report?.product.slug ?? textField(query, 'product');
  const parts = Object.keys(query).filter(
    (name) => ['key', 'by', 'subject'].includes(name) || name.startsWith(DIMENSION),
  );
  const kept: Query = { product, ...Object.fromEntries(parts.map((name) => [name, textField(query, name)])) };
  return {
    ...toPeriodChoices(USAGE_PATH, shown, query, kept, now),
    form: { ...form, values: { ...asked, ...form.values, product: product ?? '' } },
    key: kept.key,
    hasProducts: products.length > 0,
    productOptions: withAll(toProductOptions(products)),
    report: report && toReportView(report, now),
  };
}

const withAll = (options: ReturnType<typeof toProductOptions>) =>
  options && options.length > 1 ? [{ value: '', label: 'All products' }, ...options] : options;

function toUsageCsv({ product, metric, mode, period, key, rows }: UsageReport): CsvFile {
  type Row = UsageReport['rows'][number];
  const isDay = period.range === 'day';
  const columns: [name: string, read: (row: Row) => CsvCell][] = [
    [isDay ? 'hour_utc' : 'day_utc', ({ start }) => (isDay ? start : toDateText(start))],
    ['product', () => product.slug],
    ['metric', () => metric],
    ['mode', () => mode],
    ['api_key_id', () => key?.id ?? null],
    ['quantity', ({ quantity }) => new ExactNumber(quantity)],
    ['events', ({ events }) => new ExactNumber(events)],
  ];
  if (period.range === 'month') columns.push(['month_so_far', ({ soFar }) => new ExactNumber(soFar)]);
  const { range: _range, ...asked } = toPeriodQuery(period);
  const days = Object.values(asked).length > 0 ? asked : daysOf(period);
  return {
    filename: `usage-${product.slug}-${mode}-${Object.values(days).join('-to-')}.csv`,
    columns: columns.map(([name]) => name),
    pieces: inOnePiece(rows.map((row) => columns.map(([, read]) => read(row)))),
  };
}
