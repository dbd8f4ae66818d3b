import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ExactNumber } from '../../../src/core/http/json.js';
import { csvRow } from '../../../src/core/pages/csv.js';

it.each(['=cmd|calc', '+1', '-1', '@sum(a1)', '\tx', '\rx', '\n=x'])(
  'the text %j is not a formula in a spreadsheet',
  (text) => {
    const [[cell]] = parse(csvRow([text])) as [[string]];
    expect(cell).toBe(`'${text}`);
  },
);

it('numbers and times are written unchanged', () => {
  const at = new Date('2031-03-04T05:06:07.089Z');
  expect(csvRow([-1, 0.5, new ExactNumber('12345678901234567890.000000000000000000001'), at, null, ''])).toBe(
    '-1,0.5,12345678901234567890.000000000000000000001,2031-03-04T05:06:07.089Z,,\r\n',
  );
});

it('a reader of RFC 4180 gets any text back unchanged', () => {
  const text = fc.string({ unit: 'binary' }).filter((value) => !/^[=+\-@\t\r\n]/.test(value));
  fc.assert(
    fc.property(fc.array(text, { minLength: 2, maxLength: 5 }), (cells) => {
      expect(parse(csvRow(cells), { record_delimiter: '\r\n' })).toEqual([cells]);
    }),
  );
});
