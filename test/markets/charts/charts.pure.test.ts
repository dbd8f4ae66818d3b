import { describe, expect, it } from 'vitest';
import { binomialRange } from '../../../src/core/statistics/distributions.js';
import { toPitChart, toRankChart } from '../../../lab/evaluate/histogram.js';
import {
  choosePeriod,
  periodsBetween,
  startOf,
  toCrpsChart,
  toSeriesChart,
} from '../../../src/markets/charts/series.js';
import { toCoverageChart } from '../../../lab/evaluate/coverage.js';
import { toReliabilityChart } from '../../../src/markets/charts/diagonal.js';
import { toScatterChart } from '../../../lab/evaluate/scatter.js';

describe('the range of chance', () => {
  // n = 10, p = 1/2: P(X ≤ 1) = 11/1024 = 0.0107, P(X ≤ 2) = 56/1024 = 0.0547; by symmetry, 8 is the upper end.
  it('is the central range of the binomial distribution', () => {
    expect(binomialRange(10, 0.5, 0.9)).toEqual({ low: 0.2, high: 0.8 });
    // P(X = 0) = 0.9³ = 0.729 > 5%, P(X ≤ 1) = 0.972 ≥ 95%.
    const rare = binomialRange(3, 0.1, 0.9);
    expect(rare.low).toBe(0);
    expect(rare.high).toBeCloseTo(1 / 3, 12);
  });

  it('is the full range without observations, and a point if the outcome is certain', () => {
    expect(binomialRange(0, 0.3, 0.9)).toEqual({ low: 0, high: 1 });
    expect(binomialRange(20, 1, 0.9)).toEqual({ low: 1, high: 1 });
  });

  it('can be computed for very large samples', () => {
    // Normal limits: 0.1 ± 1.645·√(0.09/100000) = 0.1 ± 0.00156.
    const { low, high } = binomialRange(100_000, 0.1, 0.9);
    expect(low).toBeCloseTo(0.1 - 0.00156, 4);
    expect(high).toBeCloseTo(0.1 + 0.00156, 4);
  });
});

describe('the reliability diagram', () => {
  const bin = (from: number, n: number, given: number | null, found: number | null) => ({
    from,
    to: from + 0.1,
    n,
    meanProbability: given,
    frequency: found,
    expected: given === null ? null : { low: given - 0.125, high: given + 0.125 },
  });
  const model = [bin(0.2, 100, 0.25, 0.3), bin(0.3, 0, null, null), bin(0.7, 25, 0.75, 0.5)];

  it('plots the forecast to the right and the observation upwards, with larger points for larger counts', () => {
    const chart = toReliabilityChart([{ name: 'model', label: 'Model', bins: model }])!;
    const [first, second, ...others] = chart.sides[0]!.points;
    expect(chart.height).toBe(320);
    // 320·(1 − 0.3) = 224; the bar from 0.125 to 0.375 is 80 high and begins at 320·0.625 = 200.
    expect(first).toMatchObject({ x: '25%', y: '224', radius: '8', bar: { y: '200', height: '80' } });
    // The radius for a quarter of the count is halfway between 3 and 8.
    expect(second).toMatchObject({ x: '75%', y: '160', radius: '5.5' });
    expect(others).toEqual([]);
    expect(chart.sides[0]!.line).toBe('M250 224L750 160');
  });

  it('describes the drawing in a sentence and in a table', () => {
    const chart = toReliabilityChart([
      { name: 'model', label: 'Model', bins: model },
      { name: 'market', label: 'Market', bins: [] },
    ])!;
    expect(chart.summary).toContain('model 1 of 2 groups (125 probabilities), market no data yet');
    expect(chart.tables[0]!.rows).toEqual([
      ['20–30%', '100', '25.0%', '30.0%', '12.5% to 37.5%'],
      ['70–80%', '25', '75.0%', '50.0%', '62.5% to 87.5%'],
    ]);
  });

  it('is missing while nothing has been counted', () => {
    expect(
      toReliabilityChart([{ name: 'model', label: 'Model', bins: [bin(0.3, 0, null, null)] }]),
    ).toBeNull();
  });

  it('includes the corners: never and always', () => {
    const corner = (p: number) => ({ ...bin(p, 4, p, p), expected: { low: p, high: p } });
    const chart = toReliabilityChart([{ name: 'model', label: 'Model', bins: [corner(0), corner(1)] }])!;
    expect(chart.sides[0]!.points.map(({ x, y }) => [x, y])).toEqual([
      ['0%', '320'],
      ['100%', '0'],
    ]);
  });
});

