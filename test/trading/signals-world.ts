import type { DayForecast, StationForecast } from '../../src/trading/forecast/forecast.js';
import { asksOf, toLevels, type OrderBook } from '../../src/trading/markets/book.js';
import type { MarketEvent } from '../../src/trading/markets/event.js';
import type { Market } from '../../src/trading/markets/market.js';
import type { MarketData } from '../../src/trading/markets/source.js';
import { CENT, DOLLAR } from '../../src/trading/money.js';
import type { Bracket } from '../../src/trading/settlement/brackets.js';
import { climateDayOf } from '../../src/trading/settlement/climate-day.js';
import { findStation } from '../../src/trading/settlement/stations.js';
import type { FeeRule } from '../../src/trading/sizing/fees.js';

export const quadratic: FeeRule = { type: 'quadratic', multiplier: DOLLAR };

/** Bids in whole cents, `[[60, 100]]`: 100 contracts are wanted at $0.60. */
type Bids = [cents: number, contracts: number][];

export function makeBook(yes: Bids, no: Bids): OrderBook {
  const levels = (bids: Bids) =>
    toLevels(bids.map(([cents, contracts]) => ({ price: BigInt(cents) * CENT, contracts })));
  return { yes: levels(yes), no: levels(no) };
}

/** New York on a day: below `lowest`, four brackets of two degrees, and above. */
export function makeEvent({
  date,
  lowest,
  over = {},
}: {
  date: string;
  lowest: number;
  over?: Partial<Market>;
}): MarketEvent {
  const station = findStation('KNYC')!;
  const { start, end } = climateDayOf(station, date);
  const brackets: Bracket[] = [
    { kind: 'less', floor: null, cap: lowest },
    ...[0, 2, 4, 6].map((step): Bracket => ({
      kind: 'between',
      floor: lowest + step,
      cap: lowest + step + 1,
    })),
    { kind: 'greater', floor: lowest + 7, cap: null },
  ];
  const eventTicker = `KXHIGHNY-${date}`;
  const markets = brackets.map((bracket, i): Market => ({
    ticker: `${eventTicker}-${i}`,
    eventTicker,
    seriesTicker: 'KXHIGHNY',
    station,
    date,
    bracket,
    status: 'active',
    yesBid: null,
    yesAsk: null,
    noBid: null,
    noAsk: null,
    lastPrice: null,
    volume: 0,
    volume24h: 0,
    openInterest: 0,
    openTime: new Date(start.getTime() - 86_400_000),
    closeTime: end,
    priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
    settlementValue: null,
    settledTemperature: null,
    ...over,
  }));
  return { eventTicker, station, date, markets };
}

/** What the venue said, with a book for each market of an event, from cold to warm. */
export function makeData(event: MarketEvent, books: OrderBook[], fetchedAt: Date): MarketData {
  const withPrices = event.markets.map((market, i) => {
    const book = books[i] ?? makeBook([], []);
    return {
      ...market,
      yesBid: book.yes[0]?.price ?? null,
      yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
    };
  });
  return {
    fetchedAt,
    isTrading: true,
    markets: withPrices,
    books: new Map(event.markets.map(({ ticker }, i) => [ticker, books[i] ?? makeBook([], [])])),
    feeRules: new Map([['KXHIGHNY', quadratic]]),
  };
}

/** A forecast that gives the markets of an event these probabilities. */
export function makeForecasts(
  event: MarketEvent,
  probabilities: number[],
  over: Partial<DayForecast> & { at: Date },
): Map<string, StationForecast> {
  const { at, ...rest } = over;
  const day: DayForecast = {
    date: event.date,
    eventTicker: event.eventTicker,
    method: 'raw_ensemble',
    isCalibrated: false,
    meanF: 71.3,
    deviationF: 2.4,
    quantiles: [],
    membersF: Array.from({ length: 31 }, () => 71.3),
    modelRunAt: new Date(at.getTime() - 6 * 3_600_000),
    fetchedAt: new Date(at.getTime() - 60_000),
    observed: null,
    probabilities: new Map(event.markets.map(({ ticker }, i) => [ticker, probabilities[i]!])),
    ...rest,
  };
  return new Map([[event.station.id, { station: event.station, source: 'test', days: [day] }]]);
}
