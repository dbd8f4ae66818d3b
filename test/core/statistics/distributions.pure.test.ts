import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalCdf, normalDensity, normalQuantile } from '../../../src/core/statistics/distributions.js';

const relative = (value: number, expected: number) => Math.abs(value - expected) / Math.abs(expected || 1);

describe('the normal distribution', () => {
  it.each([
    [-37, 5.725571222525139e-300],
    [-20, 2.7536241186063314e-89],
    [-8, 6.220960574271819e-16],
    [-5.7, 5.990371401063533e-9],
    [-5.6, 1.0717590258310968e-8],
    [-3, 0.0013498980316300957],
    [-1, 0.15865525393145707],
    [-0.68, 0.24825223045357053],
    [-0.67, 0.25142889509531013],
    [-0.1, 0.460172162722971],
    [0, 0.5],
    [0.5, 0.6914624612740131],
    [1, 0.8413447460685429],
    [2.4, 0.9918024640754038],
    [6, 0.9999999990134123],
  ])('is at most %d with probability %d', (z, probability) => {
    expect(relative(normalCdf(z), probability)).toBeLessThan(2e-13);
  });

  it.each([
    [1e-300, -37.0470962993612],
    [1e-20, -9.262340089798405],
    [1e-6, -4.753424308822899],
    [0.001, -3.090232306167813],
    [0.05, -1.6448536269514726],
    [0.074, -1.4466320671589785],
    [0.076, -1.4325027208258114],
    [0.3, -0.5244005127080407],
    [0.5, 0],
    [0.9, 1.2815515655446008],
    [0.975, 1.9599639845400536],
    [0.999999, 4.753424308817089],
  ])('has the %d quantile %d', (probability, z) => {
    expect(relative(normalQuantile(probability), z)).toBeLessThan(1e-13);
  });

  it('has its limits at both ends and is undefined beyond them', () => {
    expect([0, 1, -0.1, 1.1, Number.NaN].map(normalQuantile)).toEqual([
      -Infinity,
      Infinity,
      Number.NaN,
      Number.NaN,
      Number.NaN,
    ]);
    expect([-Infinity, -40, 40, Infinity, Number.NaN].map(normalCdf)).toEqual([0, 0, 1, 1, Number.NaN]);
  });

  it('increases by its density, is symmetric, and is inverted by the quantile', () => {
    const z = fc.double({ min: -8, max: 8, noNaN: true });
    fc.assert(
      fc.property(z, (z) => {
        const step = 1e-4;
        const slope = (normalCdf(z + step) - normalCdf(z - step)) / (2 * step);
        expect(Math.abs(slope - normalDensity(z))).toBeLessThan(1e-8);
        expect(normalCdf(z) + normalCdf(-z)).toBeCloseTo(1, 14);
        if (z < 5) expect(normalQuantile(normalCdf(z))).toBeCloseTo(z, 7);
      }),
      { numRuns: 2_000 },
    );
  });
});
