import type { Request, Response, Router } from 'express';
import { readViewQuery, requirePage, viewerOf, type Viewer } from '../../accounts/portal/viewer.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { Context } from '../../core/http/context.js';
import { compareDecimals, sumDecimals } from '../../core/decimal.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { readQuery, textField, tryQuery, type FormFields, type FormState } from '../../core/pages/form.js';
import { formatShare } from '../../core/pages/format.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { parseEventsRequest } from '../events/events.js';
import type { EventRow } from '../events/event-queries.js';
import { listHolds, listMonths, type Narrowing, type UsageProduct } from '../events/page-queries.js';
import { readAllProducts, readWholeParts } from './all-products.js';
import {
  accountOf,
  chooseProduct,
  MAX_PRODUCTS,
  readProducts,
  requireProduct,
  scopeOf,
  toMonthOptions,
  toPeriodChoices,
  toProductOptions,
} from './choices.js';
import { addOwnCorrections } from './correction-pages.js';
import { readAlerts } from '../notices/pages.js';
import { readAccountView } from './credits/pages.js';
import { partPlaces, readEventParts, readHasCredits, type EventPart } from './credits/queries.js';
import { toEventsCsv, toUsageCsv } from './csv.js';
import {
  placeOf,
  readEvents,
  readLookUp,
  spanOf,
  toEventPanel,
  type LookUp,
  type Typed,
} from './event-view.js';
import { listSeries } from './operator/queries.js';
import { monthPeriod, toPeriodQuery } from './period.js';
import { changeSince, linksOf, toReportView } from './report-view.js';
import {
  DIMENSION,
  parseUsageRequest,
  readNarrowing,
  readReport,
  type UsageReport,
  type UsageRequest,
} from './report.js';

export function explorerPages(context: Context): Router {
  const router = pageRouter();

  router.get('/usage', requirePage('usage', 'events'), (req, res) => showExplorer(context, req, res));
  return router;
}

async function showExplorer(context: Context, req: Request, res: Response, typed?: Typed): Promise<void> {
  const { db, clock } = context;
  const viewer = viewerOf(res);
  const now = new Date(clock.now());
  const sent = readViewQuery(req, res);
  const lookUp = viewer.shows('events') ? await readLookUp(db.orm, viewer, sent) : undefined;
  // An address that names only the event shows the place of the event around it.
  const isBare = Object.keys(sent).every((name) => ['event', 'mode', 'correct', 'done'].includes(name));
  const query = lookUp?.event && isBare ? { ...sent, ...placeOf(lookUp.event) } : sent;
  const shown = query.mode === 'test' ? 'test' : 'live';
  const products = await readProducts({ clock, orm: db.orm }, viewer.orgId, shown);
  const { form, result } = await tryQuery(res, query, () =>
    readExplorer(context, viewer, products, parseUsageRequest(query, now, viewer)),
  );
  const page = {
    view: 'metering/usage/usage',
    title: 'Usage',
    section: 'usage',
    notices: { corrected: 'Corrected. Totals and limits now include the correction.' },
  };
  const panel = lookUp && result && readPanel(res, viewer, lookUp, result, sent.correct, typed);
  await renderPage(context, req, res, page, {
    ...toFilters(viewer, { query, form }, products, now, result),
    months: toMonthOptions(await listMonths(db.orm, viewer.orgId), result?.request.period, now),
    ...result,
    panel,
    correctionForm: panel?.correction?.form,
    alerts: viewer.home === '/dashboard' ? await readAlerts(context, sessionOf(res)) : undefined,
    subject: viewer.subject,
    showsCredits: viewer.shows('credits'),
  });
}

