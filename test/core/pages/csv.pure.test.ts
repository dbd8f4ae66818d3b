import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ExactNumber } from '../../../src/core/http/json.js';
import { csvRow, readCsvText } from '../../../src/core/pages/csv.js';

const formulas = [
  '=cmd|calc',
  '+1',
  '-1',
  '@sum(a1)',
  '\tx',
  '\rx',
  '\n=x',

  ' =x',
  '\u00a0=x',
  '\u3000+x',
  '\u200b=x',
  '\u2060\u00ad@x',
  '\ufeff-x',
  '\u2800=x',
  '\u3164=x',
  '\ufe0f=x',
  '\uff1d1',
  '\uff0b1',
  '\uff0d1',
  '\uff20a',
  '\ufe661',
  ' \u200b\uff1dx',
  '\u0000=x',
  "'=x",
  "''=x",
];

it.each(formulas)('the text %j is not a formula in a spreadsheet', (text) => {
  const [[cell]] = parse(csvRow([text])) as [[string]];
  expect(cell).toBe(`'${text}`);
});

it('numbers and times are written unchanged', () => {
  const at = new Date('2031-03-04T05:06:07.089Z');
  expect(csvRow([-1, 0.5, new ExactNumber('12345678901234567890.000000000000000000001'), at, null, ''])).toBe(
    '-1,0.5,12345678901234567890.000000000000000000001,2031-03-04T05:06:07.089Z,,\r\n',
  );
});

it('a separator of another country begins no cell', () => {
  expect(csvRow(['x;=cmd|calc', 'y\tz', 'a'])).toBe('"x;=cmd|calc","y\tz","a"\r\n');
});

it("Gauge's own reader gets any text back unchanged", () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1 }),
    fc.string({ unit: fc.constantFrom("'", '=', '-', ' ', '\u200b', '\uff1d', '"', ';', 'x'), minLength: 1 }),
  );
  fc.assert(
    fc.property(fc.array(text, { minLength: 2, maxLength: 5 }), (cells) => {
      const [row] = parse(csvRow(cells), { record_delimiter: '\r\n' });
      expect(row!.map(readCsvText)).toEqual(cells);
    }),
  );
});
