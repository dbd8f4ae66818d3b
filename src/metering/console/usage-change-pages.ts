import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { listKeys, type KeyRow } from '../../accounts/api-keys/queries.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import type { Organization } from '../../accounts/identity/organizations/queries.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';
import { groupBy } from '../../core/collections.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { dayField, minuteField, parseInput } from '../../core/http/validate.js';
import { toAddress, toPager, type Query } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, readQuery, tryQuery, type FormFields } from '../../core/pages/form.js';
import { toNamedOptions } from '../../core/pages/format.js';
import { pageRouter } from '../../core/pages/layout.js';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { unquote } from '../../dashboard/search/search.js';
import { findEvents } from '../dashboard/search.js';
import { listEventsFrom, readEventSums, type EventRow } from '../events/event-queries.js';
import { parseEventsRequest, readEventPage } from '../events/events.js';
import { listRotations } from '../events/page-queries.js';
import { modes, type Mode } from '../events/page-schema.js';
import {
  chooseKey,
  chooseProduct,
  eventScopeOf,
  MAX_PRODUCTS,
  readProducts,
  toDayTabs,
  toModeTabs,
  toProductOptions,
} from '../reports/choices.js';
import { addCorrectionForm } from '../reports/correction-pages.js';
import { toEventsCsv } from '../reports/csv.js';
import { placeOf, readLookUp, toEventPanel, toEventView, type Typed } from '../reports/event-view.js';
import { addMonths, dayPeriod, daysOf, monthPeriod } from '../reports/period.js';
import { capitalise } from '../reports/report-view.js';
import { DIMENSION, parseValues } from '../reports/report.js';
import { listSubjectSums } from '../entitlements/queries.js';

/** For a search by key. */
const MAX_MATCHES = 20;
const MAX_KEYS = 100;
const SUBJECT_DAYS = 31;
const EXAMPLE = '29 Nov 2026 or 29 Nov 2026 14:00';

type EventDeps = ConsoleDeps & Pick<Context, 'log'>;

export function customerUsageChangePages(deps: EventDeps): Router {
  const router = pageRouter();
  const { db, clock, log } = deps;
  const isConfirmed = requireConfirmation(clock);

  router.get('/customers/:slug/usage.csv', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { request, shown, part } = await readRequest(deps, customer, readQuery(req));
    await sendCsv(log, req, res, toEventsCsv(deps, customer.id, shown, { ...request, part }));
  });

  router.get(
    '/customers/:slug/usage',
    (req, res, next) => (readQuery(req).correct === undefined ? next() : isConfirmed(req, res, next)),
    (req, res) => showEvents(deps, req, res),
  );

  addCorrectionForm(router, '/customers/:slug/usage', db, {
    before: [isConfirmed],
    open: async (req, res) => ({
      orgId: (await readCustomer(deps, req)).id,
      by: 'operator',
      noEvent: new AppError('event_not_found', 'This customer has no such event.'),
      make: (work) => changeAsOperator(deps, req, res, work),
      rehearse: (work) => rehearseAsOperator(deps, req, res, work),
    }),
    show: (req, res, typed) => showEvents(deps, req, res, typed),
  });
  return router;
}

/** A day, or a minute or second of it, which are meant as a whole. */
const boundField = z.string().transform((typed, context) => {
  const [time] = /\d:\d\d(:\d\d)?/.exec(typed) ?? [];
  const { data, error } = (time ? minuteField : dayField).safeParse(typed);
  const message = error?.issues[0]?.message;
  if (message) context.addIssue(message.replace(/^must be a .*29 Nov.*/, `must be a date like ${EXAMPLE}`));
  const from = new Date(data ?? NaN);
  const lengthMs = time === undefined ? DAY_MS : time.length > 5 ? SECOND_MS : MINUTE_MS;
  return { from, end: new Date(from.getTime() + lengthMs) };
});
const boundsSchema = z.object({ from: boundField.optional(), to: boundField.optional() });

