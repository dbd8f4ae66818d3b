import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quoteOrder, type OrderBook } from '../../../src/markets/market/book.js';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR, type Micros } from '../../../src/markets/market/money.js';
import type { Holding } from '../../../src/markets/ledger/positions.js';
import { paidOf } from '../../../src/markets/signals/sizes.js';
import type { Signal, SignalReport } from '../../../src/markets/signals/signal.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { makeSignals, type SignalInput } from '../../../src/markets/signals/signals.js';
import {
  calibrated,
  makeBook,
  makeData,
  makeEvent,
  makeForecasts,
  makeGates,
  quadratic,
} from '../support/events.js';

const date = '2026-07-04';
const at = new Date('2026-07-04T06:00:00Z');
const bankroll = 1_000n * DOLLAR;
const stations = ['KNYC', 'KAUS', 'KDEN', 'KMIA'];

/** Reference case B. A quarter of its Kelly solution costs at most $73.85 at a bankroll of $1,000. */
const chances = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];
const asks = [3, 12, 27, 30, 20, 13].map((ask) => makeBook([[1, 1]], [[100 - ask, 1_000_000]]));

interface City {
  stationId: string;
  books?: OrderBook[];
  probabilities?: number[];
  date?: string;
  isMinimum?: boolean;
  over?: Partial<Market>;
}

const gates = makeGates(true, stations, at);
const openGates = {
  ...gates,
  gates: gates.gates.flatMap((gate) => [gate, { ...gate, kind: 'daily_minimum' as const }]),
};

function toMinimum({ station, date, markets }: MarketEvent): MarketEvent {
  const seriesTicker = findStation(station.id)!.series.minimum;
  const eventTicker = `${seriesTicker}-${date}`;
  const kind = 'daily_minimum' as const;
  const ladder = markets.map((market, i) => ({
    ...market,
    kind,
    seriesTicker,
    eventTicker,
    ticker: `${eventTicker}-${i}`,
  }));
  return { eventTicker, kind, station, date, markets: ladder };
}

type Situation = Omit<SignalInput, 'bankroll' | 'account'>;

function situationOf(cities: City[]): Situation {
  const each = cities.map((city) => {
    const maximum = makeEvent({ lowest: 68, date, ...city });
    const event = city.isMinimum ? toMinimum(maximum) : maximum;
    const data = makeData(event, city.books ?? asks, at);
    const forecasts = makeForecasts(event, city.probabilities ?? chances, { at, ...calibrated });
    return { event, data, forecasts };
  });
  const days = (stationId: string) =>
    each.flatMap(({ forecasts }) => [...(forecasts.get(stationId)?.days ?? [])]);
  return {
    data: {
      ...each[0]!.data,
      markets: each.flatMap(({ data }) => data.markets),
      books: new Map(each.flatMap(({ data }) => [...data.books])),
      feeRules: new Map(each.flatMap(({ data }) => [...data.feeRules])),
    },
    events: each.map(({ event }) => event),
    forecasts: new Map(
      each.map(({ event: { station } }) => [station.id, { station, source: 'test', days: days(station.id) }]),
    ),
    gates: openGates,
    at,
  };
}

const forBankroll = (cities: City[]): SignalReport => makeSignals({ ...situationOf(cities), bankroll });
const forAccount = (cities: City[], cash: Micros, held: [string, Holding][] = []): SignalReport =>
  makeSignals({ ...situationOf(cities), account: { cash, holdings: new Map(held) } });
const stakeOf = (events: SignalReport['events'], wanted = date): Micros =>
  events.filter((event) => event.date === wanted).reduce((sum, { stake }) => sum + stake, 0n);
const byStation = ({ events }: SignalReport) =>
  new Map(events.map((event) => [`${event.stationId} ${event.date}`, event]));

