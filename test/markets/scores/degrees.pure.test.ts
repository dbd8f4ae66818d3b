import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TemperatureDistribution } from '../../../src/markets/market/distribution.js';
import {
  atMostOf,
  atMostOfMembers,
  degreeCrps,
  scoreRecord,
  type ScorableRecord,
} from '../../../src/markets/scores/score.js';
import { atMostOfMarket, fitNormal, type Share, type AtMost } from '../../../src/markets/scores/implied.js';

/** The same score in kernel form, E|X − y| − ½ E|X − X′|, computed from the probabilities of individual degrees. */
function kernelScore(atMost: AtMost, outcome: number, from: number, to: number): number {
  const degrees = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const chances = degrees.map((d) => atMost(d) - atMost(d - 1));
  let score = 0;
  for (const [i, x] of degrees.entries()) {
    score += chances[i]! * Math.abs(x - outcome);
    for (const [j, other] of degrees.entries())
      score -= 0.5 * chances[i]! * chances[j]! * Math.abs(x - other);
  }
  return score;
}

describe('the CRPS of whole degrees', () => {
  it('is the distance from the outcome for a certain forecast', () => {
    const sure: AtMost = (d) => (d >= 71 ? 1 : 0);
    expect([68, 71, 74].map((outcome) => degreeCrps(sure, outcome))).toEqual([3, 0, 3]);
  });

  it('matches sums worked out by hand', () => {
    // Half each on 70 and 72, outcome 71: (0.5 − 0)² at 70 and (0.5 − 1)² at 71.
    const split: AtMost = (d) => (d >= 72 ? 1 : d >= 70 ? 0.5 : 0);
    expect(degreeCrps(split, 71)).toBeCloseTo(0.5, 12);
    // Outcome 72: 0.5² at 70 and at 71.
    expect(degreeCrps(split, 72)).toBeCloseTo(0.5, 12);
    // Outcome 75: 0.5² at 70 and at 71, and 1 each at 72, 73 and 74.
    expect(degreeCrps(split, 75)).toBeCloseTo(3.5, 12);
  });

  it('counts each member at its rounded degree', () => {
    // Members 70, 70, 71 and 73, outcome 71: 0.5² at 70, then (0.75 − 1)² at 71 and at 72.
    const members = [69.5, 70.4, 71.2, 72.6];
    expect(degreeCrps(atMostOfMembers(members), 71)).toBeCloseTo(0.25 + 2 * 0.0625, 12);
    // Mean |x − y| = 1, half of the mean |x − x′| = ½ · (2 · (0 + 1 + 3 + 1 + 3 + 2)) / 16 = 0.625.
    expect(kernelScore(atMostOfMembers(members), 71, 60, 80)).toBeCloseTo(0.375, 12);
  });

  it('equals its kernel form for any distribution and floor', () => {
    const parts = fc.record({
      mean: fc.double({ min: -20, max: 110, noNaN: true }),
      deviation: fc.double({ min: 0.5, max: 9, noNaN: true }),
      above: fc.option(fc.integer({ min: -12, max: 6 })),
      miss: fc.integer({ min: -15, max: 15 }),
    });
    fc.assert(
      fc.property(parts, ({ mean, deviation, above, miss }) => {
        const centre = Math.round(mean);
        const atMost = atMostOf({ mean, deviation, atLeast: above === null ? null : centre + above });
        const score = degreeCrps(atMost, centre + miss);
        expect(score).toBeCloseTo(kernelScore(atMost, centre + miss, centre - 90, centre + 90), 6);
      }),
      { numRuns: 60 },
    );
  });

  it('improves when observations rule out wrong degrees', () => {
    const free = degreeCrps(atMostOf({ mean: 71.3, deviation: 2.4, atLeast: null }), 74);
    expect(degreeCrps(atMostOf({ mean: 71.3, deviation: 2.4, atLeast: 71 }), 74)).toBeLessThan(free);
  });
});

/** Six brackets, from 67 or below to 76 or above. */
const ranges = [
  { lowest: null, highest: 67 },
  { lowest: 68, highest: 69 },
  { lowest: 70, highest: 71 },
  { lowest: 72, highest: 73 },
  { lowest: 74, highest: 75 },
  { lowest: 76, highest: null },
];
const sharesOf = (probabilities: readonly number[]): Share[] =>
  ranges.map((range, i) => ({ ...range, probability: probabilities[i]! }));
/** N(71.3, 2.4), and the same distribution given a maximum so far of 71. */
const normalShares = sharesOf([0.056673, 0.169955, 0.306579, 0.287135, 0.1396, 0.040058]);
const given71 = sharesOf([0, 0, 0.259715, 0.455365, 0.22139, 0.06353]);