describe('coverage', () => {
  it('is compared with the range of chance for a calibrated forecast', () => {
    const levels = [{ nominal: 0.5, actual: 0.9 }];
    const chart = toCoverageChart([{ name: 'model', label: 'EMOS', n: 10, levels }])!;
    expect(chart.summary).toBe('EMOS: the central 50% interval covered 90.0% of 10 observations.');
    expect(chart.tables[0]!.rows).toEqual([['50.0%', '90.0%', '20.0% to 80.0%']]);
    expect(chart.sides[0]!.points[0]).toMatchObject({ x: '50%', y: '32' });
  });
});

describe('the PIT histogram', () => {
  it('draws shares as bars, with their expected level and the range of nine in ten', () => {
    const chart = toPitChart({ n: 10, shares: [0.1, 0.9], pFlat: 0.01 })!;
    // The scale ends at 1: 200·(1 − 0.1) = 180; the band is 0.2 to 0.8.
    expect(chart.bars).toEqual([
      { x: '2%', width: '46%', y: '180', height: '20', isOutside: true, label: '0.00–0.50: 10.0%' },
      { x: '52%', width: '46%', y: '20', height: '180', isOutside: true, label: '0.50–1.00: 90.0%' },
    ]);
    expect(chart.flat).toBe('100');
    expect(chart.band).toEqual({ y: '40', height: '120' });
  });

  const shares = {
    bowl: [0.3, 0.15, 0.1, 0.15, 0.3],
    hill: [0.05, 0.2, 0.5, 0.2, 0.05],
    high: [0.05, 0.1, 0.15, 0.3, 0.4],
    low: [0.4, 0.3, 0.15, 0.1, 0.05],
  };
  it.each([
    ['bowl', 'overconfident'],
    ['hill', 'underconfident'],
    ['high', 'higher than forecast'],
    ['low', 'lower than forecast'],
  ] as const)('interprets the shape %s as %s', (shape, words) => {
    expect(toPitChart({ n: 400, shares: shares[shape], pFlat: 0.0004 })!.summary).toContain(words);
    expect(toPitChart({ n: 400, shares: shares[shape], pFlat: 0.0004 })!.summary).toContain(
      'p\u00a0<\u00a00.001',
    );
  });

  it('does not interpret a shape that is explained by chance or based on too little data', () => {
    expect(toPitChart({ n: 40, shares: shares.bowl, pFlat: 0.31 })!.summary).toContain(
      'Chance alone explains the unevenness (p\u00a0=\u00a00.31)',
    );
    expect(toPitChart({ n: 3, shares: shares.bowl, pFlat: null })!.summary).toContain('too few to tell');
    expect(toPitChart({ n: 0, shares: [0, 0], pFlat: null })).toBeNull();
  });

  it('numbers the ranks of an ensemble from one', () => {
    const chart = toRankChart({ n: 4, shares: [0.5, 0.25, 0.25], pFlat: null })!;
    expect(chart.axis.map(({ label }) => label)).toEqual(['1', '2', '3']);
    expect(chart.table.rows.map(([rank]) => rank)).toEqual(['1', '2', '3']);
  });
});

