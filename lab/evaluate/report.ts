import { randomUUID } from 'node:crypto';
import { lstat, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { toCoverageChart, type CoverageSide } from './coverage.js';
import { toPitChart, toRankChart } from './histogram.js';
import { toScatterChart, type Pair } from './scatter.js';
import { toSeriesChart, type SeriesPoint } from '../../src/markets/charts/series.js';
import { formatFixed, formatPercent, formatSigned } from '../../src/core/charts/text.js';
import * as ui from '../../src/core/pages/format.js';
import type { EmosCoefficients } from './emos.js';
import type { Evaluation } from './evaluate.js';
import { flatnessOfShares } from './scoring-rules.js';
import { CommandError } from '../../src/commands/kit/command.js';
import { leftOutReasons, type EvaluatedCase, type EvaluateOptions, type LeftOut } from './evaluation.js';
import { styleSheets } from '../../src/core/pages/stylesheet.js';

const folder = fileURLToPath(new URL('report', import.meta.url));
const views = fileURLToPath(new URL('../../views', import.meta.url));

/** @throws CommandError if the folder is missing, or if the target exists and is not an ordinary file */
export async function requireReportTarget(file: string): Promise<void> {
  const target = resolve(file);
  const folder = await stat(dirname(target)).catch(() => undefined);
  if (!folder?.isDirectory()) throw refuse(file, `there is no folder ${dirname(target)}`);
  // The report must not replace a device or a link.
  const found = await lstat(target).catch(() => undefined);
  if (found && !found.isFile()) throw refuse(file, 'the existing target is not an ordinary file');
}

/**
 * One self-contained file that works offline, in both color schemes and in print. Replaces an existing file atomically.
 * @throws CommandError like `requireReportTarget`, or if writing fails
 */
export async function writeReport(evaluation: Evaluation, file: string): Promise<void> {
  await requireReportTarget(file);
  const target = resolve(file);
  const html = await renderReport(evaluation);
  const written = `${target}.${randomUUID()}.tmp`;
  try {
    await writeFile(written, html, { flag: 'wx' });
    await rename(written, target);
  } catch (error) {
    await rm(written, { force: true });
    throw refuse(file, (error as Error).message, error);
  }
}

const refuse = (file: string, reason: string, cause?: unknown): CommandError =>
  new CommandError(`The report cannot be written to ${file || "''"}: ${reason}.`, { cause });

async function renderReport(evaluation: Evaluation): Promise<string> {
  const sheets = [...styleSheets, `${folder}/report.css`];
  const css = await Promise.all(sheets.map((file) => readFile(file, 'utf8')));
  const view = { ...toReportView(evaluation), css: css.join(''), ui };
  return ejs.renderFile(`${folder}/report.ejs`, view, { views: [folder, views] });
}

/** Further groups are not listed individually. */
const MAX_GROUPS = 500;

/** Iterates over the cases only once. */
function toReportView(evaluation: Evaluation) {
  const { options, summary, fileName } = evaluation;
  const tally = tallyCases(evaluation);
  return {
    title: `Evaluation of ${fileName}`,
    fileName,
    n: ui.formatDecimal(summary.n),
    verdict: describeResult(evaluation, tally),
    facts: toFacts(evaluation, tally),
    leftOut: describeLeftOut(evaluation).map(({ reason, count }) => ({
      reason,
      count: ui.formatDecimal(count),
    })),
    scores: toScores(evaluation, tally),
    groupColumn: options.by,
    groups: toGroups(tally),
    groupsLeftOut: Math.max(0, tally.groups.size - MAX_GROUPS),
    coefficients: toCoefficients(evaluation),
    coefficientsOf: 'until' in options.training ? '' : ' of the last date’s fit',
    charts: toCharts(tally),
  };
}

function describeResult({ summary }: Evaluation, { total }: Tally): string {
  if (total.n === 0) return 'No forecast could be tested: no date has earlier ones to train on.';
  const { emos, raw } = summary;
  const climate = total.climate / total.n;
  return `The calibrated forecast’s mean CRPS is ${formatFixed(emos.crps, 3)}: ${compareScores(emos.crps, raw.crps)} that of the raw ensemble (${formatFixed(raw.crps, 3)}) and ${compareScores(emos.crps, climate)} that of climatology (${formatFixed(climate, 3)}). Its central 90% interval held ${formatPercent(emos.coverage)} of the observations.`;
}

/** `isGiven` marks text from the user, whose writing direction the page isolates. */
function toFacts(evaluation: Evaluation, { days }: Tally): { name: string; value: string; isGiven?: true }[] {
  const { options, fileName, memberCount, rows, usedRows } = evaluation;
  const day = (date: string | undefined) => (date === undefined ? '–' : ui.formatDay(new Date(date)));
  return [
    { name: 'File', value: fileName, isGiven: true },
    { name: 'Observation', value: options.observed, isGiven: true },
    {
      name: 'Members',
      value: `${options.members} (${ui.formatDecimal(memberCount)} columns)`,
      isGiven: true,
    },
    { name: 'Date', value: options.date, isGiven: true },
    ...(options.by === null ? [] : [{ name: 'Fitted by', value: options.by, isGiven: true as const }]),
    { name: 'Months', value: nameMonths(options.months) },
    { name: 'Method', value: describeMethod(options) },
    { name: 'Trained', value: describeTraining(options) },
    { name: 'Tested', value: `${day(days[0]?.date)} to ${day(days.at(-1)?.date)}` },
    {
      name: 'Rows',
      value: `${ui.formatDecimal(rows)} in the file, ${ui.formatDecimal(usedRows)} of them used`,
    },
  ];
}

function toScores({ summary: { emos, raw } }: Evaluation, { total }: Tally) {
  const climate = total.n === 0 ? null : total.climate / total.n;
  const skill = (crps: number) =>
    climate === null || climate === 0 ? '–' : formatPercent(1 - crps / climate);
  const row = (name: string, of: typeof raw, logScore: string) => ({
    name,
    crps: formatFixed(of.crps, 4),
    skill: skill(of.crps),
    mae: formatFixed(of.mae, 3),
    bias: formatSigned(of.bias, 3),
    coverage: formatPercent(of.coverage),
    logScore,
  });
  if (climate === null) return [];
  return [
    row('EMOS', emos, formatFixed(emos.logScore, 4)),
    row('Raw ensemble', raw, '–'),
    { ...notScored, name: 'Climatology', crps: formatFixed(climate, 4) },
  ];
}

const notScored = { skill: '–', mae: '–', bias: '–', coverage: '–', logScore: '–' };

const toGroups = ({ groups }: Tally) =>
  [...groups].slice(0, MAX_GROUPS).map(([name, sums]: [string, ScoreSums]) => ({
    name,
    n: ui.formatDecimal(sums.n),
    emos: formatFixed(sums.emos / sums.n, 3),
    raw: formatFixed(sums.raw / sums.n, 3),
    climate: formatFixed(sums.climate / sums.n, 3),
  }));

function toCoefficients({ options, summary: { coefficients } }: Evaluation) {
  const all =
    options.by === null
      ? [['All rows', coefficients as EmosCoefficients] as const]
      : Object.entries(coefficients as Record<string, EmosCoefficients>);
  return all.slice(0, MAX_GROUPS).map(([name, { a, b, c, d }]) => ({
    name,
    values: [a, b, c, d].map((value) => formatFixed(value, 4)),
  }));
}

function toCharts({ days, pitCounts, rankCounts, coverage, pairs, total: { n } }: Tally) {
  // Errors on the same date are correlated, so the test counts dates.
  const histogram = (counts: readonly number[]) => {
    const shares = counts.map((count) => (n === 0 ? 0 : count / n));
    return { n, shares, pFlat: flatnessOfShares(shares, days.length) };
  };
  return {
    series: toSeriesChart({
      title: 'CRPS over time',
      unit: '',
      series: [
        { name: 'model', label: 'EMOS' },
        { name: 'raw', label: 'Raw ensemble' },
        { name: 'climate', label: 'Climatology' },
      ],
      points: days,
    }),
    pit: toPitChart(histogram(pitCounts), days.length),
    ranks: toRankChart(histogram(rankCounts), days.length),
    coverage: toCoverageChart(coverage),
    scatter: toScatterChart(pairs, ''),
  };
}

const monthNames = Array.from({ length: 12 }, (_, month) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', month: 'long' }).format(
    new Date(Date.UTC(2000, month)),
  ),
);

