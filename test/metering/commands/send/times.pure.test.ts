import { describe, expect, it } from 'vitest';
import { parseExpression, readPath, splitRecord } from '../../../../src/metering/commands/send/fields.js';
import { fromUnixTime, openTimeZone, toTime } from '../../../../src/metering/commands/send/times.js';

const berlin = openTimeZone('Europe/Berlin');

describe('a time', () => {
  it.each([
    ['2026-11-26T07:53:05.123456789Z', '2026-11-26T07:53:05.123456789Z'],
    ['2026-11-26 07:53:05+00', '2026-11-26T07:53:05+00:00'],
    ['2026-11-26 07:53:05.123456 UTC', '2026-11-26T07:53:05.123456Z'],
    ['2026-11-26t07:53:05z', '2026-11-26T07:53:05Z'],
    ['2026-11-26 07:53:05,25 -0530', '2026-11-26T07:53:05.25-05:30'],
    ['2026-11-26 07:53 GMT', '2026-11-26T07:53:00Z'],
    ['2026-11-26 07:53:05', '2026-11-26T06:53:05Z'],
    ['2026-07-26T07:53:05.5', '2026-07-26T05:53:05.5Z'],
    ['6.1.2026 7:53', '2026-01-06T06:53:00Z'],
    ['26.11.2026 07:53', '2026-11-26T06:53:00Z'],
  ])('%s is %s', (text, time) => expect(toTime(text, berlin)).toBe(time));

  it('without a zone is refused unless the zone is named', () => {
    expect(() => toTime('2026-11-26 07:53:05', undefined)).toThrow(
      'has no time zone. Name it with --time-zone',
    );
    expect(toTime('2026-11-26 07:53:05', openTimeZone('UTC'))).toBe('2026-11-26T07:53:05Z');
    expect(toTime('2026-11-26 07:53:05', openTimeZone('America/St_Johns'))).toBe('2026-11-26T11:23:05Z');
    expect(toTime('2026-11-26 07:53:05', openTimeZone('Asia/Kathmandu'))).toBe('2026-11-26T02:08:05Z');
    expect(() => openTimeZone('Berlin')).toThrow('--time-zone must be UTC or a name like Europe/Berlin');
  });

  it('is never guessed: neither a skipped nor a repeated hour, a date alone, nor a month before or after the day', () => {
    expect(() => toTime('2026-03-29 02:30:00', berlin)).toThrow('is skipped in Europe/Berlin');
    expect(() => toTime('2026-10-25 02:30:00', berlin)).toThrow('occurs twice in Europe/Berlin');
    expect(toTime('2026-10-25 02:30:00+02', berlin)).toBe('2026-10-25T02:30:00+02:00');
    expect(toTime('2026-10-25 03:00:00', berlin)).toBe('2026-10-25T02:00:00Z');
    for (const text of ['2026-02-30 01:00:00', '2026-13-01 01:00:00', '31.2.2026 7:00'])
      expect(() => toTime(text, berlin)).toThrow('does not exist');
    for (const text of ['2026-11-26', '11/12/2026 07:53', '2026-11-26 07:53:05 CET', 'yesterday'])
      expect(() => toTime(text, berlin)).toThrow('cannot be read');
    expect(() => toTime('1795679585', berlin)).toThrow("--occurred-at 'unix(…)'");
  });
});

it.each([
  [1795679585, '2026-11-26T07:53:05Z'],
  ['1795679585.123', '2026-11-26T07:53:05.123Z'],
  [1795679585123, '2026-11-26T07:53:05.123Z'],
  ['1795679585123456', '2026-11-26T07:53:05.123456Z'],
  ['1795679585123456789', '2026-11-26T07:53:05.123456Z'],
])('the Unix time %s is %s', (value, time) => expect(fromUnixTime(value)).toBe(time));

it.each(['1.79568E+09', '-5', '', '2026', '1'.repeat(25), 'x'])(
  '%j is no Unix time, or an old one',
  (text) => {
    if (text === '2026') expect(fromUnixTime(text)).toBe('1970-01-01T00:33:46Z');
    else expect(() => fromUnixTime(text)).toThrow('is not a Unix time');
  },
);

const record = (value: unknown) => ({ number: 1, keys: [], value, position: 0 });

describe('fields', () => {
  it('lie along dots, also in columns of JSON, and long numbers keep their digits', () => {
    const value = { p: '{"a":{"b":12345678901234567890}}', 'x.y': '{"z":1}', q: 'text', l: '[5]' };
    expect(readPath(value, 'p.a.b')).toBe('12345678901234567890');
    expect(readPath(value, 'x.y.z')).toBe(1);
    expect(readPath(value, 'l.0')).toBe(5);
    for (const path of ['q.a', 'p.b', 'p.', 'p.constructor', 'constructor.name'])
      expect(readPath(value, path)).toBeUndefined();
  });

  it('join without two values ever joining to the same text', () => {
    const { read, fields } = parseExpression('--subject', 'join(a, lower(b), =c)');
    expect(fields).toEqual(['a', 'b']);
    const join = (a: unknown, b: unknown) => read(record({ a, b }));
    expect(join('1', 'X')).toBe('1/x/c');
    const joined = [
      ['a/b', 'c'],
      ['a', 'b/c'],
      ['a', 'b%2Fc'],
      ['a', 'b%252fc'],
      ['a', ''],
      ['', 'a'],
    ];
    expect(new Set(joined.map(([a, b]) => join(a, b))).size).toBe(joined.length);
    const both = parseExpression('--subject', 'join(a, b)');
    expect(both.read(record({ a: null, b: '' }))).toBeUndefined();
  });

  it('of a list make one event for each element, in an object, a path or a column of JSON', () => {
    const values = (value: object, path: string) =>
      splitRecord(record(value), path).map((each) => each.value);
    expect(values({ at: 1, l: [{ n: 1 }, 2] }, 'l')).toEqual([
      { at: 1, l: { n: 1 } },
      { at: 1, l: 2 },
    ]);
    expect(values({ a: '{"l":[1]}', b: 2 }, 'a.l')).toEqual([{ a: { l: 1 }, b: 2 }]);
    expect(values({ l: [] }, 'l')).toEqual([]);
    expect(splitRecord(record({ l: 5 }), 'l')).toMatchObject([
      { problem: 'The record has no list at l (--each).' },
    ]);
  });
});
