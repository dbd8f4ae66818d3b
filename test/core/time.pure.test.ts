import { expect, it } from 'vitest';
import { monthOf } from '../../src/core/time.js';

it.each([
  ['2031-12-31T23:59:59.999Z', '2031-12-01'],
  ['2032-01-01T00:00:00.000Z', '2032-01-01'],
  ['2032-02-29T23:59:59.999Z', '2032-02-01'],
  ['2031-12-31T23:59:59.999Z', '2031-12-01'],
  ['9999-12-31T23:59:59.999Z', '9999-12-01'],
  ['1969-12-31T23:59:59.999Z', '1969-12-01'],
])('%s is in the month that begins on %s', (time, firstDay) => {
  expect(monthOf(Date.parse(time))).toBe(firstDay);
});

it('an invalid time has no month', () => {
  monthOf(0);
  expect(() => monthOf(NaN)).toThrow(RangeError);
});
