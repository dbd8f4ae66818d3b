import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalCdf } from '../../../src/core/statistics/distributions.js';
import { bracketRange } from '../../../src/markets/market/brackets.js';
import {
  probabilityOf,
  probabilityWithin,
  quantileOf,
  sureDegree,
  type DistributionShape,
} from '../../../src/markets/market/distribution.js';
import { ladderFrom } from '../support/market.js';

/** ≤ 67, 68–69, 70–71, 72–73, 74–75, ≥ 76. */
const ladder = ladderFrom(68);

const chances = (
  mean: number,
  deviation: number,
  atLeast: number | null,
  brackets = ladder,
  shape: DistributionShape = 'normal',
) => brackets.map((bracket) => probabilityOf({ mean, deviation, atLeast, shape }, bracket));
const shape = fc.constantFrom<DistributionShape>('normal', 'logistic');
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

describe('the distribution of a maximum in whole degrees', () => {
  it.each([
    [null, [0.056673, 0.169955, 0.306579, 0.287135, 0.1396, 0.040059]],
    [71, [0, 0, 0.259715, 0.455365, 0.22139, 0.06353]],
  ])('matches the published table of N(71.3, 2.4) with at least %s reached', (atLeast, table) => {
    for (const [i, p] of chances(71.3, 2.4, atLeast).entries())
      expect(Math.abs(p - table[i]!)).toBeLessThan(1e-6);
  });

  it('sums to one over every ladder, however far the floor or the ladder is from the mean', () => {
    const input = fc.record({
      mean: fc.double({ min: -40, max: 130, noNaN: true }),
      deviation: fc.double({ min: 0.05, max: 20, noNaN: true }),
      lowest: fc.integer({ min: -40, max: 130 }),
      atLeast: fc.option(fc.integer({ min: -60, max: 150 })),
      shape,
    });
    fc.assert(
      fc.property(input, ({ mean, deviation, lowest, atLeast, shape }) => {
        const p = chances(mean, deviation, atLeast, ladderFrom(lowest), shape);
        for (const value of p) expect(value >= 0 && value <= 1).toBe(true);
        expect(Math.abs(sum(p) - 1)).toBeLessThan(1e-12);
        // An excluded outcome has a probability of exactly zero.
        for (const [i, { highest }] of ladderFrom(lowest).map(bracketRange).entries())
          if (atLeast !== null && highest !== null && highest < atLeast) expect(p[i]).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });

  it('keeps its shape where plain probabilities underflow', () => {
    const p = chances(0, 1, 60, [
      { kind: 'less', floor: null, cap: 60 },
      { kind: 'between', floor: 60, cap: 60 },
      { kind: 'greater', floor: 60, cap: null },
    ]);
    expect(p[0]).toBe(0);
    expect(p[1]).toBe(1);
    // The tail beyond 60.5 relative to the tail beyond 59.5: exp(−60) times the ratio of the Mills ratios, about 59.5 /
    // 60.5.
    expect(p[2]! / (Math.exp(-60) * (59.5 / 60.5))).toBeCloseTo(1, 3);
  });

  it('keeps small probabilities below the mean', () => {
    // Φ(−20) = 2.7536241186063314e-89 is the probability of the lowest bracket, whose upper end is 20 deviations below
    // the mean.
    const [lowest] = chances(87.5, 1, null);
    expect(lowest! / 2.7536241186063314e-89).toBeCloseTo(1, 10);
  });

  it('has the normal quantiles, shifted up by truncation', () => {
    expect(quantileOf({ mean: 71.3, deviation: 2.4, atLeast: null }, 0.95)).toBeCloseTo(
      71.3 + 2.4 * 1.6448536269514722,
      9,
    );
    expect(quantileOf({ mean: 71.3, deviation: 2.4, atLeast: null }, 0.5)).toBeCloseTo(71.3, 9);
    // Only values above 71.5, the mean, remain, so the median is the upper quartile of the whole distribution.
    expect(quantileOf({ mean: 71.5, deviation: 2, atLeast: 72 }, 0.5)).toBeCloseTo(
      71.5 + 2 * 0.6744897501960817,
      9,
    );
  });

  it('has increasing quantiles above the floor that agree with the bracket probabilities, however far out', () => {
    const input = fc.record({
      deviation: fc.double({ min: 0.5, max: 6, noNaN: true }),
      above: fc.integer({ min: -30, max: 120 }),
      shape,
    });
    fc.assert(
      fc.property(input, ({ deviation, above, shape }) => {
        const distribution = { mean: 60.25, deviation, atLeast: 60 + above, shape };
        const quantiles = [0.05, 0.5, 0.95].map((p) => quantileOf(distribution, p));
        expect(quantiles[0]).toBeGreaterThanOrEqual(distribution.atLeast - 0.5);
        expect(quantiles[1]).toBeGreaterThan(quantiles[0]!);
        expect(quantiles[2]).toBeGreaterThan(quantiles[1]!);
        // The whole degrees entirely below the median have a total probability of at most one half.
        const cap = Math.floor(quantiles[1]! + 0.5);
        expect(probabilityOf(distribution, { kind: 'less', floor: null, cap })).toBeLessThanOrEqual(
          0.5 + 1e-9,
        );
        const next = { kind: 'less', floor: null, cap: cap + 1 } as const;
        expect(probabilityOf(distribution, next)).toBeGreaterThanOrEqual(0.5 - 1e-9);
      }),
      { numRuns: 500 },
    );
  });

  it('can be logistic with the given mean and deviation', () => {
    // Scale 2.4 √3 / π = 1.323188; at most 67.5: 1 / (1 + exp(3.8 / 1.323188)), and so on.
    const scale = (2.4 * Math.sqrt(3)) / Math.PI;
    const cdf = (t: number) => 1 / (1 + Math.exp((71.3 - t) / scale));
    const ends = [67.5, 69.5, 71.5, 73.5, 75.5].map(cdf);
    const table = [...ends, 1].map((end, i) => end - (ends[i - 1] ?? 0));
    for (const [i, p] of chances(71.3, 2.4, null, ladder, 'logistic').entries())
      expect(p).toBeCloseTo(table[i]!, 12);
    expect(table[0]).toBeCloseTo(0.053563, 6);
    // After truncation at 70.5, the remaining brackets keep their proportions.
    const rest = 1 - cdf(70.5);
    const [, , cut, ...warmer] = chances(71.3, 2.4, 71, ladder, 'logistic');
    expect(cut).toBeCloseTo((cdf(71.5) - cdf(70.5)) / rest, 12);
    for (const [i, p] of warmer.entries()) expect(p).toBeCloseTo(table[i + 3]! / rest, 12);
    const distribution = { mean: 71.3, deviation: 2.4, atLeast: null, shape: 'logistic' as const };
    expect(quantileOf(distribution, 0.95)).toBeCloseTo(71.3 + scale * Math.log(19), 12);
    expect(quantileOf(distribution, 0.05)).toBeCloseTo(71.3 - scale * Math.log(19), 12);
    for (const probability of [1e-9, 0.3, 1 - 1e-9])
      expect(cdf(quantileOf(distribution, probability))).toBeCloseTo(probability, 12);
    // 30 scales out, the tail still falls by a factor of e per scale, without loss of precision.
    const far = { ...distribution, mean: 71.5 - 30 * scale };
    expect(probabilityOf(far, { kind: 'greater', floor: 71, cap: null })).toBeCloseTo(Math.exp(-30), 25);
  });

  it('is certain once the maximum is known', () => {
    expect(chances(71, 0, 71)).toEqual([0, 0, 1, 0, 0, 0]);
    expect(chances(67, 0, 67)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(chances(76, 0, 76)).toEqual([0, 0, 0, 0, 0, 1]);
    expect(quantileOf({ mean: 71, deviation: 0, atLeast: 71 }, 0.05)).toBe(71);
  });

  it('rounds a reading between two degrees down, because a bound must hold', () => {
    expect([70.52, 71, 71.06, 71.49, 71.5, 71.6, -0.5].map(sureDegree)).toEqual([71, 71, 71, 71, 71, 72, -1]);
  });
});

describe('a maximum with a probability of staying at its bound', () => {
  const stays = fc.double({ min: 0, max: 1, noNaN: true });
  const some = fc.record({
    mean: fc.double({ min: 40, max: 100, noNaN: true }),
    deviation: fc.double({ min: 0.2, max: 12, noNaN: true }),
    stays,
    shape,
  });

  it('has exactly that probability at the bound, none below, and sums to one over every ladder; a minimum mirrors it', () => {
    fc.assert(
      fc.property(
        some,
        fc.integer({ min: 40, max: 100 }),
        fc.integer({ min: 40, max: 95 }),
        (given, reached, lowest) => {
          const maximum = { ...given, atLeast: reached };
          const minimum = { ...given, mean: -given.mean, atLeast: null, atMost: -reached };
          const at = (from: number | null, to: number | null) =>
            probabilityWithin(maximum, { lowest: from, highest: to, step: 1 });
          expect(at(reached, reached)).toBeCloseTo(given.stays, 12);
          expect(at(null, reached - 1)).toBe(0);
          const p = ladderFrom(lowest).map((bracket) => probabilityOf(maximum, bracket));
          expect(sum(p)).toBeCloseTo(1, 12);
          for (const value of p) expect(value >= 0 && value <= 1).toBe(true);
          for (const [from, to] of [
            [null, reached + 2],
            [reached, reached + 1],
            [reached + 3, null],
          ] as const) {
            const mirrored = {
              lowest: to === null ? null : -to,
              highest: from === null ? null : -from,
              step: 1,
            };
            expect(probabilityWithin(minimum, mirrored)).toBeCloseTo(at(from, to), 12);
          }
        },
      ),
    );
  });

  it('equals the normal distribution above the bound if the probability of staying is the normal one', () => {
    // N(71.3, 2.4) once 71 has been reached: the bracket 70 to 71 gets Φ(0.2 / 2.4), and warmer brackets are unchanged.
    const distribution = { mean: 71.3, deviation: 2.4, atLeast: 71, stays: normalCdf(0.2 / 2.4) };
    const table = [0, 0, normalCdf(0.2 / 2.4), 0.287135, 0.1396, 0.040059];
    for (const [i, bracket] of ladder.entries())
      expect(Math.abs(probabilityOf(distribution, bracket) - table[i]!)).toBeLessThan(1e-6);
  });

  it('has quantiles that agree with its probabilities', () => {
    fc.assert(
      fc.property(some, fc.double({ min: 0.01, max: 0.99, noNaN: true }), (given, probability) => {
        const distribution = { ...given, atLeast: 70 };
        const quantile = quantileOf(distribution, probability);
        if (probability <= given.stays) expect(quantile).toBe(70);
        else {
          // Probability that the unrounded temperature is below the given one.
          const below = (temperature: number) =>
            probabilityWithin(distribution, { lowest: null, highest: temperature - 0.5, step: 1 });
          expect(quantile).toBeGreaterThanOrEqual(70.5);
          expect(below(quantile)).toBeCloseTo(probability, 6);
        }
        expect(
          quantileOf({ ...given, mean: -given.mean, atLeast: null, atMost: -70 }, 1 - probability),
        ).toBeCloseTo(-quantile, 6);
      }),
    );
  });
});
