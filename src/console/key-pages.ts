import type { Router } from 'express';
import { z } from 'zod';
import { requireKey, revokeApiKey } from '../accounts/api-keys/api-keys.js';
import { decodeCursor, encodeCursor } from '../core/ids.js';
import { findKeyDetails, listKeyDetails } from '../accounts/api-keys/queries.js';
import { toKeyView } from '../accounts/api-keys/view.js';
import { readPathId } from '../core/http/request.js';
import { cutPage, idCursorField } from '../core/http/page.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { addForm, parseQueryForm, readQuery } from '../core/pages/form.js';
import { pageRouter } from '../core/pages/layout.js';
import { sourceOf } from '../accounts/identity/operator/http.js';
import { byOperator } from '../accounts/identity/session/authority.js';
import { addressOf, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const cursorSchema = z.object({ cursor: idCursorField });

const notices = { revoked: 'The key was revoked. It fails on its next call.' };

export function customerKeyPages(deps: ConsoleDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const noScopes: ReadonlySet<string> = new Set();

  router.get('/customers/:slug/keys', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const place = cursor === undefined ? {} : { afterId: decodeCursor(cursor) };
    const now = clock.now();
    const range = { limit: PAGE_SIZE + 1, ...place, filter: {}, now: new Date(now) };
    const rows = await listKeyDetails(db.orm, customer.id, range);
    const { page: keys, nextCursor } = cutPage(rows, PAGE_SIZE, (last) => encodeCursor(last.id));
    const page = { view: 'console/keys', tab: 'keys', title: 'API keys', notices };
    await renderCustomer(deps, req, res, page, customer, {
      keys: keys.map((key) => toKeyView(key, noScopes, now)),
      pager: toPager(`${addressOf(customer.slug)}/keys`, {}, { cursor, nextCursor }),
    });
  });

  addForm(router, '/customers/:slug/keys/:id/revoke', {
    async act(req, res) {
      const { id: orgId, slug } = await readCustomer(deps, req);
      const { actor, ip, requestId } = sourceOf(req, res, clock);
      const author = { orgId, userId: null, actor, by: byOperator(res), ip, requestId };
      await revokeApiKey(deps, author, readPathId(req, 'id', 'API key'));
      res.redirect(303, toAddress(`${addressOf(slug)}/keys`, { done: 'revoked' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const { id } = await requireKey(db.orm, customer.id, readPathId(req, 'id', 'API key'));
      const key = toKeyView((await findKeyDetails(db.orm, customer.id, id))!, noScopes, clock.now());
      const page = { view: 'console/revoke', tab: 'keys', title: 'Revoke' };
      await renderCustomer(deps, req, res, page, customer, { form, key });
    },
  });
  return router;
}
