import type { Router } from 'express';
import { readViewQuery, requirePage, viewerOf, type Viewer } from '../../accounts/portal/viewer.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { multiplyDecimals, sumDecimals } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { textField, tryQuery, type FormFields } from '../../core/pages/form.js';
import { formatCount, formatDecimal, formatGrowth } from '../../core/pages/format.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { decodeDimensions } from '../entitlements/dimensions.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { currentQuantity, findArchived, type EventRow } from '../events/event-queries.js';
import { parseEventsRequest, readEventPage } from '../events/events.js';
import type { UsageProduct } from '../events/page-queries.js';
import {
  chooseProduct,
  readProducts,
  scopeOf,
  toModeTabs,
  toPeriodChoices,
  toProductOptions,
} from './choices.js';
import { listSeries } from './operator/queries.js';
import { monthPeriod, periodBefore, stepName, stepsOf, toPeriodQuery, type Period } from './period.js';
import { readParts } from './pages.js';
import { axisName, toArchivedView } from './report-view.js';
import { parseUsageRequest } from './report.js';

/** Unlike the dashboard's, without API keys and names of people. */
export function usagePortalPages(context: Context): Router {
  const router = pageRouter();
  addUsage(router, context);
  addEvents(router, context);
  return router;
}

/** More than a year has days, or a month has hours. */
const MAX_POINTS = 1_000;

function addUsage(router: Router, context: Context): void {
  const { db, clock } = context;
  const deps = { orm: db.orm, clock };

  router.get('/usage', requirePage('usage'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId, home } = viewer;
    const path = `${home}/usage`;
    const query = readViewQuery(req, res);
    const now = new Date(clock.now());
    const products = await readProducts(deps, orgId, query.mode === 'test' ? 'test' : 'live');
    const { form, result } = await tryQuery(res, query, async () => {
      const { mode, period, product: slug } = parseUsageRequest(query, now);
      const product = await chooseProduct(db.orm, orgId, products, slug);
      return {
        mode,
        period,
        product,
        report: product && (await readUsage(context, viewer, product, mode, period)),
      };
    });
    const {
      mode = query.mode === 'test' ? 'test' : 'live',
      period = monthPeriod(now),
      product,
    } = result ?? {};
    const kept = { product: product?.slug };
    const asked = toPeriodQuery(period);
    await renderPage(
      context,
      req,
      res,
      { view: 'metering/portal/usage', title: 'Usage', section: 'usage' },
      {
        ...toPeriodChoices(path, { mode, period }, query, kept, now, viewer.mode),
        form: { ...form, values: { ...asked, ...form.values, product: product?.slug ?? '' } },
        hasProducts: products.length > 0,
        productOptions: toProductOptions(products),
        product,
        subject: viewer.subject,
        report: result?.report,
        eventsHref: viewer.shows('events') && toAddress(`${home}/events`, { ...kept, mode }),
      },
    );
  });
}

