import type { Request, Response, Router } from 'express';
import { readViewQuery, requirePage, viewerOf, type Viewer } from '../../accounts/portal/viewer.js';
import { findKey } from '../../accounts/api-keys/queries.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { Orm } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { readQuery, textField, tryQuery, type FormFields, type FormState } from '../../core/pages/form.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { parseEventsRequest } from '../events/events.js';
import { listSubjectsFrom, type EventRow } from '../events/event-queries.js';
import { listMonths, type UsageProduct } from '../events/page-queries.js';
import {
  MAX_PRODUCTS,
  readProducts,
  requireProduct,
  toMonthOptions,
  toPeriodChoices,
  toProductOptions,
} from './choices.js';
import { toCombined } from './all-products.js';
import { addOwnCorrections } from './correction-pages.js';
import { readAlerts } from '../notices/pages.js';
import { toEventsCsv, toUsageCsv, type UsagePart } from './csv.js';
import { readExplorer } from './explorer.js';
import { placeOf, readLookUp, spanOf, toEventPanel, type LookUp, type Typed } from './event-view.js';
import { monthPeriod, toPeriodQuery } from './period.js';
import { capitalise, linksOf, toChosen } from './report-view.js';
import {
  DIMENSION,
  isOfAll,
  parseUsageRequest,
  readNarrowing,
  readReport,
  type ReportDeps,
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
  const query = lookUp?.event && isBare ? { ...sent, ...placeOf(lookUp.event), event: lookUp.wanted } : sent;
  const shown = query.mode === 'test' ? 'test' : 'live';
  const products = await readProducts({ clock, orm: db.orm }, viewer.orgId, shown);
  let request: UsageRequest | undefined;
  const { form, result } = await tryQuery(res, query, () => {
    request = parseUsageRequest(query, now, viewer);
    return readExplorer(context, viewer, products, request);
  });
  const meant = result ? await readMeant(db.orm, viewer, result) : [];
  const sure = meant.find(({ isSure }) => isSure);
  if (sure) return res.redirect(303, sure.href);
  const page = {
    view: 'metering/usage/usage',
    title: 'Usage',
    section: 'usage',
    notices: { corrected: 'Corrected. Totals and limits now include the correction.' },
  };
  const panel = lookUp && result && readPanel(res, viewer, lookUp, result, sent.correct, typed);
  await renderPage(context, req, res, page, {
    ...toFilters(viewer, { query, form }, products, now, result ?? (request && { request })),
    chosen: request && !result ? await readChosen(db.orm, viewer, products, request) : undefined,
    months: toMonthOptions(await listMonths(db.orm, viewer.orgId), request?.period, now),
    ...result,
    meant,
    panel,
    correctionForm: panel?.correction?.form,
    alerts: viewer.home === '/dashboard' ? await readAlerts(context, sessionOf(res)) : undefined,
    subject: viewer.subject,
    showsCredits: viewer.shows('credits'),
  });
}

/** Subjects that contain the chosen one or begin with it, if nothing is known of that. The only listed one is meant for sure. */
async function readMeant(
  orm: Orm,
  { orgId }: Viewer,
  { request, product, report, parts = [] }: Awaited<ReturnType<typeof readExplorer>> & Listed,
) {
  const { subject, isOfSubject } = request;
  if (!report?.isEmpty || subject === undefined || isOfSubject) return [];
  const found = (await listSubjectsFrom(orm, orgId, subject, 3)).map((one) => one.subject);
  if (found.includes(subject)) return [];
  const rows = parts.find(({ name }) => name === 'subject')?.rows ?? [];
  const isLike = (value: string) => value.toLowerCase().includes(subject.toLowerCase());
  const listed = rows.flatMap(({ href, value }) => (href && isLike(value) ? value : []));
  const link = linksOf(request, product?.slug);
  return [...new Set([...listed, ...found])].slice(0, 3).map((one) => {
    return { subject: one, href: link({ subject: one }), isSure: listed.length === 1 && one === listed[0] };
  });
}