describe('the caps of a market and of an event', () => {
  it('are 5% and 10% of the bankroll, to the cent', () => {
    // Three brackets at $0.20, or $0.2112 with the fee, worth $0.30 each.
    const cheap = makeBook([[1, 1]], [[80, 100_000]]);
    const wide = [20, 20, 20, 90, 90, 90].map((ask) => (ask === 20 ? cheap : makeBook([[1, 1]], [[10, 1]])));
    const { events } = forBankroll([
      { stationId: 'KNYC', books: wide, probabilities: [0.31, 0.3, 0.29, 0.05, 0.03, 0.02] },
    ]);
    const [{ signals, stake, worstCase }] = events as [SignalReport['events'][number]];
    expect(stake).toBeLessThanOrEqual(100n * DOLLAR);
    expect(stake).toBeGreaterThan(99n * DOLLAR);
    expect(worstCase).toBe(stake);
    for (const { stake: one } of signals) expect(one).toBeLessThanOrEqual(50n * DOLLAR);
    expect(signals.some(({ limitedBy }) => limitedBy === 'event')).toBe(true);
    const limited = signals.find(({ limitedBy }) => limitedBy === 'event')!;
    expect(limited.reasons[2]).toContain('limited by the cap of 10% of the bankroll for an event');
    const single = forBankroll([
      { stationId: 'KNYC', books: wide, probabilities: [0.9, 0.02, 0.02, 0.02, 0.02, 0.02] },
    ]).events[0]!.signals;
    // 236 at $0.20 with a fee of 0.07 · 236 · 0.16 = $2.6432 cost $49.85; a 237th would make it $50.06.
    expect(single).toMatchObject([{ limitedBy: 'market' }]);
    expect(single[0]!.contracts).toBeLessThanOrEqual(236);
    expect(single[0]!.contracts).toBeGreaterThanOrEqual(234);
    expect(single[0]!.reasons[2]).toContain('the cap of 5% of the bankroll for a market');
  });
});

