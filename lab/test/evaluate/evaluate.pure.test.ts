import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import type { Evaluation } from '../../evaluate/evaluate.js';
import { type EmosCoefficients, fitEmos } from '../../evaluate/emos.js';
import { ownScript } from '../../../test/support/own-build.js';
import { createFolder, days, evaluate, flags, header, toCsv, type Day } from './run-evaluate.js';

const folder = createFolder();
afterAll(() => folder.remove());

const names = ['a', 'b', 'c', 'd'] as const;

function fitOf(rows: readonly Day[]): EmosCoefficients {
  const fit = fitEmos(
    rows.map(({ observed, members }) => {
      const mean = members.reduce((sum, x) => sum + x, 0) / members.length;
      const squares = members.reduce((sum, x) => sum + (x - mean) ** 2, 0);
      return { mean, variance: squares / (members.length - 1), observed };
    }),
  );
  if (!('coefficients' in fit)) throw new Error(fit.reason);
  return fit.coefficients;
}

function expectCoefficients(summary: Evaluation['summary'], expected: EmosCoefficients): void {
  const found = summary.coefficients as EmosCoefficients;
  for (const name of names) expect(Math.abs(found[name] - expected[name])).toBeLessThan(1e-3);
}

const history = days('2020-01-01', 80);

describe('a fixed training period', () => {
  it('scores days from the date on, and fits those before', async () => {
    const run = await evaluate(toCsv(history), [...flags, '--train-until', '2020-03-01']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.summary.n).toBe(20);
    expectCoefficients(run.summary, fitOf(history.slice(0, 60)));
    const { raw, emos } = run.summary;
    expect(Object.keys(run.summary)).toEqual(['n', 'raw', 'emos', 'coefficients']);
    expect(Object.keys(raw)).toEqual(['crps', 'mae', 'bias', 'coverage']);
    expect(Object.keys(emos)).toEqual(['crps', 'mae', 'bias', 'logScore', 'coverage']);
    expect(raw.bias).toBeLessThan(-1);
    expect(emos.crps).toBeLessThan(raw.crps);
    expect(emos.coverage).toBeGreaterThan(raw.coverage);
  });

  it('scores the ensemble as worked out by hand', async () => {
    const tested: Day[] = [
      // |x − y|: 1, 1, 0, 1, 2, mean 1; pairs of 1..5: 40 · 2 / 25 / 2 = 0.8; the interval is 1.2 to 4.8.
      { date: '2020-05-01', observed: 3, members: [5, 4, 3, 2, 1] },
      // Mean 12, error 4, no spread: the interval is a single point.
      { date: '2020-05-02', observed: 8, members: [12, 12, 12, 12, 12] },
    ];
    const { summary } = await evaluate(toCsv([...history, ...tested]), [
      ...flags,
      '--train-until',
      '2020-05-01',
    ]);
    expect(summary.n).toBe(2);
    expect(summary.raw.crps).toBeCloseTo((1.2 - 0.8 + 4) / 2, 12);
    expect(summary.raw.mae).toBeCloseTo(2, 12);
    expect(summary.raw.bias).toBeCloseTo(2, 12);
    expect(summary.raw.coverage).toBe(0.5);
  });

  it('never trains on tested days', async () => {
    const args = [...flags, '--train-until', '2020-03-01'];
    const moved = history.map((day, i) => (i < 60 ? day : { ...day, observed: 99 }));
    const [before, after] = [await evaluate(toCsv(history), args), await evaluate(toCsv(moved), args)];
    expect(after.summary.coefficients).toEqual(before.summary.coefficients);
    expect(after.summary.emos.crps).toBeGreaterThan(before.summary.emos.crps);
  });

  it('does not depend on the order of the rows', async () => {
    const args = [...flags, '--train-until', '2020-03-01'];
    const forwards = await evaluate(toCsv(history), args);
    expect((await evaluate(toCsv(history.toReversed()), args)).stdout).toBe(forwards.stdout);
  });

  it('leaves out the last days before the date that a lag marks as unverified', async () => {
    const { summary } = await evaluate(toCsv(history), [
      ...flags,
      '--train-until',
      '2020-03-01',
      '--lag',
      '9',
    ]);
    expect(summary.n).toBe(20);
    expectCoefficients(summary, fitOf(history.slice(0, 51)));
  });
});

