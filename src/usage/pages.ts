import type { Router } from 'express';
import { sessionOf } from '../identity/session/session.js';
import type { Context } from '../core/http/context.js';
import { AppError } from '../core/errors.js';
import { sendCsv } from '../core/pages/csv.js';
import { renderPage } from '../core/pages/layout.js';
import { pageRouter } from '../core/pages/page-router.js';
import { readQuery, tryQuery } from '../core/pages/query-form.js';
import { addEventPages } from './event-pages.js';
import { chooseProduct, readProducts } from './product-choice.js';
import { parseUsageRequest, readReport, type UsageRequest } from './report.js';
import { toUsageCsv, toUsageView } from './usage-view.js';

/** `/dashboard/usage`: what the Organization used and its events, for every role. */
export function usagePages(context: Context): Router {
  const { db, clock, log } = context;
  const deps = { orm: db.orm, clock };
  const router = pageRouter();

  router.get('/usage', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const now = new Date(clock.now());
    const products = await readProducts(deps, orgId, query.mode === 'test' ? 'test' : 'live');
    let request: UsageRequest | undefined;
    const { form, result: report } = await tryQuery(res, query, async () => {
      request = parseUsageRequest(query, now);
      const product = await chooseProduct(db.orm, orgId, products, request.product);
      return product && readReport(deps, orgId, product, request);
    });
    const page = { view: 'usage/usage', title: 'Usage', section: 'usage' };
    await renderPage(context, req, res, page, toUsageView({ query, form, products, request, report, now }));
  });

  router.get('/usage.csv', async (req, res) => {
    const { orgId } = sessionOf(res);
    const request = parseUsageRequest(readQuery(req), new Date(clock.now()));
    const products = request.product === undefined ? await readProducts(deps, orgId, request.mode) : [];
    const product = await chooseProduct(db.orm, orgId, products, request.product);
    if (!product) throw new AppError('not_found', 'Your Organization has no product yet.');
    await sendCsv(log, req, res, toUsageCsv(await readReport(deps, orgId, product, request)));
  });

  addEventPages(router, context);
  return router;
}
