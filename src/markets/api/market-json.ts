import type { OrderBook } from '../market/book.js';
import { cityOf, isPlaced, labelOf, type ListedMarket, type MarketKind } from '../market/market.js';
import { dollarsOrNull, formatDollars, type Micros } from '../market/money.js';
import type { MarketData } from '../market/source.js';
import { findPlace, isStation } from '../market/stations.js';
import type { Gate, EventSignals, Signal, SignalReport } from '../signals/signal.js';

export function toSignalsJson(report: SignalReport, marketJson: (ticker: string) => object) {
  const { bankroll, events, ...rules } = report;
  return {
    bankroll: formatDollars(bankroll),
    ...rules,
    signals: events.flatMap((event) => event.signals.map((signal) => toSignalJson(signal, marketJson))),
    events: events.map(toEventJson),
  };
}

function toSignalJson({ closing: _closing, ...signal }: Signal, marketJson: (ticker: string) => object) {
  return {
    ...signal,
    market: marketJson(signal.market.ticker),
    price: formatDollars(signal.price),
    limitPrice: formatDollars(signal.limitPrice),
    averagePrice: formatDollars(signal.averagePrice),
    fee: formatDollars(signal.fee),
    stake: formatDollars(signal.stake),
    expectedValue: formatDollars(signal.expectedValue),
    worstCase: formatDollars(signal.worstCase),
    expiresAt: signal.expiresAt.toISOString(),
    rest: signal.rest && { ...signal.rest, price: formatDollars(signal.rest.price) },
  };
}

const toEventJson = ({ stationId: station, ...event }: EventSignals) => ({
  ...event,
  station,
  city: findPlace(station)?.city ?? null,
  hour: event.hour ?? null,
  gate: toGateJson(event.gate),
  signals: event.signals.length,
  stake: formatDollars(event.stake),
  worstCase: formatDollars(event.worstCase),
});

const toGateJson = ({ isOpen, leadHours, n, evidence, needed, difference, reason }: Gate) => ({
  state: isOpen ? 'open' : 'closed',
  leadHours,
  n,
  evidence,
  needed,
  difference: difference?.mean ?? null,
  interval: difference && { low: difference.low, high: difference.high },
  reason,
});

const measures = {
  daily_maximum: 'daily_maximum_temperature',
  daily_minimum: 'daily_minimum_temperature',
  hourly: 'hourly_temperature',
  rain: 'precipitation',
  other: null,
} as const satisfies Record<MarketKind, string | null>;

export function toMarketJson(market: ListedMarket, book: OrderBook, marketSource: string) {
  const { kind, bracket, settlement } = market;
  const station = market.station && isStation(market.station) ? market.station.id : null;
  return {
    ticker: market.ticker,
    eventTicker: market.eventTicker,
    seriesTicker: market.seriesTicker,
    kind,
    station,
    city: cityOf(market),
    measure: measures[kind],
    date: market.date,
    hour: isPlaced(market) ? (market.hour ?? null) : null,
    bracket: bracket && {
      kind: bracket.kind,
      floor: bracket.floor,
      cap: bracket.cap,
      unit: 'fahrenheit',
      label: labelOf(market),
    },
    label: labelOf(market),
    problem: isPlaced(market) ? null : market.problem,
    settlement: { source: settlement.source, station, rulesText: settlement.rulesText },
    status: market.status,
    untradable: market.untradable ?? null,
    ...toQuoteJson(market, book),
    lastPrice: dollarsOrNull(market.lastPrice),
    volume: market.volume,
    volume24h: market.volume24h,
    openInterest: market.openInterest,
    openTime: market.openTime.toISOString(),
    closeTime: market.closeTime.toISOString(),
    tickSize: formatDollars(tickSizeOf(market)),
    url: urlOf(market, marketSource),
  };
}

export const toQuoteJson = (market: ListedMarket, book: OrderBook) => ({
  yesBid: dollarsOrNull(market.yesBid),
  yesAsk: dollarsOrNull(market.yesAsk),
  noBid: dollarsOrNull(market.noBid),
  noAsk: dollarsOrNull(market.noAsk),
  yesBidSize: book.yes[0]?.contracts ?? 0,
  // A bid for NO is an offer to sell YES.
  yesAskSize: book.no[0]?.contracts ?? 0,
});

export const bookStates = ['whole', 'best_prices', 'in_doubt'] as const;

/** Changes only when the book is read again. */
export function toBookStateJson({ doubts, shallow, bookTimes }: Partial<MarketData>, ticker: string) {
  const bookState: (typeof bookStates)[number] = doubts?.has(ticker)
    ? 'in_doubt'
    : shallow?.has(ticker)
      ? 'best_prices'
      : 'whole';
  return { bookState, bookAsOf: bookTimes?.get(ticker)?.toISOString() ?? null };
}

/** In some markets, steps are finer near $0 and $1. */
function tickSizeOf({ priceRanges, yesAsk, yesBid, lastPrice }: ListedMarket): Micros {
  const price = yesAsk ?? yesBid ?? lastPrice;
  const present = priceRanges.find(({ start, end }) => price !== null && price >= start && price <= end);
  if (present) return present.step;
  return priceRanges.map(({ step }) => step).reduce((least, step) => (step < least ? step : least));
}

/** Our own page if the venue is simulated. */
function urlOf(market: ListedMarket, marketSource: string): string {
  if (marketSource === 'kalshi') return `https://kalshi.com/markets/${market.seriesTicker.toLowerCase()}`;
  if (!isPlaced(market)) return '/dashboard/markets?kind=others';
  const { station, kind, date, hour } = market;
  const ofKind = kind === 'daily_maximum' ? '' : `&kind=${kind}`;
  return `/dashboard/markets?station=${station.id}${ofKind}&date=${date}${hour === undefined ? '' : `&hour=${hour}`}`;
}