function readPanel(
  res: Response,
  { home, shows }: Viewer,
  lookUp: LookUp,
  { request, product, events }: Awaited<ReturnType<typeof readExplorer>>,
  correct: unknown,
  typed: Typed | undefined,
) {
  const link = linksOf(request, product?.slug);
  const { cursor, showsKeys, path } = request;
  const isCorrector = showsKeys && isManager(sessionOf(res).role);
  const around = {
    link: (change: object) => link({ cursor, ...change }),
    rows: events?.rows ?? [],
    owner: 'Your Organization' as const,
    showsKeys,
    mayCorrect: isCorrector && sessionOf(res).mayCorrect,
    /** The operator can. */
    mayAsk: isCorrector && !sessionOf(res).mayCorrect,
    hrefsOf: (event: EventRow) => {
      const { month: _month, ...place } = placeOf(event);
      const date = event.occurredAt.slice(0, 10);
      const entered = event.receivedAt.slice(0, 10);
      return {
        key: `${home}/api-keys/${event.apiKeyId}`,
        day: toAddress(path, { ...place, range: 'day', date }),
        ledger: shows('credits')
          ? toAddress(`${home}/credits/ledger`, { ...place, range: undefined, from: entered, to: entered })
          : undefined,
      };
    },
  };
  return toEventPanel(lookUp, around, correct, typed);
}

export function usagePages(context: Context): Router {
  const { db, clock, log } = context;
  const deps = { orm: db.orm, clock, db };
  const router = pageRouter();

  router.get('/usage.csv', async (req, res) => {
    const viewer = viewerOf(res);
    const request = parseUsageRequest(readQuery(req), new Date(clock.now()), viewer);
    const product = await requireProduct(deps, viewer.orgId, request);
    const report = await readReport(deps, viewer.orgId, product, request);
    await sendCsv(log, req, res, toUsageCsv(context, viewer.orgId, report));
  });

  // Without a range, the times are exact, and all events are meant by default.
  router.get('/usage/events.csv', async (req, res) => {
    const viewer = viewerOf(res);
    const query = readQuery(req);
    const { from: _from, to: _to, cursor: _cursor, ...choices } = query;
    const times = query.range === undefined ? parseEventsRequest(query) : undefined;
    const request = parseUsageRequest(times ? choices : query, new Date(clock.now()), viewer);
    const product = await requireProduct(deps, viewer.orgId, request);
    const { narrowing } = await readNarrowing(db.orm, viewer.orgId, product, request);
    const span = times ?? spanOf(request);
    const file = { mode: request.mode, from: span.from, to: span.to, part: narrowing };
    await sendCsv(log, req, res, toEventsCsv(context, viewer.orgId, product, file));
  });

  addOwnCorrections(router, context, (req, res, typed) => showExplorer(context, req, res, typed));
  return router;
}

async function readExplorer(
  context: Context,
  viewer: Viewer,
  products: UsageProduct[],
  request: UsageRequest,
) {
  const { db, clock } = context;
  const { orgId } = viewer;
  const now = new Date(clock.now());
  const shown = products.slice(0, MAX_PRODUCTS);
  const { product: slug, key, metric, subject, values } = request;
  const choices = [slug, key, metric, subject, ...Object.keys(values)];
  const isAll = products.length > 1 && choices.every((choice) => choice === undefined);
  const product = isAll ? undefined : await chooseProduct(db.orm, orgId, products, slug);
  if (!isAll && !product) return { request, product, events: undefined };
  const part = product && (await readNarrowing(db.orm, orgId, product, request)).narrowing;
  const [whole, toParts] =
    product || !viewer.shows('usage')
      ? []
      : await Promise.all([
          readAll(context, viewer, shown, request, now),
          readWholeParts(db, orgId, shown, request),
        ]);
  return {
    request,
    product,
    ...(viewer.shows('usage') &&
      (product
        ? await readProduct(context, viewer, product, request, now)
        : { ...whole!, parts: [...whole!.parts, ...toParts!(whole!.report)] })),
    maxProducts: isAll && products.length > MAX_PRODUCTS ? MAX_PRODUCTS : undefined,
    events: viewer.shows('events')
      ? await readEvents(db.orm, orgId, product ? [product] : shown, request, { part, now })
      : undefined,
  };
}

