import type { Request, Response, Router } from 'express';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';
import { groupBy } from '../../core/collections.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress, toPager, type Query } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, readQuery, type FormFields } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/layout.js';
import { DAY_MS } from '../../core/time.js';
import { listEventsFrom, type EventRow } from '../events/event-queries.js';
import { parseEventsRequest, readEventPage } from '../events/events.js';
import { listRotations } from '../events/page-queries.js';
import { rangeSchemas } from '../events/page-schema.js';
import {
  chooseKey,
  chooseProduct,
  eventScopeOf,
  MAX_PRODUCTS,
  readProducts,
  toModeTabs,
  toProductOptions,
} from '../reports/choices.js';
import { addCorrectionForm } from '../reports/correction-pages.js';
import { toEventsCsv } from '../reports/csv.js';
import { placeOf, readLookUp, toEventPanel, toEventView, type Typed } from '../reports/event-view.js';

/** For a search by key. */
const MAX_MATCHES = 20;

type EventDeps = ConsoleDeps & Pick<Context, 'log'>;

export function customerUsageChangePages(deps: EventDeps): Router {
  const router = pageRouter();
  const { db, clock, log } = deps;
  const isConfirmed = requireConfirmation(clock);

  router.get('/customers/:slug/usage.csv', async (req, res) => {
    const { customer, request, product, part } = await readRequest(deps, req);
    if (!product) throw fieldError('product', 'is required');
    await sendCsv(log, req, res, toEventsCsv(deps, customer.id, product, { ...request, part }));
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

async function readRequest(deps: ConsoleDeps, req: Request) {
  const { orm } = deps.db;
  const customer = await readCustomer(deps, req);
  const { from, to, ...query }: FormFields = readQuery(req);
  const days = parseInput(rangeSchemas.custom.partial(), { from, to });
  const request = parseEventsRequest({
    ...query,
    from: days.from && `${days.from}T00:00`,
    to: days.to && new Date(Date.parse(days.to) + DAY_MS).toISOString(),
  });
  const products = await readProducts({ orm, clock: deps.clock }, customer.id, request.mode);
  const slug = products.length === 1 ? products[0]!.slug : request.product;
  const product = slug && (await chooseProduct(orm, customer.id, products, slug));
  const key = await chooseKey(orm, customer.id, request.key);
  return {
    customer,
    query: { ...query, ...days } as FormFields & typeof days,
    request,
    products,
    product: product || undefined,
    key,
    part: { subject: request.subject, apiKeyIds: key && (await listRotations(orm, customer.id, key.id)) },
  };
}

async function showEvents(deps: ConsoleDeps, req: Request, res: Response, typed?: Typed): Promise<void> {
  const { orm } = deps.db;
  const { customer, query, request, products, product, key, part } = await readRequest(deps, req);
  const base = addressOf(customer.slug);
  const path = `${base}/usage`;
  const { mode, idempotencyKey, cursor, subject } = request;
  const searched = idempotencyKey !== undefined;
  const scope = eventScopeOf(customer.id, product ? [product] : products.slice(0, MAX_PRODUCTS), mode);
  const { events, nextCursor, searchedTo } = searched
    ? { events: await listEventsFrom(orm, customer.id, idempotencyKey, MAX_MATCHES) }
    : await readEventPage(orm, scope, { ...request, part });
  const kept = { product: product?.slug, mode, subject, key: key?.id, from: query.from, to: query.to };
  const link = (change: Query) => toAddress(path, { ...kept, idempotencyKey, cursor, ...change });
  const lookUp = await readLookUp(orm, { orgId: customer.id, mode: undefined, subject: undefined }, query);
  const hrefsOf = (event: EventRow) => {
    const { product, mode } = placeOf(event);
    const [day, entered] = [event.occurredAt.slice(0, 10), event.receivedAt.slice(0, 10)];
    return {
      key: `${base}/keys`,
      day: toAddress(path, { product, mode, from: day, to: day }),
      ledger: toAddress(`${base}/credits#ledger`, { product, mode, from: entered, to: entered }),
    };
  };
  const rights = { owner: 'This customer', showsKeys: true, mayCorrect: true } as const;
  const around = { link, rows: events, hrefsOf, ...rights };
  const panel = lookUp && toEventPanel(lookUp, around, query.correct, typed);
  const options = toProductOptions(products);
  const notices = { corrected: 'The event is corrected.' };
  const page = { view: 'metering/console/events', tab: 'usage', title: 'Events', notices };
  await renderCustomer(deps, req, res, page, customer, {
    form: { values: { ...query, ...kept }, errors: {}, problem: undefined },
    mode,
    modes: toModeTabs(path, kept, mode),
    productOptions: options && [{ value: '', label: 'All products' }, ...options],
    filters: [
      ...(key ? [{ name: 'API key', value: key.name, href: toAddress(path, { ...kept, key: '' }) }] : []),
      ...(subject === undefined
        ? []
        : [{ name: 'Subject', value: subject, href: toAddress(path, { ...kept, subject: '' }) }]),
    ],
    isSearched: searched,
    searchedTo: searchedTo === undefined ? undefined : new Date(searchedTo),
    csvHref: product && !searched ? toAddress(`${path}.csv`, kept) : undefined,
    days: groupBy(
      events.map((event) => ({
        ...toEventView(event),
        isCurrent: event.idempotencyKey === lookUp?.wanted,
        href: link({ event: event.idempotencyKey }),
        keyHref: toAddress(path, { ...kept, key: event.apiKeyId }),
        subjectHref: toAddress(path, { ...kept, subject: event.subject }),
      })),
      ({ exactOccurredAt }) => exactOccurredAt.slice(0, 10),
    ),
    panel,
    correctionForm: panel?.correction?.form,
    showsCredits: true,
    pager: toPager(path, kept, { cursor, nextCursor }),
  });
}
