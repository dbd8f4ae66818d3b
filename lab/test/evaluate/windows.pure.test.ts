import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatEpochDay, monthNumberOf, parseDay, planWindows } from '../../evaluate/training.js';

describe('dates', () => {
  it.each([
    ['2010-03-01', '2010-03-01'],
    ['2010-03-01 06:00:00', '2010-03-01'],
    ['2010-03-01T23:59:59-11:00', '2010-03-01'],
    ['2010-3-1', '2010-03-01'],
    ['2010/03/01', '2010-03-01'],
    ['2010.03.01', '2010-03-01'],
    ['20100301', '2010-03-01'],
    ['2010030106', '2010-03-01'],
    ['20100301T0600Z', '2010-03-01'],
    ['2012-02-29', '2012-02-29'],
    ['1899-12-31', '1899-12-31'],
  ])('%s is the day %s', (text, day) => {
    expect(formatEpochDay(parseDay(text)!)).toBe(day);
  });

  it.each([
    '',
    'NA',
    '01/02/2010',
    '2010-02-29',
    '2010-13-01',
    '2010-00-10',
    '2010-03',
    '2010-03/01',
    '201003',
    '1267401600000',
  ])('%j is not a date', (text) => {
    expect(parseDay(text)).toBeUndefined();
  });

  it('have the right month', () => {
    expect(monthNumberOf(parseDay('2009-12-31')!)).toBe(12);
    expect(monthNumberOf(parseDay('2010-01-01')!)).toBe(1);
  });
});

describe('a fixed training period', () => {
  const days = [1, 1, 3, 5, 5, 9].map((day) => parseDay(`2020-01-0${day}`)!);

  it('ends before the date at which the test starts', () => {
    expect(planWindows(days, { until: '2020-01-05', lagDays: 0 })).toEqual([
      { training: { from: 0, to: 3 }, test: { from: 3, to: 6 } },
    ]);
    expect(planWindows(days, { until: '2020-01-04', lagDays: 0 })).toEqual([
      { training: { from: 0, to: 3 }, test: { from: 3, to: 6 } },
    ]);
  });

  it('ends earlier with a lag', () => {
    expect(planWindows(days, { until: '2020-01-05', lagDays: 2 })).toEqual([
      { training: { from: 0, to: 2 }, test: { from: 3, to: 6 } },
    ]);
  });

  it('has nothing to test if all data is older', () => {
    expect(planWindows(days, { until: '2020-01-10', lagDays: 0 })).toEqual([]);
  });
});

describe('a rolling window', () => {
  it('holds the latest dates before each, however old', () => {
    const days = [100, 101, 101, 130, 131];
    expect(planWindows(days, { days: 2, lagDays: 0 })).toEqual([
      { training: null, test: { from: 0, to: 1 } },
      { training: null, test: { from: 1, to: 3 } },
      { training: { from: 0, to: 3 }, test: { from: 3, to: 4 } },
      { training: { from: 1, to: 4 }, test: { from: 4, to: 5 } },
    ]);
  });

  it('leaves out the last days before the date with a lag', () => {
    const days = [100, 101, 102, 103, 104];
    const steps = planWindows(days, { days: 2, lagDays: 1 });
    expect(steps.map(({ training }) => training)).toEqual([
      null,
      null,
      null,
      { from: 0, to: 2 },
      { from: 1, to: 3 },
    ]);
  });

  it('matches a direct count on arbitrary days', () => {
    const input = fc.record({
      days: fc
        .array(fc.integer({ min: 0, max: 40 }), { maxLength: 40 })
        .map((d) => d.toSorted((a, b) => a - b)),
      length: fc.integer({ min: 1, max: 8 }),
      lagDays: fc.integer({ min: 0, max: 5 }),
    });
    fc.assert(
      fc.property(input, ({ days, length, lagDays }) => {
        const tested: number[] = [];
        for (const { training, test } of planWindows(days, { days: length, lagDays })) {
          const at = days[test.from]!;
          tested.push(...days.slice(test.from, test.to));
          const dates = [...new Set(days)].filter((day) => day < at - lagDays).slice(-length);
          const expected = dates.length < length ? null : days.filter((day) => dates.includes(day));
          expect(training && days.slice(training.from, training.to)).toEqual(expected);
        }
        expect(tested).toEqual(days);
      }),
    );
  });
});
