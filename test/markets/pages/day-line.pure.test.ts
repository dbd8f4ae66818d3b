import { describe, expect, it } from 'vitest';
import { toDayLine } from '../../../src/markets/pages/day-line.js';
import type { ObservedExtreme } from '../../../src/markets/weather/weather.js';

const start = new Date('2026-08-29T08:00:00Z');
const at = (hour: number, minute = 0) => new Date(start.getTime() + (hour * 60 + minute) * 60_000);
const curveF = Array.from({ length: 24 }, (_, hour) => 86 - Math.abs(hour - 14));
const observed = (more: Partial<ObservedExtreme> = {}): ObservedExtreme => ({
  kind: 'daily_maximum',
  stationId: 'KLAX',
  date: '2026-08-29',
  extremeF: 85,
  observedAt: at(11),
  fetchedAt: at(11),
  hoursF: Array.from({ length: 24 }, (_, hour) => (hour < 12 && hour !== 5 ? 74 + hour : null)),
  ...more,
});
const day = { kind: 'daily_maximum', curveF, observed: observed() } as const;
const feed = {
  changes: [
    { at: at(10, 58), lowestF: 86, highestF: 86, isConfirmed: true },
    { at: at(11, 31), lowestF: 87, highestF: 88, isConfirmed: false },
    { at: at(11, 32), lowestF: 86, highestF: 86, isConfirmed: false },
  ],
  latestAt: at(11, 40),
  problem: null,
};

describe('the line of a day', () => {
  it('has the forecast, one dot for each report, and an area of minutes with the peak that lasted one minute', () => {
    const chart = toDayLine(day, feed, start)!;
    const [forecast, reports] = ['market', 'model'].map((name) =>
      chart.lines.find((line) => line.name === name)!,
    );
    expect(forecast!.paths).toHaveLength(1);
    expect(reports!.paths).toHaveLength(11);
    expect(reports!.paths.every((path) => path.endsWith('h0'))).toBe(true);
    expect(chart.bands).toHaveLength(1);
    const heights = [...chart.bands[0]!.matchAll(/ ([\d.]+)/g)].map(([, y]) => Number(y));
    expect(new Set(heights).size).toBe(2);
    expect(chart.summary).toBe('Temperatures of the day.');
  });

  it('shows the same in its table', () => {
    const { rows } = toDayLine(day, feed, start)!.table;
    expect(rows).toHaveLength(24);
    expect([rows[5], rows[10], rows[11], rows[12]]).toEqual([
      ['05:00', 'none', 'none', '77.0'],
      ['10:00', '84.0', '86 to 86', '82.0'],
      ['11:00', '85.0', '86 to 88', '83.0'],
      ['12:00', 'none', 'none', '84.0'],
    ]);
  });

  it('says what minutes prove, when extremes occur, and why minutes are left out', () => {
    const minutes = { lowestF: 87, highestF: 88, at: at(11, 31), count: 1 };
    const known = { ...day, observed: observed({ minutes }), extremeHours: { from: 11, to: 15, days: 44 } };
    const chart = toDayLine(known, { ...feed, problem: 'it has stopped' }, start)!;
    expect(chart.summary).toBe(
      'The high usually occurs from 11:00 to 15:00 (learned from 44 days); resting orders near it are cancelled then.',
    );
    expect(chart.note).toMatch('They are left out of the forecast: it has stopped.');
  });

  it('of a minimum names the low', () => {
    const low = toDayLine(
      { ...day, kind: 'daily_minimum', extremeHours: { from: 3, to: 8, days: 0 } },
      null,
      start,
    )!;
    expect(low.summary).toMatch(
      'The low usually occurs from 03:00 to 08:00 (not yet learned for this station)',
    );
    expect([low.bands, low.note]).toEqual([[], '']);
  });

  it('does not call nearly the whole day usual', () => {
    const wide = { ...day, kind: 'daily_minimum', extremeHours: { from: 4, to: 24, days: 90 } } as const;
    expect(toDayLine(wide, null, start)!.summary).toBe(
      'The low can occur at almost any hour (learned from 90 days); resting orders near it are cancelled from 04:00 to 24:00.',
    );
  });

  it('is not drawn without any hour, and without a forecast by hour has only reports', () => {
    const none = { kind: 'daily_maximum', observed: null, curveF: undefined } as const;
    expect(toDayLine(none, feed, start)).toBeNull();
    const chart = toDayLine({ ...none, observed: observed() }, null, start)!;
    expect(chart.lines.map(({ paths }) => paths.length)).toEqual([0, 11]);
  });

  it('leaves out minutes of other days', () => {
    const other = { at: at(26), lowestF: 99, highestF: 99, isConfirmed: true };
    const chart = toDayLine(day, { ...feed, changes: [other], latestAt: at(27) }, start)!;
    expect(chart.bands).toEqual([]);
  });
});
