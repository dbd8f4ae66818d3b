import fc from 'fast-check';
import { expect, it } from 'vitest';
import { exact, parseExactJson, parseNumbersAsText, toJson } from '../../../src/core/http/json.js';

it('keeps the digits of numbers and ignores the contents of strings', () => {
  const text = '{"a":[1.50,-2e3,{"12":"1, \\"2\\" [3]"}],"b\\\\":12345678901234567890,"c":true}';
  expect(parseNumbersAsText(text)).toEqual({
    a: ['1.50', '-2e3', { '12': '1, "2" [3]' }],
    'b\\': '12345678901234567890',
    c: true,
  });
  expect(parseExactJson(text)).toEqual({
    a: [1.5, -2000, { '12': '1, "2" [3]' }],
    'b\\': '12345678901234567890',
    c: true,
  });
});

it('reads any document like JSON.parse, except for numbers', () => {
  const textual = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
      typeof part === 'number' ? JSON.stringify(part) : part,
    );
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => {
      expect(parseNumbersAsText(text)).toEqual(textual(JSON.parse(text)));
    }),
  );
});

it('writes exact numbers digit by digit, and strings unchanged', () => {
  const value = {
    few: exact('0.25'),
    many: exact('12345678901234567890.5'),
    below: [exact('-0.1234567890123456789')],
    none: exact(null),
    text: '"\\u0001 7',
    left: undefined,
  };
  expect(toJson(value)).toBe(
    String.raw`{"few":0.25,"many":12345678901234567890.5,"below":[-0.1234567890123456789],"none":null,"text":"\"\\u0001 7"}`,
  );
});
