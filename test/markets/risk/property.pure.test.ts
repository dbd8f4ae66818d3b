import fc from 'fast-check';
import { expect, it } from 'vitest';
import { clockSkewOf } from '../../../src/markets/venue/kalshi-client.js';
import { CENT, DOLLAR, type Micros } from '../../../src/markets/market/money.js';
import { applyFill } from '../../../src/markets/ledger/positions.js';
import { assessRisk } from '../../../src/markets/risk/gate.js';
import type { HeldPosition } from '../../../src/markets/risk/facts.js';
import { defaultLimits } from '../../../src/markets/risk/limits.js';
import { inputOf, factsOf, EVENT } from '../support/risk.js';

const tickers = ['COLD', 'MILD', 'WARM'] as const;
const side = fc.constantFrom('yes' as const, 'no' as const);

/** At most one position per bracket. */
const positions = fc
  .tuple(
    ...tickers.map((ticker) =>
      fc.record({ ticker: fc.constant(ticker), side, contracts: fc.nat(60), cents: fc.nat(99) }),
    ),
  )
  .map((list) =>
    list
      .filter(({ contracts }) => contracts > 0)
      .map(({ cents, ...one }): HeldPosition => ({
        ...one,
        eventTicker: EVENT,
        cost: BigInt(cents * one.contracts) * CENT,
      })),
  );

const ask = fc.record({
  ticker: fc.constantFrom(...tickers),
  side,
  action: fc.constantFrom('buy' as const, 'sell' as const),
  contracts: fc.integer({ min: 1, max: 80 }),
  limitPrice: fc.integer({ min: 30, max: 62 }).map((cents) => BigInt(cents) * CENT),
});

/** Computes the loss in the worst outcome bracket by bracket, independently of the code under test. */
function lossOf(held: HeldPosition[]): Micros {
  const profits = tickers.map((winner) => {
    let profit = 0n;
    for (const { ticker, side: own, contracts, cost } of held) {
      profit -= cost;
      if (own === 'yes' ? ticker === winner : ticker !== winner) profit += BigInt(contracts) * DOLLAR;
    }
    return profit;
  });
  const worst = profits.reduce((a, b) => (a < b ? a : b));
  return worst < 0n ? -worst : 0n;
}

it('an order that passes keeps every limit, whatever part fills at whatever better price', () => {
  const limits = { ...defaultLimits, maxPositionContracts: 70, maxEventLoss: 30n * DOLLAR };
  let passed = 0;
  fc.assert(
    fc.property(positions, ask, fc.nat(100), fc.nat(20), (before, order, percent, better) => {
      const facts = factsOf({ limits, positions: before, cash: 2000n * DOLLAR });
      if (assessRisk(inputOf(order), facts)) return;
      passed += 1;
      const filled = Math.ceil((order.contracts * percent) / 100);
      if (filled === 0) return;
      const held = before.find(({ ticker }) => ticker === order.ticker);
      const cheaper = BigInt(better) * CENT;
      const price = order.action === 'buy' ? order.limitPrice - cheaper : order.limitPrice + cheaper;
      // Throws if the order sells more than is held.
      const { holding } = applyFill(held, { ...order, contracts: filled, price, fee: 0n });
      const others = before.filter((position) => position !== held);
      const after = [...others, { ...holding, ticker: order.ticker, eventTicker: EVENT }];

      const wasHeld = held?.contracts ?? 0;
      expect(holding.contracts).toBeLessThanOrEqual(Math.max(limits.maxPositionContracts, wasHeld));
      // Reducing a position is always allowed, up to the contracts held.
      const isReducing = held !== undefined && holding.contracts < wasHeld && holding.side === held.side;
      const most = [limits.maxEventLoss, lossOf(before)].reduce((a, b) => (a > b ? a : b));
      if (!isReducing && (held === undefined || held.side === order.side))
        expect(lossOf(after) <= most).toBe(true);
    }),
    { numRuns: 3000 },
  );
  expect(passed).toBeGreaterThan(200);
});

it('halt lets nothing pass, and under reduce_only no position grows or changes sides', () => {
  const switchedTo = (state: 'halt' | 'reduce_only') => ({
    ...factsOf().switches,
    operator: { state, reason: null },
  });
  fc.assert(
    fc.property(positions, ask, (before, order) => {
      expect(
        assessRisk(inputOf(order), factsOf({ positions: before, switches: switchedTo('halt') }))?.check,
      ).toBe('halt');
      const facts = factsOf({ positions: before, switches: switchedTo('reduce_only') });
      if (assessRisk(inputOf(order), facts)) return;
      const held = before.find(({ ticker }) => ticker === order.ticker);
      const { holding } = applyFill(held, { ...order, price: order.limitPrice, fee: 0n });
      expect(holding.contracts).toBe(held!.contracts - order.contracts);
      expect(holding.side).toBe(held!.side);
    }),
    { numRuns: 1000 },
  );
});

it('neither latency nor rounding counts as clock skew', () => {
  const askedAt = Date.parse('2026-11-21T15:00:00.900Z');
  const skew = (date: string | null, tookMs: number, age?: string) =>
    clockSkewOf(
      new Headers({ ...(date === null ? {} : { date }), ...(age === undefined ? {} : { age }) }),
      askedAt,
      askedAt + tookMs,
    );
  const second = (n: number) => `Sat, 21 Nov 2026 15:00:${String(n).padStart(2, '0')} GMT`;
  // The response was written at 15:00:00.9, which its Date header truncates to 15:00:00.
  expect(skew(second(0), 50)).toBe(0);
  // Four seconds of latency.
  expect(skew(second(3), 4000)).toBe(0);
  // The Date header means that the response was written at 15:00:10 or later, but it arrived at 15:00:00.95.
  expect(skew(second(10), 50)).toBe(9050);
  // The Date header means that the response was written before 14:59:55, but it was requested at 15:00:00.9.
  expect(skew('Sat, 21 Nov 2026 14:59:54 GMT', 50)).toBe(-5900);
  // A cache held the response for seven seconds.
  expect(skew('Sat, 21 Nov 2026 14:59:54 GMT', 50, '7')).toBe(0);
  expect(skew(null, 50)).toBeUndefined();
  expect(skew('soon', 50)).toBeUndefined();
  expect(skew(second(0), 50, 'old')).toBeUndefined();
});
