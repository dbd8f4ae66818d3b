import type { Router } from 'express';
import { listKeys, type KeyRow } from '../../accounts/api-keys/queries.js';
import { showPrefix } from '../../accounts/api-keys/view.js';
import type { Context } from '../../core/http/context.js';
import { toAddress, toPager, type Query } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { textField, type FormFields, type FormState, readQuery, tryQuery } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { MINUTE_MS } from '../../core/time.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import {
  chooseKey,
  chooseProduct,
  readProducts,
  requireProduct,
  scopeOf,
  toModeTabs,
  toProductOptions,
} from './choices.js';
import {
  authorOf,
  creditsOf,
  eventColumns,
  exportEvents,
  parseEventsRequest,
  readEventPage,
  type EventsRequest,
} from '../events/events.js';
import {
  currentQuantity,
  findArchived,
  findEvent,
  type ArchivedEvents,
  type EventRow,
} from '../events/event-queries.js';
import type { UsageProduct } from '../events/page-queries.js';
import { decodeDimensions } from '../entitlements/dimensions.js';
import { dayPeriod, monthPeriod, neighbour, parsePeriod } from './period.js';
import { CORRECTION_PATH, EVENTS_PATH, toArchivedView, USAGE_PATH } from './report-view.js';

const notices = { corrected: 'Corrected. Totals and limits now include the correction.' };

/** An event may be dated this far after its receipt. */
const AHEAD_MS = 5 * MINUTE_MS;

export function addEventPages(router: Router, context: Context): void {
  const { db, clock, log } = context;
  const deps = { orm: db.orm, clock };

  router.get('/usage/events', async (req, res) => {
    const { orgId, role, mayCorrect } = sessionOf(res);
    const query = readQuery(req);
    const products = await readProducts(deps, orgId, query.mode === 'test' ? 'test' : 'live');
    const { form, result } = await tryQuery(res, query, async () => {
      const request = parseEventsRequest(query);
      if (request.idempotencyKey !== undefined)
        return {
          request,
          found: await findEvent(db.orm, orgId, request.idempotencyKey),
          archived: await findArchived(db.orm, orgId, {}),
        };
      const product = await chooseProduct(db.orm, orgId, products, request.product);
      if (!product) return { request };
      const key = await chooseKey(db.orm, orgId, request.key);
      const scope = scopeOf(orgId, product, request.mode);
      return {
        request,
        product,
        key,
        page: await readEventPage(db.orm, scope, request),
        archived: await findArchived(db.orm, orgId, { of: scope, from: request.from, to: request.to }),
      };
    });
    const page = { view: 'metering/usage/events', title: 'Events', section: 'usage', notices };
    const keys = await listKeys(db.orm, orgId, { limit: MAX_KEYS + 1 });
    await renderPage(context, req, res, page, {
      ...toEventsView({ query, form, products, keys, now: new Date(clock.now()), ...result }),
      isManager: isManager(role),
      mayCorrect,
    });
  });

  router.get('/usage/events.csv', async (req, res) => {
    const { orgId } = sessionOf(res);
    const request = parseEventsRequest(readQuery(req));
    const product = await requireProduct(deps, orgId, request);
    await chooseKey(db.orm, orgId, request.key);
    // New events could keep the export running forever.
    const to = request.to ?? new Date(clock.now() + AHEAD_MS + 1).toISOString();
    await sendCsv(log, req, res, {
      filename: toFilename(product, { ...request, to }),
      columns: eventColumns(product.dimensions),
      pieces: exportEvents(
        db.orm,
        scopeOf(orgId, product, request.mode),
        { ...request, to },
        product.dimensions,
      ),
    });
  });
}

interface EventsPage {
  now: Date;
  query: FormFields;
  form: FormState;
  products: UsageProduct[];
  request?: EventsRequest;
  found?: EventRow | undefined;
  product?: UsageProduct;
  keys: KeyRow[];
  key?: KeyRow | undefined;
  page?: Awaited<ReturnType<typeof readEventPage>>;
  /** In the requested range, or all if a single event was requested. */
  archived?: ArchivedEvents | undefined;
}

const MAX_KEYS = 100;

/** Undefined if there are too many: the user then types the id. */
function toKeyOptions(keys: KeyRow[], chosen: KeyRow | undefined) {
  if (keys.length > MAX_KEYS) return undefined;
  const listed = chosen && !keys.some(({ id }) => id === chosen.id) ? [chosen, ...keys] : keys;
  const options = listed.map(({ id, name, prefix }) => ({
    value: id,
    label: `\u2068${name}\u2069 (${showPrefix(prefix)})`,
  }));
  return [{ value: '', label: 'Any' }, ...options];
}

