import { describe, expect, it } from 'vitest';
import { distributions } from '../../evaluate/training.js';

describe.each(Object.entries(distributions))('the %s distribution', (name, distribution) => {
  const { kernel, cdf, quantile, logScore } = distribution;
  const density = (z: number) => Math.exp(-logScore(0, 1, z));
  /** Midpoint rule over ±40 standard deviations. */
  const integrate = (read: (z: number) => number) => {
    const step = 0.005;
    let sum = 0;
    for (let z = -40 + step / 2; z < 40; z += step) sum += read(z) * step;
    return sum;
  };

  it('has a mean of 0 and a deviation of 1', () => {
    expect(integrate(density)).toBeCloseTo(1, 8);
    expect(integrate((z) => z * z * density(z))).toBeCloseTo(1, 6);
  });

  it('has consistent density, probabilities and quantiles', () => {
    for (const z of [-4, -1.3, 0, 0.4, 2.5]) {
      const slope = (cdf(z + 1e-5) - cdf(z - 1e-5)) / 2e-5;
      expect(slope).toBeCloseTo(density(z), 8);
      expect(quantile(cdf(z))).toBeCloseTo(z, 8);
    }
  });

  it.each([-6, -1, 0, 0.7, 3])('has the CRPS of its definition at %d', (error) => {
    // ∫ (F(z) − 1{z ≥ y})² dz
    const expected = integrate((z) => (cdf(z) - Number(z >= error)) ** 2);
    expect(Math.abs(kernel(error, 1).crps - expected)).toBeLessThan(0.003);
    expect(kernel(error * 2.5, 2.5).crps).toBeCloseTo(kernel(error, 1).crps * 2.5, 12);
  });

  it('has a gradient that matches finite differences', () => {
    const h = 1e-5;
    for (const error of [-7, -0.5, 0, 2])
      for (const deviation of [0.4, 1, 3]) {
        const { byMean, byDeviation } = kernel(error, deviation);
        const slopeOfMean = (kernel(error - h, deviation).crps - kernel(error + h, deviation).crps) / (2 * h);
        const slopeOfSpread =
          (kernel(error, deviation + h).crps - kernel(error, deviation - h).crps) / (2 * h);
        expect(Math.abs(byMean - slopeOfMean)).toBeLessThan(1e-8);
        expect(Math.abs(byDeviation - slopeOfSpread)).toBeLessThan(1e-8);
      }
  });

  it(`does not overflow in the tails (${name})`, () => {
    for (const error of [-1e6, 1e6]) expect(kernel(error, 1).crps / 1e6).toBeCloseTo(1, 5);
  });
});
