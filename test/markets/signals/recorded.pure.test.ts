import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { asksOf, emptyBook, isCrossed, toLevels, type OrderBook } from '../../../src/markets/market/book.js';
import { groupEvents, type MarketEvent } from '../../../src/markets/market/event.js';
import { readMarket } from '../../../src/markets/venue/kalshi-market.js';
import { createNoteBook } from '../../../src/markets/market/source.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR, parseDollars } from '../../../src/markets/market/money.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import type { EventSignals, Signal } from '../../../src/markets/signals/signal.js';
import { makeSignals } from '../../../src/markets/signals/signals.js';
import { wireMarket } from '../support/fake-venue.js';
import { calibrated, makeForecasts, makeGates, quadratic } from '../support/events.js';

const HOUR_MS = 3_600_000;
const fileOf = (name: string) => new URL(`../../../../shared/data/kalshi/${name}`, import.meta.url);
const readGzip = (name: string): string => gunzipSync(readFileSync(fileOf(name))).toString();
const eventFiles = ['NY', 'CHI', 'MIA'].map((city) => `events_KXHIGH${city}.jsonl.gz`);
const tradeFile = 'raw_trades_5cities_2025-04-15.json.gz';
const isThere = [...eventFiles, tradeFile].every((name) => existsSync(fileOf(name)));

/** Computes signals at a given time from a toy forecast that gives every bracket the same probability. */
function signalsAt(
  event: MarketEvent,
  books: ReadonlyMap<string, OrderBook>,
  at: Date,
): readonly EventSignals[] {
  const { station, date } = event;
  const hasBegun = at > climateDayOf(station, date).start;
  const observed = {
    kind: 'daily_maximum' as const,
    stationId: station.id,
    date,
    extremeF: -20,
    observedAt: at,
    fetchedAt: at,
  };
  return makeSignals({
    data: {
      fetchedAt: at,
      isTrading: true,
      markets: event.markets,
      books,
      feeRules: new Map(event.markets.map(({ seriesTicker }) => [seriesTicker, quadratic])),
    },
    events: [event],
    forecasts: makeForecasts(
      event,
      event.markets.map(() => 1 / 6),
      {
        at,
        ...calibrated,
        observed: hasBegun ? observed : null,
      },
    ),
    gates: makeGates(true, [station.id], at),
    bankroll: 1_000n * DOLLAR,
    at,
  }).events;
}

interface WireEvent {
  markets: { status: string; yes_bid_dollars: string; yes_ask_dollars: string; yes_bid_size_fp?: string }[];
}

/**
 * Recorded markets or, if the recording is absent, a few made-up ones in the venue's format: settled, one-sided and
 * two-sided.
 */
const recorded: WireEvent[] = isThere
  ? eventFiles.flatMap((name) =>
      readGzip(name)
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as WireEvent),
    )
  : [
      ownEvent('active', ['0.0000', '0.0100']),
      ownEvent('finalized', ['0.0000', '1.0000']),
      ownEvent('finalized', ['0.0500', '0.1000']),
      ownEvent('closed', ['0.9900', '1.0000']),
    ];

function ownEvent(status: string, [bid, ask]: [string, string]): WireEvent {
  const strikes = [
    { cap: 60 },
    ...[60, 62, 64, 66].map((floor) => ({ floor, cap: floor + 1 })),
    { floor: 67 },
  ];
  const markets = strikes.map((strike) => ({
    ...wireMarket('KXHIGHNY-25JAN16', strike, { status, close_time: '2025-01-17T04:59:00Z', result: '' }),
    yes_bid_dollars: bid,
    yes_ask_dollars: ask,
    yes_bid_size_fp: undefined,
  }));
  return { markets: markets as unknown as WireEvent['markets'] };
}

/** A book with the recorded best prices and either the recorded or the given number of contracts. */
function bestPrices(wire: WireEvent['markets'][number], contracts?: number): OrderBook {
  const size = contracts ?? Number(wire.yes_bid_size_fp ?? 0);
  const level = (price: bigint) => toLevels([{ price, contracts: size }]);
  return {
    yes: level(parseDollars(wire.yes_bid_dollars)),
    no: level(DOLLAR - parseDollars(wire.yes_ask_dollars)),
  };
}

/** Seven hours before the end of the day, one hour before signals stop. */
const lateIn = ({ station, date }: MarketEvent): Date =>
  new Date(climateDayOf(station, date).end.getTime() - 7 * HOUR_MS);

const whole = recorded.map(({ markets: wires }) => {
  const markets = wires.flatMap((wire) => readMarket(wire, createNoteBook()) ?? []);
  const [event] = groupEvents(markets);
  return { event: event!, markets, wires };
});