const nameMonths = (months: readonly number[] | null): string =>
  months === null ? 'all' : months.map((month) => monthNames[month - 1] ?? String(month)).join(', ');

export function describeTraining({ training, by }: EvaluateOptions): string {
  const group = by === null ? '' : ', each value separately';
  if ('until' in training) {
    const lag = training.lagDays === 0 ? '' : `more than ${ui.formatCount(training.lagDays, 'day')} `;
    return `Once, on all dates ${lag}before ${training.until}; tested from that date on${group}`;
  }
  const lag =
    training.lagDays === 0 ? 'before it' : `more than ${ui.formatCount(training.lagDays, 'day')} before it`;
  return `For each date, on the latest ${ui.formatCount(training.days, 'date')} with data ${lag}${group}`;
}

function describeMethod({ distribution, isWidened }: EvaluateOptions): string {
  const widened = isWidened
    ? '; its spread widened until the central 90% interval covers 90% of the training rows'
    : '';
  return `EMOS: a ${distribution} distribution with mean a + b·x̄ and variance c + d·s² of the ensemble’s mean and sample variance, by minimum CRPS${widened}`;
}

function describeLeftOut({ leftOut, untested }: Evaluation): { reason: string; count: number }[] {
  return [
    ...(Object.entries(leftOutReasons) as [keyof LeftOut, string][]).map(([name, reason]) => ({
      reason,
      count: leftOut[name],
    })),
    { reason: 'with too few earlier dates to train on', count: untested.tooEarly },
    {
      reason: `without a fit${untested.whyNotFitted === null ? '' : ` (${untested.whyNotFitted})`}`,
      count: untested.notFitted,
    },
  ].filter(({ count }) => count > 0);
}

