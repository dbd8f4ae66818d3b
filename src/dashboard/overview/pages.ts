import type { Router } from 'express';
import { sessionOf } from '../../identity/session/session.js';
import type { Context } from '../../core/http/context.js';
import { originOf } from '../../core/http/own-origin.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { sendEventLine } from '../../core/pages/curl-line.js';
import { readOverview } from './overview.js';

/** `/dashboard`: how the Organization stands, and for a new one what to do first. */
export function overviewPages(context: Context): Router {
  const router = pageRouter();

  router.get('/', async (req, res) => {
    const session = sessionOf(res);
    const livemode = req.query.mode !== 'test';
    const overview = await readOverview(context, session, livemode);
    const baseUrl = originOf(req);
    const example = overview.steps?.example;
    const page = {
      view: 'overview/overview',
      title: 'Overview',
      section: 'overview',
      notices: { joined: 'Welcome: you are a member of this Organization now.' },
    };
    await renderPage(context, req, res, page, {
      ...overview,
      livemode,
      sendLine:
        example &&
        sendEventLine(baseUrl, 'YOUR_API_KEY', {
          productSlug: example.productSlug,
          metric: example.usageMetric,
          quantity: 1,
          idempotencyKey: 'first-event',
        }),
    });
  });

  return router;
}