/** The page's filters without its report. */
async function readChosen(orm: Orm, { orgId }: Viewer, products: UsageProduct[], request: UsageRequest) {
  const { product, key } = request;
  const chosen = toChosen(request, key === undefined ? undefined : await findKey(orm, orgId, key), product);
  return { ...chosen, combined: product === undefined ? toCombined(products, request) : [] };
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
      const booked = event.receivedAt.slice(0, 10);
      return {
        key: `${home}/api-keys/${event.apiKeyId}`,
        day: toAddress(path, { ...place, range: 'day', date }),
        ledger: shows('credits')
          ? toAddress(`${home}/credits/ledger`, { ...place, range: undefined, from: booked, to: booked })
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
    const parts = await readCsvParts(deps, viewer.orgId, request);
    await sendCsv(log, req, res, toUsageCsv(context, viewer.orgId, parts));
  });

  // Without a range, the times are exact, and all events are meant by default.
  router.get('/usage/events.csv', async (req, res) => {
    const viewer = viewerOf(res);
    const query = readQuery(req);
    const { from: _from, to: _to, cursor: _cursor, ...choices } = query;
    const times = query.range === undefined ? parseEventsRequest(query) : undefined;
    const request = parseUsageRequest(times ? choices : query, new Date(clock.now()), viewer);
    const products = await readChosenProducts(deps, viewer.orgId, request);
    const one = products.length === 1 ? products[0] : undefined;
    const { narrowing } = await readNarrowing(db.orm, viewer.orgId, request, one);
    const span = times ?? spanOf(request);
    const file = { mode: request.mode, from: span.from, to: span.to, part: narrowing };
    await sendCsv(log, req, res, toEventsCsv(context, viewer.orgId, products, file));
  });

  addOwnCorrections(router, context, (req, res, typed) => showExplorer(context, req, res, typed));
  return router;
}

async function readChosenProducts(deps: ReportDeps, orgId: string, request: UsageRequest) {
  const products = await readProducts(deps, orgId, request.mode);
  return isOfAll(products, request)
    ? products.slice(0, MAX_PRODUCTS)
    : [await requireProduct(deps, orgId, request)];
}

async function readCsvParts(deps: ReportDeps, orgId: string, request: UsageRequest): Promise<UsagePart[]> {
  const products = await readChosenProducts(deps, orgId, request);
  if (products.length === 1) {
    const report = await readReport(deps, orgId, products[0]!, request);
    return [{ ...report, by: report.by === 'key' ? undefined : report.by }];
  }
  const chosen = await readNarrowing(deps.orm, orgId, request);
  const isBySubject =
    request.by === 'subject' && chosen.isWhole && products.some((one) => one.countsSubjects);
  const by = isBySubject ? 'subject' : undefined;
  return products.map((product) => ({ ...chosen, product, metric: product.usageMetric, request, by }));
}

/** A row without a link is not one value. */
type Listed = {
  report?: { isEmpty: boolean };
  parts?: { name: string; rows: { value: string; href?: string | undefined }[] }[];
};

/** The controls stay in place even if the query is invalid. */
function toFilters(
  viewer: Viewer,
  { query, form }: { query: FormFields; form: FormState },
  products: UsageProduct[],
  now: Date,
  { request, product: chosen, parts = [] }: Partial<Awaited<ReturnType<typeof readExplorer>>> & Listed = {},
) {
  const shown = request ?? {
    mode: query.mode === 'test' ? ('test' as const) : ('live' as const),
    period: monthPeriod(now),
  };
  const product = chosen?.slug ?? textField(query, 'product');
  const ofOne = request && isOfAll(products, request) ? [] : ['metric', 'measure'];
  const sent = Object.keys(query).filter(
    (name) =>
      ['key', 'subject', 'sum', 'by', ...ofOne].includes(name) ||
      (ofOne.length > 0 && name.startsWith(DIMENSION)),
  );
  const kept: Query = {
    product,
    ...Object.fromEntries(sent.map((name) => [name, textField(query, name)])),
  };
  const options = toProductOptions(products);
  const countsSubjects = (chosen ? [chosen] : products).some((one) => one.countsSubjects);
  // Over all products, a subject cannot be combined with an API key.
  const takesSubject = countsSubjects && viewer.subject === undefined && (chosen || kept.key === undefined);
  const dimensions = chosen?.dimensions.map((name) => DIMENSION + name) ?? [];
  const addable = ['key', ...(takesSubject ? ['subject'] : []), ...dimensions].map((name) => {
    const part = name === 'key' ? 'API key' : name.replace(DIMENSION, '');
    const rows = parts.find((one) => one.name === part)?.rows ?? [];
    return { name, label: capitalise(part), rows: rows.filter(({ href }) => href !== undefined) };
  });
  return {
    ...toPeriodChoices(`${viewer.home}/usage`, shown, query, kept, now, viewer.mode),
    form: { ...form, values: { ...toPeriodQuery(shown.period), ...form.values, product: product ?? '' } },
    kept,
    addable: addable.filter(({ name, rows }) => kept[name] === undefined && (rows[1] || name !== 'key')),
    hasProducts: products.length > 0,
    productOptions:
      options && options.length > 1 && viewer.subject === undefined
        ? [{ value: '', label: 'All products' }, ...options]
        : options,
  };
}
