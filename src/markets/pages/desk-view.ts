import {
  formatChange,
  formatCount,
  formatDecimal,
  formatDegrees,
  formatMoney,
  formatPrice,
  formatProbability,
  inSentence,
} from '../../core/pages/format.js';
import { forecastOf, type DayForecast } from '../learning/forecast.js';
import { asksOf, emptyBook, type Side } from '../market/book.js';
import { bracketLabel } from '../market/brackets.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import { sumKnown } from '../ledger/valuation.js';
import type { MarketEvent } from '../market/event.js';
import {
  isPlaced,
  takesOrders,
  type ListedMarket,
  type Market,
  type TemperatureKind,
} from '../market/market.js';
import { allInCost, feeRuleOf } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { ListedOrder } from '../portfolio/order-queries.js';
import { isFairPrice } from '../settlement/settlement-event.js';
import type { Portfolio, ValuedPosition } from '../portfolio/portfolio.js';
import type { EventSignals } from '../signals/signal.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { addressOfEvent, ticketAddress } from './addresses.js';
import { isTradable } from './choice.js';
import { marketStatusLabels, toMarketView } from './labels.js';
import type { OwnAccount } from './ladder.js';
import { whenOf } from './market-view.js';
import { toOrderView } from './order-view.js';
import { evidenceShare } from './gates-view.js';
import { bestPrice } from './ticket-form.js';
import { isFound, shownEvents } from './overview-view.js';
import { toMarketValue } from './portfolio-view.js';
import { currentSignals, signalsOff, toSignalView, whyNone } from './signals-view.js';

const MAX_SHOWN = 60;
/** Besides open ones. */
export const ORDERS_SHOWN = 6;
const LOST_BELOW = 0.01;
/** An event belongs to the first that fits. */
const groups = ['Signals', 'Watched', 'Held', 'Withheld', 'Others'] as const;

export interface DeskInput {
  snapshot: Snapshot;
  own: OwnAccount;
  chosen: MarketEvent | undefined;
  now: Date;
}

/**
 * Every city's current day or hour, and others of the kind that have a signal or are held, by group, then by edge,
 * multiplied by the share of the evidence that the gate needs.
 */
export function listOpportunities(
  { snapshot, own, chosen, now }: DeskInput,
  { kind, q }: { kind: TemperatureKind; q: string },
) {
  const reports = new Map(own.signals.events.map((report) => [report.eventTicker, report]));
  const held = (event: MarketEvent) => event.markets.filter(({ ticker }) => own.holdings.has(ticker)).length;
  const isWanted = (event: MarketEvent) =>
    event.kind === kind &&
    isTradable(event, now) &&
    (held(event) > 0 || currentSignals(reports.get(event.eventTicker), now).length > 0);
  const events = new Set([
    ...shownEvents(snapshot, kind, now),
    ...snapshot.events.filter((event) => isWanted(event)),
  ]);
  return [...events]
    .filter(({ station }) => isFound(station, q))
    .map((event) => {
      const day = forecastOf(snapshot.forecasts, event);
      const { city } = event.station;
      const chance = toChance(event, reports.get(event.eventTicker), { snapshot, day, now });
      const isWatched = own.watched.has(city);
      const belongs = [chance.signal, isWatched, held(event) > 0, chance.withheld, true];
      const group = groups[belongs.findIndex(Boolean)]!;
      return {
        event,
        city,
        isWatched,
        when: whenOf(event, now),
        href: addressOfEvent(event, { q }),
        isCurrent: event.eventTicker === chosen?.eventTicker,
        held: held(event),
        ...chance,
        group,
        /** Almost without evidence. */
        isFolded: group === 'Withheld' && chance.withheld?.evidence === 0,
      };
    })
    .sort(
      (a, b) =>
        groups.indexOf(a.group) - groups.indexOf(b.group) ||
        Number(a.isFolded) - Number(b.isFolded) ||
        b.score - a.score ||
        (a.city < b.city ? -1 : a.city > b.city ? 1 : 0),
    );
}

export function toOpportunities(input: DeskInput, asked: { kind: TemperatureKind; q: string }) {
  const { own, now } = input;
  const rows = listOpportunities(input, asked).slice(0, MAX_SHOWN);
  const events = own.signals.events.filter((event) => event.kind === asked.kind);
  const hasSignals = events.some((event) => currentSignals(event, now).length > 0);
  return { rows, none: hasSignals ? null : noneBecause(input, events, asked.kind) };
}

function toChance(
  event: MarketEvent,
  report: EventSignals | undefined,
  { snapshot, day, now }: { snapshot: Snapshot; day: DayForecast | undefined; now: Date },
) {
  const [best] = currentSignals(report, now);
  if (best) {
    const signal = toSignalView(best);
    return { ...noQuote, score: best.edge, signal, withheld: null, what: signal.title.replace('Buy ', '') };
  }
  const count = report?.suppressed.filter(({ isWithheld }) => isWithheld).length ?? 0;
  if (!report || !day || count === 0) {
    const market = findLikeliest(snapshot, event);
    return {
      score: 0,
      signal: null,
      withheld: null,
      why: day ? report && whyNone(report).short : 'No forecast',
      quote: day &&
        market && {
          probability: day.probabilities.get(market.ticker) ?? 0,
          ask: bestPrice(snapshot.data.books.get(market.ticker) ?? emptyBook, 'yes', 'buy') ?? null,
        },
      what: day && market ? bracketLabel(market.bracket) : null,
    };
  }
  const { gate } = report;
  return {
    score: evidenceShare(gate) * edgeOf(event, day, snapshot),
    signal: null,
    withheld: { evidence: gate.n === 0 ? null : Math.floor(evidenceShare(gate) * 100) },
    ...noQuote,
    what: `${formatDecimal(count)} withheld`,
  };
}