describe('the cap of a day', () => {
  it('is shared among its cities, and a city it cuts is resized and says so', () => {
    const report = forBankroll(stations.map((stationId) => ({ stationId })));
    const events = byStation(report);
    // All cities are equally good, so ties are broken by ticker: AUS and DEN get their full size, MIA the rest of the
    // $200, and NY nothing.
    const wanted = forBankroll([{ stationId: 'KNYC' }]).events[0]!.stake;
    expect(wanted).toBeGreaterThan(72n * DOLLAR);
    for (const city of ['KAUS', 'KDEN']) expect(events.get(`${city} ${date}`)!.stake).toBe(wanted);
    const cut = events.get(`KMIA ${date}`)!;
    expect(cut.stake).toBeLessThanOrEqual(200n * DOLLAR - 2n * wanted);
    expect(cut.stake).toBeGreaterThan(50n * DOLLAR);
    expect(cut.signals.some(({ limitedBy }) => limitedBy === 'day')).toBe(true);
    expect(cut.signals.every(({ limitedBy }) => limitedBy !== 'event')).toBe(true);
    expect(cut.signals.find(({ limitedBy }) => limitedBy === 'day')!.reasons[2]).toContain(
      'the cap of 20% of the bankroll for all events of a day, which favours events with more growth',
    );
    expect(stakeOf(report.events)).toBeLessThanOrEqual(200n * DOLLAR);
    const last = events.get(`KNYC ${date}`)!;
    const crowded = last.suppressed.filter(
      ({ reason }) => reason === 'events with more growth use up the cap of the day',
    );
    expect(last.signals.length + crowded.length).toBe(4);
    expect(crowded.length).toBeGreaterThan(0);
  });

  it('goes first to the event with the most growth alone', () => {
    const better = [0.05, 0.15, 0.38, 0.28, 0.1, 0.04];
    const events = byStation(
      forBankroll(
        stations.map((stationId) => ({
          stationId,
          ...(stationId === 'KNYC' ? { probabilities: better } : {}),
        })),
      ),
    );
    const alone = forBankroll([{ stationId: 'KNYC', probabilities: better }]).events[0]!;
    expect(events.get(`KNYC ${date}`)).toEqual(alone);
    expect(alone.growth).toBeGreaterThan(0.0274);
    // New York now comes first, so MIA, the last of the tied cities, gets less.
    expect(events.get(`KMIA ${date}`)!.stake).toBeLessThan(50n * DOLLAR);
  });

  it("covers maxima and minima together, because a day's weather is correlated", () => {
    const cities = ['KNYC', 'KAUS'].flatMap((stationId) => [{ stationId }, { stationId, isMinimum: true }]);
    const { events } = forBankroll(cities);
    const wanted = forBankroll([{ stationId: 'KNYC', isMinimum: true }]).events[0]!.stake;
    // Ties are broken by ticker: two events get their full size, the third the rest of the $200, and the last nothing.
    expect(events.map(({ stake }) => stake).filter((stake) => stake === wanted)).toHaveLength(2);
    expect(stakeOf(events)).toBeLessThanOrEqual(200n * DOLLAR);
    expect(stakeOf(events)).toBeGreaterThan(190n * DOLLAR);
    const stakes = new Map(events.map(({ eventTicker, stake }) => [eventTicker, stake]));
    expect(stakes.get(`KXHIGHAUS-${date}`)).toBe(wanted);
    expect(stakes.get(`KXHIGHNY-${date}`)).toBe(wanted);
    const cut = events.find(({ eventTicker }) => eventTicker === `KXLOWTAUS-${date}`)!;
    expect(cut.signals.some(({ limitedBy }) => limitedBy === 'day')).toBe(true);
  });

  it('counts a held minimum against a maximum', () => {
    const both = [{ stationId: 'KNYC' }, { stationId: 'KNYC', isMinimum: true }];
    const held: [string, Holding][] = [
      [`KXLOWTNYC-${date}-5`, { side: 'yes', contracts: 1_000, cost: 120n * DOLLAR }],
    ];
    const free = forAccount(both, 1_000n * DOLLAR).events[0]!;
    const left = forAccount(both, 880n * DOLLAR, held).events[0]!;
    expect(free.stake).toBeGreaterThan(70n * DOLLAR);
    // A fifth of the account's value, less the $120 already spent.
    expect(left.stake).toBeLessThanOrEqual(62n * DOLLAR);
    expect(left.stake).toBeGreaterThan(45n * DOLLAR);
    expect(left.signals.some(({ limitedBy }) => limitedBy === 'day')).toBe(true);
  });

  it('applies to each climate date separately', () => {
    const report = forBankroll(
      stations.flatMap((stationId) => [{ stationId }, { stationId, date: '2026-07-05' }]),
    );
    expect(stakeOf(report.events, '2026-07-05')).toBeGreaterThan(190n * DOLLAR);
    expect(stakeOf(report.events)).toBeGreaterThan(190n * DOLLAR);
  });

  it('is not used up by what the gate withholds', () => {
    const cities = stations.map((stationId) => ({ stationId }));
    const { events } = makeSignals({ ...situationOf(cities), gates: makeGates(true, ['KNYC']), bankroll });
    expect(events[0]!.stake).toBe(forBankroll([{ stationId: 'KNYC' }]).events[0]!.stake);
    expect(events.slice(1).map(({ stationId, stake }) => [stationId, stake])).toEqual([
      ['KAUS', 0n],
      ['KDEN', 0n],
      ['KMIA', 0n],
    ]);
  });

  it('does not depend on the order of events and markets', () => {
    const cities = stations.map((stationId, i) => ({
      stationId,
      probabilities: i % 2 === 0 ? chances : [0.05, 0.16, 0.35, 0.28, 0.11, 0.05],
    }));
    const expected = byStation(forBankroll(cities));
    fc.assert(
      fc.property(
        fc.shuffledSubarray(cities, { minLength: cities.length }),
        fc.infiniteStream(fc.nat()),
        (shuffled, dice) => {
          const situation = situationOf(shuffled);
          const markets = situation.data.markets
            .map((market) => ({ market, order: dice.next().value as number }))
            .toSorted((a, b) => a.order - b.order)
            .map(({ market }) => market);
          const data = { ...situation.data, markets };
          expect(byStation(makeSignals({ ...situation, data, bankroll }))).toEqual(expected);
        },
      ),
      { numRuns: 10 },
    );
  });
});