describe("the market's distribution", () => {
  it('keeps the exact probability of each bracket', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 99 }), { minLength: 6, maxLength: 6 }),
        fc.option(fc.integer({ min: 60, max: 80 })),
        (weights, atLeast) => {
          const total = weights.reduce((sum, weight) => sum + weight, 0);
          fc.pre(total > 0);
          const shares = sharesOf(weights.map((weight) => weight / total));
          const atMost = atMostOfMarket(shares, { atLeast });
          let below = 0;
          for (const { highest, probability } of shares) {
            below += probability;
            expect(atMost(highest ?? 1_000)).toBeCloseTo(below, 9);
          }
          for (let d = 20; d < 130; d++) expect(atMost(d)).toBeGreaterThanOrEqual(atMost(d - 1) - 1e-12);
          expect(atMost(-200)).toBeCloseTo(0, 9);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('recovers the normal distribution behind the brackets and its score', () => {
    const { mean, deviation } = fitNormal(normalShares);
    expect(mean).toBeCloseTo(71.3, 1);
    expect(Math.abs(deviation - 2.4)).toBeLessThan(0.03);
    const own = atMostOf({ mean: 71.3, deviation: 2.4, atLeast: null });
    for (const outcome of [66, 71, 74, 79])
      expect(degreeCrps(atMostOfMarket(normalShares, { atLeast: null }), outcome)).toBeCloseTo(
        degreeCrps(own, outcome),
        2,
      );
  });

  it('gives ruled-out degrees within a bracket no probability', () => {
    const atMost = atMostOfMarket(given71, { atLeast: 71 });
    expect(atMost(70)).toBe(0);
    expect(atMost(71)).toBeCloseTo(0.259715, 9);
    expect(atMostOfMarket(given71, { atLeast: null })(70)).toBeGreaterThan(0.05);
  });

  it('keeps a bracket that the market prices although we consider it ruled out', () => {
    const atMost = atMostOfMarket(normalShares, { atLeast: 74 });
    expect(atMost(69)).toBeCloseTo(0.226628, 6);
  });

  it('does not mistake the minimum bid of one cent for a long tail', () => {
    // Half a cent for each bracket except the warmest, which gets the rest.
    const sure = sharesOf([0.005, 0.005, 0.005, 0.005, 0.005, 0.975]);
    expect(fitNormal(sure).deviation).toBeLessThan(4);
    expect(degreeCrps(atMostOfMarket(sure, { atLeast: null }), 78)).toBeLessThan(3);
    const mirrored = sharesOf([0.975, 0.005, 0.005, 0.005, 0.005, 0.005]);
    expect(degreeCrps(atMostOfMarket(mirrored, { atLeast: null }), 65)).toBeLessThan(3);
  });

  it('has a shape even if the market is almost certain of one bracket', () => {
    const atMost = atMostOfMarket(sharesOf([0, 0, 1, 0, 0, 0]), { atLeast: null });
    expect(atMost(69)).toBe(0);
    expect(atMost(70)).toBeCloseTo(0.5, 5);
    expect(atMost(71)).toBe(1);
    expect(degreeCrps(atMost, 71)).toBeCloseTo(0.25, 5);
  });
});

describe('a record', () => {
  const model: TemperatureDistribution = { mean: 71.3, deviation: 2.4, atLeast: 71 };
  const prices = [0.05, 0.15, 0.3, 0.3, 0.15, 0.05];
  const record: ScorableRecord = {
    kind: 'daily_maximum',
    ...model,
    atMost: null,
    members: Array.from({ length: 31 }, () => 70.9),
    climateMean: 74,
    climateDeviation: 5,
    brackets: ranges.map(({ lowest, highest }, i) => ({
      ticker: `T${i}`,
      floor: lowest === null ? null : highest === null ? lowest - 1 : lowest,
      cap: highest === null ? null : lowest === null ? highest + 1 : highest,
      model: given71[i]!.probability,
      market: prices[i]!,
    })),
  };

  it('scores model, ensemble, climate and market on the same degrees', () => {
    const scores = scoreRecord(record, 72);
    expect(scores.modelCrps).toBeCloseTo(kernelScore(atMostOf(model), 72, 40, 110), 9);
    // All members round to 71.
    expect(scores.rawCrps).toBe(1);
    const climate = atMostOf({ mean: 74, deviation: 5, atLeast: null });
    expect(scores.climateCrps).toBeCloseTo(kernelScore(climate, 72, 20, 130), 9);
    const market = atMostOfMarket(sharesOf(prices), { atLeast: 71 });
    expect(scores.marketCrps).toBeCloseTo(kernelScore(market, 72, 20, 130), 9);
  });

  it('has null scores for missing inputs', () => {
    expect(scoreRecord({ ...record, climateMean: null, climateDeviation: null }, 72).climateCrps).toBeNull();
    const unpriced = record.brackets.map((bracket, i) => (i === 3 ? { ...bracket, market: null } : bracket));
    expect(scoreRecord({ ...record, brackets: unpriced }, 72)).toMatchObject({
      marketCrps: null,
      marketLogScore: null,
      rawCrps: 1,
    });
    expect(scoreRecord({ ...record, members: null }, 72)).toMatchObject({
      modelCrps: null,
      rawCrps: null,
      climateCrps: null,
      marketCrps: null,
      modelLogScore: -Math.log(0.455365),
    });
  });
});
