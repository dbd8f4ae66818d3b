import type { Request, Response, Router } from 'express';
import { createRecentMap, type RecentMap } from '../../core/collections.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { readQuery, requireOnce } from '../../core/pages/form.js';
import { inSlices } from '../../core/steps.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import type { Orm } from '../../core/db/client.js';
import { forecastOf } from '../learning/forecast.js';
import type { Context } from '../../core/http/context.js';
import { withPurchases, type Holding } from '../ledger/positions.js';
import type { MarketEvent } from '../market/event.js';
import { temperatureKinds } from '../market/market.js';
import type { Micros } from '../market/money.js';
import { readSwitch } from '../risk/switches.js';
import type { SignalReport } from '../signals/signal.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import { readPriceHistory } from '../snapshot/price-history.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { addressOfEvent, eventAddress, overviewAddress, streamAddress } from './addresses.js';
import {
  chooseEvent,
  currentEvent,
  eventsOf,
  isTradable,
  readChoiceQuery,
  type ChoiceQuery,
  type Choice,
} from './choice.js';
import { loadingPage, MARKETS_SECTION, toFreshness, type Freshness } from './freshness.js';
import { formatHour, kindLabels } from './labels.js';
import { dayLabel, formatMoment, toEventView, todayAt, type OwnAccount } from './market-view.js';
import { toPriceHistoryView } from './price-history-view.js';
import { describeUncalibrated, shownEvents, toBest, toCities, toOthers, toTabs } from './overview-view.js';
import { findPaperCash, listPaperHoldings, listPaperPurchases } from '../ledger/queries.js';
import { addTicketPages, type MarketsPagesDeps } from './ticket-pages.js';
import type { Place } from '../market/place.js';
import type { TradingSwitch } from '../risk/queries.js';

/** Per snapshot. Pages that poll every few seconds would size signals each time. */
const MAX_KEPT = 64;
const kept = new WeakMap<SignalReport, RecentMap<string, Promise<SignalReport>>>();

/**
 * Holdings, including purchases that may still fill, count towards the caps and reduce further purchases. A new account
 * starts with the bankroll of the snapshot's own signals.
 * @param cash spendable; undefined if the account was never opened
 */
export async function signalsFor(
  { signals, data, events, forecasts, gates }: Snapshot,
  { cash, holdings }: { cash: Micros | undefined; holdings: ReadonlyMap<string, Holding> },
  now: Date,
): Promise<SignalReport> {
  if (cash === undefined || (holdings.size === 0 && cash === signals.bankroll)) return signals;
  // Recomputed at each refresh, but not for the book changes in between.
  const ofSnapshot = kept.get(signals) ?? createRecentMap<string, Promise<SignalReport>>(MAX_KEPT);
  kept.set(signals, ofSnapshot);
  const key = JSON.stringify([
    String(cash),
    [...holdings].map(([ticker, { side, contracts, cost }]) => [ticker, side, contracts, String(cost)]),
  ]);
  const found = ofSnapshot.get(key);
  if (found) return found;
  const making = inSlices(
    makeSignalsInSteps({ data, events, forecasts, gates, account: { cash, holdings }, at: now }),
  );
  ofSnapshot.set(key, making);
  making.catch(() => ofSnapshot.delete(key));
  return making;
}

const toCityTabs = ({ events }: Snapshot, { station, kind }: Choice, q: string) =>
  temperatureKinds.flatMap((each) => {
    const [first] = eventsOf(events, station, each);
    if (!first && each !== kind) return [];
    const place = first?.station ?? station;
    return {
      label: each === 'hourly' ? kindLabels[each].tab : kindLabels[each].value,
      href: eventAddress({ station: place.id, kind: each, q }),
      isCurrent: each === kind,
    };
  });

/** `Today, Sat, 21 Nov` becomes `Today` and the detail `, Sat, 21 Nov`. Other days have no detail. */
function splitDay(label: string): { label: string; detail?: string } {
  const [, word, detail] = /^(\w{5,})(, .*)$/.exec(label) ?? [];
  return word === undefined || detail === undefined ? { label } : { label: word, detail };
}