async function readRequest(deps: ConsoleDeps, { id }: Organization, query: FormFields) {
  const { orm } = deps.db;
  const { from, to } = parseInput(boundsSchema, { from: query.from, to: query.to });
  if (from && to && to.end <= from.from) throw fieldError('to', 'must not be before From');
  const { idempotencyKey, subject } = query;
  const request = parseEventsRequest({
    ...query,
    idempotencyKey:
      typeof idempotencyKey === 'string' ? unquote(idempotencyKey) || undefined : idempotencyKey,
    subject: typeof subject === 'string' ? subject.trim() || undefined : subject,
    from: from?.from.toISOString(),
    to: to?.end.toISOString(),
  });
  const products = await readProducts({ orm, clock: deps.clock }, id, request.mode);
  const slug = products.length === 1 ? products[0]!.slug : request.product;
  const product = slug === undefined ? undefined : await chooseProduct(orm, id, products, slug);
  const key = await chooseKey(orm, id, request.key);
  // Another product may lack the dimensions that were chosen before.
  const values = Object.entries(parseValues(query)).filter(([name]) => product?.dimensions.includes(name));
  return {
    request,
    product,
    key,
    values,
    products,
    shown: product ? [product] : products.slice(0, MAX_PRODUCTS),
    part: {
      subject: request.subject,
      apiKeyIds: key && (await listRotations(orm, id, key.id)),
      where: values.map(([name, value]) => ({ place: product!.dimensions.indexOf(name) + 1, value })),
    },
  };
}

/** Links keep these fields. */
const kept = /^(product|mode|subject|key|from|to|dimension\..+)$/;

async function showEvents(deps: ConsoleDeps, req: Request, res: Response, typed?: Typed): Promise<void> {
  const { orm } = deps.db;
  const customer = await readCustomer(deps, req);
  const base = addressOf(customer.slug);
  const path = `${base}/usage`;
  const query = readQuery(req);
  const now = new Date(deps.clock.now());
  const mode = modes.find((one) => one === query.mode) ?? 'live';
  const { form, result } = await tryQuery(res, query, () => readRequest(deps, customer, query));
  const products = result?.products ?? (await readProducts({ orm, clock: deps.clock }, customer.id, mode));
  const options = toProductOptions(products);
  const own = result && { product: result.product?.slug ?? '' };
  const values = { product: '', mode, ...query, ...own };
  const fields = Object.fromEntries(Object.entries(values).filter(([name]) => kept.test(name))) as Query;
  const scope = eventScopeOf(customer.id, result?.shown ?? products, mode);
  const subjects = await listSubjectSums(orm, scope, now.getTime() - SUBJECT_DAYS * DAY_MS);
  const { from, to } = result?.request ?? {};
  const last = new Date(to ? Date.parse(to) - 1 : Math.max(now.getTime(), Date.parse(from ?? '0')));
  const notices = { corrected: 'The event is corrected.' };
  const page = { view: 'metering/console/events', tab: 'usage', title: 'Events', notices };
  await renderCustomer(deps, req, res, page, customer, {
    form: { ...form, values },
    mode,
    modes: toModeTabs(path, fields, mode),
    periods: toDayTabs(path, fields, [
      { label: 'Today', ...daysOf(dayPeriod(now)) },
      { label: 'Yesterday', ...daysOf(dayPeriod(new Date(now.getTime() - DAY_MS))) },
      { label: 'This month', ...daysOf(monthPeriod(now)) },
      { label: 'Last month', ...daysOf(monthPeriod(addMonths(now, -1))) },
    ]),
    chartHref: toAddress('/console/usage', {
      organization: customer.slug,
      product: fields.product,
      mode,
      ...(from && daysOf({ from: new Date(from), to: dayPeriod(last).to })),
    }),
    productOptions:
      products.length === 1 ? options : options && [{ value: '', label: 'All products' }, ...options],
    keyOptions: toKeyOptions(await listKeys(orm, customer.id, { limit: MAX_KEYS }), mode, result?.key),
    dayOrTime: { title: `Like ${EXAMPLE}`, maxlength: 30 },
    countsSubjects: query.subject !== undefined || products.some((product) => product.countsSubjects),
    subjects: [...new Set(subjects.map(({ subject }) => subject))],
    showsCredits: true,
    ...(result
      ? await readList(deps, customer, result, { query, fields, typed })
      : { filters: [], days: undefined, isNarrowed: true }),
  });
}

