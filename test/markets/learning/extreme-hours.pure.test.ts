import { describe, expect, it } from 'vitest';
import { extremeHoursOf, learnExtremeHours } from '../../../src/markets/learning/extreme-hours.js';

/** Peaks at the given hours, and falls by a degree an hour around them. */
const dayWith = (first: number, last = first): number[] =>
  Array.from({ length: 24 }, (_, hour) => 70 - Math.max(0, first - hour, hour - last));
const days = (count: number, first: number, last?: number) =>
  Array.from({ length: count }, () => dayWith(first, last));

describe('the hours of extremes', () => {
  it('reach from an hour before the first peak to an hour after the last report of it', () => {
    expect(learnExtremeHours('daily_maximum', [...days(20, 12), ...days(20, 14, 15)])).toEqual({
      from: 11,
      to: 16,
      days: 40,
    });
  });

  it('leave out one day in twenty at each end', () => {
    const odd = [...days(1, 0), ...days(1, 23)];
    expect(learnExtremeHours('daily_maximum', [...days(38, 13), ...odd])).toEqual({
      from: 12,
      to: 14,
      days: 40,
    });
    expect(
      learnExtremeHours('daily_maximum', [...days(36, 13), ...odd, ...odd, ...days(1, 0)]),
    ).toMatchObject({
      from: 0,
    });
  });

  it('of a minimum are those of the lowest temperature, and stay within the day', () => {
    const cold = days(30, 0).map((day) => day.map((temperatureF) => -temperatureF));
    expect(learnExtremeHours('daily_minimum', cold)).toEqual({ from: 0, to: 1, days: 30 });
  });

  it('are learned only from 30 days with at least 20 reports each', () => {
    const sparse = dayWith(13).map((temperatureF, hour) => (hour < 5 ? undefined : temperatureF));
    expect(learnExtremeHours('daily_maximum', [...days(29, 13), sparse])).toBeUndefined();
    expect(learnExtremeHours('daily_maximum', days(30, 13))).toEqual({ from: 12, to: 14, days: 30 });
  });

  it.each([
    ['daily_maximum', 'KNYC', { from: 12, to: 15, days: 44 }],
    ['daily_maximum', 'KMIA', { from: 10, to: 17, days: 0 }],
    ['daily_minimum', 'KNYC', { from: 3, to: 8, days: 0 }],
  ] as const)('of a %s at %s are its own or the usual ones', (kind, stationId, hours) => {
    const learned = [{ kind: 'daily_maximum' as const, stationId: 'KNYC', from: 12, to: 15, days: 44 }];
    expect(extremeHoursOf(learned, { kind, stationId })).toMatchObject(hours);
  });
});