/** `81% below`. Lower is better. */
export function compareScores(score: number, other: number): string {
  const difference = ((other - score) / other) * 100;
  if (!Number.isFinite(difference) || Math.abs(difference) < 0.05) return 'as good as';
  const percent = Math.abs(difference).toFixed(Math.abs(difference) < 10 ? 1 : 0);
  return `${percent}% ${difference > 0 ? 'below' : 'above'}`;
}

const PIT_BINS = 10;
const LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] as const;

interface ScoreSums {
  n: number;
  raw: number;
  emos: number;
  climate: number;
}

type Tally = ReturnType<typeof tallyCases>;

/** Iterates over the cases only once. */
export function tallyCases({ cases, memberCount }: Pick<Evaluation, 'cases' | 'memberCount'>) {
  const total = newSums();
  const days = new Map<string, ScoreSums>();
  const groups = new Map<string, ScoreSums>();
  const pitCounts = LEVELS.map(() => 0).concat(0);
  const rankCounts = Array.from({ length: memberCount + 1 }, () => 0);
  const covered = LEVELS.map(() => 0);
  const pairs: Pair[] = [];
  for (const each of cases) {
    addScores(total, each);
    addScores(sumsOf(days, each.date), each);
    if (each.by !== null) addScores(sumsOf(groups, each.by), each);
    pitCounts[Math.min(PIT_BINS - 1, Math.floor(each.pit * PIT_BINS))]! += 1;
    rankCounts[each.rawRank]! += 1;
    for (const [i, level] of LEVELS.entries()) if (Math.abs(2 * each.pit - 1) <= level) covered[i]! += 1;
    pairs.push({ forecast: each.mean, observed: each.observed });
  }
  const { n } = total;
  const coverage: CoverageSide[] =
    n === 0
      ? []
      : [
          {
            name: 'model',
            label: 'EMOS',
            n,
            levels: LEVELS.map((nominal, i) => ({ nominal, actual: covered[i]! / n })),
          },
          { name: 'raw', label: 'Raw ensemble', n, levels: rankCoverage(rankCounts, n) },
        ];
  return {
    total,
    days: [...days].sort(([a], [b]) => (a < b ? -1 : 1)).map(([date, sums]) => toPoint(date, sums)),
    /** In order of appearance. */
    groups,
    pitCounts,
    /** Observations with 0, 1, … members below them. */
    rankCounts,
    coverage,
    pairs,
  };
}

const newSums = (): ScoreSums => ({ n: 0, raw: 0, emos: 0, climate: 0 });

function sumsOf(map: Map<string, ScoreSums>, key: string): ScoreSums {
  const found = map.get(key);
  if (found) return found;
  const sums = newSums();
  map.set(key, sums);
  return sums;
}

function addScores(sums: ScoreSums, { rawCrps, emosCrps, climateCrps }: EvaluatedCase): void {
  sums.n += 1;
  sums.raw += rawCrps;
  sums.emos += emosCrps;
  sums.climate += climateCrps;
}

const toPoint = (date: string, { n, raw, emos, climate }: ScoreSums): SeriesPoint => ({
  date,
  n,
  values: { model: emos / n, raw: raw / n, climate: climate / n },
});

/**
 * All m + 1 ranks are equally likely, so the nominal coverage is the share between two members of symmetric rank. T. M.
 * Hamill, Interpretation of Rank Histograms for Verifying Ensemble Forecasts, Mon. Wea. Rev. 129 (2001).
 */
function rankCoverage(counts: readonly number[], n: number): { nominal: number; actual: number }[] {
  const ranks = counts.length;
  const widest = Math.floor((ranks - 1) / 2);
  const every = Math.max(1, Math.ceil(widest / LEVELS.length));
  const levels: { nominal: number; actual: number }[] = [];
  for (let out = 1; out <= widest; out += every) {
    const within = counts.slice(out, ranks - out);
    levels.push({
      nominal: within.length / ranks,
      actual: within.reduce((sum, count) => sum + count, 0) / n,
    });
  }
  return levels.toReversed();
}
