import { describe, expect, it } from 'vitest';
import { chiSquareTail, flatnessOfShares } from '../../../lab/evaluate/scoring-rules.js';
import { fitEmos, predictEmos, type EmosCase } from '../../../lab/evaluate/emos.js';
import { gaussian, uniform } from '../../../src/markets/venue/simulation/random.js';
import { flatness, pitHistogram, pitOfMaximum, pitOfNormal, pitOfOutcome, type PitValue } from './pit-of.js';

it.each([
  // Quantile tables: M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, table 26.8.
  [3.841459, 1, 0.05],
  [5.991465, 2, 0.05],
  [7.814728, 3, 0.05],
  [16.918978, 9, 0.05],
  [21.665994, 9, 0.01],
  [14.683657, 9, 0.1],
  [18.307038, 10, 0.05],
  [3.325113, 9, 0.95],
  [0, 9, 1],
])('chi-square exceeds %d with %d degrees of freedom with probability %d', (x, dof, probability) => {
  expect(Math.abs(chiSquareTail(x, dof) - probability)).toBeLessThan(1e-7);
});

describe('the PIT', () => {
  it('of a normal forecast is its probability of at most the outcome', () => {
    expect(pitOfNormal(70, 2, 72).atMost).toBeCloseTo(0.8413447460685429, 12);
    expect(pitOfNormal(70, 0, 69.9).atMost).toBe(0);
    expect(pitOfNormal(70, 0, 70).atMost).toBe(1);
  });

  it('of a discrete outcome is the range of its probability', () => {
    expect(pitOfOutcome([0.25, 0.5, 0.25], 1)).toEqual({ below: 0.25, atMost: 0.75, steps: [0.25, 0.75, 1] });
    expect(pitOfOutcome([0.25, 0.5, 0.25], 0)).toMatchObject({ below: 0, atMost: 0.25 });
    expect(pitOfOutcome([0.25, 0.5, 0.25], 2)).toMatchObject({ below: 0.75, atMost: 1 });
  });

  it('of a settled maximum is the range of its degree, given the maximum so far', () => {
    // Reference values for N(71.3, 2.4): 67 or below and 75 or below, then the same once 71 has been reached.
    const whole = { mean: 71.3, deviation: 2.4, atLeast: null };
    expect(pitOfMaximum(whole, 68).below).toBeCloseTo(0.056673, 6);
    expect(pitOfMaximum(whole, 75).atMost).toBeCloseTo(1 - 0.040059, 6);
    const late = { ...whole, atLeast: 71 };
    expect(pitOfMaximum(late, 71).below).toBe(0);
    expect(pitOfMaximum(late, 72).below).toBeLessThan(0.259715);
    expect(pitOfMaximum(late, 71.4).atMost).toBe(pitOfMaximum(late, 71).atMost);
    expect(pitOfMaximum(late, 75).atMost).toBeCloseTo(1 - 0.06353, 6);
    expect(pitOfMaximum(late, 69)).toMatchObject({ below: 0, atMost: 0 });
    expect(pitOfMaximum({ mean: 80, deviation: 0, atLeast: 80 }, 80)).toMatchObject({ below: 0, atMost: 1 });
    expect(pitOfMaximum(whole, 200)).toMatchObject({ atMost: 1 });
  });
});

