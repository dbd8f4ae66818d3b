import type { Router } from 'express';
import { z } from 'zod';
import { sessionOf } from '../identity/session/session.js';
import type { Context } from '../core/http/context.js';
import { slugSchema } from '../identity/operator/schema.js';
import { toPager } from '../core/pages/address.js';
import { renderPage } from '../core/pages/layout.js';
import { pageRouter } from '../core/pages/page-router.js';
import { readQuery, requireOnce, tryQuery } from '../core/pages/query-form.js';
import { parseInput } from '../core/http/validate.js';
import { monthOf } from '../usage/batch.js';
import { listGrants } from './page-queries.js';
import { toGrantsView } from './page-view.js';

const PATH = '/dashboard/entitlements';
const PAGE_SIZE = 50;

/** The slug of the last product of the page before. */
const querySchema = z.object({ cursor: slugSchema.optional() });

/** `/dashboard/entitlements`: what the Organization may use, for every role. */
export function entitlementPages(context: Context): Router {
  const { db, clock } = context;
  const router = pageRouter();

  router.get('/entitlements', async (req, res) => {
    const { orgId } = sessionOf(res);
    const now = clock.now();
    const period = monthOf(now);
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const { cursor } = parseInput(querySchema, query);
      const rows = await listGrants(db.orm, orgId, period, { after: cursor, limit: PAGE_SIZE + 1 });
      const grants = rows.slice(0, PAGE_SIZE);
      const nextCursor = rows.length > PAGE_SIZE ? grants.at(-1)!.productSlug : undefined;
      return { grants, cursor, pager: toPager(PATH, {}, { cursor, nextCursor }) };
    });
    const page = { view: 'entitlements/entitlements', title: 'Entitlements', section: 'entitlements' };
    await renderPage(context, req, res, page, {
      form,
      firstPageHref: PATH,
      pager: result?.pager,
      isFirstPage: result?.cursor === undefined,
      ...toGrantsView(result?.grants ?? [], period, new Date(now)),
    });
  });

  return router;
}
