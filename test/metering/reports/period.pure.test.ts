import { describe, expect, it } from 'vitest';
import { AppError } from '../../../src/core/errors.js';
import {
  asRange,
  neighbour,
  parsePeriod,
  stepsOf,
  toPeriodQuery,
} from '../../../src/metering/reports/period.js';

const now = new Date('2028-03-15T12:00:00Z');

describe('a period', () => {
  it.each([
    ['day', {}, '2028-03-15', '2028-03-16', 24],
    ['day', { date: '2028-02-29' }, '2028-02-29', '2028-03-01', 24],
    ['month', {}, '2028-03-01', '2028-04-01', 31],
    ['month', { month: '2028-02' }, '2028-02-01', '2028-03-01', 29],
    ['month', { month: '2027-12', date: 'of no concern' }, '2027-12-01', '2028-01-01', 31],
    ['custom', { from: '2028-01-01', to: '2028-12-31' }, '2028-01-01', '2029-01-01', 366],
    ['custom', { from: '2028-02-29', to: '2028-02-29' }, '2028-02-29', '2028-03-01', 1],
  ] as const)('%s %j consists of whole days in UTC', (range, query, from, to, steps) => {
    const period = parsePeriod(range, query, now);
    expect(period.from).toEqual(new Date(`${from}T00:00:00Z`));
    expect(period.to).toEqual(new Date(`${to}T00:00:00Z`));
    expect(stepsOf(period)).toHaveLength(steps);
    expect(parsePeriod(range, toPeriodQuery(period), now)).toEqual(period);
  });

  it('of the days of a whole month is this month', () => {
    const month = parsePeriod('month', { month: '2028-02' }, now);
    expect(parsePeriod('custom', { from: '2028-02-01', to: '2028-02-29' }, now)).toEqual(month);
    for (const [from, to] of [
      ['2028-02-01', '2028-02-28'],
      ['2028-02-02', '2028-03-01'],
      ['2028-02-01', '2028-03-31'],
    ])
      expect(parsePeriod('custom', { from, to }, now).range).toBe('custom');
  });

  it.each([
    ['day', { date: '2027-02-29' }, '/date'],
    ['day', { date: ['2028-01-01', '2028-01-02'] }, '/date'],
    ['day', { date: '1999-12-31' }, '/date'],
    ['month', { month: '2028-13' }, '/month'],
    ['month', { month: '2028-1' }, '/month'],
    ['custom', { from: '2028-01-01' }, '/to'],
    ['custom', { from: '2028-01-02', to: '2028-01-01' }, '/to'],
    ['custom', { from: '2027-01-01', to: '2028-01-02' }, '/to'],
    ['custom', { from: '\u0000', to: '2028-01-01' }, '/from'],
  ] as const)('%s %j is refused at its field', (range, query, pointer) => {
    let thrown: unknown;
    try {
      parsePeriod(range, query, now);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(AppError);
    expect((thrown as AppError).errors?.map((place) => place.pointer)).toEqual([pointer]);
  });

  it('has adjacent neighbours, and none beyond the supported years', () => {
    const march = parsePeriod('month', { month: '2028-03' }, now);
    expect(toPeriodQuery(neighbour(march, -1)!)).toEqual({ range: 'month', month: '2028-02' });
    expect(toPeriodQuery(neighbour(march, 1)!)).toEqual({ range: 'month', month: '2028-04' });
    const week = parsePeriod('custom', { from: '2028-03-01', to: '2028-03-07' }, now);
    expect(toPeriodQuery(neighbour(week, -1)!)).toEqual({
      range: 'custom',
      from: '2028-02-23',
      to: '2028-02-29',
    });
    expect(neighbour(parsePeriod('month', { month: '2099-12' }, now), 1)).toBeUndefined();
    expect(neighbour(parsePeriod('day', { date: '2000-01-01' }, now), -1)).toBeUndefined();
  });

  it('becomes another range around the present, or around its last day', () => {
    const march = parsePeriod('month', {}, now);
    expect(toPeriodQuery(asRange(march, 'day', now))).toEqual({ range: 'day', date: '2028-03-15' });
    const june = parsePeriod('month', { month: '2027-06' }, now);
    expect(toPeriodQuery(asRange(june, 'day', now))).toEqual({ range: 'day', date: '2027-06-30' });
    expect(toPeriodQuery(asRange(june, 'custom', now))).toEqual({
      range: 'custom',
      from: '2027-06-01',
      to: '2027-06-30',
    });
  });
});
