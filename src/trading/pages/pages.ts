import type { Request, Response, Router } from 'express';
import { sessionOf } from '../../identity/session/session.js';
import type { TradingContext } from '../config.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { readQuery, requireOnce } from '../../core/pages/query-form.js';
import { overviewAddress, streamAddress } from './addresses.js';
import { chooseEvent, readAsked, type Asked } from './choice.js';
import { toFreshness, type Freshness } from './freshness.js';
import { toCityTabs, toDays, toHours } from './event-tabs.js';
import { formatMoment, toEventView, type OwnAccount } from './market-view.js';
import { kindWords } from './kind-words.js';
import { toOthers } from './others-view.js';
import { toBest, toCities, toTabs } from './overview-view.js';
import { loadingPage, SECTION, type MarketsPagesDeps } from './page-kit.js';
import { readSwitch, type TradingSwitch } from '../risk/switches.js';
import type { Place } from '../market/stations.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { signalsFor } from './own-signals.js';
import { findPaperCash, listPaperHoldings } from './queries.js';
import { addTicketPages } from './ticket-pages.js';

interface Scene<Page extends 'overview' | 'event'> {
  snapshot: Snapshot;
  asked: Page extends 'event' ? Extract<Asked, { station: Place }> : Extract<Asked, { station: undefined }>;
  own: OwnAccount;
  now: Date;
  standing: { tradingSwitch: TradingSwitch; freshness: Freshness };
}

/** `/dashboard/markets`: prices, forecasts and signals for every role, and the ticket for paper orders. */
export function marketsPages(context: TradingContext, deps: MarketsPagesDeps): Router {
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
    const asked = readAsked(query);
    const { orgId } = sessionOf(res);
    const now = new Date(clock.now());
    const [tradingSwitch, cash, holdings] = await Promise.all([
      readSwitch(db.orm, orgId),
      findPaperCash(db.orm, orgId),
      listPaperHoldings(db.orm, orgId),
    ]);
    const own = { cash, holdings, signals: await signalsFor(snapshot, { cash, holdings }, now) };
    const standing = { tradingSwitch, freshness: toFreshness(snapshot, deps.snapshots.sources, now) };
    if (asked.station) await showEvent(req, res, { snapshot, asked, own, now, standing });
    else await showOverview(req, res, { snapshot, asked, own, now, standing });
  });

  async function showOverview(req: Request, res: Response, scene: Scene<'overview'>): Promise<void> {
    const { snapshot, asked, own, now, standing } = scene;
    const { tab, q, cursor } = asked;
    await renderPage(
      context,
      req,
      res,
      { view: 'markets/markets', title: 'Markets', section: SECTION },
      {
        ...standing,
        best: toBest(snapshot, own.signals, now),
        tabs: toTabs(snapshot, tab, q),
        tab,
        q,
        allHref: overviewAddress(tab),
        cities: tab === 'others' ? null : toCities(snapshot, own.signals, { kind: tab, q }, now),
        others: tab === 'others' ? toOthers(snapshot, { q, cursor }) : null,
        streamHref: streamAddress(),
      },
    );
  }

  async function showEvent(req: Request, res: Response, scene: Scene<'event'>): Promise<void> {
    const { snapshot, asked, own, now, standing } = scene;
    const choice = chooseEvent(snapshot, asked, now);
    const { station, kind, event, missing } = choice;
    if (missing !== null) res.status(404);
    const title = `${station.city}: ${kindWords[kind].temperature}`;
    await renderPage(
      context,
      req,
      res,
      { view: 'markets/event', title, section: SECTION },
      {
        ...standing,
        city: station.city,
        words: kindWords[kind],
        back: { href: overviewAddress(kind, asked.q), q: asked.q },
        kinds: toCityTabs(snapshot, choice, asked.q),
        days: toDays(choice, asked.q, now),
        hours: toHours(choice, asked.q, now),
        moment: event ? formatMoment(event) : missing && formatMoment(missing),
        isMissing: missing !== null,
        streamHref: streamAddress(station.id),
        event: event && toEventView(snapshot, event, { ...own, crossChecks: deps.climate?.crossChecks }, now),
      },
    );
  }

  addTicketPages(router, context, deps);
  return router;
}