export async function readAll(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  viewer: Pick<Viewer, 'orgId' | 'shows'>,
  products: UsageProduct[],
  request: UsageRequest,
  now: Date,
) {
  const id = accountOf(viewer.orgId, request.mode);
  const hasCredits = viewer.shows('credits') && (await readHasCredits(db.orm, viewer.orgId));
  const { parts, ...report } = await readAllProducts(
    { orm: db.orm, clock },
    id,
    products,
    request,
    hasCredits,
  );
  return { report, parts, account: hasCredits ? await readAccountView(db.orm, id, now) : undefined };
}

async function readProduct(
  context: Context,
  viewer: Viewer,
  product: UsageProduct,
  request: UsageRequest,
  now: Date,
) {
  const { db, clock } = context;
  const { orgId } = viewer;
  const read = await readReport({ orm: db.orm, clock, db }, orgId, product, request);
  const split = openSplit(context, viewer, read);
  const own = await split.read?.(read.narrowing);
  const ofKeys = read.key ? await split.read?.({ ...read.narrowing, apiKeyIds: undefined }) : own;
  const { keys, ...report } = toReportView(read, now);
  const byKey = keys.map((part) => (split.isPriced ? withCosts(part, ofKeys, partPlaces.key) : part));
  const ofEachKey = own?.filter(({ place }) => place === partPlaces.key);
  return {
    report: {
      ...report,
      credits: split.isPriced ? ofEachKey && sumDecimals(ofEachKey.map(({ credits }) => credits)) : undefined,
      unsplit:
        !read.isWhole && product.countsSubjects && !own ? (read.unsplit ?? 'so many events') : undefined,
    },
    parts: [...byKey, ...(await readParts(context, orgId, read, own, split))],
    ...(await readHeld(context, orgId, read, now)),
  };
}

const MAX_HOLDING_KEYS = 20;
/** More than the number of values that can have sums in one month. */
const MAX_PARTS = 2_000;

/** Regardless of the period shown. */
async function readHeld(
  { db }: Context,
  orgId: string,
  { product, metric, request: { mode, subject, showsKeys } }: UsageReport,
  now: Date,
) {
  if (metric !== product.usageMetric) return { limits: [], holds: [] };
  const scope = scopeOf(orgId, product, mode);
  const [limits = []] = await readLimitViews(db, [{ ...scope, metric, subject }], now.getTime());
  const holds = showsKeys ? await listHolds(db.orm, scope, metric, now, MAX_HOLDING_KEYS) : [];
  return { limits, holds };
}

const SHOWN_PARTS = 20;

/** Reads credits, and a subject's usage in other parts, from the events. Undefined if it is not wanted or not possible. */
function openSplit(
  { db }: Context,
  viewer: Viewer,
  { product, metric, unsplit, isWhole, request: { mode, period } }: UsageReport,
) {
  const isPriced = product.creditPrice !== null && metric === product.usageMetric && viewer.shows('credits');
  const isWanted = isPriced || (product.countsSubjects && !isWhole);
  const scope = scopeOf(viewer.orgId, product, mode);
  const places = [...Object.values(partPlaces), ...product.dimensions.map((_, i) => i + 1)];
  const read = (part: Narrowing) => readEventParts(db.orm, scope, { ...period, metric, places }, part);
  return { isPriced, read: isWanted && !unsplit ? read : undefined };
}

/** Adds a column of credits. A part that is not among the dearest has no number of its own. */
function withCosts<T extends { rows: { id: string | null; isOther?: boolean | undefined }[] }>(
  part: T,
  costs: EventPart[] | undefined,
  place: number,
) {
  if (!costs) return part;
  const own = costs.filter((cost) => cost.place === place);
  const least = own.some(({ isOther, credits }) => isOther && credits !== '0') ? undefined : '0';
  const rows = part.rows.map((row) => {
    const cost = own.find(({ isOther, value }) => (row.isOther ? isOther : value === row.id));
    return { ...row, credits: cost?.credits ?? least };
  });
  return { ...part, rows, columns: ['Quantity', 'Credits', 'Share'] };
}

