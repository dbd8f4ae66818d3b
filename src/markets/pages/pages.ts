import type { Request, Response, Router } from 'express';
import { createRecentMap, type RecentMap } from '../../core/collections.js';
import { AppError } from '../../core/errors.js';
import { readForm } from '../../core/http/body.js';
import { toAddress } from '../../core/pages/address.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { readQuery, requireOnce, type FormFields } from '../../core/pages/form.js';
import { inSlices } from '../../core/steps.js';
import { changeAsMember } from '../../accounts/identity/session/authority.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import type { Context } from '../../core/http/context.js';
import { withPurchases, type Holding } from '../ledger/positions.js';
import type { MarketEvent } from '../market/event.js';
import { emptyBook, mayRest, type Side, type TimeInForce } from '../market/book.js';
import { isPlaced, labelOf, takesOrders, temperatureKinds, type ListedMarket } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { subtractCounts } from '../market/contracts.js';
import { readSwitch } from '../risk/switches.js';
import type { Signal, SignalReport } from '../signals/signal.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import { readPriceHistory } from '../snapshot/price-history.js';
import { ageOf, type Snapshot } from '../snapshot/snapshot.js';
import {
  addressOfEvent,
  eventAddress,
  inCents,
  overviewAddress,
  readBack,
  streamAddress,
  ticketAddress,
  type Tab,
} from './addresses.js';
import {
  chooseEvent,
  currentEvent,
  eventsOf,
  isTradable,
  readChoiceQuery,
  type OthersQuery,
  type Choice,
} from './choice.js';
import { isStale, MARKETS_SECTION, toFreshness } from './freshness.js';
import { formatHour, kindLabels } from './labels.js';
import { findWinner, formatMoment, toEventView, whenOf } from './market-view.js';
import { toPriceLine } from './price-line.js';
import { describePlaced } from './order-view.js';
import { orderNotices } from './order-pages.js';
import { describeUncalibrated, toOther, toOthers, toTabs } from './overview-view.js';
import { signalsOf } from './signals-view.js';
import { toBookRows, toOutcomeKeys, type OwnAccount } from './ladder.js';
import { pickFields } from './ticket-form.js';
import {
  findPaperCash,
  listPaperHoldings,
  listPaperPurchases,
  listWatched,
  setWatched,
} from '../ledger/queries.js';
import { addTicketRoutes, createTickets, type MarketsPagesDeps, type TicketView } from './ticket-pages.js';
import { readTakenBooks } from '../orders/queries.js';
import { listLatestOrders, type ListedOrder } from '../portfolio/order-queries.js';
import { readPortfolio } from '../portfolio/portfolio.js';
import {
  findLikeliest,
  findOrder,
  listOpportunities,
  ORDERS_SHOWN,
  summarize,
  toDeskOrders,
  toDeskPositions,
  toDeskTotal,
  toOpportunities,
} from './desk-view.js';
import { forecastOf } from '../learning/forecast.js';

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

