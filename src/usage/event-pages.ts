import type { Router } from 'express';
import { sessionOf } from '../identity/session/session.js';
import type { Context } from '../core/http/context.js';
import { AppError } from '../core/errors.js';
import { sendCsv } from '../core/pages/csv.js';
import { renderPage } from '../core/pages/layout.js';
import { readQuery, tryQuery } from '../core/pages/query-form.js';
import { findEvent } from './event-queries.js';
import { toEventsView } from './event-view.js';
import {
  eventColumns,
  exportEvents,
  parseEventsRequest,
  readEventPage,
  type EventsRequest,
} from './events.js';
import type { UsageProduct } from './page-queries.js';
import { chooseProduct, readProducts } from './product-choice.js';

/** No event may have happened later than this after its receipt. */
const AHEAD_MS = 5 * 60_000;

/** `/dashboard/usage/events`: one event by its idempotency key, or those of a product and time. */
export function addEventPages(router: Router, context: Context): void {
  const { db, clock, log } = context;
  const deps = { orm: db.orm, clock };

  router.get('/usage/events', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const products = await readProducts(deps, orgId, query.mode === 'test' ? 'test' : 'live');
    const { form, result } = await tryQuery(res, query, async () => {
      const request = parseEventsRequest(query);
      if (request.idempotencyKey !== undefined)
        return { request, found: await findEvent(db.orm, orgId, request.idempotencyKey) };
      const product = await chooseProduct(db.orm, orgId, products, request.product);
      if (!product) return { request };
      return {
        request,
        product,
        page: await readEventPage(db.orm, scopeOf(orgId, product, request), request),
      };
    });
    const page = { view: 'usage/events', title: 'Events', section: 'usage' };
    await renderPage(context, req, res, page, toEventsView({ query, form, products, ...result }));
  });

  router.get('/usage/events.csv', async (req, res) => {
    const { orgId } = sessionOf(res);
    const request = parseEventsRequest(readQuery(req));
    const products = request.product === undefined ? await readProducts(deps, orgId, request.mode) : [];
    const product = await chooseProduct(db.orm, orgId, products, request.product);
    if (!product) throw new AppError('not_found', 'Your Organization has no product yet.');
    // Without an end, events that come in meanwhile could keep the file from ever ending.
    const to = request.to ?? new Date(clock.now() + AHEAD_MS + 1).toISOString();
    await sendCsv(log, req, res, {
      filename: toFilename(product, { ...request, to }),
      columns: eventColumns,
      pieces: exportEvents(db.orm, scopeOf(orgId, product, request), { from: request.from, to }),
    });
  });
}

const scopeOf = (orgId: string, product: UsageProduct, { mode }: EventsRequest) => ({
  orgId,
  productId: product.id,
  livemode: mode === 'live',
});

/** `events-maps-live-20261101T0000Z-to-20261201T0000Z.csv`. */
function toFilename({ slug }: UsageProduct, { mode, from, to }: EventsRequest): string {
  const minute = (time: string) => `${time.slice(0, 16).replaceAll(/[-:]/g, '')}Z`;
  return `events-${slug}-${mode}-${from === undefined ? 'first' : minute(from)}-to-${minute(to!)}.csv`;
}
