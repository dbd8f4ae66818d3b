import { expect, it } from 'vitest';
import {
  formatAgo,
  formatEach,
  formatFigure,
  formatGrace,
  formatShare,
  formatUnit,
  roundFigure,
  roundParts,
} from '../../../src/core/pages/format.js';

const now = new Date('2026-11-20T12:00:00Z');

it.each([
  [
    ['2125.295', '617.165'],
    ['2125.29', '617.17'],
  ],
  [
    ['20', '7'],
    ['20', '7'],
  ],
  [['0.001'], ['0.001']],
  [
    ['0.002', '0.001'],
    ['0.002', '0.001'],
  ],
  [
    ['1.5', '1.5'],
    ['1.50', '1.50'],
  ],
  [
    ['0.335', '0.335', '0.33'],
    ['0.33', '0.34', '0.33'],
  ],
  [
    ['0.001', '7.504'],
    ['0.001', '7.509'],
  ],
])('%j are rounded to %j, which add up to their rounded total', (parts, rounded) => {
  expect(roundParts(parts).map((part) => formatFigure(part, parts))).toEqual(
    rounded.map((part) => formatFigure(part, parts)),
  );
});

it.each([
  [7 * 86_400 - 1, 'in 7 days'],
  [3_600, 'in 1 hour'],
  [59, 'in less than a minute'],
  [0, 'just now'],
  [-7 * 86_400 + 1, '6 days ago'],
  [-7 * 86_400, '7 days ago'],
  [-7 * 86_400 - 1, '13 Nov 2026'],
  [70 * 86_400, 'in 70 days'],
])('a time %i seconds away is %s', (seconds, text) => {
  expect(formatAgo(new Date(now.getTime() + seconds * 1_000), now)).toBe(text);
});

it.each([
  [60 * 24, '1 day'],
  [60 * 24 - 0.5, '23 h 59 min'],
  [60 * 25, '25 h 0 min'],
  [120, '2 hours'],
  [90, '1 h 30 min'],
  [40, '40 minutes'],
  [0.5, 'less than a minute'],
])('a grace of %d minutes is %s', (minutes, text) => {
  expect(formatGrace(minutes * 60_000)).toBe(text);
});

it.each([
  ['requests', 'request', 'request'],
  ['tiles', 'tile', 'tile'],
  ['GPU-hours', 'GPU-hour', 'GPU-hour'],
  ['queries', 'queries', 'unit of queries'],
  ['accesses', 'accesses', 'unit of accesses'],
  ['ms', 'ms', 'unit of ms'],
])('one of the metric %s is "1 %s", and its price is for each %s', (metric, one, each) => {
  expect(formatUnit('1', metric)).toBe(one);
  expect(formatUnit('2', metric)).toBe(metric);
  expect(formatEach(metric)).toBe(each);
});

it.each([
  ['1', '8', '12.5%'],
  ['99.99', '100', '99.9%'],
  ['0.0004', '1', '<0.1%'],
  ['0', '1', '0%'],
  ['100', '100', '100%'],
  ['120', '10', '1,200%'],
  ['85', '40', '213%'],
  ['1', '0', '–'],
])('%s of %s is %s', (part, whole, share) => {
  expect(formatShare(part, whole)).toBe(share);
});

it.each([
  ['2726.15', '2726.15'],
  ['53.7624', '53.76'],
  ['39.6', '39.60'],
  ['1.005', '1.01'],
  ['-682.555', '-682.56'],
  ['0.001', '<0.01'],
  ['-3.5', '-3.50'],
  ['390', '390'],
  ['9007199254740991.3', '9007199254740991.30'],
])('a total of %s has two decimals or none', (exact, figure) => {
  expect(roundFigure(exact)).toBe(figure);
});

it('totals in one column all have two decimals if one has decimals', () => {
  const column = ['2153', '635.777', '0', '-3'];
  const format = (decimal: string) => formatFigure(decimal, column);
  expect(column.map(format)).toEqual(['2,153.00', '635.78', '0', '−3.00']);
  expect(formatFigure('2153', ['2153', '635'])).toBe('2,153');
  expect(formatFigure('0.001')).toBe('&lt;0.01');
  expect(formatFigure('1234567.125')).toBe('1,234,567.13');
  expect(formatFigure('12345678901.125')).not.toContain('&lt;');
});