/** Tradable days in order, then past days, newest first. */
function toDays({ station, kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  const open = new Set(events.filter((event) => isTradable(event, now)).map(({ date }) => date));
  const dates = [...new Set(events.map(({ date }) => date))];
  return [
    ...dates.filter((date) => open.has(date)),
    ...dates.filter((date) => !open.has(date)).toReversed(),
  ].map((date) => ({
    label: whenOf({ station, kind, date }, now),
    href: eventAddress({ station: station.id, kind, date, q }),
    isCurrent: date === (chosen?.date ?? missing?.date),
    note: open.has(date) || whenOf({ station, kind, date }, now) === 'Yesterday' ? undefined : 'closed',
  }));
}

function toHours({ kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  if (kind !== 'hourly') return [];
  const date = chosen?.date ?? missing?.date;
  const next = currentEvent(events, now);
  return events
    .filter((event) => event.date === date)
    .map((event) => ({
      label: formatHour(event.hour ?? 0),
      href: addressOfEvent(event, { q }),
      isCurrent: event === chosen,
      note: !isTradable(event, now) ? 'over' : event === next ? 'next' : undefined,
    }));
}

type DeskFacts = Awaited<ReturnType<typeof readFacts>>;

async function readFacts(
  { db, clock, config }: Context,
  { snapshots }: MarketsPagesDeps,
  res: Response,
  whole: Snapshot,
) {
  const { orm } = db;
  const { orgId, userId, marketAccess, role } = sessionOf(res);
  const now = new Date(clock.now());
  const [tradingSwitch, booked, holdings, waiting, watched, taken] = await Promise.all([
    readSwitch(orm, orgId),
    findPaperCash(orm, orgId),
    listPaperHoldings(orm, orgId),
    listPaperPurchases(orm, orgId),
    listWatched(orm, { orgId, userId }),
    readTakenBooks(orm, orgId, whole.data),
  ]);
  // The list, the ladder and the signals show what the ticket can still buy.
  const books = new Map([...whole.data.books, ...taken]);
  const snapshot = { ...whole, data: { ...whole.data, books } };
  const cash = booked && waiting.reduce((left, { reserved }) => left - reserved, booked);
  const signals = await signalsFor(snapshot, { cash, holdings: withPurchases(holdings, waiting) }, now);
  const { refreshSeconds, paperCash } = config.trading;
  const areTooOld = isStale(ageOf(snapshot, now.getTime()), refreshSeconds);
  const freshness = toFreshness(snapshot, { sources: snapshots.sources, refreshSeconds, now });
  // Reading a portfolio opens the account.
  const [orders, positions] =
    booked === undefined
      ? [[], { positions: [] }]
      : await Promise.all([
          listLatestOrders(orm, orgId, 'paper', ORDERS_SHOWN),
          readPortfolio(
            { db, clock, snapshots: { ...snapshots, current: snapshot }, paperCash },
            orgId,
            'paper',
          ),
        ]);
  return {
    whole,
    snapshot,
    own: {
      cash,
      holdings,
      watched,
      isWaiting: waiting.length > 0,
      signals: areTooOld ? { ...signals, events: [] } : signals,
      areTooOld,
      mayOpen: marketAccess === 'trade',
      mayOrder: isManager(role),
    },
    orders,
    positions,
    now,
    status: { tradingSwitch, freshness },
  };
}

const createDesk = (context: Context, deps: MarketsPagesDeps, tickets: ReturnType<typeof createTickets>) => {
  const { orm } = context.db;
  return async (req: Request, res: Response, facts: DeskFacts, asked: DeskChoice): Promise<void> => {
    const { snapshot, now, orders } = facts;
    const composed = asked.ticket?.composed;
    const own = { ...facts.own, composed };
    const { choice = chooseBest(facts, asked), kind } = asked;
    const others =
      kind === 'others'
        ? toOthers(snapshot, { cursor: undefined, sort: undefined, ...asked, chosen: asked.market?.ticker })
        : null;
    const list =
      kind === 'others'
        ? null
        : toOpportunities({ snapshot, own, now, chosen: choice?.event }, { ...asked, kind });
    // A search sent without scripts.
    const found = (others ?? list)?.rows[0];
    if (found && asked.q !== '' && req.query.open === 'first') return res.redirect(303, found.href);
    const event = choice?.event;
    const [signal] = event ? signalsOf(own.signals, event, now) : [];
    const market = asked.market ?? signal?.market ?? (event ? findLikeliest(snapshot, event) : others?.first);
    const order = signal ? fieldsOf(signal) : market && own.mayOpen ? findOrder(snapshot, market) : {};
    const ticket =
      asked.ticket ?? (market && order && (await tickets.readView(res, facts.whole, market, order)));
    const shown = event
      ? (event.markets.find(({ ticker }) => (market ? ticker === market.ticker : own.holdings.has(ticker))) ??
        findWinner(event.markets) ??
        event.markets[0])
      : market;
    const positions = toDeskPositions(facts.positions, snapshot, own.mayOrder, market ?? event);
    const ofEvent = positions.filter(({ eventTicker }) => eventTicker === event?.eventTicker);
    const ownOrders = toDeskOrders(orders, snapshot, own.mayOrder, market ?? event);
    const other = market && !isPlaced(market) ? toOther(snapshot, market, own) : null;
    const { marketSource, forecasts, asOf } = snapshot;
    const page = { view: 'markets/desk', title: 'Markets', section: MARKETS_SECTION };
    await renderPage(context, req, res, page, {
      ...facts.status,
      uncalibrated: describeUncalibrated(snapshot, event ? [event] : []),
      list,
      others,
      other,
      chosenTicker: market?.ticker,
      outcomeKeys: toOutcomeKeys(event?.markets ?? other?.rows ?? [], market?.ticker),
      here:
        composed?.href ??
        (event ? addressOfEvent(event) : toAddress(overviewAddress(kind), { sort: asked.sort })),
      tabs: toTabs(snapshot, kind, asked.q),
      kind,
      q: asked.q,
      show: readShow(req, asked),
      streamHref: streamAddress(asked.choice?.station.id),
      ...(choice ? toChoiceView(snapshot, choice, asked.q, now) : { city: null }),
      event: event && toEventView(snapshot, event, own, readOther(deps, snapshot, event, now), now),
      line:
        shown &&
        toPriceLine(await readPriceHistory(orm, { marketSource, eventTicker: shown.eventTicker }), shown, {
          day: isPlaced(shown) ? forecastOf(forecasts, shown) : undefined,
          orders,
          asOf,
        }),
      ticket,
      depth: market && toDepth(snapshot, market, ticket, { ...own, orders }),
      isChosen: asked.market !== undefined,
      isWatched: event !== undefined && own.watched.has(event.station.city),
      ...toNotices(req, { orders, shown: ownOrders }, ticket, composed?.href),
      positions,
      summary: summarize(positions, ownOrders, own.cash ?? 0n),
      eventTotal: ofEvent.length > 0 && { count: ofEvent.length, ...toDeskTotal(ofEvent) },
      orders: ownOrders,
    });
  };
};

export function marketsPages(context: Context, deps: MarketsPagesDeps): Router {
  const router = pageRouter();
  const tickets = createTickets(context, deps);
  const showDesk = createDesk(context, deps, tickets);

  router.get('/markets', async (req, res) => {
    const snapshot = deps.snapshots.current;
    if (!snapshot) return tickets.showLoading(req, res);
    const query = readQuery(req);
    requireOnce(query);
    const asked = readChoiceQuery(query);
    const facts = await readFacts(context, deps, res, snapshot);
    const choice = asked.station ? chooseEvent(snapshot, asked, facts.now) : undefined;
    if (choice && choice.missing !== null) res.status(404);
    await showDesk(req, res, facts, { choice, kind: asked.station ? asked.kind : asked.tab, ...asked });
  });

  router.post('/markets/watched', async (req, res) => {
    const { watch, ...query } = (await readForm(req, res)) as FormFields;
    const choice = readChoiceQuery(query);
    if (!choice.station) throw new AppError('not_found', 'There is no such station.');
    const { id, city } = choice.station;
    const { userId } = sessionOf(res);
    await changeAsMember(context, req, res, (tx, orgId) =>
      setWatched(tx, { orgId, userId, city }, watch === 'yes'),
    );
    res.redirect(303, readBack(query) ?? eventAddress({ ...choice, station: id }));
  });

  addTicketRoutes(router, context, deps, tickets, async (req, res, { snapshot, market, ticket }) => {
    const facts = await readFacts(context, deps, res, snapshot);
    const { station } = market;
    const choice =
      station === null
        ? undefined
        : chooseEvent(snapshot, { ...market, station, q: '', hour: market.hour }, facts.now);
    const kind = isPlaced(market) ? market.kind : 'others';
    const { q } = readChoiceQuery({ q: req.query.q });
    await showDesk(req, res, facts, { choice, kind, q, market, ticket });
  });

  return router;
}

interface DeskChoice {
  /** Undefined: the best opportunity. */
  choice: Choice | undefined;
  kind: Tab;
  q: string;
  cursor?: string | undefined;
  sort?: OthersQuery['sort'];
  /** From the address. */
  market?: ListedMarket;
  ticket?: TicketView;
}

function chooseBest({ snapshot, own, now }: DeskFacts, { kind, q }: DeskChoice): Choice | undefined {
  if (kind === 'others') return undefined;
  const best = listOpportunities({ snapshot, own, now, chosen: undefined }, { kind, q })[0];
  return best && chooseEvent(snapshot, { ...best.event, hour: best.event.hour, q }, now);
}

/** Beside the snapshot. */
function readOther(
  { climate, minutes }: MarketsPagesDeps,
  { forecasts }: Snapshot,
  event: MarketEvent,
  now: Date,
) {
  const observed = forecastOf(forecasts, event)?.observed;
  const feed = observed && minutes?.feedOf(event.station.id, observed, now.getTime());
  return { crossChecks: climate?.crossChecks, feed: feed ?? null };
}

const readShow = (req: Request, { choice, market }: DeskChoice): (typeof deskParts)[number] =>
  deskParts.find((name) => name === req.query.show) ?? (choice || market ? 'market' : 'list');

const deskParts = ['list', 'market', 'orders'] as const;

const fieldsOf = ({ side, contracts, limitPrice }: Signal): FormFields => ({
  side,
  contracts: String(contracts),
  size: 'suggested',
  limitPrice: inCents(limitPrice),
});

/** The order book of the ticket's side. A level on the order's own side of the book rests there, the others fill. */
function toDepth(
  { data }: Snapshot,
  market: ListedMarket,
  ticket: TicketView | undefined,
  { mayOpen, orders }: OwnAccount & { orders: readonly ListedOrder[] },
) {
  const fields = ticket ? pickFields(ticket.form.values) : { side: 'yes', action: 'buy' };
  const side: Side = fields.side === 'no' ? 'no' : 'yes';
  const rests = mayRest(fields.timeInForce as TimeInForce);
  const isSale = fields.action === 'sell';
  const toHref = (price: Micros, isBid: boolean) => {
    const takes = isBid === isSale;
    return toAddress(ticketAddress(market.ticker), {
      ...fields,
      size: ticket?.isTyped ? undefined : 'suggested',
      ...(takes ? { postOnly: 'no' } : !rests && { timeInForce: 'good_till_cancelled' }),
      limitPrice: inCents(price),
    });
  };
  const book = data.books.get(market.ticker) ?? emptyBook;
  // Buying one side is selling the other.
  const resting = orders
    .filter(({ ticker, status }) => ticker === market.ticker && status === 'resting')
    .map((order) => ({
      isBid: (order.action === 'buy') === (order.side === side),
      price: order.side === side ? order.limitPrice : DOLLAR - order.limitPrice,
      contracts: subtractCounts(order.contracts, order.filledContracts),
    }));
  const rows = toBookRows(book, side, resting, mayOpen && takesOrders(market) ? toHref : null);
  return { caption: `Order book: ${side.toUpperCase()} of ${labelOf(market)}`, rows };
}

/** A placed order replaces the button that placed it, so that a second click places no other. */
function toNotices(
  { query: { order: id, done, from } }: Request,
  { orders, shown }: { orders: readonly ListedOrder[]; shown: ReturnType<typeof toDeskOrders> },
  ticket: TicketView | undefined,
  here: string | undefined,
) {
  const order = orders.find((each) => each.id === id);
  const isResting = mayRest(ticket?.form.values.timeInForce as TimeInForce);
  const again = isResting ? here : ticket?.tabs.find(({ isCurrent }) => isCurrent)?.href;
  if (order && done === 'placed')
    return { placed: { text: describePlaced(order), again, order: shown.find((each) => each.id === id) } };
  if (order && done === 'repeated') return { placed: { text: orderNotices.repeated, again } };
  if (!order || (done !== 'cancelled' && done !== 'cancelling')) return {};
  const isOver = done === 'cancelling' && order.status !== 'resting';
  const told = isOver ? describePlaced(order) : orderNotices[done];
  return from === 'ticket' ? { placed: { text: told, again } } : { told };
}

const toChoiceView = (snapshot: Snapshot, choice: Choice, q: string, now: Date) => ({
  city: choice.station.city,
  labels: kindLabels[choice.kind],
  back: { href: overviewAddress(choice.kind, q), q },
  kinds: toCityTabs(snapshot, choice, q),
  days: toDays(choice, q, now),
  hours: toHours(choice, q, now),
  moment: choice.event ? formatMoment(choice.event) : choice.missing && formatMoment(choice.missing),
  isMissing: choice.missing !== null,
});