const noQuote = { why: undefined, quote: undefined };

/** The likeliest bracket, or the least certain threshold of an hour. Undefined if the event takes no orders. */
export function findLikeliest({ forecasts }: Snapshot, event: MarketEvent): Market | undefined {
  const probabilities = forecastOf(forecasts, event)?.probabilities;
  const rank = ({ ticker, yesAsk }: Market) => {
    const chance = probabilities?.get(ticker) ?? Number(yesAsk ?? 0n) / Number(DOLLAR);
    return event.kind === 'hourly' ? -Math.abs(chance - 0.5) : chance;
  };
  return event.markets.filter(takesOrders).toSorted((a, b) => rank(b) - rank(a))[0];
}

/** The side whose best offer does not lose on average. Without a forecast, the ticket's own. Undefined if both lose. */
export function findOrder({ forecasts, data }: Snapshot, market: ListedMarket): { side?: Side } | undefined {
  const yes = isPlaced(market) ? forecastOf(forecasts, market)?.probabilities.get(market.ticker) : undefined;
  const feeRule = feeRuleOf(data, market);
  if (yes === undefined || !feeRule) return {};
  const book = data.books.get(market.ticker) ?? emptyBook;
  const side = (['yes', 'no'] as const).find((each) => {
    const ask = bestPrice(book, each, 'buy');
    return ask !== undefined && (each === 'yes' ? yes : 1 - yes) >= allInCost(feeRule, ask);
  });
  return side && { side };
}

/** Before fees, at the best ask. */
function edgeOf({ markets }: MarketEvent, { probabilities }: DayForecast, { data }: Snapshot): number {
  const edges = markets.flatMap(({ ticker }) => {
    const [book, yes] = [data.books.get(ticker), probabilities.get(ticker)];
    if (!book || yes === undefined) return [];
    return (['yes', 'no'] as const).flatMap((side) => {
      const ask = asksOf(book, side)[0];
      return ask ? [(side === 'yes' ? yes : 1 - yes) - Number(ask.price) / Number(DOLLAR)] : [];
    });
  });
  return Math.max(0, ...edges);
}

/** Why nothing is proposed. */
function noneBecause({ snapshot, own }: DeskInput, events: readonly EventSignals[], kind: TemperatureKind) {
  if (own.areTooOld) return 'No signals: the prices have expired. Signals return with the next prices.';
  if (snapshot.events.length === 0) return 'No signals: the venue lists no markets that Gauge can forecast.';
  if (snapshot.forecasts.size === 0) return 'No signals: there is no forecast yet.';
  const gates = snapshot.gates.gates.filter((gate) => gate.kind === kind);
  if (!gates.some(({ isOpen: isGateOpen }) => isGateOpen)) return signalsOff(gates.length);
  if (events.some(({ suppressed }) => suppressed.some(({ isWithheld }) => isWithheld)))
    return 'No signals: every purchase that is worth its cost at these prices is withheld.';
  const [why, ...others] = new Set(events.map((event) => whyNone(event).text));
  return why === undefined || others.length > 0
    ? 'No signals: no purchase behind an open gate is worth its cost after fees.'
    : `No signals: ${inSentence(why)}`;
}

export const toDeskOrders = (
  orders: readonly ListedOrder[],
  snapshot: Snapshot | undefined,
  mayChange: boolean,
  chosen?: Pick<ListedMarket, 'eventTicker'>,
) =>
  orders
    .map((order) => ({
      ...toOrderView(order, snapshot),
      mayCancel: mayChange && order.status === 'resting' && order.cancelRequestedAt === null,
    }))
    .toSorted((a, b) => Number(isOf(chosen, b)) - Number(isOf(chosen, a)));

const isOf = (chosen: Pick<ListedMarket, 'eventTicker'> | undefined, { ticker }: { ticker: string }) =>
  chosen !== undefined && ticker.startsWith(`${chosen.eventTicker}-`);

