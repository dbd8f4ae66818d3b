import { DOLLAR, parseDollars, type Micros } from '../money.js';
import { parseBracket } from '../settlement/brackets.js';
import { climateDayOf, type ClimateDay } from '../settlement/climate-day.js';
import { findStationOfSeries, rulesNameStation } from '../settlement/stations.js';
import { toLevels, type OrderBook } from './book.js';
import { readEventTicker } from './event-ticker.js';
import type { KalshiMarket } from './kalshi-schema.js';
import type { Market } from './market.js';
import { parseCount } from '../contracts.js';

/** The venue says something that cannot be right about one market: it is left out, and the log says why. */
export class UnusableMarketError extends Error {
  constructor(ticker: string, reason: string) {
    super(`${ticker}: ${reason}`);
    this.name = 'UnusableMarketError';
  }
}

/**
 * The venue's market in our terms.
 * @throws UnusableMarketError where station, day or bracket are not certain
 */
export function toMarket(wire: KalshiMarket): Market {
  const refuse = (reason: string) => new UnusableMarketError(wire.ticker, reason);
  const { seriesTicker, date } = readEventTicker(wire.event_ticker) ?? {};
  if (seriesTicker === undefined || date === undefined)
    throw refuse(`the event ${wire.event_ticker} names no series and day`);
  const station = findStationOfSeries(seriesTicker);
  if (!station) throw refuse(`the station of the series ${seriesTicker} is not known`);
  if (wire.market_type !== 'binary') throw refuse(`it is ${wire.market_type}, not binary`);
  if (!rulesNameStation(station, wire.rules_primary))
    throw refuse(`its rules are not about ${station.name}: ${wire.rules_primary.slice(0, 200)}`);
  const bracket = parseBracket({
    ticker: wire.ticker,
    strikeType: wire.strike_type ?? undefined,
    floorStrike: wire.floor_strike ?? undefined,
    capStrike: wire.cap_strike ?? undefined,
    label: wire.yes_sub_title,
  });
  if (!bracket)
    throw refuse(`its strikes, its label “${wire.yes_sub_title}” and its ticker do not agree on a bracket`);
  const closeTime = new Date(wire.close_time);
  const day = climateDayOf(station, date);
  if (!closesWith(day, closeTime))
    throw refuse(`it closes at ${wire.close_time}, which is not the end of ${date} at ${station.id}`);
  const isVoid = wire.result === 'void';
  const settlementValue = isVoid ? null : readSettlement(wire);
  if (settlementValue !== null && !isPayable(settlementValue, wire.result))
    throw refuse(`it is ${wire.result || 'undecided'} and pays ${wire.settlement_value_dollars}`);
  return {
    ticker: wire.ticker,
    eventTicker: wire.event_ticker,
    seriesTicker,
    station,
    date,
    bracket,
    status: wire.status,
    yesBid: readPrice(wire.yes_bid_dollars),
    yesAsk: readPrice(wire.yes_ask_dollars),
    noBid: readPrice(wire.no_bid_dollars),
    noAsk: readPrice(wire.no_ask_dollars),
    lastPrice: readPrice(wire.last_price_dollars),
    volume: parseCount(wire.volume_fp),
    volume24h: parseCount(wire.volume_24h_fp),
    openInterest: parseCount(wire.open_interest_fp),
    openTime: new Date(wire.open_time),
    closeTime,
    priceRanges: wire.price_ranges.map(({ start, end, step }) => ({
      start: parseDollars(start),
      end: parseDollars(end),
      step: parseDollars(step),
    })),
    settlementValue,
    ...(isVoid ? { isVoid } : {}),
    settledTemperature: readTemperature(wire.expiration_value),
  };
}

/** The venue writes the report's temperature at the winner and not always at the others, which it settled just as well. */
export function shareTemperatures(markets: readonly Market[]): Market[] {
  const byEvent = new Map<string, Set<number>>();
  for (const { eventTicker, settledTemperature: known } of markets)
    if (known !== null) byEvent.set(eventTicker, (byEvent.get(eventTicker) ?? new Set()).add(known));
  return markets.map((market) => {
    const known = byEvent.get(market.eventTicker);
    if (market.settledTemperature !== null || market.settlementValue === null || known?.size !== 1)
      return market;
    return { ...market, settledTemperature: [...known][0]! };
  });
}

/** Bids of both sides, as the venue lists them. */
export function toOrderBook(wire: { yes: [string, string][]; no: [string, string][] }): OrderBook {
  const read = (levels: [string, string][]) =>
    toLevels(
      levels.map(([price, contracts]) => ({ price: parseDollars(price), contracts: parseCount(contracts) })),
    );
  return { yes: read(wire.yes), no: read(wire.no) };
}

/** How long before the end of its day a market may close. */
export const MAX_EARLY_MS = 6 * 60 * 60 * 1000;

/**
 * Markets close with their climate day. Until March 2026 it was a minute before midnight by the clock, in 2024 by New
 * York's clock everywhere, so up to hours before the day's end. A market that closes at another time is about another day.
 */
function closesWith(day: ClimateDay, closeTime: Date): boolean {
  const early = day.end.getTime() - closeTime.getTime();
  return early >= 0 && early <= MAX_EARLY_MS;
}

/** The venue writes 0.00 where nobody bids and 1.00 where nobody asks. */
const readPrice = (text: string): Micros | null => toPrice(parseDollars(text));

const toPrice = (price: Micros): Micros | null => (price > 0n && price < DOLLAR ? price : null);

function readSettlement({ status, result, settlement_value_dollars: value }: KalshiMarket): Micros | null {
  if (!['determined', 'disputed', 'amended', 'finalized'].includes(status)) return null;
  if (value != null) return parseDollars(value);
  if (result === 'yes') return DOLLAR;
  return result === 'no' ? 0n : null;
}

/** A contract pays between nothing and a dollar, and exactly one of both where a side has won. */
function isPayable(value: Micros, result: KalshiMarket['result']): boolean {
  if (result === 'yes') return value === DOLLAR;
  return result === 'no' ? value === 0n : value >= 0n && value <= DOLLAR;
}

/** Mostly a number; sometimes a sentence that begins with one. */
function readTemperature(text: string): number | null {
  const [, digits] = /^(-?\d+)(?:\.0+)?(?!\.?\d)/.exec(text) ?? [];
  return digits === undefined ? null : Number(digits);
}