async function readUsage(
  context: Context,
  { orgId, subject }: Viewer,
  product: UsageProduct,
  mode: 'live' | 'test',
  period: Period,
) {
  const { db, clock } = context;
  const { id: productId, usageMetric: metric } = product;
  const scope = scopeOf(orgId, product, mode);
  const read = async (granularity: 'hour' | 'day' | 'total', { from, to }: Pick<Period, 'from' | 'to'>) => {
    const subjects = subject === undefined ? undefined : { only: subject };
    const range = { ...scope, productId, from, to, granularity, isByKey: false, subjects, limit: MAX_POINTS };
    return (await listSeries(db, range)).filter((point) => point.metric === metric);
  };
  const isHour = period.range === 'day';
  const points = await read(isHour ? 'hour' : 'day', period);
  const byStart = new Map(points.map(({ start, quantity }) => [Date.parse(start), quantity]));
  const steps = stepsOf(period);
  const total = sumDecimals(points.map(({ quantity }) => quantity));
  const before = periodBefore(period, new Date(clock.now()));
  const totalBefore =
    before && sumDecimals((await read(isHour ? 'hour' : 'day', before)).map(({ quantity }) => quantity));
  const [limits = []] = await readLimitViews(db, [{ ...scope, metric, subject }], clock.now());
  return {
    total,
    events: sumDecimals(points.map(({ events }) => events)),
    totalBefore,
    growth: totalBefore === undefined ? undefined : formatGrowth(total, totalBefore),
    /** A cap is one for the whole Organization in a month. */
    unitCap: subject === undefined && period.range === 'month' ? product.unitCap : null,
    limits,
    // Sums of a subject are not stored by dimension.
    parts: subject === undefined ? await readParts(context, orgId, { product, metric, mode, period }) : [],
    chart: toStackedChart({
      title: `${metric} by ${isHour ? 'hour' : 'day'}`,
      stepName: isHour ? 'Hour (UTC)' : 'Day (UTC)',
      steps: steps.map((start) => ({ axis: axisName(start, period), name: stepName(start, isHour) })),
      series: [{ name: metric, values: steps.map((start) => byStart.get(start.getTime()) ?? '0') }],
      nameOthers: (count) => formatCount(count, 'other'),
      format: (quantity) => `${formatDecimal(quantity)} ${metric}`,
    }),
  };
}

function addEvents(router: Router, context: Context): void {
  const { db, clock } = context;
  const deps = { orm: db.orm, clock };

  router.get('/events', requirePage('events'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId, home, subject } = viewer;
    const path = `${home}/events`;
    // The other filters of the dashboard's page are by API key and by quantity.
    const query = pick(readViewQuery(req, res), ['product', 'mode', 'from', 'to', 'cursor']);
    const mode = query.mode === 'test' ? 'test' : 'live';
    const products = await readProducts(deps, orgId, mode);
    const { form, result } = await tryQuery(res, query, async () => {
      const request = parseEventsRequest(query);
      const product = await chooseProduct(db.orm, orgId, products, request.product);
      if (!product) return undefined;
      const scope = scopeOf(orgId, product, request.mode);
      return {
        product,
        page: await readEventPage(db.orm, scope, { ...request, subject }),
        archived:
          subject === undefined
            ? await findArchived(db.orm, orgId, { of: scope, from: request.from, to: request.to })
            : undefined,
      };
    });
    const { product, page, archived } = result ?? {};
    const [from, to, cursor] = ['from', 'to', 'cursor'].map((name) => textField(query, name));
    const kept = { product: product?.slug, mode, from, to };
    await renderPage(
      context,
      req,
      res,
      { view: 'metering/portal/events', title: 'Events', section: 'events' },
      {
        form: { ...form, values: { ...form.values, product: product?.slug ?? '' } },
        mode,
        modes: toModeTabs(path, { ...kept, mode: undefined }, mode, viewer.mode),
        hasProducts: products.length > 0,
        productOptions: toProductOptions(products),
        product,
        subject,
        events: page?.events.map(toEventView),
        searchedTo: page?.searchedTo === undefined ? undefined : new Date(page.searchedTo),
        archived: archived && toArchivedView(archived),
        isFiltered: from !== undefined || to !== undefined,
        pager: page && toPager(path, kept, { cursor, nextCursor: page.nextCursor }),
      },
    );
  });
}

const pick = (fields: FormFields, names: readonly string[]): FormFields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)));

function toEventView(event: EventRow) {
  const { idempotencyKey, occurredAt, metric, subject, keys, creditPrice } = event;
  const counted = currentQuantity(event);
  return {
    idempotencyKey,
    occurredAt: new Date(occurredAt),
    metric,
    counted,
    subject,
    dimensions: Object.entries(decodeDimensions(keys, event.dimensions) ?? {}),
    isCorrected: event.corrections !== null,
    cost: creditPrice === '0' ? undefined : multiplyDecimals(counted, creditPrice),
  };
}