describe('a rolling training window', () => {
  it('forecasts each date with enough earlier ones, and reports the last fit', async () => {
    const run = await evaluate(toCsv(history), [...flags, '--train-days', '30']);
    expect(run.summary.n).toBe(50);
    expect(run.stderr).toBe('evaluate: Not tested: 30 rows with fewer than 30 earlier dates with data.\n');
    expectCoefficients(run.summary, fitOf(history.slice(49, 79)));
  });

  it('ends the lag before the date', async () => {
    const { summary } = await evaluate(toCsv(history), [...flags, '--train-days', '30', '--lag', '3']);
    expect(summary.n).toBe(47);
    expectCoefficients(summary, fitOf(history.slice(46, 76)));
  });

  it('never trains on the forecast day, later days or days within the lag', async () => {
    const args = [...flags, '--train-days', '30', '--lag', '3'];
    const { summary } = await evaluate(toCsv(history), args);
    const moved = history.map((day, i) => (i < 76 ? day : { ...day, observed: day.observed + 50 }));
    const after = await evaluate(toCsv(moved), args);
    expect(after.summary.coefficients).toEqual(summary.coefficients);
    const leaked = history.map((day, i) => (i === 75 ? { ...day, observed: day.observed + 50 } : day));
    expect((await evaluate(toCsv(leaked), args)).summary.coefficients).not.toEqual(summary.coefficients);
  });

  it('reaches back to the same months of the previous year', async () => {
    const rows = [
      ...days('2019-01-01', 31, 'first'),
      ...days('2019-07-01', 31, 'summer'),
      ...days('2020-01-01', 10, 'second'),
    ];
    const run = await evaluate(toCsv(rows), [...flags, '--train-days', '31', '--months', '1']);
    expect(run.summary.n).toBe(10);
    expectCoefficients(run.summary, fitOf([...rows.slice(9, 31), ...rows.slice(62, 71)]));
  });

  it('fits all rows of a date together, or each value of a column separately', async () => {
    const [north, south] = [days('2020-01-01', 40, 'north'), days('2020-01-01', 40, 'south')];
    const csv = [
      `at,${header}`,
      ...[north, south].flatMap((rows, i) =>
        toCsv(rows)
          .split('\n')
          .slice(1)
          .map((line) => `${['north', 'south'][i]},${line}`),
      ),
    ].join('\n');
    const pooled = await evaluate(csv, [...flags, '--train-days', '30']);
    expect(pooled.summary.n).toBe(20);
    expectCoefficients(pooled.summary, fitOf([...north.slice(9, 39), ...south.slice(9, 39)]));
    const { summary } = await evaluate(csv, [...flags, '--train-days', '30', '--by', 'at']);
    expect(summary.n).toBe(20);
    const { north: northFit, south: southFit } = summary.coefficients as Record<string, EmosCoefficients>;
    expectCoefficients({ ...summary, coefficients: northFit! }, fitOf(north.slice(9, 39)));
    expectCoefficients({ ...summary, coefficients: southFit! }, fitOf(south.slice(9, 39)));
  });
});

