import { toAddress, toPager } from '../core/pages/address.js';
import { textField, type FormFields, type FormState } from '../core/pages/form.js';
import type { EventRow } from './event-queries.js';
import type { EventsRequest } from './events.js';
import type { UsageProduct } from './page-queries.js';
import { toProductOptions } from './product-choice.js';
import { EVENTS_PATH, USAGE_PATH } from './report-view.js';
import { toModeTabs } from './usage-view.js';

interface EventsPage {
  query: FormFields;
  form: FormState;
  products: UsageProduct[];
  /** Undefined where the query cannot be read. */
  request?: EventsRequest;
  /** The event that was looked for. */
  found?: EventRow | undefined;
  product?: UsageProduct;
  page?: { events: EventRow[]; nextCursor: string | undefined };
}

/** The whole of the events page: the two forms, and either one event or a page of them. */
export function toEventsView({ query, form, products, request, found, product, page }: EventsPage) {
  const mode = request?.mode ?? 'live';
  const wanted = request?.idempotencyKey;
  const filters = {
    product: product?.slug ?? textField(query, 'product'),
    mode,
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  };
  return {
    form: { ...form, values: { ...form.values, product: filters.product ?? '' } },
    mode,
    hasProducts: products.length > 0,
    productOptions: toProductOptions(products),
    modes: toModeTabs(EVENTS_PATH, { ...filters, mode: undefined }, mode),
    cursorProblem: form.errors.cursor,
    lookUp:
      wanted === undefined
        ? undefined
        : { wanted, isPadded: wanted !== wanted.trim(), event: found && toEventView(found) },
    list: page &&
      product && {
        product,
        events: page.events.map(toEventView),
        pager: toPager(EVENTS_PATH, filters, { cursor: request?.cursor, nextCursor: page.nextCursor }),
        isFiltered: filters.from !== undefined || filters.to !== undefined,
        isFirstPage: request?.cursor === undefined,
        csvHref: toAddress(`${EVENTS_PATH}.csv`, filters),
        allHref: toAddress(EVENTS_PATH, { product: product.slug, mode }),
      },
    firstPageHref: toAddress(EVENTS_PATH, filters),
    usageHref: toAddress(USAGE_PATH, { product: filters.product, mode }),
  };
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
    href: toAddress(EVENTS_PATH, { idempotencyKey }),
    dayHref: toAddress(USAGE_PATH, { product: productSlug, mode: livemode ? 'live' : 'test', ...day }),
  };
}
