import { toCoverageChart } from '../core/charts/coverage.js';
import { toPitChart, toRankChart } from '../core/charts/histogram.js';
import { toScatterChart } from '../core/charts/scatter.js';
import { toSeriesChart } from '../core/charts/series.js';
import { formatFixed, formatPercent, formatSigned } from '../core/charts/text.js';
import { formatDay, formatDecimal } from '../core/pages/format.js';
import type { EmosCoefficients } from '../trading/forecast/emos.js';
import { flatnessOfShares } from '../trading/forecast/pit.js';
import type { Evaluation } from './evaluation.js';
import { tallyCases, type ScoreSums, type Tally } from './report-tally.js';
import {
  compareScores,
  describeLeftOut,
  describeMethod,
  describeTraining,
  nameMonths,
} from './report-words.js';

/** More groups than this are not listed one by one. */
const MOST_GROUPS = 500;

/** All that the report says. Reads the cases once. */
export function toReportView(evaluation: Evaluation) {
  const { options, summary, fileName } = evaluation;
  const tally = tallyCases(evaluation);
  return {
    title: `Evaluation of ${fileName}`,
    fileName,
    n: formatDecimal(summary.n),
    verdict: describeResult(evaluation, tally),
    facts: toFacts(evaluation, tally),
    leftOut: describeLeftOut(evaluation).map(({ reason, count }) => ({
      reason,
      count: formatDecimal(count),
    })),
    scores: toScores(evaluation, tally),
    groupColumn: options.by,
    groups: toGroups(tally),
    groupsLeftOut: Math.max(0, tally.groups.size - MOST_GROUPS),
    coefficients: toCoefficients(evaluation),
    coefficientsOf: 'until' in options.training ? '' : ' of the last date’s fit',
    charts: toCharts(tally),
  };
}

function describeResult({ summary }: Evaluation, { total }: Tally): string {
  if (total.n === 0) return 'No forecast could be tested: there are no dates that others come before.';
  const { emos, raw } = summary;
  const climate = total.climate / total.n;
  return `The calibrated forecast’s mean CRPS is ${formatFixed(emos.crps, 3)}: ${compareScores(emos.crps, raw.crps)} that of the raw ensemble (${formatFixed(raw.crps, 3)}) and ${compareScores(emos.crps, climate)} that of climatology (${formatFixed(climate, 3)}). Its central 90 % interval held ${formatPercent(emos.coverage)} of the observations.`;
}

/** User-given texts are marked, so that the page keeps their direction to themselves. */
function toFacts(evaluation: Evaluation, { days }: Tally): { name: string; value: string; isGiven?: true }[] {
  const { options, fileName, memberCount, rows, usedRows } = evaluation;
  const day = (date: string | undefined) => (date === undefined ? '–' : formatDay(new Date(date)));
  return [
    { name: 'File', value: fileName, isGiven: true },
    { name: 'Observation', value: options.observed, isGiven: true },
    { name: 'Members', value: `${options.members} (${formatDecimal(memberCount)} columns)`, isGiven: true },
    { name: 'Date', value: options.date, isGiven: true },
    ...(options.by === null ? [] : [{ name: 'Fitted by', value: options.by, isGiven: true as const }]),
    { name: 'Months', value: nameMonths(options.months) },
    { name: 'Method', value: describeMethod(options) },
    { name: 'Trained', value: describeTraining(options) },
    { name: 'Tested', value: `${day(days[0]?.date)} to ${day(days.at(-1)?.date)}` },
    { name: 'Rows', value: `${formatDecimal(rows)} in the file, ${formatDecimal(usedRows)} of them used` },
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
    {
      name: 'Climatology',
      crps: formatFixed(climate, 4),
      skill: '–',
      mae: '–',
      bias: '–',
      coverage: '–',
      logScore: '–',
    },
  ];
}

const toGroups = ({ groups }: Tally) =>
  [...groups].slice(0, MOST_GROUPS).map(([name, sums]: [string, ScoreSums]) => ({
    name,
    n: formatDecimal(sums.n),
    emos: formatFixed(sums.emos / sums.n, 3),
    raw: formatFixed(sums.raw / sums.n, 3),
    climate: formatFixed(sums.climate / sums.n, 3),
  }));

function toCoefficients({ options, summary: { coefficients } }: Evaluation) {
  const all =
    options.by === null
      ? [['All rows', coefficients as EmosCoefficients] as const]
      : Object.entries(coefficients as Record<string, EmosCoefficients>);
  return all.slice(0, MOST_GROUPS).map(([name, { a, b, c, d }]) => ({
    name,
    values: [a, b, c, d].map((value) => formatFixed(value, 4)),
  }));
}

function toCharts({ days, pitCounts, rankCounts, coverage, pairs, total: { n } }: Tally) {
  // Places of one date have their errors in common, so that a date counts once.
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