/** Also the values that a filter leaves out, so that a click changes it. */
async function readParts(
  { db }: Context,
  orgId: string,
  { product, metric, request, before, narrowing: { subject, where, apiKeyIds } }: UsageReport,
  own: EventPart[] | undefined,
  split: ReturnType<typeof openSplit>,
) {
  const { dimensions, countsSubjects } = product;
  const names = [...dimensions, ...(countsSubjects && !request.isOfSubject ? ['subject'] : [])];
  const link = linksOf(request, product.slug);
  const parts = [];
  for (const name of names) {
    const place = dimensions.indexOf(name) + 1;
    const isSubject = place === partPlaces.subject;
    const chosen = isSubject ? subject : where.find((one) => one.place === place)?.value;
    const others = {
      apiKeyIds,
      where: where.filter((one) => one.place !== place),
      subject: isSubject ? undefined : subject,
    };
    const ofEvents = chosen === undefined ? own : await split.read?.(others);
    const isStored = isSubject ? !apiKeyIds && others.where.length === 0 : subject === undefined;
    const range = {
      ...scopeOf(orgId, product, request.mode),
      ...request.period,
      ...others,
      ...(isSubject ? { subjects: { only: undefined } } : { byDimension: place }),
      granularity: 'total' as const,
      isByKey: false,
      limit: MAX_PARTS,
    };
    const rows = isStored
      ? (await listSeries(db, range)).filter((row) => row.metric === metric)
      : (ofEvents ?? []).filter((part) => part.place === place && (part.value !== '' || !isSubject));
    if (!rows.some(({ value, isOther }) => value || isOther)) continue;
    const earlier = before && isStored ? await listSeries(db, { ...range, ...before.same }) : [];
    const sorted = rows.toSorted(
      (a, b) => Number(a.isOther) - Number(b.isOther) || compareDecimals(b.quantity, a.quantity),
    );
    const whole = sumDecimals(rows.map(({ quantity }) => quantity));
    const shown = sorted.slice(0, SHOWN_PARTS).map(({ value = '', isOther, quantity, events }) => {
      const isCurrent = value !== '' && value === chosen;
      const wanted = isCurrent || value === null ? '' : value;
      return {
        id: value,
        isOther,
        value: isOther ? 'All others' : value || 'None',
        isCurrent,
        href:
          isOther || !value
            ? undefined
            : name === 'subject'
              ? link({ subject: wanted })
              : link({ values: { [name]: wanted } }),
        quantity,
        ...changeSince(
          quantity,
          earlier.find((row) => row.metric === metric && row.value === value && row.isOther === isOther)
            ?.quantity,
        ),
        events,
        share: formatShare(quantity, whole),
      };
    });
    const part = { name, rows: shown, more: rows.length - shown.length };
    parts.push(split.isPriced ? withCosts(part, ofEvents, place) : part);
  }
  return parts;
}

/** The controls stay in place even if the query is invalid. */
function toFilters(
  viewer: Viewer,
  { query, form }: { query: FormFields; form: FormState },
  products: UsageProduct[],
  now: Date,
  { request, product: chosen }: Partial<Awaited<ReturnType<typeof readExplorer>>> = {},
) {
  const shown = request ?? {
    mode: query.mode === 'test' ? ('test' as const) : ('live' as const),
    period: monthPeriod(now),
  };
  const product = chosen?.slug ?? textField(query, 'product');
  const parts = Object.keys(query).filter(
    (name) => ['key', 'metric', 'by', 'subject', 'sum'].includes(name) || name.startsWith(DIMENSION),
  );
  const kept: Query = { product, ...Object.fromEntries(parts.map((name) => [name, textField(query, name)])) };
  const options = toProductOptions(products);
  return {
    ...toPeriodChoices(`${viewer.home}/usage`, shown, query, kept, now, viewer.mode),
    form: { ...form, values: { ...toPeriodQuery(shown.period), ...form.values, product: product ?? '' } },
    kept,
    hasProducts: products.length > 0,
    productOptions:
      options && options.length > 1 && viewer.subject === undefined
        ? [{ value: '', label: 'All products' }, ...options]
        : options,
  };
}