export const toDeskPositions = (
  { positions }: Pick<Portfolio, 'positions'>,
  snapshot: Snapshot | undefined,
  mayTrade: boolean,
  chosen?: Pick<ListedMarket, 'eventTicker'> & { ticker?: string },
) =>
  positions
    .map((position) => {
      const { value, price, excludedByF } = toMarketValue(position, snapshot);
      const chance = chanceOf(position, snapshot);
      const report = snapshot?.signals.events.find((event) => event.eventTicker === position.eventTicker);
      const isLost = excludedByF !== null || (chance !== undefined && chance < LOST_BELOW);
      return {
        ...position,
        rank: rankOf(position, isLost, chosen),
        isChosen: chosen?.ticker === position.ticker,
        market: toMarketView(position),
        value,
        profit: value === null ? null : value - position.cost,
        notes: notesOn(position, price),
        state:
          excludedByF !== null
            ? { label: 'Impossible', tone: '', note: `${formatDegrees(excludedByF, 1)} measured` }
            : isLost
              ? { label: 'Almost worthless', tone: '', note: `forecast ${formatProbability(chance!)}` }
              : stateOf(position),
        edge: report?.gate.isOpen ? edgeIfHeld(position, chance) : null,
        closeHref:
          mayTrade &&
          position.mark.status === 'active' &&
          position.mark.unsellableContracts < position.contracts
            ? `${ticketAddress(position.ticker, {
                side: position.side,
                action: 'sell',
                contracts: position.contracts,
              })}#ticket-head`
            : null,
      };
    })
    .toSorted((a, b) => a.rank - b.rank);

/** The free cash, value and profit of the positions, and the open orders; empty without positions and open orders. */
export function summarize(
  positions: readonly { value: Micros | null; profit: Micros | null }[],
  orders: readonly { isOpen: boolean }[],
  cash: Micros,
): string {
  const { value, profit } = toDeskTotal(positions);
  const open = orders.filter(({ isOpen: isOpenOrder }) => isOpenOrder).length;
  const worth = [value === null ? 'not valued' : formatMoney(value), profit !== null && formatChange(profit)];
  const parts = [
    positions.length > 0 &&
      `${formatCount(positions.length, 'position')} ${worth.filter(Boolean).join(', ')}`,
    open > 0 && formatCount(open, 'order'),
  ].filter(Boolean);
  return parts.length === 0 ? '' : [`Cash ${formatMoney(cash)}`, ...parts].join(' · ');
}

/** Null amounts if one is not known. */
export const toDeskTotal = (positions: readonly { value: Micros | null; profit: Micros | null }[]) => ({
  value: sumKnown(positions.map(({ value }) => value)),
  profit: sumKnown(positions.map(({ profit }) => profit)),
});

/** Those of the chosen event come first, then open ones; lost ones are last in both. From 3, nothing can be done. */
const rankOf = (
  { eventTicker, mark }: ValuedPosition,
  isLost: boolean,
  chosen: Pick<ListedMarket, 'eventTicker'> | undefined,
) => (eventTicker === chosen?.eventTicker ? Number(isLost) : isLost ? 4 : mark.status === 'active' ? 2 : 3);

/**
 * That the position pays, until it has a result. A forecast without calibration, as in the first minutes after a start,
 * would give wild values.
 */
function chanceOf({ ticker, side, mark }: ValuedPosition, snapshot: Snapshot | undefined) {
  const market = snapshot?.markets.get(ticker);
  const day = market && isPlaced(market) ? forecastOf(snapshot!.forecasts, market) : undefined;
  const yes = day?.isCalibrated && mark.valuation !== 'expected' ? day.probabilities.get(ticker) : undefined;
  return yes === undefined || side === 'yes' ? yes : 1 - yes;
}

/** The forecast's value of holding over selling now, per contract that finds a bid; null if either is unknown. */
function edgeIfHeld({ contracts, mark }: ValuedPosition, chance: number | undefined) {
  const sold = subtractCounts(contracts, mark.unsellableContracts);
  if (chance === undefined || mark.value === null || mark.status !== 'active' || sold === 0) return null;
  return chance - Number(mark.value) / Number(valueOf(DOLLAR, sold));
}

/** @param price that the value is based on, if any */
export function notesOn(
  { mark, contracts, settlement }: Pick<ValuedPosition, 'mark' | 'contracts' | 'settlement'>,
  price: Micros | null,
): string[] {
  const { valuation, unsellableContracts, value } = mark;
  const at = price === null ? [] : [`valued at ${formatPrice(price)}`];
  const result = settlement?.value ?? null;
  if (valuation === 'expected' && result !== null && isFairPrice(result))
    return ['last fair price, not final'];
  if (valuation === 'expected' && mark.status === 'finalized') return ['final, not paid yet'];
  if (valuation !== 'book') return [...at, ...notes[valuation]];
  const sold = subtractCounts(contracts, unsellableContracts);
  if (sold === 0 || value === null) return [...at, 'no bids now'];
  const part =
    unsellableContracts === 0 ? 'sells' : `${formatDecimal(sold)} of ${formatDecimal(contracts)} sell`;
  return [...at, `${part} for ${formatMoney(value)}`];
}

const notes = {
  expected: ['expected, not final'],
  closed: ['no result yet'],
  not_listed: ['at cost until its result is known'],
  unknown: [],
};

/** Null while the market is open. */
function stateOf({ mark, settlement }: ValuedPosition) {
  if (mark.status === 'active') return null;
  const { label, tone } = mark.status ? marketStatusLabels[mark.status] : { label: 'Ended', tone: '' };
  const temperature = settlement?.temperature ?? null;
  return { label, tone, note: temperature === null ? '' : `${temperature}°F` };
}
