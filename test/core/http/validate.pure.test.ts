import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { AppError } from '../../../src/core/errors.js';
import { dayField, minuteField, parseInput, readDay, text } from '../../../src/core/http/validate.js';

const schema = z.strictObject({ name: text(5), sizes: z.array(z.number()).optional() });

function errorsOf(input: unknown) {
  try {
    parseInput(schema, input);
  } catch (error) {
    if (error instanceof AppError) return error.errors?.map(({ pointer, detail }) => `${pointer} ${detail}`);
    throw error;
  }
  return [];
}

describe('invalid input', () => {
  it('distinguishes a missing value from one of the wrong type', () => {
    expect(errorsOf({})).toEqual(['/name is required']);
    for (const name of [5, null, ['a', 'b'], {}]) {
      const [error] = errorsOf({ name })!;
      expect(error).toBe('/name must be a text');
    }
    expect(errorsOf(undefined)).toEqual([' is required']);
    expect(errorsOf('text')).toEqual([' must be an object']);
  });

  it('is reported with every place, including unknown fields', () => {
    expect(errorsOf({ name: 'too long', sizes: [1, 'two'], 'a/b~c': 1 })).toEqual([
      '/name must be 1 to 5 characters without control characters',
      '/sizes/1 must be a number',
      '/a~1b~0c is not a known field',
    ]);
  });
});

it.each([
  ['2026-11-29', '2026-11-29'],
  [' 29 Nov 2026 ', '2026-11-29'],
  ['Sun 29 Nov 2026', '2026-11-29'],
  ['Sunday, 29 November', '2026-11-29'],
  ['1 Dec', '2025-12-01'],
  ['Today', '2026-11-30'],
  ['yesterday', '2026-11-29'],
  ['3 sept 2026', '2026-09-03'],
  ['1 January 2026', '2026-01-01'],
  ['31 Feb 2026', undefined],
  ['29/11/2026', undefined],
  ['29 Nowember 26', undefined],
  ['tomorrow', undefined],
  ['', undefined],
])('reads the day %j as %s', (typed, day) => {
  const read = readDay(typed, Date.parse('2026-11-30T23:59:59Z'));
  expect(dayField.safeParse(read).data).toBe(day);
});

it.each([
  ['2026-11-29 12:00', '2026-11-29T12:00:00.000Z'],
  ['2026-11-29T12:00:30', '2026-11-29T12:00:30.000Z'],
  [' 29 Nov 2026 12:00 ', '2026-11-29T12:00:00.000Z'],
  ['29 Nov 2026, 12:00 UTC', '2026-11-29T12:00:00.000Z'],
  ['31 Feb 2026 12:00', undefined],
  ['29 Nov 2026 25:00', undefined],
  ['29 Nov 12:00', undefined],
  ['today 12:00', undefined],
  ['29 Nov 2026', '2026-11-29T00:00:00.000Z'],
  ['2026-11-29', '2026-11-29T00:00:00.000Z'],
  ['29 Nov 2026 soon', undefined],
])('reads the time %j as %s', (typed, time) => {
  expect(minuteField.safeParse(typed).data?.toISOString()).toBe(time);
});

it.each([
  ['31 Nov', 'November has only 30 days'],
  ['2026-11-31', 'November has only 30 days'],
  ['31 Feb 2026', 'February has only 28 days'],
  ['30 feb 2024', 'February has only 29 days'],
  ['2026-13-01', undefined],
  ['31 November 2026', 'November has only 30 days'],
  ['soon', undefined],
])('says how long the month of %j is', (typed, length) => {
  const read = readDay(typed, Date.parse('2026-11-30T23:59:59Z'));
  const [day, minute] = [dayField.safeParse(read), minuteField.safeParse(`${typed} 12:00`)].map(
    ({ error }) => error?.issues[0]?.message,
  );
  expect(day).toBe(length ? length : 'must be a date like 29 Nov 2026');
  if (/\d{4}/.test(typed)) expect(minute).toBe(length ? length : 'must be a time, like 29 Nov 2026 12:00');
});
