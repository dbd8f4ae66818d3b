import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ticksAround, toLineChart } from '../../../src/core/charts/line-chart.js';
import { rangeStart, toCurve } from '../../../src/markets/portfolio/curve.js';
import { summarizeRange } from '../../../src/markets/pages/portfolio-pages.js';
import { parseDollars, formatDollars } from '../../../src/markets/market/money.js';

const dollars = (text: string) => parseDollars(text);

describe('the profit and loss curve', () => {
  // A one-day curve has 15-minute steps; 12:05 lies in the step that begins at 12:00.
  const now = new Date('2026-11-21T12:05:00Z');
  const step = (time: string) => new Date(`2026-11-21T${time}:00Z`);

  it('subtracts bookings from the present totals and carries position values forward', () => {
    const points = toCurve({
      range: 'day',
      now,
      openedAt: step('11:10'),
      present: { realised: dollars('5'), fees: dollars('0.30'), unrealised: dollars('-1') },
      booked: [
        { step: step('11:15'), realised: 0n, fees: dollars('0.10') },
        { step: step('11:45'), realised: dollars('5'), fees: dollars('0.20') },
      ],
      worth: [
        { step: step('11:15'), unrealised: dollars('-2') },
        { step: step('11:45'), unrealised: dollars('-0.50') },
      ],
      worthBefore: undefined,
    });
    const text = points.map(({ at, total }) => [
      at.toISOString().slice(11, 16),
      total === null ? null : formatDollars(total),
    ]);
    expect(text).toEqual([
      ['11:15', '0.0000'],
      ['11:30', '-2.1000'],
      ['11:45', '-2.1000'],
      // 5.00 − 0.30 − 0.50
      ['12:00', '4.2000'],
      ['12:05', '3.7000'],
    ]);
  });

  it('names the worst day, which midnight ends', () => {
    const totals = { '29T16:00': '10', '30T00:00': '4', '30T08:00': '3' };
    const points = Object.entries(totals).map(([time, total]) => {
      const amounts = { realised: 0n, fees: 0n, unrealised: 0n, total: dollars(total) };
      return { at: new Date(`2026-11-${time}:00Z`), ...amounts };
    });
    expect(summarizeRange(points, 'month').worstDay).toBe(dollars('-6'));
  });

  it('gains what its shown ends differ by', () => {
    const totals = ['-6.3149', '45.4951'].map(dollars);
    const points = totals.map((total, i) => ({
      at: step(`0${i}:00`),
      realised: total,
      fees: 0n,
      unrealised: 0n,
      total,
    }));
    expect(summarizeRange(points, 'day').gain).toBe(dollars('51.81'));
  });

  it('has a gap after a trade until the positions’ value is recorded', () => {
    const points = toCurve({
      range: 'day',
      now,
      openedAt: step('11:30'),
      present: { realised: 0n, fees: dollars('0.10'), unrealised: null },
      booked: [{ step: step('11:45'), realised: 0n, fees: dollars('0.10') }],
      worth: [],
      worthBefore: undefined,
    });
    expect(points.map(({ total }) => total)).toEqual([0n, null, null]);
    expect(points.map(({ fees }) => formatDollars(fees))).toEqual(['0.0000', '0.1000', '0.1000']);
  });

  it('begins with the last value before the range, or with a gap if the account is older than its history', () => {
    const old = { range: 'day', now, openedAt: new Date('2026-01-01'), booked: [], worth: [] } as const;
    const present = { realised: 0n, fees: 0n, unrealised: 1n };
    const [first] = toCurve({ ...old, present, worthBefore: dollars('2') });
    expect(first).toMatchObject({ at: new Date('2026-11-20T12:15:00Z'), total: dollars('2') });
    expect(toCurve({ ...old, present, worthBefore: undefined })[0]!.total).toBeNull();
    expect(rangeStart('year', now)).toEqual(new Date('2025-11-17T00:00:00Z'));
  });
});

describe('a line chart', () => {
  it.each([
    [0, 0, [-1, 0, 1]],
    [-20, 0, [-20, -15, -10, -5, 0]],
    [-3, 7, [-5, -2.5, 0, 2.5, 5, 7.5]],
    [0, 0.04, [0, 0.01, 0.02, 0.03, 0.04]],
  ])('has round ticks from %d to %d', (min, max, expected) => {
    expect(ticksAround(min, max)).toEqual(expected);
  });

  it('labels days where they begin, evenly spaced', () => {
    const labelsOf = (axis: string[]) => {
      const lines = [{ name: 'total', values: axis.map(() => 0) }];
      const chart = toLineChart({ summary: '', labels: axis, axis, lines, formatTick: String });
      return chart.axis.map(({ x, label }) => [x, label]);
    };
    const days = Array.from({ length: 41 }, (_, i) => String(Math.floor((i + 1) / 6)));
    expect(labelsOf(days)).toEqual([
      ['12.5%', '1'],
      ['42.5%', '3'],
      ['72.5%', '5'],
    ]);
    expect(labelsOf(['9', '9', '10'])).toEqual([
      ['0%', '9'],
      ['100%', '10'],
    ]);
    expect(labelsOf(['9'])).toEqual([['50%', '9']]);
  });

  it('bridges each gap between known values', () => {
    const bridgesOf = (values: (number | null)[]) => {
      const text = values.map(String);
      const lines = [{ name: 'total', values }];
      return toLineChart({ summary: '', labels: text, axis: text, lines, formatTick: String }).lines[0]!
        .bridges;
    };
    expect(bridgesOf([null, 0, null, null, 4, 4, null])).toEqual(['M166.7 200.0L666.7 0.0']);
    expect(bridgesOf([1, 2, 3])).toEqual([]);
    expect(bridgesOf([null, null])).toEqual([]);
  });

  it('keeps every point inside, zero among the ticks, and gaps open', () => {
    const value = fc.option(fc.integer({ min: -1e9, max: 1e9 }).map((cents) => cents / 100));
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 120 }), (values) => {
        const text = values.map(String);
        const lines = [{ name: 'total', values }];
        const chart = toLineChart({ summary: '', labels: text, axis: text, lines, formatTick: String });
        const numbers = chart.lines[0]!.paths.flatMap((path) => path.match(/-?[\d.]+ -?[\d.]+/g) ?? []);
        expect(numbers.length).toBe(values.filter((v) => v !== null).length);
        for (const point of numbers) {
          const [x, y] = point.split(' ').map(Number);
          expect(x! >= 0 && x! <= chart.width && y! >= -0.1 && y! <= chart.height + 0.1).toBe(true);
        }
        expect(chart.ticks.filter(({ isZero }) => isZero).length).toBe(1);
        expect(chart.ticks.length).toBeLessThanOrEqual(7);
      }),
      { numRuns: 60 },
    );
  });
});

it('a curve far from zero fills its drawing; one that does not move keeps zero', () => {
  const text = ['a', 'b', 'c'];
  const draw = (values: number[]) =>
    toLineChart({
      summary: '',
      labels: text,
      axis: text,
      lines: [{ name: 'total', values }],
      formatTick: String,
      hasZero: false,
    }).ticks.map(({ label }) => Number(label));
  expect(draw([152, 158, 155])[0]).toBeGreaterThanOrEqual(150);
  expect(draw([150, 150, 150])).toContain(0);
});
