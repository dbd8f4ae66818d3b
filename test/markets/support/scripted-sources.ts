import type { WeatherData, WeatherSource } from '../../../src/markets/weather/weather.js';
import type { OrderBook } from '../../../src/markets/market/book.js';
import type { Market } from '../../../src/markets/market/market.js';
import type { MarketData, MarketSource, Print, VenueNote } from '../../../src/markets/market/source.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { findStation } from '../../../src/markets/market/stations.js';
import type { Clock } from '../../../src/core/time.js';

/** °F, with a mean of 40. */
export const members = [37, 38, 38, 39, 39, 41, 41, 42, 42, 43];

/** A scripted source answers, hangs, fails, or answers once a promise resolves. */
type Behaviour = 'answer' | 'hang' | Error | Promise<void>;

/** Two brackets of a New York day and one of a Denver day. */
export function makeMarkets(): Market[] {
  const common = {
    lastPrice: 41n * CENT,
    volume: 1200,
    volume24h: 300,
    openInterest: 720,
    openTime: new Date('2026-01-30T05:00:00Z'),
    closeTime: new Date('2026-02-01T05:00:00Z'),
    priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
    kind: 'daily_maximum' as const,
    settlement: { source: 'The Weather Company' as const, rulesText: '' },
    settlementValue: null,
    settledTemperature: null,
    date: '2026-01-31',
    status: 'active' as const,
  };
  const newYork = {
    ...common,
    eventTicker: 'KXHIGHNY-26JAN31',
    seriesTicker: 'KXHIGHNY',
    station: findStation('KNYC')!,
  };
  return [
    {
      ...newYork,
      ticker: 'KXHIGHNY-26JAN31-T40',
      bracket: { kind: 'less', floor: null, cap: 40 },
      yesBid: 40n * CENT,
      yesAsk: 43n * CENT,
      noBid: 57n * CENT,
      noAsk: 60n * CENT,
    },
    {
      ...newYork,
      ticker: 'KXHIGHNY-26JAN31-T39',
      bracket: { kind: 'greater', floor: 39, cap: null },
      status: 'finalized',
      yesBid: null,
      yesAsk: null,
      noBid: null,
      noAsk: null,
      lastPrice: null,
      // Finer ticks below ten cents.
      priceRanges: [
        { start: 0n, end: 10n * CENT, step: CENT / 10n },
        { start: 10n * CENT, end: DOLLAR, step: CENT },
      ],
    },
    {
      ...common,
      eventTicker: 'KXHIGHDEN-26JAN31',
      seriesTicker: 'KXHIGHDEN',
      station: findStation('KDEN')!,
      ticker: 'KXHIGHDEN-26JAN31-B50.5',
      bracket: { kind: 'between', floor: 50, cap: 51 },
      status: 'closed',
      yesBid: null,
      yesAsk: CENT,
      noBid: 99n * CENT,
      noAsk: null,
    },
  ];
}

export const makeBooks = (): Map<string, OrderBook> =>
  new Map([
    [
      'KXHIGHNY-26JAN31-T40',
      { yes: [{ price: 40n * CENT, contracts: 12 }], no: [{ price: 57n * CENT, contracts: 7 }] },
    ],
    ['KXHIGHNY-26JAN31-T39', { yes: [], no: [] }],
    ['KXHIGHDEN-26JAN31-B50.5', { yes: [], no: [{ price: 99n * CENT, contracts: 3 }] }],
  ]);

export class ScriptedMarkets implements MarketSource {
  readonly name = 'scripted';
  behaviour: Behaviour = 'answer';
  asked = 0;
  markets = makeMarkets();
  books = makeBooks();
  prints: Print[] = [];
  signals: AbortSignal[] = [];
  clock: Clock = { now: () => Date.parse('2026-01-31T12:00:00Z') };

  async read(signal: AbortSignal): Promise<MarketData> {
    this.asked++;
    this.signals.push(signal);
    await follow(this.behaviour);
    return {
      fetchedAt: new Date(this.clock.now()),
      isTrading: true,
      markets: this.markets,
      books: this.books,
      feeRules: new Map(),
    };
  }

  async find(tickers: readonly string[]) {
    return this.markets.filter(({ ticker }) => tickers.includes(ticker));
  }

  async readPrints(tickers: readonly string[], since: Date) {
    const now = new Date(this.clock.now());
    return this.prints.filter(({ ticker, at }) => tickers.includes(ticker) && at >= since && at <= now);
  }
}

export class ScriptedWeather implements WeatherSource {
  readonly name = 'scripted weather';
  freshMs = 0;
  notes: VenueNote[] = [];
  behaviour: Behaviour = 'answer';
  asked = 0;
  clock: Clock = { now: () => Date.parse('2026-01-31T12:00:00Z') };

  async read(): Promise<WeatherData> {
    this.asked++;
    await follow(this.behaviour);
    const fetchedAt = new Date(this.clock.now());
    const modelRunAt = new Date('2026-01-31T06:00:00Z');
    return {
      fetchedAt,
      notes: this.notes,
      ensembles: [
        {
          kind: 'daily_maximum',
          stationId: 'KNYC',
          date: '2026-01-31',
          modelRunAt,
          fetchedAt,
          membersF: [...members],
        },
      ],
      observed: [
        {
          kind: 'daily_maximum',
          stationId: 'KNYC',
          date: '2026-01-31',
          extremeF: 36.5,
          observedAt: new Date('2026-01-31T11:51:00Z'),
          fetchedAt,
        },
      ],
    };
  }
}

async function follow(behaviour: Behaviour): Promise<void> {
  if (behaviour instanceof Error) throw behaviour;
  if (behaviour === 'hang') await new Promise(() => undefined);
  await behaviour;
}
