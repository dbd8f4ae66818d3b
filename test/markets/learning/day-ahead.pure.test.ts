import { describe, expect, it } from 'vitest';
import { LOGISTIC_DEVIATION } from '../../../src/core/statistics/distributions.js';
import { crpsOfCensored } from '../../../src/markets/learning/linear-fit.js';
import {
  biasOf,
  fitAhead,
  lineOf,
  predictAhead,
  type AheadCase,
  type AheadFit,
} from '../../../src/markets/learning/day-ahead.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';

const groups = ['A', 'B', 'C', 'D', 'E', 'F'];
const biasF: Record<string, number> = { A: 3, B: -2, C: 0, D: 1, E: -1, F: 0 };
const wide: Record<string, number> = { A: 2, B: 1, C: 1, D: 1, E: 1, F: 0.5 };
const crpsOut = new Float64Array(3);
const meanCrps = ({ coefficients }: AheadFit, cases: readonly AheadCase[]): number =>
  cases.reduce((sum, each) => {
    const { mean, deviation } = predictAhead(coefficients, each);
    crpsOfCensored(each.observed - mean, -Infinity, deviation / LOGISTIC_DEVIATION, crpsOut);
    return sum + crpsOut[0]! / cases.length;
  }, 0);

/** Past cases whose members have the group's warm bias and whose errors scale with the group's width. */
const past = (days: number, of = groups): AheadCase[] =>
  of.flatMap((group) =>
    Array.from({ length: days }, (_, i) => {
      const observed = 70 + 10 * gaussian('truth', group, i);
      const sureness = Math.exp(0.4 * gaussian('sureness', group, i));
      const mean =
        observed + (biasF[group] ?? 0) + 2 * (wide[group] ?? 1) * sureness * gaussian('error', group, i);
      return { group, day: 20_000 + i, mean, variance: (1.2 * sureness) ** 2, observed };
    }),
  );
const row = { day: 20_100, mean: 72, variance: 1.44 };

describe('the CRPS', () => {
  it('matches the closed logistic form z − 2 ln F(z) − 1', () => {
    const out = new Float64Array(3);
    const crps = (error: number, scale: number) => {
      crpsOfCensored(error, -Infinity, scale, out);
      return out[0]!;
    };
    // By hand: 2 ln 2 − 1; 1 − 2 ln F(1) − 1; for 2.7 at a scale of 1.5, 1.5 (1.8 − 2 ln F(1.8) − 1).
    expect(crps(0, 1)).toBeCloseTo(0.3862943611, 10);
    expect(crps(1, 1)).toBeCloseTo(0.626523375, 10);
    expect(crps(2.7, 1.5)).toBeCloseTo(1.5 * (0.8 + 2 * Math.log1p(Math.exp(-1.8))), 12);
    expect(crps(-2.7, 1.5)).toBeCloseTo(crps(2.7, 1.5), 12);
    // By definition: ∫ (F − 1)² above the outcome plus ∫ F² below it.
    const step = 1e-3;
    let sum = 0;
    for (let x = -40 + step / 2; x < 40; x += step)
      sum += step * (1 / (1 + Math.exp(-x / 1.5)) - Number(x >= 2.7)) ** 2;
    expect(crps(2.7, 1.5)).toBeCloseTo(sum, 6);
    expect(crps(1e4, 1)).toBeCloseTo(1e4 - 1, 8);
  });
});