describe('signals for an account', () => {
  const tickerOf = (stationId: string, i: number): string =>
    makeEvent({ date, lowest: 68, stationId }).markets[i]!.ticker;
  const holding = (contracts: number, cost: Micros, side: Holding['side'] = 'yes'): Holding => ({
    side,
    contracts,
    cost,
  });

  it('without holdings equal those for a bankroll of its cash', () => {
    expect(forAccount([{ stationId: 'KNYC' }], bankroll)).toEqual(forBankroll([{ stationId: 'KNYC' }]));
  });

  it('count holdings in the bankroll at their current sale value', () => {
    const book = makeBook(
      [
        [48, 30],
        [40, 1],
      ],
      [[50, 10]],
    );
    const held: [string, Holding][] = [[tickerOf('KNYC', 2), holding(40, 20n * DOLLAR)]];
    const books = [...asks.slice(0, 2), book, ...asks.slice(3)];
    // The 40 held sell for $14.259: 30 at $0.48 and one at $0.40, less fees of $0.52416 and $0.0168; the others have no
    // bid.
    expect(forAccount([{ stationId: 'KNYC', books }], 500n * DOLLAR, held).bankroll).toBe(514_259_000n);
  });

  it('do not buy again what the account already holds of an event', () => {
    const one: City = { stationId: 'KNYC', books: [2, 2, 50, 2, 2, 2].map(oneSided), probabilities: sure };
    const [wanted] = forAccount([one], bankroll).events[0]!.signals;
    const { contracts, stake } = wanted!;
    const held: [string, Holding][] = [[wanted!.market.ticker, holding(contracts, stake)]];
    const again = forAccount([one], bankroll - stake, held).events[0]!;
    const rest = again.signals.filter(({ market, side }) => market === wanted!.market && side === 'yes');
    expect(rest.reduce((sum, signal) => sum + signal.contracts, 0)).toBeLessThanOrEqual(2);
  });

  it('count holdings against the caps, including those in closed events of the day', () => {
    const closed: City = { stationId: 'KAUS', over: { status: 'closed' } };
    const held: [string, Holding][] = [[tickerOf('KAUS', 2), holding(400, 180n * DOLLAR)]];
    const { events, bankroll: of } = forAccount([closed, { stationId: 'KNYC' }], bankroll, held);
    // A holding in a closed market cannot be sold, so it adds nothing to the bankroll, but its $180 cost and $6.93 fee
    // still use up most of the day's $200 cap.
    expect(of).toBe(bankroll);
    expect(stakeOf(events)).toBeLessThanOrEqual(13_070_000n);
    expect(stakeOf(events)).toBeGreaterThan(12n * DOLLAR);
    expect(events).toHaveLength(1);
  });

  it('spend no more on all events than the cash', () => {
    // A holding in another city is worth $4,000, so caps and Kelly would allow far more than the cash.
    const rich = makeEvent({ date: '2026-07-06', lowest: 68, stationId: 'KPHL' }).markets[0]!;
    const books = [makeBook([[40, 100_000]], [[55, 1]]), ...asks.slice(1)];
    const cities: City[] = [
      { stationId: 'KPHL', date: '2026-07-06', books },
      ...stations.map((stationId) => ({ stationId })),
    ];
    const cash = 70n * DOLLAR;
    const report = forAccount(cities, cash, [[rich.ticker, holding(10_000, 5_000n * DOLLAR)]]);
    expect(report.bankroll).toBeGreaterThan(3_500n * DOLLAR);
    const all = report.events.reduce((sum, { stake }) => sum + stake, 0n);
    expect(all).toBeLessThanOrEqual(cash);
    expect(all).toBeGreaterThan(60n * DOLLAR);
    expect(report.events.flatMap(({ suppressed }) => suppressed.map(({ reason }) => reason))).toContain(
      'events with more growth use up the cash',
    );
  });

  const sure = [0.08, 0.08, 0.6, 0.08, 0.08, 0.08];
  const oneSided = (ask: number) => makeBook([[1, 1]], [[ask === 50 ? 50 : 1, 10_000]]);
});

const sumOf = (amounts: readonly Micros[]): Micros => amounts.reduce((sum, amount) => sum + amount, 0n);

