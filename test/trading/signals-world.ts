import type { DayForecast, StationForecast } from '../../src/trading/forecast/forecast.js';
import { asksOf, toLevels, type OrderBook } from '../../src/trading/market/book.js';
import type { MarketEvent } from '../../src/trading/market/event.js';
import type { Market } from '../../src/trading/market/market.js';
import type { MarketData } from '../../src/trading/market/source.js';
import { CENT, DOLLAR } from '../../src/trading/market/money.js';
import type { GateBook } from '../../src/trading/signals/gate.js';
import { LEAD_HOURS } from '../../src/trading/signals/leads.js';
import type { Bracket } from '../../src/trading/market/brackets.js';
import { climateDayOf } from '../../src/trading/market/climate-day.js';
import { findStation } from '../../src/trading/market/stations.js';
import type { FeeRule } from '../../src/trading/market/fees.js';

export const quadratic: FeeRule = { type: 'quadratic', multiplier: DOLLAR };

/** Bids in whole cents, `[[60, 100]]`: 100 contracts are wanted at $0.60. */
type Bids = [cents: number, contracts: number][];

export function makeBook(yes: Bids, no: Bids): OrderBook {
  const levels = (bids: Bids) =>
    toLevels(bids.map(([cents, contracts]) => ({ price: BigInt(cents) * CENT, contracts })));
  return { yes: levels(yes), no: levels(no) };
}

/** A station on a day: below `lowest`, four brackets of two degrees, and above. */
export function makeEvent({
  date,
  lowest,
  over = {},
  stationId = 'KNYC',
}: {
  date: string;
  lowest: number;
  over?: Partial<Market>;
  stationId?: string;
}): MarketEvent {
  const station = findStation(stationId)!;
  const seriesTicker = station.series.maximum;
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
  const eventTicker = `${seriesTicker}-${date}`;
  const markets = brackets.map((bracket, i): Market => ({
    ticker: `${eventTicker}-${i}`,
    eventTicker,
    seriesTicker,
    kind: 'daily_maximum',
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
    settlement: { source: 'The Weather Company', rulesText: '' },
    settlementValue: null,
    settledTemperature: null,
    ...over,
  }));
  return { eventTicker, kind: 'daily_maximum', station, date, markets };
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
    feeRules: new Map([[event.markets[0]!.seriesTicker, quadratic]]),
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
    kind: event.kind,
    date: event.date,
    ...(event.hour === undefined ? {} : { hour: event.hour }),
    eventTicker: event.eventTicker,
    method: 'raw_ensemble',
    isCalibrated: false,
    fallback: null,
    fit: null,
    leadHours: 30,
    rawMeanF: 71.3,
    rawDeviationF: 2.4,
    atLeastF: null,
    atMostF: null,
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

/** What makes a forecast of `makeForecasts` a calibrated one: 58 days have warmed and widened it. */
export const calibrated = {
  method: 'emos',
  isCalibrated: true,
  fit: {
    id: '019b8d9a-6400-7000-8000-000000000901',
    kind: 'daily_maximum',
    stationId: 'KNYC',
    leadHours: 36,
    coefficients: { a: 1.2, b: 0.98, c: 2, d: 0.6 },
    stationBiasF: null,
    hourBiasF: null,
    n: 58,
    firstDate: '2026-05-05',
    lastDate: '2026-07-02',
    lowestMeanF: 55,
    highestMeanF: 93,
    trainingCrps: 1.3,
    rawCrps: 1.7,
    knownThrough: new Date('2026-07-03T12:00:00Z'),
    trainedAt: new Date('2026-07-03T13:00:00Z'),
  },
  meanF: 69.9,
  deviationF: 2.8,
} satisfies Partial<DayForecast>;

/** Every gate of some stations, open or shut, as judged at a time. */
export function makeGates(
  isOpen: boolean,
  stationIds = ['KNYC'],
  madeAt = new Date('2026-07-03T14:00:00Z'),
): GateBook {
  const gates = stationIds.flatMap((stationId) =>
    LEAD_HOURS.map((leadHours) => ({
      kind: 'daily_maximum' as const,
      stationId,
      leadHours,
      isOpen,
      n: 62,
      difference: isOpen
        ? { mean: -0.083, low: -0.151, high: -0.012 }
        : { mean: 0.041, low: -0.02, high: 0.101 },
      reason: isOpen
        ? 'Open: over 62 days at this lead the forecast was ahead of the market: −0.083 [−0.151, −0.012].'
        : 'Shut: over 62 days at this lead the forecast was not ahead of the market: +0.041 [−0.020, +0.101].',
    })),
  );
  return { madeAt, gates };
}