describe('the day-ahead fit of several groups', () => {
  const { coefficients, hasConverged, trainingCrps } = fitAhead(past(60), 'shrunk')!;

  it("recovers each group's bias and spread, and a slope of 1", () => {
    expect(hasConverged).toBe(true);
    expect(trainingCrps).toBeGreaterThan(0.8);
    expect(trainingCrps).toBeLessThan(1.5);
    for (const group of groups) {
      const { mean, deviation } = predictAhead(coefficients, { ...row, group });
      // Three standard errors of the mean of 60 daily errors, whose standard deviation is slightly more than 2 ·
      // `wide`.
      expect(Math.abs(mean - (72 - biasF[group]!))).toBeLessThan((3 * 2.3 * wide[group]!) / Math.sqrt(60));
      // The group's deviation is pulled toward the common value.
      const common = predictAhead(coefficients, { ...row, group: 'unknown' }).deviation;
      if (wide[group] !== 1) expect(Math.sign(deviation - common)).toBe(Math.sign(wide[group]! - 1));
      expect(deviation / (2 * wide[group]!)).toBeGreaterThan(0.65);
      expect(deviation / (2 * wide[group]!)).toBeLessThan(1.9);
    }
    expect(lineOf(coefficients, { group: 'unknown', day: 20_100 }).b).toBeCloseTo(1, 1);
    expect(Math.abs(lineOf(coefficients, { group: 'A', day: 20_100 }).b - 1)).toBeLessThan(0.25);
  });

  it('learns the bias of a new version again, and the spread from all versions', () => {
    const changed = past(60).map((each) => ({
      ...each,
      ...(each.day < 20_052 ? { isOlder: true } : { observed: each.observed + 5 }),
    }));
    const found = fitAhead(changed, 'shrunk')!.coefficients;
    const now = predictAhead(found, { ...row, group: 'B' });
    const before = predictAhead(found, { ...row, group: 'B', isOlder: true });
    expect(now.mean - before.mean).toBeGreaterThan(3);
    expect(now.deviation).toBe(before.deviation);
  });

  it("is linear in the members' mean, and log-linear in spread and deviation", () => {
    for (const [mean, spread] of [
      [50, 0.8],
      [90, 2.1],
    ] as const) {
      const { a, b, c, d } = lineOf(coefficients, { group: 'B', day: row.day });
      const found = predictAhead(coefficients, { ...row, group: 'B', mean, variance: spread ** 2 });
      expect(found.mean).toBeCloseTo(a + b * mean, 9);
      expect(Math.log(found.deviation)).toBeCloseTo(c + d * Math.log(spread), 9);
      expect(d).toBeGreaterThan(0.3);
    }
    // At the group's centre, the slope has no effect, so only the bias shows.
    const usual = { ...row, mean: coefficients['centre B']! };
    const common = predictAhead(coefficients, { ...usual, group: 'unknown' }).mean;
    const own = predictAhead(coefficients, { ...usual, group: 'B' }).mean;
    expect(own - common).toBeCloseTo(-biasOf(coefficients, { group: 'B' }), 9);
  });

  it('shrinks a group with few days, and caps an unusual spread at four times the usual', () => {
    const few = [...past(60, ['B', 'C', 'D']), ...past(3, ['A'])];
    const { coefficients: learned } = fitAhead(few, 'shrunk')!;
    const [own, common] = ['A', 'unknown'].map((group) => predictAhead(learned, { ...row, group }).mean);
    const errors = past(3, ['A']).map(({ mean, observed }) => mean - observed);
    const predicted = 72 - errors.reduce((sum, error) => sum + error) / 3;
    expect(Math.abs(own! - common!)).toBeLessThan(0.8 * Math.abs(predicted - common!));
    expect(Math.sign(own! - common!)).toBe(Math.sign(predicted - common!));
    const wide = (variance: number) => predictAhead(coefficients, { ...row, group: 'C', variance }).deviation;
    expect(wide(1e6)).toBe(wide(1e4));
    expect(wide(0)).toBeGreaterThan(0.3);
  });

  it('is the same for the same cases, in any unit', () => {
    expect(fitAhead(past(60), 'shrunk')!.coefficients).toEqual(coefficients);
    const inCelsius = past(60).map((each) => ({
      ...each,
      mean: (each.mean - 32) / 1.8,
      variance: each.variance / 1.8 ** 2,
      observed: (each.observed - 32) / 1.8,
    }));
    const found = predictAhead(fitAhead(inCelsius, 'shrunk')!.coefficients, {
      ...row,
      group: 'A',
      mean: 40 / 1.8,
      variance: 1.44 / 1.8 ** 2,
    });
    const expected = predictAhead(coefficients, { ...row, group: 'A' });
    expect(found.mean * 1.8 + 32).toBeCloseTo(expected.mean, 3);
    expect(found.deviation * 1.8).toBeCloseTo(expected.deviation, 3);
  });

  it('reaches the same optimum when started from an earlier fit', () => {
    const near = fitAhead(past(62), 'shrunk', coefficients)!;
    const anew = fitAhead(past(62), 'shrunk')!;
    const [a, b] = [near, anew].map((fit) => predictAhead(fit.coefficients, { ...row, group: 'A' }));
    expect(a!.mean).toBeCloseTo(b!.mean, 2);
    expect(a!.deviation).toBeCloseTo(b!.deviation, 2);
  });

  it("scores the same with each fit started from the previous day's as with fresh fits, even for 167 groups", () => {
    const many = past(63, [...groups, ...Array.from({ length: 161 }, (_, i) => `G${i}`)]);
    const between = (from: number, to: number) =>
      many.filter(({ day }) => day >= 20_000 + from && day < 20_000 + to);
    let near: AheadFit | undefined;
    for (const first of [0, 1, 2]) {
      const learned = between(first, first + 60);
      const anew = fitAhead(learned, 'shrunk')!;
      near = fitAhead(learned, 'shrunk', near?.coefficients)!;
      expect([anew.hasConverged, near.hasConverged]).toEqual([true, true]);
      expect(Math.abs(near.trainingCrps - anew.trainingCrps)).toBeLessThan(1e-5);
      const [updated, fresh] = [near, anew].map((fit) => meanCrps(fit, between(first + 60, first + 61)));
      expect(Math.abs(updated! - fresh!)).toBeLessThan(1e-3);
    }
  });

  it('needs twenty cases that differ', () => {
    expect(fitAhead(past(19, ['C']), 'shrunk')).toBeUndefined();
    expect(fitAhead(past(20, ['C']), 'shrunk')).toMatchObject({ hasConverged: true });
    const sure = past(30, ['C']).map((each) => ({ ...each, observed: each.mean }));
    expect(fitAhead(sure, 'shrunk')).toBeUndefined();
    const broken = past(30, ['C']).map((each, i) => (i === 3 ? { ...each, mean: Number.NaN } : each));
    expect(fitAhead(broken, 'shrunk')).toBeUndefined();
  });
});

