import { formatEstimate } from '../../core/charts/stacked.js';
import { compareDecimals, sumDecimals } from '../../core/decimal.js';
import type { Viewer } from '../../accounts/portal/viewer.js';
import type { Context } from '../../core/http/context.js';
import { formatShare } from '../../core/pages/format.js';
import { capsOf, NEAR } from '../entitlements/caps.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { readAllLimits } from '../entitlements/pages.js';
import { listCurrentUse } from '../events/current-use.js';
import { listHolds, type Narrowing, type UsageProduct } from '../events/page-queries.js';
import { readAllProducts, readWholeParts } from './all-products.js';
import { accountOf, chooseProduct, MAX_PRODUCTS, scopeOf } from './choices.js';
import { readAccountView } from './credits/pages.js';
import { readPayments } from './credits/statement.js';
import { partPlaces, readEventParts, readHasCredits, type EventPart } from './credits/queries.js';
import { readEvents } from './event-view.js';
import { listSeries, type SeriesPoint } from './operator/queries.js';
import { includes, monthPeriod, type Period } from './period.js';
import { changeSince, linksOf, toBeforeView, toReportView, totalOf } from './report-view.js';
import { findObstacle, isOfAll, readCosts, readNarrowing, readReport } from './report.js';
import type { UsageReport, UsageRequest } from './report.js';

