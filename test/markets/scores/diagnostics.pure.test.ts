import { describe, expect, it } from 'vitest';
import { countReliability, toReliability } from '../../../src/markets/scores/diagnostics.js';

describe('a reliability bin', () => {
  it('has mean probability, observed frequency and the range of a reliable forecast', () => {
    const bins = toReliability([{ bin: 3, n: 20, probabilitySum: 7, wins: 9, variance: 4.55 }]);
    expect(bins).toHaveLength(10);
    expect(bins[0]).toEqual({
      from: 0,
      to: 0.1,
      n: 0,
      meanProbability: null,
      frequency: null,
      expected: null,
    });
    expect(bins[3]).toMatchObject({ from: 0.3, to: 0.4, n: 20, meanProbability: 0.35, frequency: 0.45 });
    // 20 · 0.35 · 0.65 = 4.55. Binomial tables: P(≤ 3) = 0.0444, P(≤ 4) = 0.1182, P(≤ 10) = 0.9468, P(≤ 11) = 0.9804.
    expect(bins[3]!.expected).toEqual({ low: 0.2, high: 0.55 });
  });

  it('has a wider range for repeated forecasts for the same markets', () => {
    // 5 markets at 4 leads each: the variance is 5 · (4 · √(0.35 · 0.65))² = 18.2, so they count as 5 independent
    // trials.
    const [, , , bin] = toReliability([{ bin: 3, n: 20, probabilitySum: 7, wins: 9, variance: 18.2 }]);
    // For 5 trials: P(0) = 0.1160, P(≤ 3) = 0.9460, P(≤ 4) = 0.9947.
    expect(bin!.expected).toEqual({ low: 0, high: 0.8 });
  });

  it('counts each bracket of each record, and treats the leads of one market as dependent', () => {
    const brackets = (model: number, market: number | null) => [
      { ticker: 'T70', floor: null, cap: 70, model, market },
      { ticker: 'B70.5', floor: 70, cap: 71, model: 0.36, market: 0.4 },
      { ticker: 'T71', floor: 71, cap: null, model: 1, market },
    ];
    const records = [
      { kind: 'daily_maximum' as const, brackets: brackets(0.2, 0.4), outcome: 71 },
      { kind: 'daily_maximum' as const, brackets: brackets(0.2, null), outcome: 71 },
    ];
    // With the two leads fully dependent, the variances are (2 · √(0.2 · 0.8))² = 0.64 and (2 · √(0.36 · 0.64))² =
    // 0.9216.
    expect(countReliability(records, 'model')).toEqual([
      { bin: 2, n: 2, probabilitySum: 0.4, wins: 0, variance: expect.closeTo(0.64, 12) },
      { bin: 3, n: 2, probabilitySum: 0.72, wins: 2, variance: expect.closeTo(0.9216, 12) },
      { bin: 9, n: 2, probabilitySum: 2, wins: 0, variance: 0 },
    ]);
    // 0.4 · 0.6 = 0.24 once for each tail, and 4 · 0.24 for the middle bracket at two leads.
    expect(countReliability(records, 'market')).toEqual([
      { bin: 4, n: 4, probabilitySum: 1.6, wins: 2, variance: expect.closeTo(6 * 0.24, 12) },
    ]);
    const warm = records.map((record) => ({ ...record, outcome: 72 }));
    expect(countReliability(warm, 'model').map(({ wins }) => wins)).toEqual([0, 0, 2]);
    const cold = records.map((record) => ({ ...record, outcome: 69 }));
    expect(countReliability(cold, 'model').map(({ wins }) => wins)).toEqual([2, 0, 0]);
  });

  it('expects certain forecasts to be exact', () => {
    const [first] = toReliability([{ bin: 0, n: 7, probabilitySum: 0, wins: 1, variance: 0 }]);
    expect(first).toMatchObject({ meanProbability: 0, frequency: 1 / 7, expected: { low: 0, high: 0 } });
  });
});
