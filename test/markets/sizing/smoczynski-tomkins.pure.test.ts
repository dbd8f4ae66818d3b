import { describe, expect, it } from 'vitest';
import { stakeOnExclusive } from './smoczynski-tomkins.js';

const p = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];
/** A general optimiser found these shares, reserve rates and growth rates. */
const cases = [
  {
    name: 'asks without a fee',
    p,
    cost: [0.03, 0.12, 0.27, 0.3, 0.2, 0.13],
    f: [0.031786, 0.077143, 0.186071, 0.097857, 0, 0],
    reserve: 0.60714286,
    growth: 0.04569523,
    order: [0, 2, 1, 3],
  },
  {
    name: 'the same asks with the fee',
    p,
    cost: [0.032037, 0.127392, 0.283797, 0.3147, 0.2112, 0.137917],
    f: [0.027502, 0.060537, 0.150699, 0.058997, 0, 0],
    reserve: 0.7022646,
    growth: 0.0273493,
    order: [0, 2, 1, 3],
  },
  {
    name: 'costs that are below one together: the probabilities themselves',
    p: [0.5, 0.3, 0.2],
    cost: [0.4545454545, 0.2857142857, 0.25],
    f: [0.5, 0.3, 0.2],
    reserve: 0,
    growth: 0.01766343,
    order: [0, 1, 2],
  },
  {
    name: 'an outcome below its cost that is bought for what it takes from the risk',
    p: [0.6, 0.3, 0.1],
    cost: [0.45, 0.31, 0.5],
    f: [0.4125, 0.17083333, 0],
    reserve: 0.41666667,
    growth: 0.07522542,
    order: [0, 1],
  },
];

describe('stakes on mutually exclusive outcomes', () => {
  it.each(cases)('are exact for $name', ({ p, cost, f, reserve, growth, order }) => {
    const found = stakeOnExclusive(p, cost);
    found.fractions.forEach((share, i) => expect(Math.abs(share - f[i]!)).toBeLessThan(1e-6));
    expect(Math.abs(found.reserve - reserve)).toBeLessThan(1e-6);
    expect(Math.abs(found.growth - growth)).toBeLessThan(1e-6);
    expect(found.order).toEqual(order);
  });

  it('are zero where nothing is worth its cost, and everything on a certain outcome', () => {
    expect(stakeOnExclusive([0.5, 0.5], [0.5, 0.6])).toEqual({
      fractions: [0, 0],
      reserve: 1,
      growth: 0,
      order: [],
    });
    expect(stakeOnExclusive([1, 0], [0.8, 0.1])).toMatchObject({ fractions: [1, 0], reserve: 0, order: [0] });
  });
});
