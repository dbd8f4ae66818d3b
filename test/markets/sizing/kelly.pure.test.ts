import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CENT, DOLLAR, parseDollars, shareOf } from '../../../src/markets/market/money.js';
import { allInCost } from '../../../src/markets/market/fees.js';
import { kellyFraction, walkLevels } from './walk-levels.js';
import { quadratic } from '../support/events.js';

const rule = { bankroll: 1_000n * DOLLAR, kellyShare: 0.25, maxStake: 1_000n * DOLLAR };
const asks = (...levels: [cents: number, contracts: number][]) =>
  levels.map(([cents, contracts]) => ({ price: BigInt(cents) * CENT, contracts }));

describe('the Kelly fraction', () => {
  it.each([
    [0.6, '0.50', 0.2, 0.170984],
    [0.35, '0.27', 0.109589, 0.092436],
    [0.62, '0.55', 0.155556, 0.121743],
  ])('of p = %d at $%s is %d without and %d with the fee', (p, price, without, withFee) => {
    expect(Math.abs(kellyFraction(p, Number(price)) - without)).toBeLessThan(1e-6);
    const cost = allInCost(quadratic, parseDollars(price));
    expect(Math.abs(kellyFraction(p, cost) - withFee)).toBeLessThan(1e-6);
  });

  it('grows the bankroll faster than any other share', () => {
    const input = fc.record({
      p: fc.double({ min: 0.01, max: 0.99, noNaN: true }),
      cost: fc.double({ min: 0.01, max: 0.99, noNaN: true }),
      other: fc.double({ min: 0, max: 0.99, noNaN: true }),
    });
    const growth = (p: number, cost: number, f: number) =>
      p * Math.log(1 - f + f / cost) + (1 - p) * Math.log(1 - f);
    fc.assert(
      fc.property(input, ({ p, cost, other }) => {
        const best = growth(p, cost, kellyFraction(p, cost));
        expect(best).toBeGreaterThanOrEqual(growth(p, cost, other) - 1e-12);
      }),
      { numRuns: 500 },
    );
  });

  it('is zero without an edge or for impossible values', () => {
    expect(kellyFraction(0.5, 0.5)).toBe(0);
    expect(kellyFraction(0.4, 0.5)).toBe(0);
    expect(kellyFraction(1, 1)).toBe(0);
    expect(kellyFraction(Number.NaN, 0.5)).toBe(0);
    expect(kellyFraction(0.5, Number.NaN)).toBe(0);
    expect(kellyFraction(1, 0.9)).toBe(1);
  });
});

describe('the walk through a book', () => {
  it('stops where the stake is used up', () => {
    // 0.25 · 0.170984 of $1,000 is $42.746; a contract costs $0.50 plus $0.0175.
    expect(walkLevels(asks([50, 1_000]), 0.6, quadratic, rule)).toMatchObject({
      contracts: 82,
      limitPrice: 50n * CENT,
    });
  });

  it('buys at a higher price only as much as that price justifies', () => {
    // At $0.52 the cost is $0.537472: f* = 0.135187, and a quarter of it is $33.7967. The first ten contracts cost
    // $5.175, and $28.6217 / $0.5375 = 53.2.
    expect(walkLevels(asks([50, 10], [52, 100]), 0.6, quadratic, rule)).toMatchObject({
      contracts: 63,
      limitPrice: 52n * CENT,
    });
  });

  it('skips a level that is not worth its price', () => {
    expect(walkLevels(asks([50, 10], [59, 100]), 0.6, quadratic, rule)).toMatchObject({
      contracts: 10,
      limitPrice: 50n * CENT,
    });
  });

  it('respects the cap, and buys nothing if the cap or the edge is too small for one contract', () => {
    const maxStake = 5n * DOLLAR;
    expect(walkLevels(asks([50, 1_000]), 0.6, quadratic, { ...rule, maxStake })).toMatchObject({
      contracts: 9,
      budget: maxStake,
    });
    expect(walkLevels(asks([50, 1_000]), 0.6, quadratic, { ...rule, maxStake: DOLLAR / 2n })).toBeUndefined();
    expect(walkLevels(asks([60, 1_000]), 0.6, quadratic, rule)).toBeUndefined();
    expect(walkLevels([], 0.6, quadratic, rule)).toBeUndefined();
  });
});

describe('a share of an amount', () => {
  it('is rounded down and never more than the amount', () => {
    expect(shareOf(1_000n * DOLLAR, 0.05)).toBe(50n * DOLLAR);
    expect(shareOf(1n, 0.999)).toBe(0n);
    expect(shareOf(0n, 0.5)).toBe(0n);
  });
});
