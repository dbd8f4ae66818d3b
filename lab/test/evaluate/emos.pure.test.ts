import { existsSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crpsAndGradient, crpsOfNormal } from '../../../src/markets/learning/crps.js';
import { crpsOfEnsemble, logScoreOfNormal } from '../../evaluate/scoring-rules.js';
import {
  fitEmos,
  predictEmos,
  type EmosCase,
  type EmosCoefficients,
  type EmosFit,
} from '../../evaluate/emos.js';
import { gaussian, uniform } from '../../../src/markets/venue/simulation/random.js';

const member = fc.double({ min: -60, max: 130, noNaN: true });
const ascending = (members: number[]) => members.toSorted((a, b) => a - b);

describe('the CRPS of a normal forecast', () => {
  it.each([
    [71.3, 2.4, 74, 1.659363],
    [0, 1, 0, 0.233695],
    [0, 1, 1, 0.602441],
    // Without spread, a forecast's score is its absolute error.
    [70, 0, 73.5, 3.5],
  ])('N(%d, %d) at %d is %d', (mean, deviation, observed, crps) => {
    expect(Math.abs(crpsOfNormal(mean, deviation, observed) - crps)).toBeLessThan(1e-6);
  });

  it('is the integral of its squared distance from the step at the observation', () => {
    // For a large sample, the ensemble's score approximates the integral.
    const sample = Array.from({ length: 4000 }, (_, i) => 20 + 3 * gaussian('sample', i));
    expect(crpsOfEnsemble(ascending(sample), 24)).toBeCloseTo(crpsOfNormal(20, 3, 24), 1);
  });

  it('has a gradient that matches finite differences', () => {
    const input = fc.record({
      error: fc.double({ min: -9, max: 9, noNaN: true }),
      deviation: fc.double({ min: 0.5, max: 5, noNaN: true }),
    });
    const h = 1e-5;
    fc.assert(
      fc.property(input, ({ error, deviation }) => {
        const { byMean, byDeviation } = crpsAndGradient(error, deviation);
        const along = (mean: number, spread: number) => crpsOfNormal(mean, deviation + spread, error);
        expect(Math.abs(byMean - (along(h, 0) - along(-h, 0)) / (2 * h))).toBeLessThan(1e-8);
        expect(Math.abs(byDeviation - (along(0, h) - along(0, -h)) / (2 * h))).toBeLessThan(1e-8);
      }),
      { numRuns: 200 },
    );
  });
});

describe('the CRPS of an ensemble', () => {
  it.each([
    // |0−1|·½ + |2−1|·½ − ½·(0+2+2+0)/4
    [[0, 2], 1, 0.5],
    [[5], 3, 2],
    [[4, 4, 4], 4, 0],
    // (3+1+2)/3 − ½·2·(2+5+3)/9
    [[1, 3, 6], 4, 2 - 10 / 9],
  ])('of %j at %d is %d', (members, observed, crps) => {
    expect(crpsOfEnsemble(members, observed)).toBeCloseTo(crps, 12);
  });

  it('equals the sum over all pairs of members', () => {
    fc.assert(
      fc.property(fc.array(member, { minLength: 1, maxLength: 40 }), member, (members, observed) => {
        const mean = (read: (x: number) => number) =>
          members.reduce((sum, x) => sum + read(x), 0) / members.length;
        const pairs = mean((x) => mean((y) => Math.abs(x - y)));
        const expected = mean((x) => Math.abs(x - observed)) - pairs / 2;
        expect(Math.abs(crpsOfEnsemble(ascending(members), observed) - expected)).toBeLessThan(1e-10);
      }),
    );
  });
});

it('the log score is minus the logarithm of the density', () => {
  expect(logScoreOfNormal(0, 1, 0)).toBeCloseTo(0.918938533204673, 14);
  expect(logScoreOfNormal(10, 2, 13)).toBeCloseTo(0.918938533204673 + Math.log(2) + 1.125, 14);
});

