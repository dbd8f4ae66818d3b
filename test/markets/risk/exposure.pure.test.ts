import { describe, expect, it } from 'vitest';
import type { EventEnds } from '../../../src/markets/market/event.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import {
  dayLossOf,
  positionAfter,
  toCandidate,
  worstCaseLoss,
  type Leg,
} from '../../../src/markets/risk/exposure.js';
import { factsOf, held, inputOf, market, pending, snapshotOf } from '../support/risk.js';

const leg = (ticker: string, side: 'yes' | 'no', contracts: number, cents: number): Leg => ({
  ticker,
  side,
  contracts,
  cost: BigInt(contracts * cents) * CENT,
});
const dollars = (count: number) => BigInt(Math.round(count * 100)) * CENT;

describe('the worst-case loss of an event', () => {
  /** A, B or neither of them wins; X and Y are unrelated markets. */
  const ends: EventEnds = {
    outcomes: [
      { ticker: 'A', paying: new Set(['A']) },
      { ticker: 'B', paying: new Set(['B']) },
      { ticker: null, paying: new Set() },
    ],
    free: new Set(['X', 'Y']),
  };
  const loss = (certain: Leg[], possible: Leg[] = []) => worstCaseLoss(ends, certain, possible);

  it('is 0 without positions and if they cannot lose', () => {
    expect(loss([])).toBe(0n);
    expect(worstCaseLoss({ outcomes: [], free: new Set() }, [], [])).toBe(0n);
    // One NO of each costs 80 cents, less than the dollar that at least one of the two always pays.
    expect(loss([leg('A', 'no', 10, 40), leg('B', 'no', 10, 40)])).toBe(0n);
  });

  it('nets mutually exclusive brackets', () => {
    expect(loss([leg('A', 'yes', 10, 60)])).toBe(dollars(6));
    expect(loss([leg('A', 'no', 10, 60), leg('B', 'no', 10, 60)])).toBe(dollars(2));
  });

  it('counts a market with no known relation to others at its own worst, on either side', () => {
    expect(loss([leg('X', 'yes', 10, 30)])).toBe(dollars(3));
    expect(loss([leg('X', 'no', 10, 30)])).toBe(dollars(3));
    expect(loss([leg('X', 'no', 10, 30), leg('Y', 'no', 10, 30)])).toBe(dollars(6));
    // A's gain when A pays does not offset X's possible loss.
    expect(loss([leg('A', 'yes', 10, 60), leg('X', 'yes', 10, 30)])).toBe(dollars(9));
  });

  it('counts an open order as filled or not, whichever is worse', () => {
    expect(loss([], [leg('A', 'yes', 10, 60)])).toBe(dollars(6));
    expect(loss([], [leg('X', 'no', 10, 30)])).toBe(dollars(3));
    // The NO order would offset A's loss, but it may not fill.
    expect(loss([leg('A', 'yes', 10, 60)], [leg('A', 'no', 10, 20)])).toBe(dollars(6));
    expect(loss([leg('A', 'yes', 10, 60)], [leg('B', 'yes', 10, 20)])).toBe(dollars(8));
    // Half of the holding is for sale: a sold contract brings 30 cents but no longer pays.
    expect(loss([leg('A', 'no', 10, 60)], [leg('A', 'no', -5, 30)])).toBe(dollars(6));
  });
});

describe('an order given holdings and pending orders', () => {
  const others = [
    pending('sell', 'MILD', 'yes', 4, 40),
    // Orders for another market and in the opposite direction.
    pending('sell', 'WARM', 'yes', 7, 40),
    pending('buy', 'MILD', 'yes', 3, 40),
  ];
  const facts = factsOf({ positions: [held('MILD', 'yes', 10, '4')], pending: others });

  it('closes only contracts that no other order closes', () => {
    const sale = toCandidate(inputOf({ action: 'sell', contracts: 6 }), facts);
    expect(sale).toMatchObject({ isReducing: true, closable: 6 });
    expect(toCandidate(inputOf({ action: 'sell', contracts: 7 }), facts).isReducing).toBe(false);
    expect(toCandidate(inputOf({ side: 'no', contracts: 6 }), facts)).toMatchObject({ closable: 6 });
    expect(toCandidate(inputOf({ ticker: 'WARM', action: 'sell' }), facts)).toMatchObject({ closable: 0 });
  });

  it('results in a position of holdings, pending purchases of the same side and itself', () => {
    expect(positionAfter(inputOf({ contracts: 5 }), facts)).toBe(10 + 3 + 5);
    expect(positionAfter(inputOf({ side: 'no', contracts: 12 }), facts)).toBe(4 + 12 - 10);
    expect(positionAfter(inputOf({ side: 'no', contracts: 5 }), facts)).toBe(0);
    expect(positionAfter(inputOf({ ticker: 'COLD', contracts: 5 }), facts)).toBe(5);
  });

  it.each([
    { contracts: 0 },
    { contracts: -1 },
    { contracts: Number.NaN },
    { limitPrice: 0n },
    { limitPrice: DOLLAR },
  ])('is invalid with %o', (ask) => {
    expect(() => toCandidate(inputOf(ask), facts)).toThrow(RangeError);
  });
});

describe('the loss since midnight', () => {
  const bought = [held('MILD', 'yes', 10, '4')];
  const view = (values: Parameters<typeof market>[2]) => {
    const snapshot = snapshotOf([market('MILD', { kind: 'between', floor: 50, cap: 51 }, values)]);
    return { markets: snapshot.markets, data: snapshot.data };
  };
  const lossOf = (values: Parameters<typeof market>[2], side: 'yes' | 'no' = 'yes') =>
    dayLossOf(factsOf({ cash: dollars(996), positions: [held('MILD', side, 10, '4')] }), view(values));

  it('values a closed market at its payout, and until that is known at the lesser of cost and last price', () => {
    const closed = { status: 'closed', lastPrice: null, settlementValue: null } as const;
    expect(lossOf(closed)).toBe(dollars(4));
    expect(lossOf({ ...closed, lastPrice: 90n * CENT })).toBe(0n);
    expect(lossOf({ ...closed, lastPrice: 10n * CENT })).toBe(dollars(3));
    expect(lossOf({ ...closed, lastPrice: 90n * CENT }, 'no')).toBe(dollars(3));
    expect(lossOf({ ...closed, settlementValue: DOLLAR })).toBe(dollars(-6));
    expect(lossOf({ ...closed, settlementValue: DOLLAR }, 'no')).toBe(dollars(4));
    expect(lossOf({ ...closed, settlementValue: 0n, lastPrice: 90n * CENT })).toBe(dollars(4));
  });

  it('is unknown without the book or the fee of an open market', () => {
    const { markets, data } = view({ status: 'active' });
    const facts = factsOf({ positions: bought });
    expect(() => dayLossOf(facts, { markets, data: { ...data, books: new Map() } })).toThrow(RangeError);
    expect(() => dayLossOf(facts, { markets, data: { ...data, feeRules: new Map() } })).toThrow(RangeError);
  });
});