describe('for recorded events', () => {
  it('nothing is sized on settled or closed markets, or on a book without sizes', () => {
    for (const { event, markets, wires } of whole) {
      const books = new Map(markets.map(({ ticker }, i) => [ticker, bestPrices(wires[i]!)]));
      const events = signalsAt(event, books, lateIn(event));
      const isActive = wires.some(({ status }) => status === 'active');
      expect(events.length).toBe(isActive ? 1 : 0);
      for (const { signals, suppressed } of events) {
        expect(signals).toEqual([]);
        for (const { reason } of suppressed)
          expect(reason).toMatch(/^(its order book is empty|the market is not open)$/);
      }
    }
  });

  it('nothing is sized where a side is empty, nor anywhere at a better price than recorded', () => {
    const count = { signals: 0, oneSided: 0 };
    for (const { event, markets, wires } of whole) {
      const books = new Map(markets.map(({ ticker }, i) => [ticker, bestPrices(wires[i]!, 100)]));
      const open = {
        ...event,
        markets: event.markets.map((market): Market => ({
          ...market,
          status: 'active',
          closeTime: climateDayOf(event.station, event.date).end,
        })),
      };
      const [{ signals, suppressed }] = signalsAt(open, books, lateIn(event)) as [EventSignals];
      expect(signals.length + suppressed.length).toBe(12);
      count.oneSided += suppressed.filter(({ reason }) => reason.includes('only one side')).length;
      for (const { market, side, price, contracts } of signals) {
        const wire = wires[markets.findIndex(({ ticker }) => ticker === market.ticker)]!;
        expect([wire.yes_bid_dollars === '0.0000', wire.yes_ask_dollars === '1.0000']).toEqual([
          false,
          false,
        ]);
        const ask =
          side === 'yes' ? parseDollars(wire.yes_ask_dollars) : DOLLAR - parseDollars(wire.yes_bid_dollars);
        expect(price).toBe(ask);
        expect(contracts).toBeLessThanOrEqual(100);
        count.signals += 1;
      }
    }
    expect(count.signals).toBeGreaterThan(0);
    expect(count.oneSided).toBeGreaterThan(0);
  });
});

interface Trade {
  count: number;
  created_time: string;
  yes_price: number;
  no_price: number;
  taker_side: 'yes' | 'no';
}
type Tape = Record<string, Record<string, Trade[]>>;

/** A few made-up trades within one minute, used if the recording is absent. The third market is crossed. */
const ownTape: Tape = {
  KXHIGHNY: {
    'KXHIGHNY-25APR15-T62': [],
    'KXHIGHNY-25APR15-B62.5': trades([4, 'yes', 50], [3, 'no', 20]),
    'KXHIGHNY-25APR15-B64.5': trades([12, 'yes', 30], [13, 'yes', 400], [10, 'no', 80]),
    'KXHIGHNY-25APR15-B66.5': trades([40, 'yes', 30], [44, 'no', 30]),
    'KXHIGHNY-25APR15-B68.5': trades([35, 'yes', 30], [31, 'no', 60]),
    'KXHIGHNY-25APR15-T69': trades([9, 'yes', 90]),
  },
};

function trades(...of: [yesPrice: number, takerSide: 'yes' | 'no', count: number][]): Trade[] {
  return of.map(([yes_price, taker_side, count], i) => ({
    count,
    created_time: `2025-04-15T14:30:${10 + i}.000Z`,
    yes_price,
    no_price: 100 - yes_price,
    taker_side,
  }));
}

const tape: Tape = isThere ? (JSON.parse(readGzip(tradeFile)) as Tape) : ownTape;

/** Builds the event for a day's trades from the strikes in its tickers. */
function eventOf(tickers: string[]): MarketEvent {
  const eventTicker = tickers[0]!.slice(0, tickers[0]!.lastIndexOf('-'));
  const strikes = tickers.map((ticker) => ticker.slice(eventTicker.length + 1));
  const tails = strikes.filter((strike) => strike.startsWith('T')).map((strike) => Number(strike.slice(1)));
  const toStrikes = (strike: string) => {
    const value = Number(strike.slice(1));
    if (strike.startsWith('B')) return { floor: value - 0.5, cap: value + 0.5 };
    return value === Math.min(...tails) ? { cap: value } : { floor: value };
  };
  const close_time = '2025-04-16T03:59:00Z';
  // The tape has no rules, so this uses the venue's rules at the time.
  const markets = strikes.map((strike) =>
    readMarket(wireMarket(eventTicker, toStrikes(strike), { close_time }), createNoteBook())!,
  );
  return groupEvents(markets)[0]!;
}

const minuteOf = (time: string): string => time.slice(0, 16);