function toEventsView(data: EventsPage) {
  const { now, query, form, products, keys, request, found, product, key, page, archived } = data;
  // After a look-up, the filters describe the event that was found.
  const mode = found ? (found.livemode ? 'live' : 'test') : (request?.mode ?? 'live');
  const wanted = request?.idempotencyKey;
  const narrowed = Object.fromEntries(
    ['from', 'to', 'key', 'min', 'max'].map((name) => [name, textField(query, name)]),
  );
  const filters = {
    product: product?.slug ?? found?.productSlug ?? textField(query, 'product'),
    mode,
    ...narrowed,
  };
  const isFiltered = Object.values(narrowed).some((value) => value !== undefined);
  return {
    form: { ...form, values: { ...form.values, product: filters.product ?? '' } },
    mode,
    hasProducts: products.length > 0,
    productOptions: toProductOptions(products),
    keyOptions: toKeyOptions(keys, key),
    modes: toModeTabs(EVENTS_PATH, { ...filters, mode: undefined }, mode),
    presets: toPresets(filters, now),
    cursorProblem: form.errors.cursor,
    archived: archived && toArchivedView(archived),
    lookUp:
      wanted === undefined
        ? undefined
        : { wanted, isPadded: wanted !== wanted.trim(), event: found && toEventView(found) },
    list: page &&
      product && {
        product,
        events: page.events.map(toEventView),
        pager: toPager(EVENTS_PATH, filters, { cursor: request?.cursor, nextCursor: page.nextCursor }),
        isFiltered,
        searchedTo: page.searchedTo === undefined ? undefined : new Date(page.searchedTo),
        isFirstPage: request?.cursor === undefined,
        csvHref: toAddress(`${EVENTS_PATH}.csv`, filters),
        allHref: toAddress(EVENTS_PATH, { product: product.slug, mode }),
      },
    firstPageHref: toAddress(EVENTS_PATH, filters),
    usageHref: toAddress(USAGE_PATH, { product: filters.product, mode }),
  };
}

/** In UTC; the links keep the other filters. */
function toPresets(filters: Query, now: Date) {
  const today = dayPeriod(now);
  const thisMonth = monthPeriod(now);
  const spans = [
    ['Today', today],
    ['Yesterday', neighbour(today, -1)],
    ['Last 7 days', parsePeriod('last7', {}, now)],
    ['This month', thisMonth],
    ['Last month', neighbour(thisMonth, -1)],
  ] as const;
  const minute = (at: Date) => at.toISOString().slice(0, 16);
  const links = spans.flatMap(([label, period]) =>
    period ? [{ label, time: { from: minute(period.from), to: minute(period.to) } }] : [],
  );
  return [{ label: 'Any time', time: { from: undefined, to: undefined } }, ...links].map(
    ({ label, time }) => ({
      label,
      href: toAddress(EVENTS_PATH, { ...filters, ...time }),
      isCurrent: filters.from === time.from && filters.to === time.to,
    }),
  );
}

function toEventView(event: EventRow) {
  const { idempotencyKey, occurredAt, receivedAt, productSlug, livemode } = event;
  const day = { range: 'day', date: occurredAt.slice(0, 10) };
  return {
    ...event,
    occurredAt: new Date(occurredAt),
    receivedAt: new Date(receivedAt),
    exactOccurredAt: occurredAt,
    exactReceivedAt: receivedAt,
    counted: currentQuantity(event),
    cost: event.creditPrice === '0' ? undefined : creditsOf(event),
    dimensions: Object.entries(decodeDimensions(event.keys, event.dimensions) ?? {}),
    corrections: (event.corrections ?? []).map((correction) => ({
      ...correction,
      correctedAt: new Date(correction.correctedAt),
      author: authorOf(correction),
    })),
    amendHref: toAddress(CORRECTION_PATH, { idempotencyKey }),
    voidHref: toAddress(CORRECTION_PATH, { idempotencyKey, what: 'void' }),
    href: toAddress(EVENTS_PATH, { idempotencyKey }),
    dayHref: toAddress(USAGE_PATH, { product: productSlug, mode: livemode ? 'live' : 'test', ...day }),
  };
}

/** `events-maps-live-20261101T0000Z-to-20261201T0000Z.csv`. */
function toFilename({ slug }: UsageProduct, { mode, from, to }: EventsRequest): string {
  const minute = (time: string) => `${time.slice(0, 16).replaceAll(/[-:]/g, '')}Z`;
  return `events-${slug}-${mode}-${from === undefined ? 'first' : minute(from)}-to-${minute(to!)}.csv`;
}
