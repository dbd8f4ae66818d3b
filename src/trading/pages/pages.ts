import type { Router } from 'express';
import { sessionOf } from '../../auth/session.js';
import type { Context } from '../../context.js';
import { renderPage } from '../../pages/layout.js';
import { pageRouter } from '../../pages/page-router.js';
import { readQuery, requireOnce } from '../../pages/query-form.js';
import { streamAddress } from './addresses.js';
import { chooseEvent } from './choice.js';
import { toFreshness } from './freshness.js';
import { formatClimateDay, toDays, toEventView, toOverview } from './market-view.js';
import { loadingPage, SECTION, type MarketsPagesDeps } from './page-kit.js';
import { readSwitch } from '../risk/switches.js';
import { signalsFor } from './own-signals.js';
import { findPaperCash, listPaperHoldings } from './queries.js';
import { addTicketPages } from './ticket-pages.js';

/** `/dashboard/markets`: prices, forecasts and signals for every role, and the ticket for paper orders. */
export function marketsPages(context: Context, deps: MarketsPagesDeps): Router {
  const { db, clock } = context;
  const router = pageRouter();

  router.get('/markets', async (req, res) => {
    const snapshot = deps.snapshots.current;
    if (!snapshot) {
      await renderPage(context, req, res, loadingPage, { sources: deps.snapshots.sources });
      return;
    }
    const query = readQuery(req);
    requireOnce(query);
    const { orgId } = sessionOf(res);
    const now = new Date(clock.now());
    const choice = chooseEvent(snapshot, query, now);
    const { station, event, missingDate } = choice;
    if (missingDate !== null) res.status(404);
    const page = { view: 'markets/markets', title: `Markets: ${station.city}`, section: SECTION };
    const [tradingSwitch, cash, holdings] = await Promise.all([
      readSwitch(db.orm, orgId),
      findPaperCash(db.orm, orgId),
      listPaperHoldings(db.orm, orgId),
    ]);
    const own = { cash, holdings, signals: await signalsFor(snapshot, { cash, holdings }, now) };
    await renderPage(context, req, res, page, {
      tradingSwitch,
      freshness: toFreshness(snapshot, deps.snapshots.sources, now),
      overview: toOverview(snapshot, own.signals, station, now),
      days: toDays(choice, now),
      city: station.city,
      missingDay: missingDate === null ? null : formatClimateDay(missingDate),
      streamHref: streamAddress(station.id),
      event: event && toEventView(snapshot, event, own, now),
    });
  });

  addTicketPages(router, context, deps);
  return router;
}