describe('unusable rows', () => {
  it('are left out and counted by reason, with the first occurrence', async () => {
    const good = toCsv(history).split('\n');
    const bad = [
      '2020-04-01,,1,2,3,4,5',
      '2020-04-02,NA,1,2,3,4,5',
      '2020-04-03,7,,,,,',
      '2020-04-04,7,NaN,NA,,none,-',
      '2020-04-05,warm,1,2,3,4,5',
      '2020-04-06,7,1,2,3,4,0x10',
      '2020-04-07,7,1,2,3,4,Infinity',
      '2020-04-07,7,1,2,3,4,9.96921e+36',
      '04/08/2020,7,1,2,3,4,5',
      '2020-04-09,7,1,2,3,4',
    ];
    const run = await evaluate([...good, ...bad].join('\n'), [...flags, '--train-until', '2020-03-01']);
    expect(run.code).toBe(0);
    expect(run.summary.n).toBe(20);
    expect(run.stderr.trim().split('\n')).toEqual([
      'evaluate: Skipped 1 of 90 rows with more or fewer fields than the header (first in line 91).',
      'evaluate: Skipped 1 of 90 rows with a date that cannot be read (first in line 90, column "day": "04/08/2020").',
      'evaluate: Skipped 2 of 90 rows without an observation (first in line 82, column "obs": "").',
      'evaluate: Skipped 2 of 90 rows without any member (first in line 84, column "fc.1": "").',
      'evaluate: Skipped 4 of 90 rows with a value that is not a number (first in line 86, column "obs": "warm").',
    ]);
  });

  it('can be marked by a given value', async () => {
    const marked = [toCsv(history), '2020-04-01,-9999,1,2,3,4,5', '2020-04-02,5,1,2,-9999.0,4,5'].join('\n');
    const args = [...flags, '--train-until', '2020-03-01'];
    const unsaid = await evaluate(marked, args);
    expect(unsaid.summary.n).toBe(22);
    expect(unsaid.stderr).toBe(
      'evaluate: -9999 was read as a number 2 times. If it marks missing data, use --missing -9999.\n',
    );
    const run = await evaluate(marked, [...args, '--missing', '-9999']);
    expect(run.summary.n).toBe(21);
    expect(run.stderr).toContain('Skipped 1 of 82 rows without an observation');
    expect(run.stderr).toContain(
      'Used 1 of 82 rows without some of their members (first in line 83, column "fc.3")',
    );
  });

  it('use the other members of a row, skip comments and a repeated row, and name 999', async () => {
    const rows = toCsv(history)
      .split('\n')
      .map((line, i) => `${i === 0 ? 'at' : 'x'},${line}`);
    const csv = [
      '# made by hand',
      ...rows,
      '# end',
      rows.at(-1)!,
      rows.at(-1)!.replaceAll('-', '/'),
      'x,2020-04-01,7,1,,3,4,5',
      'x,2020-04-02,7,1,999,3,999.9,5',
    ];
    const run = await evaluate(csv.join('\n'), [...flags, '--by', 'at', '--train-until', '2020-03-01']);
    expect(run.summary.n).toBe(22);
    expect(run.stderr).toContain('Skipped 2 of 84 rows that repeat the date and the --by column');
    expect(run.stderr).toContain('Used 1 of 84 rows without some of their members');
    expect(run.stderr).toContain('use --missing 999.\n');
    expect(run.stderr).toContain('use --missing 999.9.\n');
  });

  it('may write numbers with a decimal comma', async () => {
    const plain = await evaluate(toCsv(history), [...flags, '--train-until', '2020-03-01']);
    const comma = toCsv(history)
      .split('\n')
      .map((line, i) =>
        i === 0 ? line.replaceAll(',', ';') : line.replaceAll(',', ';').replaceAll('.', ','),
      );
    const german = [...flags, '--train-until', '2020-03-01', '--delimiter', ';', '--decimal-comma'];
    expect((await evaluate(comma.join('\n'), german)).summary).toEqual(plain.summary);
    const excel = ['sep=;', ...comma, '2020-04-01;999,90;1;2;3;4;5'].join('\n');
    for (const missing of ['999,9', '999.9']) {
      const run = await evaluate(excel, [...german, '--missing', missing]);
      expect(run.summary).toEqual(plain.summary);
      expect(run.stderr).toMatch(/Skipped 1 of \d+ rows without an observation/);
    }
  });

  it('have a help for mixes', async () => {
    const run = await evaluate('', ['--mix', '--help']);
    expect(run.code).toBe(0);
    expect(run.stdout).toContain('Mixes several models');
  });

  it('never treat the observation as a member', async () => {
    const csv = toCsv(history).replaceAll('fc.', 'obs.');
    const args = ['-', '--obs', 'obs', '--members', 'obs', '--date', 'day', '--train-until', '2020-03-01'];
    const run = await evaluate(csv, args);
    expect(run.stderr).toBe('evaluate: The pattern also matches the column "obs", which is not a member.\n');
    expectCoefficients(run.summary, fitOf(history.slice(0, 60)));
  });
});

describe('the input', () => {
  it('may be quoted, with other line ends, a byte order mark, another delimiter, or gzip', async () => {
    const args = [...flags, '--train-until', '2020-03-01'];
    const expected = (await evaluate(toCsv(history), args)).stdout;
    const windows = `\uFEFF${toCsv(history).replaceAll('\n', '\r\n')}\r\n`;
    expect((await evaluate(windows, args)).stdout).toBe(expected);
    const quoted = toCsv(history).replaceAll(/[^,\n]+/g, '"$&"');
    expect((await evaluate(quoted, args)).stdout).toBe(expected);
    const tabs = toCsv(history).replaceAll(',', '\t');
    expect((await evaluate(tabs, [...args, '--delimiter', '\\t'])).stdout).toBe(expected);
    const file = folder.write('history.csv.gz', gzipSync(toCsv(history)));
    expect((await evaluate('', [file, ...args.slice(1)])).stdout).toBe(expected);
  });

  it('may have a single member', async () => {
    const csv = toCsv(history)
      .split('\n')
      .map((line) => line.split(',').slice(0, 3).join(','))
      .join('\n');
    const { summary } = await evaluate(csv, [...flags, '--train-until', '2020-03-01']);
    expect((summary.coefficients as EmosCoefficients).d).toBe(0);
    expect(summary.raw.crps).toBeCloseTo(summary.raw.mae, 12);
    expect(summary.emos.crps).toBeLessThan(summary.raw.crps);
  });
});