/** Returns the cost of a signal's contracts beyond those that close pairs, which are bought first. */
function openStakeOf(
  { market, side, contracts, closing, limitPrice, stake }: Signal,
  books: ReadonlyMap<string, OrderBook>,
): Micros {
  if (closing === contracts) return 0n;
  if (closing === 0) return stake;
  const order = { side, action: 'buy', limitPrice, timeInForce: 'fill_or_kill' } as const;
  const closed = quoteOrder(books.get(market.ticker)!, quadratic, { ...order, contracts: closing });
  return stake + closed.balanceChange;
}

describe('for random books, forecasts and accounts', () => {
  const levels = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 99 }), fc.integer({ min: 1, max: 500 })), {
    maxLength: 3,
    selector: ([cents]) => cents,
  });
  const anyBook = fc.tuple(levels, levels).map(([yes, no]) => makeBook(yes, no));
  const anyChances = fc
    .array(fc.double({ min: 0.001, max: 1, noNaN: true }), { minLength: 6, maxLength: 6 })
    .map((weights) => weights.map((w) => w / weights.reduce((sum, x) => sum + x, 0)));
  const anyCity = fc.record({
    books: fc.array(anyBook, { minLength: 6, maxLength: 6 }),
    probabilities: anyChances,
  });
  const anyHolding = fc.option(
    fc.record({
      side: fc.constantFrom('yes' as const, 'no' as const),
      contracts: fc.integer({ min: 1, max: 90 }),
    }),
  );

  it('each side has a signal or a reason, caps and cash hold to the cent, and each signal can be bought as stated', () => {
    fc.assert(
      fc.property(
        fc.tuple(anyCity, anyCity, anyCity),
        fc.array(anyHolding, { minLength: 6, maxLength: 6 }),
        fc.integer({ min: 1, max: 100_000 }),
        (cities, holdings, cents) => {
          const given = situationOf(cities.map((city, i) => ({ ...city, stationId: stations[i]! })));
          const held = new Map(
            given.events[0]!.markets.flatMap(({ ticker }, i): [string, Holding][] =>
              holdings[i]
                ? [[ticker, { ...holdings[i], cost: BigInt(holdings[i].contracts) * 20n * CENT }]]
                : [],
            ),
          );
          const cash = BigInt(cents) * CENT;
          const report = makeSignals({ ...given, account: { cash, holdings: held } });
          const paid = paidOf(held, given.events[0]!.markets, given.data);
          const spent = report.events.map(({ signals }) =>
            signals.reduce((sum, signal) => sum + openStakeOf(signal, given.data.books), 0n),
          );
          expect(sumOf(spent)).toBeLessThanOrEqual(cash);
          const dayRoom = report.bankroll / 5n - paid;
          // Contracts that close pairs are not part of the stake, and they free up room under the cap.
          const isClosing = report.events.some(({ signals }) => signals.some(({ closing }) => closing > 0));
          if (!isClosing) expect(sumOf(spent)).toBeLessThanOrEqual(dayRoom > 0n ? dayRoom : 0n);
          for (const [i, { signals, suppressed, stake, worstCase }] of report.events.entries()) {
            expect(signals.length + suppressed.length).toBe(12);
            const sides = signals.map(({ market, side }) => `${market.ticker} ${side}`);
            expect(new Set(sides).size).toBe(sides.length);
            expect(stake).toBe(signals.reduce((sum, signal) => sum + signal.stake, 0n));
            if (spent[i]! > 0n && !isClosing)
              expect(stake + (i === 0 ? paid : 0n)).toBeLessThanOrEqual(report.bankroll / 10n);
            expect(worstCase).toBeLessThanOrEqual(stake);
            for (const signal of signals) {
              const { market, side, contracts, limitPrice, isHedge } = signal;
              const book = given.data.books.get(market.ticker)!;
              const order = {
                side,
                action: 'buy',
                contracts,
                limitPrice,
                timeInForce: 'fill_or_kill',
              } as const;
              expect(signal.stake).toBe(-quoteOrder(book, quadratic, order).balanceChange);
              if (signal.closing === 0)
                expect(signal.stake + (held.get(market.ticker)?.cost ?? 0n)).toBeLessThanOrEqual(
                  report.bankroll / 20n,
                );
              expect(signal.edge > 0 || isHedge).toBe(true);
              expect(book.yes.length * book.no.length).toBeGreaterThan(0);
              expect(signal.reasons).toHaveLength(4);
            }
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
