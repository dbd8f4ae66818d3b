import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compareScores, describeTraining, tallyCases, writeReport } from '../../evaluate/report.js';
import { hostile, newCase, newEvaluation, seasons } from './evaluation-fixture.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gauge-report-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function written(evaluation: ReturnType<typeof newEvaluation>, name = 'report.html'): Promise<string> {
  await writeReport(evaluation, join(folder, name));
  return readFile(join(folder, name), 'utf8');
}

/** Returns the visible text, without tags and with entities decoded. */
const readText = (html: string): string =>
  html
    .replace(/<style>[\s\S]*?<\/style>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&')
    .replace(/\s+/g, ' ');

describe('the report of an evaluation', () => {
  it('has the numbers that the command prints, and their comparison', async () => {
    const text = readText(await written(newEvaluation()));
    for (const number of ['1.7245', '8.8798', '2.7012', '86.2%', '2.0%', '+0.408', '−9.487'])
      expect(text).toContain(number);
    // 1 − 1.7245/8.8798 = 80.58%.
    expect(text).toContain('81% below that of the raw ensemble (8.880)');
    expect(text).toContain('12 without an observation; 3 with a value that is not a number');
    expect(text).toContain('Once, on all dates before 2010-03-01');
    expect(text).toContain('December, January, February');
  });

  it('gives every chart a name, a description and a table', async () => {
    const html = await written(newEvaluation());
    for (const id of ['series', 'pit', 'ranks', 'coverage', 'scatter'])
      expect(html).toMatch(
        new RegExp(
          `<svg class="plot"[^>]* role="img" aria-labelledby="${id}-title" aria-describedby="${id}-desc">`,
        ),
      );
    // Five charts; the coverage chart has a table for each side.
    expect(html.match(/<caption\b/g)).toHaveLength(6);
  });

  it('is self-contained, without scripts, URLs or loaded resources', async () => {
    const html = await written(newEvaluation());
    expect(html).not.toMatch(/<script|<link|<img|<iframe|\bsrc=|href=|url\(|@import|https?:/);
    expect(html).toContain("default-src 'none'");
    expect(html).toContain('color-scheme: light dark');
  });

  it('shows hostile names of files, columns and groups as text', async () => {
    const html = await written(
      newEvaluation({
        fileName: hostile,
        options: { observed: hostile, members: hostile, date: hostile, by: hostile },
        cases: seasons().map((each) => ({ ...each, by: hostile })),
        coefficients: { [hostile]: { a: 1, b: 2, c: 3, d: 4 } },
      }),
    );
    expect(html).not.toContain('<img');
    expect(html).not.toContain('</style><');
    expect(readText(html)).toContain(`CRPS by ${hostile}`);
    // Title, heading, five facts, the column twice, and the group in both tables.
    expect(html.split('&lt;img').length - 1).toBe(11);
  });

  it('is deterministic', async () => {
    const [first, second] = [await written(newEvaluation()), await written(newEvaluation())];
    expect(second).toBe(first);
  });

  it('replaces an existing file atomically and leaves nothing else behind', async () => {
    await writeFile(join(folder, 'report.html'), 'an older one');
    expect(await written(newEvaluation())).toMatch(/^<!doctype html>[\s\S]*<\/html>\s*$/);
    expect(await readdir(folder)).toEqual(['report.html']);
  });

  it('reports a missing folder or a failed write, and leaves nothing behind', async () => {
    await expect(writeReport(newEvaluation(), join(folder, 'nowhere', 'report.html'))).rejects.toThrow(
      /there is no folder .*nowhere/,
    );
    // A folder cannot be replaced by a file.
    await expect(writeReport(newEvaluation(), folder)).rejects.toThrow(/cannot be written/);
    expect(
      (await readdir(tmpdir())).filter((name) => name.includes('gauge-report-') && name.endsWith('.tmp')),
    ).toEqual([]);
  });

  it('says so if nothing could be tested', async () => {
    const html = await written(newEvaluation({ cases: [], n: 0 }));
    expect(readText(html)).toContain('No forecast could be tested');
    expect(html).not.toContain('<svg');
    expect(html).not.toContain('NaN');
  });

  it('works with a single case and a single member', async () => {
    const html = await written(newEvaluation({ cases: [newCase({ rawRank: 1 })], n: 1, memberCount: 1 }));
    expect(html).not.toMatch(/NaN|Infinity/);
    expect(readText(html)).toContain('too few to tell');
  });
});

describe('the tally of the cases', () => {
  it('counts the calibrated forecast’s central intervals by PIT', () => {
    // |2·0.5 − 1| = 0, |2·0.7 − 1| = 0.4, |2·0.99 − 1| = 0.98.
    const cases = [0.5, 0.7, 0.99].map((pit) => newCase({ pit }));
    const [emos] = tallyCases({ cases, memberCount: 3 }).coverage;
    expect(emos!.levels.map(({ actual }) => Number(actual.toFixed(3)))).toEqual([
      0.333, 0.333, 0.333, 0.667, 0.667, 0.667, 0.667, 0.667, 0.667,
    ]);
  });

  it('counts intervals between members by rank: with 4 members the outer two span 3 of 5 ranks', () => {
    const cases = [0, 1, 2, 2, 4].map((rawRank) => newCase({ rawRank }));
    const { coverage, rankCounts } = tallyCases({ cases, memberCount: 4 });
    expect(rankCounts).toEqual([1, 1, 2, 0, 1]);
    expect(coverage[1]!.levels).toEqual([
      { nominal: 1 / 5, actual: 2 / 5 },
      { nominal: 3 / 5, actual: 3 / 5 },
    ]);
  });

  it('sums days and groups in one pass over the cases', () => {
    let reads = 0;
    const list = [
      newCase({ date: '2026-11-02', by: 'a', emosCrps: 1, rawCrps: 3, climateCrps: 5 }),
      newCase({ date: '2026-11-02', by: 'b', emosCrps: 2, rawCrps: 5, climateCrps: 6 }),
    ];
    const cases = {
      *[Symbol.iterator]() {
        reads++;
        yield* list;
      },
    };
    const { days, groups, total } = tallyCases({ cases, memberCount: 3 });
    expect(days).toEqual([{ date: '2026-11-02', n: 2, values: { model: 1.5, raw: 4, climate: 5.5 } }]);
    expect([...groups.keys()]).toEqual(['a', 'b']);
    expect(total).toEqual({ n: 2, emos: 3, raw: 8, climate: 11 });
    expect(reads).toBe(1);
  });
});

describe('the text', () => {
  it('describes the training data', () => {
    const options = newEvaluation().options;
    expect(describeTraining({ ...options, training: { days: 30, lagDays: 0 } })).toBe(
      'For each date, on the latest 30 dates with data before it',
    );
    expect(describeTraining({ ...options, by: 'station', training: { days: 1, lagDays: 2 } })).toBe(
      'For each date, on the latest 1 date with data more than 2 days before it, each value separately',
    );
  });

  it('compares scores, where smaller is better', () => {
    expect(compareScores(1, 2)).toBe('50% below');
    expect(compareScores(2.05, 2)).toBe('2.5% above');
    expect(compareScores(2, 2)).toBe('as good as');
    expect(compareScores(2, 0)).toBe('as good as');
  });
});