describe('an error is reported on standard error only, with exit status 2', () => {
  const until = ['--train-until', '2020-03-01'];
  const at = (changes: Record<string, string>) => flags.map((flag, i) => changes[flags[i - 1]!] ?? flag);
  const csv = toCsv(history);

  it.each([
    [
      'an unknown column',
      csv,
      [...at({ '--obs': 'temp' }), ...until],
      /line 1: --obs: there is no column "temp"\. The columns are "day", "obs", "fc\.1"/,
    ],
    [
      'an unknown date column',
      csv,
      [...at({ '--date': 'when' }), ...until],
      /--date: there is no column "when"/,
    ],
    ['an unknown column to fit by', csv, [...flags, ...until, '--by', 'at'], /--by: there is no column "at"/],
    [
      'a column that appears twice',
      csv.replace('fc.5', 'fc.4'),
      [...flags, ...until],
      /two columns are named "fc\.4"/,
    ],
    [
      'a pattern that matches nothing',
      csv,
      [...at({ '--members': '^gfs' }), ...until],
      /--members: "\^gfs" matches no column/,
    ],
    ['an invalid pattern', csv, [...at({ '--members': '(' }), ...until], /'\(' is invalid/],
    ['no training period', csv, flags, /either --train-days or --train-until/],
    [
      'two training periods',
      csv,
      [...flags, ...until, '--train-days', '9'],
      /either --train-days or --train-until/,
    ],
    ['a date that does not exist', csv, [...flags, '--train-until', '2020-02-30'], /must be a date/],
    ['a number that is not whole', csv, [...flags, '--train-days', '1.5'], /must be a whole number/],
    ['a negative lag', csv, [...flags, ...until, '--lag', '-1'], /must be a whole number/],
    ['an invalid month', csv, [...flags, ...until, '--months', '12,13'], /numbers from 1 to 12/],
    ['an unknown distribution', csv, [...flags, ...until, '--distribution', 'gamma'], /normal, logistic/],
    [
      'nothing to train on',
      csv,
      [...flags, '--train-until', '2020-01-01'],
      /Nothing could be fitted on rows before 2020-01-01: fewer than 6 cases/,
    ],
    ['nothing to test', csv, [...flags, '--train-until', '2021-01-01'], /none is from 2021-01-01 or later/],
    [
      'a window that is never full',
      csv,
      [...flags, '--train-days', '80'],
      /none of 80 has 80 earlier dates with data/,
    ],
    ['months without rows', csv, [...flags, ...until, '--months', '7'], /No row can be used/],
    ['an empty file', '', [...flags, ...until], /standard input is empty/],
    [
      'a quote that is not closed',
      `${csv}\n2020-06-01,"5,1`,
      [...flags, ...until],
      /not CSV: Quote Not Closed.* at line 82/,
    ],
    [
      'a file that is not there',
      '',
      ['nowhere.csv', ...flags.slice(1), ...until],
      /nowhere\.csv cannot be read/,
    ],
    [
      'a report that would replace the data',
      '',
      ['data.csv', ...flags.slice(1), ...until, '--html', './data.csv'],
      /would replace it/,
    ],
    [
      'a report into no folder',
      csv,
      [...flags, ...until, '--html', '/nowhere/at/all.html'],
      /there is no folder/,
    ],
    [
      'a report in place of a device',
      csv,
      [...flags, ...until, '--html', '/dev/null'],
      /the existing target is not an ordinary file/,
    ],
    [
      'fields that something else separates',
      csv.replaceAll(',', ';'),
      [...flags, ...until],
      /there is no column "day".* If fields are separated by ";", use --delimiter ';'/,
    ],
    [
      'a pattern that would take for ever',
      csv.replace('fc.1', `${'a'.repeat(60)}!`),
      [...at({ '--members': '^(a+)+$' }), ...until],
      /line 1: --members: "\^\(a\+\)\+\$" takes too long to match/,
    ],
    [
      'what a terminal would obey, in a name without end',
      `\u009B31m${'x'.repeat(10_000)},b\n1,2`,
      [...flags, ...until],
      /The columns are "\uFFFD31mx{56}…", "b"\.\n$/,
    ],
  ])('%s', async (_what, input, args, message) => {
    const run = await evaluate(input, args);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stdout).toBe('');
  });
});