describe('the seasonal day-ahead fit', () => {
  const seasons = (days: number): AheadCase[] =>
    Array.from({ length: days }, (_, i) => {
      const day = 20_000 + i;
      const season = Math.cos((2 * Math.PI * day) / 365.25);
      const observed = 60 - 15 * season + 5 * gaussian('season', i);
      const mean = observed + 4 * season + (2 + season) * gaussian('season error', i);
      return { group: 'A', day, mean, variance: 0, observed };
    });

  it('recovers a seasonal bias and spread', () => {
    const { coefficients } = fitAhead(seasons(900), 'seasonal')!;
    const winter = 365.25 * 55;
    const summer = winter + 365.25 / 2;
    const at = (day: number, mean: number) =>
      predictAhead(coefficients, { group: 'A', day, mean, variance: 0 });
    // In winter, the members' mean is 49, the truth is 45, and the errors' standard deviation is 3. In summer, the mean
    // is 71, the truth is 75, and the standard deviation is 1.
    const [cold, warm] = [at(winter, 49), at(summer, 71)];
    expect(Math.abs(cold.mean - 45)).toBeLessThan(0.7);
    expect(Math.abs(warm.mean - 75)).toBeLessThan(0.4);
    expect(cold.deviation / warm.deviation).toBeGreaterThan(2);
    // Single runs have no spread, so the fit has no coefficient for it.
    expect(coefficients).not.toHaveProperty('spread');
  });

  it('beats a fit without seasons on later days', () => {
    const [before, after] = [seasons(900), seasons(1_000).slice(900)];
    const errorOf = (design: 'shrunk' | 'seasonal') => {
      const { coefficients } = fitAhead(before, design)!;
      return after.reduce(
        (sum, each) => sum + (predictAhead(coefficients, each).mean - each.observed) ** 2,
        0,
      );
    };
    expect(errorOf('seasonal')).toBeLessThan(0.6 * errorOf('shrunk'));
  });
});
