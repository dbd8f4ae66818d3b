import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { formatEpochDay, parseDay } from '../../evaluate/training.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { createFolder, evaluate } from './run-evaluate.js';

const folder = createFolder();
afterAll(() => folder.remove());

const hours = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));
const header = ['station', 'date', ...hours.map((h) => `o${h}`), ...hours.map((h) => `f${h}`)].join(',');

const curve = (i: number): number[] =>
  hours.map((_, h) => 60 + (12 + 3 * gaussian('size', i)) * Math.cos(((h - 15) * Math.PI) / 12));

function row(i: number, station = 'KNYC'): string {
  const error = 2.5 * gaussian(station, 'error', i);
  const forecast = curve(i);
  const observed = forecast.map((f, h) => f + error * Math.min(1, h / 8) + 0.4 * gaussian(station, i, h));
  const date = formatEpochDay(parseDay('2015-01-01')! + i);
  return [station, date, ...[...observed, ...forecast].map((x) => x.toFixed(2))].join(',');
}

const rows = Array.from({ length: 130 }, (_, i) => row(i));
const from = (i: number): string => formatEpochDay(parseDay('2015-01-01')! + i);
const flags = ['-', '--hourly', '--hour', '12'];
const run = async (lines: readonly string[], args = [...flags, '--from', from(100)]) => {
  const { code, stdout, stderr } = await evaluate([header, ...lines].join('\n'), args);
  const found = code === 0 ? (JSON.parse(stdout) as Summary) : undefined;
  return { code, stderr, found: found! };
};

interface Summary {
  hour: number;
  n: number;
  truncation: { crps: number; logScore: number };
  censored: { crps: number; logScore: number; coverage: number };
  coefficients: Record<string, number>;
}

describe('evaluate --hourly', () => {
  it('prints one object, in which the censored forecast beats the truncated one', async () => {
    const { code, stderr, found } = await run(rows);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(Object.keys(found)).toEqual(['hour', 'n', 'truncation', 'censored', 'coefficients']);
    expect(Object.keys(found.truncation)).toEqual(['crps', 'logScore']);
    expect(Object.keys(found.censored)).toEqual(['crps', 'logScore', 'coverage']);
    expect(found).toMatchObject({ hour: 12, n: 30 });
    expect(found.censored.crps).toBeLessThan(0.8 * found.truncation.crps);
    expect(found.censored.logScore).toBeLessThan(found.truncation.logScore);
    expect(found.censored.coverage).toBeGreaterThan(0.75);
    expect(found.coefficients['b']).toBeGreaterThan(0.3);
  });

  it('reads plain and gzipped files with rows and columns in any order', async () => {
    const shuffled = rows.toReversed().map((line) => `x,${line.split(',').toReversed().join(',')}`);
    const csv = [`more,${header.split(',').toReversed().join(',')}`, ...shuffled].join('\r\n');
    const plain = folder.write('hourly.csv', csv);
    const packed = folder.write('hourly.csv.gz', gzipSync(csv));
    const expected = (await run(rows)).found;
    for (const file of [plain, packed]) {
      const { stdout } = await evaluate('', [file, ...flags.slice(1), '--from', from(100)]);
      expect(JSON.parse(stdout)).toEqual(expected);
    }
  });

  it('uses nothing from the two preceding days or later', async () => {
    const until = rows.slice(0, 101);
    const args = [...flags, '--from', from(100)];
    const { found } = await run(until, args);
    const changed = until.map((line, i) =>
      i === 98 || i === 99 ? row(i + 1000).replace(/,[\d-]+/, `,${from(i)}`) : line,
    );
    expect((await run(changed, args)).found).toEqual(found);
    const earlier = until.map((line, i) =>
      i === 97 ? row(i + 1000).replace(/,[\d-]+/, `,${from(i)}`) : line,
    );
    expect((await run(earlier, args)).found.coefficients).not.toEqual(found.coefficients);
  });

  it('scores from the first day with enough history if no date is given', async () => {
    expect((await run(rows, flags)).found.n).toBe(130 - 62);
  });

  it('scores minima', async () => {
    const { found } = await run(rows, ['-', '--hourly', '--hour', '1', '--minimum', '--from', from(100)]);
    expect(found.censored.crps).toBeLessThan(found.truncation.crps);
  });

  it('names line and column of unreadable input', async () => {
    const bad = (index: number, value: string) =>
      rows.map((line, i) => (i === 4 ? line.split(',').with(index, value).join(',') : line));
    expect((await run(bad(2, 'warm'))).stderr).toContain('line 6, column "o00": "warm" is not a number');
    expect((await run(bad(30, '-9999'))).stderr).toContain(
      'line 6, column "f04": -9999 is not a temperature in °F',
    );
    expect((await run(bad(1, '2015-02-30'))).stderr).toContain(
      'line 6, column "date": "2015-02-30" is not a date',
    );
    expect((await run(bad(1, '2015-01-02'))).stderr).toContain('line 6, column "date"');
    expect((await run([...rows.slice(0, 4), rows[4]!.slice(0, -30)])).stderr).toContain('line 6');
    expect((await evaluate('station,date\n', flags)).stderr).toContain('line 1: there is no column "o00"');
    expect((await evaluate('', flags)).stderr).toContain('is empty');
    for (const args of [
      ['-', '--hourly'],
      ['-', '--hourly', '--hour', '23'],
      ['-', '--hourly', '--hour', 'x'],
    ])
      expect((await run(rows, args)).code).toBe(2);
  });

  it('leaves out rows with an empty field, and says so', async () => {
    const { code, stderr } = await run(
      rows.map((line, i) => (i === 4 ? line.split(',').with(5, '').join(',') : line)),
    );
    expect(code).toBe(0);
    expect(stderr).toContain('Skipped 1 of 130 rows with an empty field (first in line 6, column "o03")');
  });

  it('says why nothing can be scored', async () => {
    const { code, stderr } = await run(rows, [...flags, '--from', '2030-01-01']);
    expect(code).toBe(2);
    expect(stderr).toContain('none from 2030-01-01 on');
  });
});