describe('the logistic distribution and a widened spread', () => {
  /** Heavy-tailed errors: every seventh observation is shifted up or down by 7 degrees. */
  const heavy = days('2015-01-01', 1400, 'heavy').map((day, i) => ({
    ...day,
    observed: i % 7 === 0 ? day.observed + (i % 2 === 0 ? 7 : -7) : day.observed,
  }));
  const args = [...flags, '--train-until', '2017-06-01'];

  it('score better and cover more for errors with heavy tails', async () => {
    const normal = (await evaluate(toCsv(heavy), args)).summary.emos;
    const logistic = (await evaluate(toCsv(heavy), [...args, '--distribution', 'logistic'])).summary.emos;
    expect(logistic.crps).toBeLessThan(normal.crps);
    expect(logistic.logScore).toBeLessThan(normal.logScore);
    const wide = await evaluate(toCsv(heavy), [...args, '--distribution', 'logistic', '--widen']);
    expect(Math.abs(wide.summary.emos.coverage - 0.9)).toBeLessThan(0.03);
  });

  it('leave a spread that already covers enough unchanged', async () => {
    // All errors have the same size, so the fitted normal distribution covers all of them.
    const even = history.map((day, i) => {
      const mean = day.members.reduce((sum, x) => sum + x, 0) / 5;
      return { ...day, observed: mean + (i % 2 === 0 ? 1 : -1) };
    });
    const plain = ['--train-until', '2020-03-01'];
    const [normal, wide] = [
      await evaluate(toCsv(even), [...flags, ...plain]),
      await evaluate(toCsv(even), [...flags, ...plain, '--widen']),
    ];
    expect(normal.summary.emos.coverage).toBe(1);
    expect(wide.stdout).toBe(normal.stdout);
  });
});

it('the command prints one JSON object and writes a report', async () => {
  const file = folder.write('history.csv', toCsv(history));
  const html = folder.path('report.html');
  const args = [...ownScript('lab/evaluate'), file, ...flags.slice(1), '--train-days', '30'];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [...args, '--html', html]);
  expect((JSON.parse(stdout) as Evaluation['summary']).n).toBe(50);
  expect(stderr).toBe('evaluate: Not tested: 30 rows with fewer than 30 earlier dates with data.\n');
  expect(readFileSync(html, 'utf8')).toContain('</html>');
});

const innsbruck = fileURLToPath(
  new URL('../../../../shared/data/forecast/ensemblepp_temp_innsbruck.csv', import.meta.url),
);

describe.skipIf(!existsSync(innsbruck))('the winters of Innsbruck', () => {
  const args =
    '--obs temp --members ^tempfc\\. --date valid_time_utc --months 12,1,2 --train-until 2010-03-01'.split(
      ' ',
    );

  it('are calibrated like the reference', async () => {
    const run = await evaluate('', [innsbruck, ...args]);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const { n, raw, emos } = run.summary;
    expect(n).toBe(253);
    expect(raw.crps).toBeCloseTo(8.8798, 4);
    expect(raw.bias).toBeCloseTo(-9.487, 3);
    expect(raw.mae).toBeCloseTo(9.5317, 4);
    expect(emos.crps).toBeCloseTo(1.7245, 4);
    expect(emos.mae).toBeCloseTo(2.3424, 4);
    expect(emos.coverage).toBeCloseTo(0.862, 3);
    expectCoefficients(run.summary, { a: 2.03256, b: 0.31977, c: 6.18553, d: 0.29299 });
  });

  it('are covered to 88 to 92% with heavier tails and a widened spread, at a lower CRPS', async () => {
    const { summary } = await evaluate('', [innsbruck, ...args, '--distribution', 'logistic', '--widen']);
    expect(summary.emos.coverage).toBeGreaterThan(0.88);
    expect(summary.emos.coverage).toBeLessThan(0.92);
    expect(summary.emos.crps).toBeLessThan(1.7245);
  });
});