export async function readExplorer(
  context: Context,
  viewer: Viewer,
  products: UsageProduct[],
  sent: UsageRequest,
) {
  const { db, clock } = context;
  const { orgId } = viewer;
  const now = new Date(clock.now());
  const shown = products.slice(0, MAX_PRODUCTS);
  const isAll = isOfAll(products, sent);
  const request = isAll ? { ...sent, metric: undefined, measure: undefined, values: {} } : sent;
  const product = isAll ? undefined : await chooseProduct(db.orm, orgId, products, request.product);
  if (!isAll && !product) return { request, product, events: undefined };
  const { key, narrowing: part, isWhole } = await readNarrowing(db.orm, orgId, request, product);
  const ofPart = isWhole ? undefined : part;
  const id = accountOf(orgId, request.mode);
  const [whole, inEffect, toParts] =
    product || !viewer.shows('usage')
      ? []
      : await Promise.all([
          readAll(context, viewer, shown, request, now, { key, part: ofPart }),
          isWhole && includes(request.period, now)
            ? listCurrentUse(db.orm, orgId, { now, livemode: id.livemode, limit: MAX_LIMITED })
            : [],
          readWholeParts({ orm: db.orm, clock }, id, shown, request, {
            part: ofPart,
            showsCredits: viewer.shows('credits'),
          }),
        ]);
  const { unit, total, caps } = whole?.report ?? {};
  const limits = await readAllLimits(db, id, inEffect ?? [], now.getTime());
  const paid = { period: request.period, credits: isWhole && unit === 'credits' ? total : undefined };
  return {
    request,
    product,
    payments: await readPayments(db.orm, id, paid, now),
    ...(viewer.shows('usage') &&
      (product
        ? await readProduct(context, viewer, product, request, now)
        : {
            ...whole!,
            report: { ...whole!.report, caps: capsOf([...caps!.nearCap, ...caps!.overCap, ...limits]) },
            parts: [...whole!.parts, ...toParts!(whole!.report)],
          })),
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
  chosen: Pick<UsageReport, 'key'> & { part: Narrowing | undefined } = { key: undefined, part: undefined },
) {
  const id = accountOf(viewer.orgId, request.mode);
  const hasCredits = viewer.shows('credits') && (await readHasCredits(db.orm, viewer.orgId));
  const { parts, daySums, ...report } = await readAllProducts({ orm: db.orm, clock }, id, products, request, {
    ...chosen,
    showsCredits: hasCredits,
  });
  const hasAccount = hasCredits && !chosen.part;
  const account = hasAccount ? await readAccountView(db.orm, id, now) : undefined;
  const { end, gap } = account?.projection ?? {};
  const isSoon = end && includes(request.period, now) && end < monthPeriod(now).to;
  return { report, parts, daySums, account, creditsEnd: isSoon ? { ...gap!, end } : undefined };
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
  const ofAllKeys = { ...read.narrowing, apiKeyIds: undefined };
  const ofKeys = read.key ? await split.read?.(ofAllKeys) : own;
  const priced = split.isPriced ? own : undefined;
  const credits = priced && sumDecimals(ofEachKey(priced).map((part) => part.credits));
  const { mode, period, measure } = request;
  const costs = priced && (await readCosts({ orm: db.orm, clock }, split.scope, read, priced));
  const paid = { period, credits: read.isWhole ? credits : undefined, productId: product.id };
  const { keys, measures, ...report } = toReportView(read, measure && costs, now);
  const keysBefore = measure && split.isPriced ? await split.readBefore(ofAllKeys) : undefined;
  const byKey = keys.map((part) =>
    split.isPriced && ofKeys ? rankKeys(part, ofKeys, measure && (keysBefore ?? [])) : part,
  );
  const ofValues = await readParts(context, orgId, read, own, split);
  const subjects = ofValues.find(({ place }) => place === partPlaces.subject)?.rows ?? [];
  const { holds, limits } = await readHeld(context, orgId, read, subjects, now);
  const near = limits.filter(({ cap }) => report.chart.isCurrent && cap.share >= NEAR);
  const { nearCap, overCap } = capsOf([...report.caps.nearCap, ...report.caps.overCap, ...near]);
  return {
    report: {
      ...report,
      caps: { nearCap, overCap },
      credits,
      payments: await readPayments(db.orm, accountOf(orgId, mode), paid, now),
      /** Absent where credits are unknown. */
      measures: credits !== undefined && (measure === undefined || costs) ? measures : [],
      creditsBefore: costs?.before && toBeforeView(costs.before, totalOf, credits!),
      projectedCredits: costs?.projection?.total && formatEstimate(costs.projection.total),
      unsplit:
        !read.isWhole && product.countsSubjects && !own ? (read.unsplit ?? 'so many events') : undefined,
    },
    parts: [...byKey, ...ofValues],
    near,
    holds,
    limits: [
      ...limits.filter(({ subject }) => subject === undefined),
      ...limits
        .filter(({ subject }) => subject !== undefined)
        .toSorted((a, b) => b.share - a.share)
        .slice(0, SHOWN_LIMITS),
    ],
  };
}

/** Limits of subjects in the card. */
const SHOWN_LIMITS = 5;
/** Nearest to their caps. */
const MAX_LIMITED = 8;
const MAX_HOLDING_KEYS = 20;
/** More than the number of values that can have sums in one month. */
const MAX_PARTS = 2_000;

/** Regardless of the period shown. Limits per subject are those of the chosen subject or of the listed ones. */
async function readHeld(
  { db }: Context,
  orgId: string,
  { product, metric, request: { mode, subject, showsKeys } }: UsageReport,
  listed: readonly { id: string | null; isOther: boolean | undefined }[],
  now: Date,
) {
  if (metric !== product.usageMetric) return { limits: [], holds: [] };
  const scope = { ...scopeOf(orgId, product, mode), metric };
  const subjects = listed.flatMap(({ id, isOther }) => (id && !isOther ? [id] : []));
  const asked = subject === undefined ? [undefined, ...subjects] : [subject];
  const named = { ...scope, productSlug: product.slug, productName: product.name, usageMetric: metric };
  const views = await readLimitViews(
    db,
    asked.map((subject) => ({ ...named, subject })),
    now.getTime(),
  );
  const holds = showsKeys ? await listHolds(db.orm, scope, metric, now, MAX_HOLDING_KEYS) : [];
  return { limits: views.flat(), holds };
}

/** With all others. */
const SHOWN_PARTS = 21;

/** Reads credits, and a subject's usage in other parts, from the events. Undefined if it is not wanted or not possible. */
function openSplit(
  { db }: Context,
  viewer: Viewer,
  { product, metric, before, unsplit, isWhole, request: { mode, period } }: UsageReport,
) {
  const isPriced = product.creditPrice !== null && metric === product.usageMetric && viewer.shows('credits');
  const isWanted = isPriced || (product.countsSubjects && !isWhole);
  const scope = scopeOf(viewer.orgId, product, mode);
  const places = [...Object.values(partPlaces), ...product.dimensions.map((_, i) => i + 1)];
  const query = { ...period, metric, places, isByCredits: isPriced };
  const read = (part: Narrowing, range?: Period) =>
    readEventParts(db.orm, scope, { ...query, ...range }, part);
  const readEarlier = async (part: Narrowing) =>
    before && !unsplit && !(await findObstacle(db.orm, scope, before.same))
      ? read(part, before.same)
      : undefined;
  const earlier: Record<string, ReturnType<typeof readEarlier>> = {};
  const readBefore = (part: Narrowing) => (earlier[JSON.stringify(part)] ??= readEarlier(part));
  return { isPriced, scope, read: isWanted && !unsplit ? read : undefined, readBefore };
}

const ofEachKey = (costs: EventPart[]) => costs.filter(({ place }) => place === partPlaces.key);
const pricedColumns = ['Quantity', 'Credits', 'Share of credits'];

type KeyPart = ReturnType<typeof toReportView>['keys'][number];

const creditsOf = (costs: EventPart[], key: string | null) =>
  ofEachKey(costs).find(({ value, isOther }) => value === key && !isOther)?.credits;

/** By credits. A key that is not among the dearest has no number of its own. */
function rankKeys(part: KeyPart, costs: EventPart[], before: EventPart[] | undefined) {
  const own = ofEachKey(costs);
  const whole = sumDecimals(own.map(({ credits }) => credits));
  const rows = part.rows.map((row) => {
    const credits = creditsOf(own, row.id);
    const change = before && changeSince(credits ?? '0', creditsOf(before, row.id));
    return { ...row, ...change, credits, share: credits === undefined ? '–' : formatShare(credits, whole) };
  });
  rows.sort((a, b) => compareDecimals(b.credits ?? '0', a.credits ?? '0'));
  return { ...part, rows, columns: pricedColumns };
}

type Row = Pick<SeriesPoint, 'value' | 'isOther' | 'quantity' | 'events'> & { credits?: string };

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
      ...others,
      ...(isSubject ? { subjects: { only: undefined } } : { byDimension: place }),
      granularity: 'total' as const,
      isByKey: false,
      limit: MAX_PARTS,
    };
    const readStored = async (period: Period) =>
      (await listSeries(db, { ...period, ...range })).filter((row) => row.metric === metric);
    const priced = split.isPriced && ofEvents;
    const rows: Row[] =
      isStored && !priced
        ? await readStored(request.period)
        : (ofEvents ?? []).filter((part) => part.place === place && (part.value !== '' || !isSubject));
    if (!rows.some(({ value, isOther }) => value || isOther)) continue;
    const isByCredits = priced && request.measure;
    const earlier: Row[] | undefined =
      isStored && !isByCredits
        ? before && (await readStored(before.same))
        : (await split.readBefore(others))?.filter((part) => part.place === place);
    const sizeOf = ({ quantity, credits }: Row) => (isByCredits && credits) || quantity;
    const amountOf = ({ quantity, credits }: Row) => (priced && credits) || quantity;
    const sorted = rows.toSorted(
      (a, b) => Number(a.isOther) - Number(b.isOther) || compareDecimals(amountOf(b), amountOf(a)),
    );
    const whole = sumDecimals(rows.map(amountOf));
    const shown = sorted.slice(0, SHOWN_PARTS).map((row) => {
      const { value = '', isOther, quantity, events, credits } = row;
      const isCurrent = value !== '' && value === chosen;
      const wanted = isCurrent || value === null ? '' : value;
      return {
        id: value,
        isOther,
        value: isOther ? 'All others' : value || 'None',
        isCurrent,
        href:
          value && !isOther
            ? link(isSubject ? { subject: wanted } : { values: { [name]: wanted } })
            : undefined,
        quantity,
        ...changeSince(
          sizeOf(row),
          // The others of two periods differ.
          earlier?.filter((one) => one.value === value && !one.isOther && !isOther).map(sizeOf)[0],
        ),
        events,
        credits,
        share: formatShare(amountOf(row), whole),
      };
    });
    const ordered = shown.toSorted((a, b) => Number(a.id === '') - Number(b.id === ''));
    const columns = priced ? pricedColumns : undefined;
    parts.push({ name, place, columns, rows: ordered, more: rows.length - shown.length });
  }
  return parts;
}