/** A YES trade proves an ask at its price for as many contracts; a NO trade proves a bid for YES. */
const bookOf = (ofMinute: Trade[]): OrderBook => ({
  yes: toLevels(
    ofMinute
      .filter(({ taker_side }) => taker_side === 'no')
      .map(({ yes_price, count }) => ({ price: BigInt(yes_price) * CENT, contracts: count })),
  ),
  no: toLevels(
    ofMinute
      .filter(({ taker_side }) => taker_side === 'yes')
      .map(({ no_price, count }) => ({ price: BigInt(no_price) * CENT, contracts: count })),
  ),
});

/** Total profit or loss of an event's signals if this market wins, in millionths of a dollar. */
const outcome = (signals: readonly Signal[], winner: string): bigint =>
  signals.reduce((sum, { market, side, contracts, stake }) => {
    const pays = (market.ticker === winner) === (side === 'yes');
    return sum + (pays ? BigInt(contracts) * DOLLAR : 0n) - stake;
  }, 0n);

/**
 * Recomputes a cost by hand: the cheapest contracts plus 7% of contracts × price × (1 − price) per price, rounded up to
 * a millionth; then the sum rounded up to $0.0001.
 */
function costByHand(asked: { price: bigint; contracts: number }[], contracts: number): bigint {
  let [left, exact] = [contracts, 0];
  for (const { price, contracts: depth } of asked) {
    const taken = Math.min(left, depth);
    const p = Number(price) / 1e6;
    exact += taken * p * 1e6 + Math.ceil(Number((0.07 * taken * p * (1 - p) * 1e6).toFixed(4)));
    left -= taken;
  }
  return BigInt(Math.ceil(Number((exact / 100).toFixed(4)))) * 100n;
}

describe('for the trades of a recorded day', () => {
  it('each signal buys what was really sold in that minute, at its real cost', () => {
    const count = { signals: 0, crossed: 0, minutes: 0, hedges: 0 };
    for (const ofMarkets of Object.values(tape)) {
      const event = eventOf(Object.keys(ofMarkets));
      const { end } = climateDayOf(event.station, event.date);
      const minutes = new Set(
        Object.values(ofMarkets).flatMap((list) => list.map((trade) => minuteOf(trade.created_time))),
      );
      for (const minute of minutes) {
        const books = new Map(
          Object.entries(ofMarkets).map(([ticker, list]) => [
            ticker,
            bookOf(list.filter((trade) => minuteOf(trade.created_time) === minute)),
          ]),
        );
        const traded = [...books.values()].filter(({ yes, no }) => yes.length > 0 && no.length > 0);
        if (traded.length === 0) continue;
        const at = new Date(`${minute}:59.999Z`);
        const [report] = signalsAt(event, books, at);
        if (!report) continue;
        count.minutes += 1;
        const { signals, suppressed, worstCase, stake } = report;
        if (end.getTime() - at.getTime() < 6 * HOUR_MS) expect(signals).toEqual([]);
        for (const [ticker, book] of books) {
          if (!isCrossed(book)) continue;
          count.crossed += 1;
          expect(signals.some(({ market }) => market.ticker === ticker)).toBe(false);
          expect(suppressed.filter((side) => side.ticker === ticker)).toHaveLength(2);
        }
        for (const signal of signals) {
          const { market, side, price, depth, contracts, limitPrice, breakEven, probability } = signal;
          const asked = asksOf(books.get(market.ticker) ?? emptyBook, side);
          expect([price, depth]).toEqual([asked[0]!.price, asked[0]!.contracts]);
          const within = asked.filter((level) => level.price <= limitPrice);
          expect(contracts).toBeLessThanOrEqual(within.reduce((sum, level) => sum + level.contracts, 0));
          expect(signal.stake).toBe(costByHand(asked, contracts));
          expect(breakEven).toBeCloseTo(Number(signal.stake) / 1e6 / contracts, 9);
          expect(probability).toBeCloseTo(side === 'yes' ? 1 / 6 : 5 / 6, 9);
          expect(breakEven < probability).toBe(!signal.isHedge);
          count.signals += 1;
          if (signal.isHedge) count.hedges += 1;
        }
        // The worst result over all winners is the stated worst case, and no signal loses more than its stake.
        const outcomes = event.markets.map(({ ticker }) => outcome(signals, ticker));
        const worst = outcomes.reduce((least, value) => (value < least ? value : least));
        expect(worstCase).toBe(worst < 0n ? -worst : 0n);
        expect(worstCase).toBeLessThanOrEqual(stake);
        expect(stake).toBeLessThanOrEqual(100n * DOLLAR);
      }
    }
    expect(count.signals).toBeGreaterThan(isThere ? 50 : 0);
    expect(count.crossed).toBeGreaterThan(isThere ? 50 : 0);
  });
});