/** A rotated key stands for the keys that it replaced. */
function toKeyOptions(listed: KeyRow[], mode: Mode, chosen: KeyRow | undefined) {
  const keys = listed.filter((key) => key.livemode === (mode === 'live') && key.successorId === null);
  if (chosen && !keys.some(({ id }) => id === chosen.id)) keys.push(chosen);
  const named = toNamedOptions(keys.map(({ name, prefix }) => ({ name, slug: `${prefix}…` })));
  return [
    { value: '', label: 'All API keys' },
    ...named.map(({ label }, i) => ({ value: keys[i]!.id, label })),
  ];
}

async function readList(
  { db }: ConsoleDeps,
  customer: Organization,
  { request, product, shown, part, values, products }: Awaited<ReturnType<typeof readRequest>>,
  { query, fields, typed }: { query: FormFields; fields: Query; typed: Typed | undefined },
) {
  const { orm } = db;
  const base = addressOf(customer.slug);
  const path = `${base}/usage`;
  const { mode, idempotencyKey, cursor, from, to } = request;
  const isSearched = idempotencyKey !== undefined;
  const scope = eventScopeOf(customer.id, shown, mode);
  const narrows = (name: string) =>
    kept.test(name) && name !== 'mode' && (name !== 'product' || products.length > 1);
  const isNarrowed = isSearched || Object.keys(query).some(narrows);
  const { events, nextCursor, searchedTo } = isSearched
    ? { events: await listEventsFrom(orm, customer.id, idempotencyKey, MAX_MATCHES) }
    : await readEventPage(orm, scope, { ...request, part });
  const narrow = (change: Query) => toAddress(path, { ...fields, ...change });
  const link = (change: Query) => narrow({ idempotencyKey, cursor, ...change });
  const lookUp = await readLookUp(orm, { orgId: customer.id, mode: undefined, subject: undefined }, query);
  const elsewhere = lookUp?.found.length === 0 ? await findEvents(db, lookUp.wanted) : [];
  const hrefsOf = (event: EventRow) => {
    const { product, mode } = placeOf(event);
    const [day, booked] = [event.occurredAt.slice(0, 10), event.receivedAt.slice(0, 10)];
    return {
      key: narrow({ key: event.apiKeyId }),
      day: toAddress(path, { product, mode, from: day, to: day }),
      ledger: toAddress(`${base}/credits#ledger`, { product, mode, from: booked, to: booked }),
    };
  };
  const rights = { owner: 'This customer', showsKeys: true, mayCorrect: true } as const;
  const panel =
    lookUp &&
    toEventPanel(lookUp, { link, rows: events, hrefsOf, elsewhere, ...rights }, query.correct, typed);
  return {
    filters: values.map(([name, value]) => ({
      name: capitalise(name),
      value,
      href: narrow({ [DIMENSION + name]: '' }),
    })),
    isSearched,
    isNarrowed,
    sums: isSearched || !isNarrowed ? undefined : await readEventSums(orm, scope, { part, from, to }),
    sumsQuantity: product !== undefined,
    searchedTo: searchedTo === undefined ? undefined : new Date(searchedTo),
    csvHref: isSearched ? undefined : toAddress(`${path}.csv`, fields),
    days: groupBy(
      events.map(toEventView).map((event) => ({
        ...event,
        isCurrent: event.idempotencyKey === lookUp?.wanted,
        href: link({ event: event.idempotencyKey }),
        keyHref: narrow({ key: event.apiKeyId }),
        subjectHref: narrow({ subject: event.subject }),
        values: event.dimensions.map(([name, value]) => ({
          text: `${name}: ${value}`,
          href: narrow({ product: event.productSlug, [DIMENSION + name]: value }),
        })),
      })),
      ({ exactOccurredAt }) => exactOccurredAt.slice(0, 10),
    ),
    panel,
    correctionForm: panel?.correction?.form,
    pager: toPager(`${path}#events`, fields, { cursor, nextCursor }),
  };
}