/** Cases generated from the coefficients, with ensemble standard deviations between 1 and 4. */
function casesOf({ a, b, c, d }: EmosCoefficients, n: number, seed: string): EmosCase[] {
  return Array.from({ length: n }, (_, i) => {
    const mean = 65 + 12 * gaussian(seed, 'mean', i);
    const variance = (1 + 3 * uniform(seed, 'spread', i)) ** 2;
    return { mean, variance, observed: a + b * mean + Math.sqrt(c + d * variance) * gaussian(seed, i) };
  });
}

function fitted(cases: EmosCase[], near?: EmosCoefficients): EmosFit {
  const fit = fitEmos(cases, { near });
  if (!('coefficients' in fit)) throw new Error(fit.reason);
  return fit;
}

const truth = { a: 5, b: 0.9, c: 2, d: 1.5 };
const meanCrps = (cases: EmosCase[], coefficients: EmosCoefficients) =>
  cases.reduce((sum, { mean, variance, observed }) => {
    const forecast = predictEmos(coefficients, mean, variance);
    return sum + crpsOfNormal(forecast.mean, forecast.deviation, observed);
  }, 0) / cases.length;

describe('fitting by minimum CRPS', () => {
  it('recovers the coefficients behind the data', () => {
    const { coefficients, hasConverged } = fitted(casesOf(truth, 20_000, 'truth'));
    expect(hasConverged).toBe(true);
    expect(Math.abs(coefficients.a - truth.a)).toBeLessThan(0.4);
    expect(Math.abs(coefficients.b - truth.b)).toBeLessThan(0.006);
    expect(Math.abs(coefficients.c - truth.c)).toBeLessThan(0.5);
    expect(Math.abs(coefficients.d - truth.d)).toBeLessThan(0.1);
  });

  it('beats nearby coefficients and the true ones on the cases', () => {
    for (let seed = 0; seed < 20; seed++) {
      const cases = casesOf(truth, 60, `nearby ${seed}`);
      const { coefficients, trainingCrps, hasConverged } = fitted(cases);
      expect(hasConverged).toBe(true);
      expect(meanCrps(cases, coefficients)).toBeCloseTo(trainingCrps, 12);
      expect(meanCrps(cases, truth)).toBeGreaterThan(trainingCrps);
      for (const name of ['a', 'b', 'c', 'd'] as const)
        for (const step of [-1e-3, 1e-3]) {
          const moved = Math.max(0, coefficients[name] + step);
          expect(meanCrps(cases, { ...coefficients, [name]: moved })).toBeGreaterThan(trainingCrps - 1e-12);
        }
    }
  });

  it('finds the same optimum from any start', () => {
    for (let seed = 0; seed < 20; seed++) {
      const cases = casesOf(truth, 60, `start ${seed}`);
      const { coefficients, trainingCrps } = fitted(cases);
      const other = fitted(cases, { a: -20, b: 2, c: 0, d: 9 });
      expect(Math.abs(other.trainingCrps - trainingCrps)).toBeLessThan(1e-9);
      expect(Math.abs(other.coefficients.b - coefficients.b)).toBeLessThan(1e-4);
      expect(fitted(cases)).toEqual(fitted(cases.map((each) => ({ ...each }))));
    }
  });

  it('does not depend on the unit of temperature', () => {
    const cases = casesOf(truth, 80, 'unit');
    const inCelsius = cases.map(({ mean, variance, observed }) => ({
      mean: (mean - 32) / 1.8,
      variance: variance / 1.8 ** 2,
      observed: (observed - 32) / 1.8,
    }));
    const [fahrenheit, celsius] = [fitted(cases), fitted(inCelsius)];
    expect(celsius.trainingCrps * 1.8).toBeCloseTo(fahrenheit.trainingCrps, 8);
    expect(celsius.coefficients.b).toBeCloseTo(fahrenheit.coefficients.b, 5);
    expect(celsius.coefficients.c * 1.8 ** 2).toBeCloseTo(fahrenheit.coefficients.c, 3);
    expect(celsius.coefficients.d).toBeCloseTo(fahrenheit.coefficients.d, 4);
  });

  it('keeps c and d nonnegative, and at 0 where the data would make them negative', () => {
    // Errors shrink as the ensemble widens, so an unconstrained d would be negative.
    const backwards = casesOf({ a: 0, b: 1, c: 0, d: 1 }, 400, 'backwards').map((each) => ({
      ...each,
      variance: 17 - each.variance,
    }));
    const fit = fitted(backwards);
    expect(fit.hasConverged).toBe(true);
    expect(fit.coefficients.d).toBeLessThan(1e-6);
    expect(fit.coefficients.c).toBeGreaterThan(1);
    for (const name of ['c', 'd'] as const) expect(fit.coefficients[name]).toBeGreaterThanOrEqual(0);
  });

  it('works with a single member and with a constant spread', () => {
    for (const variance of [0, 4]) {
      const cases = casesOf(truth, 200, 'single').map((each) => ({ ...each, variance }));
      const { coefficients, hasConverged } = fitted(cases);
      expect(hasConverged).toBe(true);
      expect(coefficients.d).toBe(0);
      expect(coefficients.c).toBeGreaterThan(2);
    }
  });

  it('gives the reason for a failed fit', () => {
    const cases = casesOf(truth, 30, 'reasons');
    const broken = (change: Partial<EmosCase>) => [...cases, { ...cases[0]!, ...change }];
    expect(fitEmos(cases.slice(0, 5))).toEqual({ reason: 'too_few_cases' });
    expect(fitEmos([])).toEqual({ reason: 'too_few_cases' });
    expect(fitEmos(broken({ observed: Number.NaN }))).toEqual({ reason: 'not_finite' });
    expect(fitEmos(broken({ mean: Infinity }))).toEqual({ reason: 'not_finite' });
    expect(fitEmos(broken({ observed: 1e200 }))).toEqual({ reason: 'not_finite' });
    expect(fitEmos(broken({ mean: -1e200 }))).toEqual({ reason: 'not_finite' });
    expect(fitEmos(broken({ variance: -1 }))).toEqual({ reason: 'not_finite' });
    expect(fitEmos(cases.map((each) => ({ ...each, mean: 70 })))).toEqual({ reason: 'constant_mean' });
    expect(fitEmos(cases.map((each) => ({ ...each, observed: 2 * each.mean })))).toEqual({
      reason: 'no_errors',
    });
  });

  it('scores 60 cases a few dozen times until it fits', () => {
    let scored = 0;
    const kernel = (...values: Parameters<typeof crpsAndGradient>) => {
      scored++;
      return crpsAndGradient(...values);
    };
    for (let i = 0; i < 50; i++) fitEmos(casesOf(truth, 60, `cost ${i}`), { kernel });
    expect(scored / 60 / 50).toBeLessThan(30);
  });
});

const innsbruck = new URL('../../../../shared/data/forecast/ensemblepp_temp_innsbruck.csv', import.meta.url);

describe.skipIf(!existsSync(innsbruck))('the winters of Innsbruck', () => {
  it('match the coefficients of the reference', () => {
    const cases = readFileSync(innsbruck, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .filter((line) => line < '2010-03-01' && ['12', '01', '02'].includes(line.slice(5, 7)))
      .map((line) => {
        const [observed = 0, ...members] = line.split(',').slice(1).map(Number);
        const mean = members.reduce((sum, x) => sum + x, 0) / members.length;
        const squares = members.reduce((sum, x) => sum + (x - mean) ** 2, 0);
        return { mean, variance: squares / (members.length - 1), observed };
      });
    const { coefficients, trainingCrps } = fitted(cases);
    expect(cases).toHaveLength(417);
    const reference = { a: 2.03256, b: 0.31977, c: 6.18553, d: 0.29299 };
    for (const name of ['a', 'b', 'c', 'd'] as const)
      expect(Math.abs(coefficients[name] - reference[name])).toBeLessThan(1e-4);
    expect(Math.abs(trainingCrps - 1.59688)).toBeLessThan(1e-5);
  });
});