describe('the PIT histogram', () => {
  it('spreads a range over the bins that it covers', () => {
    const { n, shares } = pitHistogram(
      [
        { below: 0.05, atMost: 0.25, steps: [] },
        { below: 0.95, atMost: 0.95, steps: [] },
        { below: 1, atMost: 1, steps: [] },
        { below: 0, atMost: 1, steps: [] },
      ],
      10,
    );
    expect(n).toBe(4);
    const expected = [0.0875, 0.15, 0.0875, 0.025, 0.025, 0.025, 0.025, 0.025, 0.025, 0.525];
    for (const [i, share] of expected.entries()) expect(shares[i]).toBeCloseTo(share, 12);
  });

  it('uses the count-based test for continuous forecasts', () => {
    // 100 cases, one bin with 20 and another empty: 100/10 · (1 + 1) = 20 by hand.
    const counts = [20, 0, 10, 10, 10, 10, 10, 10, 10, 10];
    const values = counts.flatMap((count, bin) => Array.from({ length: count }, () => at((bin + 0.5) / 10)));
    expect(flatness(values)).toBeCloseTo(chiSquareTail(20, 9), 10);
    expect(
      flatnessOfShares(
        counts.map((count) => count / 100),
        100,
      ),
    ).toBeCloseTo(chiSquareTail(20, 9), 10);
  });

  it('gives no verdict on few cases, or on forecasts without uncertainty', () => {
    expect(flatness(Array.from({ length: 49 }, () => at(0.5)))).toBeNull();
    expect(
      flatnessOfShares(
        Array.from({ length: 10 }, () => 0.1),
        49,
      ),
    ).toBeNull();
    const known = pitOfOutcome([1], 0);
    expect(flatness(Array.from({ length: 80 }, () => known))).toBeNull();
  });
});

const at = (probability: number): PitValue => ({ below: probability, atMost: probability, steps: [] });

/** A winter whose ensemble is 3° too cold and less than half as wide as it should be. */
const truth = { a: 3, b: 1, c: 1, d: 4 };
function winter(seed: string, n: number): EmosCase[] {
  return Array.from({ length: n }, (_, i) => {
    const mean = 60 + 8 * gaussian(seed, 'mean', i);
    const variance = (0.7 + uniform(seed, 'spread', i)) ** 2;
    const { mean: centre, deviation } = predictEmos(truth, mean, variance);
    return { mean, variance, observed: centre + deviation * gaussian(seed, i) };
  });
}

const wholeDegrees = (mean: number, deviation: number, observed: number) =>
  pitOfMaximum({ mean, deviation, atLeast: null }, Math.round(observed));

describe('with a known truth', () => {
  it.each([
    ['as measured', pitOfNormal],
    ['in whole degrees', wholeDegrees],
  ])('the test accepts the fit and rejects the raw ensemble, %s', (_unit, pitOf) => {
    const learned = winter('train', 400);
    const fit = fitEmos(learned);
    if (!('coefficients' in fit)) throw new Error(fit.reason);
    const tested = winter('test', 400);
    const calibrated = tested.map(({ mean, variance, observed }) => {
      const forecast = predictEmos(fit.coefficients, mean, variance);
      return pitOf(forecast.mean, forecast.deviation, observed);
    });
    const raw = tested.map(({ mean, variance, observed }) => pitOf(mean, Math.sqrt(variance), observed));
    expect(pitHistogram(calibrated).pFlat).toBeGreaterThan(0.05);
    expect(pitHistogram(raw).pFlat).toBeLessThan(1e-6);
    const unbiased = tested.map(({ mean, variance, observed }) =>
      pitOf(mean + 3, Math.sqrt(variance), observed),
    );
    expect(pitHistogram(unbiased).pFlat).toBeLessThan(1e-6);
  });

  it.each([
    ['as measured', pitOfNormal],
    ['in whole degrees', wholeDegrees],
  ])('the test rejects the truth itself about as often as its level says, %s', (unit, pitOf) => {
    const seasons = 150;
    let rejected = 0;
    for (let season = 0; season < seasons; season++) {
      const values = winter(`${unit} ${season}`, 60).map(({ mean, variance, observed }) => {
        const forecast = predictEmos(truth, mean, variance);
        return pitOf(forecast.mean, forecast.deviation, observed);
      });
      if (flatness(values)! < 0.1) rejected++;
    }
    // 15 rejections are expected; the bounds are about four binomial standard deviations away.
    expect(rejected).toBeGreaterThan(0);
    expect(rejected).toBeLessThan(30);
  });
});