describe('CRPS over time', () => {
  const point = (date: string, n: number, model: number) => ({
    date,
    n,
    model,
    raw: 4,
    climate: 9,
    market: 2,
  });

  it('has a gap where days are missing', () => {
    const chart = toCrpsChart([
      point('2026-11-01', 7, 2),
      point('2026-11-02', 7, 2),
      point('2026-11-05', 7, 1),
    ])!;
    const model = chart.lines.find(({ name }) => name === 'model')!;
    // Five days at 0, 250, …, 1000; the scale ends at 4: 200·(1 − 2/4) = 100 and 200·(1 − 1/4) = 150.
    expect(model.paths).toEqual(['M0.0 100.0L250.0 100.0', 'M1000.0 150.0h0']);
    expect(chart.table.rows.map((row) => row.slice(0, 3))).toEqual([
      ['5 Nov 2026', '7', '1.00'],
      ['2 Nov 2026', '7', '2.00'],
      ['1 Nov 2026', '7', '2.00'],
    ]);
  });

  it('marks new versions where they began, and names them', () => {
    const marks = ['2026-10-31', '2026-11-02', '2026-11-06'].map((date) => ({ date, label: `5.0 ${date}` }));
    const chart = toCrpsChart(
      [1, 2, 5].map((day) => point(`2026-11-0${day}`, 7, 2)),
      marks,
    )!;
    expect(chart.marks).toEqual([{ x: '25%', label: '5.0 2026-11-02' }]);
  });

  it('groups long series by week, with each day weighted by its forecasts', () => {
    const chart = toCrpsChart([
      // The Monday and the Sunday of one week: (6·1 + 2·3)/8 = 1.5.
      point('2026-08-03', 6, 1),
      point('2026-08-09', 2, 3),
      point('2026-11-02', 1, 2),
    ])!;
    expect(chart.period).toBe('week');
    expect(chart.table.rows.at(-1)!.slice(0, 3)).toEqual(['3 Aug 2026', '8', '1.50']);
    expect(chart.table.rows).toHaveLength(2);
    expect(chart.axis[0]!.label).toBe('3 Aug');
  });

  it('labels each line at its end, without overlaps', () => {
    const chart = toCrpsChart([{ date: '2026-11-01', n: 1, model: 2, raw: 2, climate: 2, market: 2 }])!;
    const heights = chart.endLabels.map(({ y }) => Number(y));
    expect(chart.endLabels.map(({ label }) => label).sort()).toEqual(['Market', 'Model', 'Raw model']);
    for (const [i, y] of heights.entries()) {
      expect(y).toBeLessThanOrEqual(chart.height);
      if (i > 0) expect(y - heights[i - 1]!).toBeGreaterThanOrEqual(15);
    }
  });

  it('omits unscored forecasts from a mean, and is missing without any day', () => {
    const chart = toSeriesChart({
      title: 'CRPS',
      unit: '',
      series: [{ name: 'model', label: 'EMOS' }],
      points: [
        { date: '2026-11-01', n: 3, values: { model: null } },
        { date: '2026-11-02', n: 1, values: { model: 4 } },
      ],
    })!;
    expect(chart.summary).toContain('EMOS 4.00.');
    expect(chart.table.rows).toEqual([
      ['2 Nov 2026', '1', '4.00'],
      ['1 Nov 2026', '3', 'none'],
    ]);
    expect(toCrpsChart([])).toBeNull();
  });
});

describe('periods', () => {
  it('are chosen by the resulting number of points', () => {
    expect(choosePeriod('2026-11-01', '2026-12-15')).toBe('day');
    expect(choosePeriod('2026-11-01', '2026-12-16')).toBe('week');
    expect(choosePeriod('2020-01-01', '2026-01-01')).toBe('month');
    expect(choosePeriod('1950-01-01', '2026-01-01')).toBe('year');
  });

  it('begin on Monday, the first of the month and New Year, even around year ends', () => {
    expect(startOf('2027-01-03', 'week')).toBe('2026-12-28');
    expect(periodsBetween('2026-12-31', '2027-03-01', 'month')).toEqual([
      '2026-12-01',
      '2027-01-01',
      '2027-02-01',
      '2027-03-01',
    ]);
    expect(periodsBetween('2027-02-03', '2029-01-01', 'year')).toEqual([
      '2027-01-01',
      '2028-01-01',
      '2029-01-01',
    ]);
  });
});

describe('observed against forecast', () => {
  it('uses one scale for both, and one larger dot for neighbours', () => {
    const chart = toScatterChart(
      [
        { forecast: 0, observed: 10 },
        { forecast: 0, observed: 10 },
        { forecast: 10, observed: 0 },
      ],
      '°C',
    )!;
    expect(chart.dots).toEqual([
      { x: '0%', y: '0', radius: '3.4' },
      { x: '100%', y: '320', radius: '3' },
    ]);
    // The mean of −10, −10 and +10.
    expect(chart.summary).toBe('3 forecasts, on average 3.33\u00a0°C too low.');
  });

  it('centres a single pair', () => {
    const chart = toScatterChart([{ forecast: 5, observed: 5 }], '')!;
    expect(chart.dots).toMatchObject([{ x: '50%', y: '160' }]);
    expect(chart.table.rows).toEqual([['5.0 to 5.0', '1', '5.00', '5.00', '0.00']]);
  });

  it('stays small with any number of pairs', () => {
    const pairs = Array.from({ length: 20_000 }, (_, i) => ({ forecast: i % 500, observed: (i * 7) % 500 }));
    expect(toScatterChart(pairs, '')!.dots.length).toBeLessThanOrEqual(71 * 71);
  });
});