/** Tradable days in order, then past days, newest first. */
function toDays({ station, kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  const today = todayAt({ station, kind }, now);
  const open = new Set(events.filter((event) => isTradable(event, now)).map(({ date }) => date));
  const dates = [...new Set(events.map(({ date }) => date))];
  return [
    ...dates.filter((date) => open.has(date)),
    ...dates.filter((date) => !open.has(date)).toReversed(),
  ].map((date) => ({
    ...splitDay(dayLabel(date, today)),
    href: eventAddress({ station: station.id, kind, date, q }),
    isCurrent: date === (chosen?.date ?? missing?.date),
    note: open.has(date) ? undefined : 'closed',
  }));
}

function toHours({ kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  if (kind !== 'hourly') return [];
  const date = chosen?.date ?? missing?.date;
  const next = currentEvent(events, now);
  const hours = events
    .filter((event) => event.date === date)
    .map((event) => ({
      label: formatHour(event.hour ?? 0),
      href: addressOfEvent(event, { q }),
      isCurrent: event === chosen,
      isTradable: isTradable(event, now),
      note: event === next && isTradable(event, now) ? 'next' : undefined,
    }));
  return [...hours.filter((hour) => hour.isTradable), ...hours.filter((hour) => !hour.isTradable)];
}

const toScales = (event: MarketEvent, { q, scale }: Extract<ChoiceQuery, { station: Place }>) =>
  (['range', 'full'] as const).map((each) => ({
    label: each === 'range' ? 'Range' : '0–100¢',
    href: `${addressOfEvent(event, { q, scale: each })}#prices-title`,
    isCurrent: each === scale,
  }));

interface PageFacts<Page extends 'overview' | 'event'> {
  snapshot: Snapshot;
  asked: Page extends 'event'
    ? Extract<ChoiceQuery, { station: Place }>
    : Extract<ChoiceQuery, { station: undefined }>;
  own: OwnAccount;
  now: Date;
  status: { tradingSwitch: TradingSwitch; freshness: Freshness };
}

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
    const asked = readChoiceQuery(query);
    const { orgId, marketAccess } = sessionOf(res);
    const now = new Date(clock.now());
    const [tradingSwitch, booked, holdings, waiting] = await Promise.all([
      readSwitch(db.orm, orgId),
      findPaperCash(db.orm, orgId),
      listPaperHoldings(db.orm, orgId),
      listPaperPurchases(db.orm, orgId),
    ]);
    const cash = booked && waiting.reduce((left, { reserved }) => left - reserved, booked);
    const signals = await signalsFor(snapshot, { cash, holdings: withPurchases(holdings, waiting) }, now);
    const own = { cash, holdings, isWaiting: waiting.length > 0, signals, mayOpen: marketAccess === 'trade' };
    const { refreshSeconds } = context.config.trading;
    const freshness = toFreshness(snapshot, { sources: deps.snapshots.sources, refreshSeconds, now });
    const status = { tradingSwitch, freshness };
    if (asked.station) await showEvent(req, res, { snapshot, asked, own, now, status });
    else {
      const page = { view: 'markets/markets', title: 'Markets', section: MARKETS_SECTION };
      await renderPage(context, req, res, page, toOverview({ snapshot, asked, own, now, status }));
    }
  });

  async function showEvent(req: Request, res: Response, facts: PageFacts<'event'>): Promise<void> {
    const choice = chooseEvent(facts.snapshot, facts.asked, facts.now);
    if (choice.missing !== null) res.status(404);
    const title = `${choice.station.city}: ${kindLabels[choice.kind].temperature}`;
    const page = { view: 'markets/event', title, section: MARKETS_SECTION };
    const view = await readEvent(db.orm, choice, facts, deps);
    await renderPage(context, req, res, page, view);
  }

  addTicketPages(router, context, deps);
  return router;
}

function toOverview({ snapshot, asked, own, now, status }: PageFacts<'overview'>) {
  const { tab, q, cursor } = asked;
  return {
    ...status,
    uncalibrated: tab === 'others' ? '' : describeUncalibrated(snapshot, shownEvents(snapshot, tab, now)),
    best: toBest(snapshot, own.signals, now),
    mayOpen: own.mayOpen,
    tabs: toTabs(snapshot, tab, q),
    tab,
    q,
    allHref: overviewAddress(tab),
    cities: tab === 'others' ? null : toCities(snapshot, own.signals, { kind: tab, q }, now),
    others: tab === 'others' ? toOthers(snapshot, { q, cursor, mayOpen: own.mayOpen }) : null,
    streamHref: streamAddress(),
  };
}

async function readEvent(
  orm: Orm,
  choice: Choice,
  { snapshot, asked, own, now, status }: PageFacts<'event'>,
  { climate, minutes }: Pick<MarketsPagesDeps, 'climate' | 'minutes'>,
) {
  const { station, kind, event, missing } = choice;
  const observed = (event && forecastOf(snapshot.forecasts, event)?.observed) ?? null;
  const facts = {
    crossChecks: climate?.crossChecks,
    feed: observed && (minutes?.feedOf(station.id, observed, now.getTime()) ?? null),
  };
  return {
    ...status,
    uncalibrated: describeUncalibrated(snapshot, event ? [event] : []),
    city: station.city,
    labels: kindLabels[kind],
    back: { href: overviewAddress(kind, asked.q), q: asked.q },
    kinds: toCityTabs(snapshot, choice, asked.q),
    days: toDays(choice, asked.q, now),
    hours: toHours(choice, asked.q, now),
    moment: event ? formatMoment(event) : missing && formatMoment(missing),
    isMissing: missing !== null,
    streamHref: streamAddress(station.id),
    prices:
      event &&
      toPriceHistoryView(
        await readPriceHistory(orm, {
          marketSource: snapshot.marketSource,
          eventTicker: event.eventTicker,
        }),
        event,
        { asOf: snapshot.asOf, now, scale: asked.scale },
      ),
    scales: event && toScales(event, asked),
    event: event && toEventView(snapshot, event, { ...own, ...facts }, now),
  };
}
