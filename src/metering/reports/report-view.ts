import { toAddress } from '../../core/pages/address.js';
import {
  formatCount,
  formatDay,
  formatDecimal,
  formatGrowth,
  formatMonth,
  formatShare,
} from '../../core/pages/format.js';
import { formatTick, toChart, type Bar, type Chart } from '../../core/charts/bars.js';
import { toStackedChart, type StackedChart } from '../../core/charts/stacked.js';
import { subtractDecimals } from '../../core/decimal.js';
import type { ArchivedEvents } from '../events/event-queries.js';
import {
  dayPeriod,
  formatPeriod,
  formatSpan,
  includes,
  monthPeriod,
  stepName,
  stepsOf,
  toPeriodQuery,
  type Period,
} from './period.js';
import { DIMENSION, projectAt, type Balance, type UsageReport, type UsageRow } from './report.js';

export const USAGE_PATH = '/dashboard/usage';
export const EVENTS_PATH = '/dashboard/usage/events';
export const CORRECTION_PATH = `${EVENTS_PATH}/correction`;

/**
 * Characters of a sum beside the event count on a phone. The shorter limit applies if the running total is shown too.
 */
const LONG = 11;
const LONG_BESIDE_ANOTHER = 6;

export function toReportView(report: UsageReport, now: Date) {
  const { product, mode, period, metric, metrics, key, rows, total } = report;
  const { keys, keyCount, balance, latest, before } = report;
  const { by, values, subject } = report;
  const link = (
    change: {
      period?: Period;
      key?: string;
      metric?: string;
      by?: string;
      values?: object;
      subject?: string;
    } = {},
    path = USAGE_PATH,
  ) =>
    toAddress(path, {
      product: product.slug,
      mode,
      ...toPeriodQuery(change.period ?? period),
      key: change.key ?? key?.id,
      // Omitted if it is the product's own metric.
      metric: change.metric ?? (metric === product.usageMetric ? undefined : metric),
      by: (change.by ?? by) === 'key' ? undefined : (change.by ?? by),
      subject: change.subject ?? subject,
      ...Object.fromEntries(
        Object.entries({ ...values, ...change.values }).map(([name, value]) => [DIMENSION + name, value]),
      ),
    });
  const isNarrow = key !== undefined || Object.keys(values).length > 0;
  const isDay = period.range === 'day';
  const hasSoFar = period.range === 'month';
  return {
    product,
    mode,
    isEmpty: total.events === '0',
    isCurrent: includes(period, now),
    periodName: formatPeriod(period),
    stepName: isDay ? 'Hour' : 'Day',
    metric,
    metrics: metrics.map((other) => ({
      ...other,
      href: link({ metric: other.metric }),
      isCurrent: other.metric === metric,
      isFormer: other.metric !== product.usageMetric,
    })),
    key: key && {
      ...key,
      isOtherMode: key.livemode !== (mode === 'live'),
      allHref: link({ key: '' }),
    },
    /** Each narrows the report; its link takes it away. */
    filters: [
      ...Object.entries(values).map(([name, value]) => ({
        name,
        value,
        href: link({ values: { [name]: '' } }),
      })),
      ...(subject === undefined ? [] : [{ name: 'subject', value: subject, href: link({ subject: '' }) }]),
    ],
    by,
    stacks: [
      ...(subject === undefined ? ['key', ...product.dimensions] : []),
      ...(product.countsSubjects && !isNarrow ? ['subject'] : []),
    ].map((name) => ({
      label: name === 'key' ? 'API key' : name,
      href: link({ by: name }),
      isCurrent: name === by,
    })),
    hrefOf: (name: string, value: string) =>
      name === 'subject' ? link({ by: 'key', subject: value }) : link({ values: { [name]: value } }),
    total,
    before: before && {
      total: before.total,
      growth: formatGrowth(total.quantity, before.total),
      periodName: formatSpan(before.period),
    },
    hasLongNumbers: rows.some(({ soFar }) => soFar.length > (hasSoFar ? LONG_BESIDE_ANOTHER : LONG)),
    hasSoFar,
    stepCount: rows.length,
    rows: collapseUnused(report, (row) => ({
      ...row,
      name: rowName(report, row.start),
      href: isDay ? undefined : link({ period: dayPeriod(row.start) }),
      eventsHref: eventsOfStep(report, row.start),
    })),
    keys: keys.map((other) => ({
      ...other,
      href: link({ key: other.id }),
      isCurrent: other.id === key?.id,
      share: formatShare(other.quantity, metrics.find((m) => m.metric === metric)?.quantity ?? '0'),
    })),
    keyCount,
    isUncapped: product.unitCap === null && metric === product.usageMetric,
    chart: chartOf(report),
    balance: balance && toBalanceView(balance, report, now),
    latest: latest && {
      here: latest[mode],
      hereHref: latest[mode] && link({ period: monthPeriod(latest[mode]) }),
      hasOther: latest[mode === 'live' ? 'test' : 'live'] !== null,
    },
    csvHref: link({}, `${USAGE_PATH}.csv`),
    eventsHref: eventsLink(report, period.from, period.to),
    archived: report.archived && toArchivedView(report.archived),
  };
}

export function toArchivedView({ first, last, events, archivedAt }: ArchivedEvents) {
  const [from, to] = [first, last].map((month) => formatMonth(new Date(`${month}T00:00:00Z`)));
  return { events, archivedAt, months: from === to ? `of ${from}` : `from ${from} to ${to}` };
}

function eventsLink({ product, mode, key }: UsageReport, from: Date, to: Date): string {
  const minute = (at: Date) => at.toISOString().slice(0, 16);
  const time = { from: minute(from), to: minute(to) };
  return toAddress(EVENTS_PATH, { product: product.slug, mode, ...time, key: key?.id });
}

const eventsOfStep = (report: UsageReport, start: Date): string =>
  eventsLink(report, start, new Date(start.getTime() + report.period.stepMs));

const shortDay = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' });

export function axisName(start: Date, { range }: Pick<Period, 'range'>): string {
  if (range === 'day') return start.toISOString().slice(11, 16);
  return range === 'month' ? String(start.getUTCDate()) : shortDay.format(start);
}

/** By API key, unless only one key's usage is shown. */
function chartOf(report: UsageReport): StackedChart {
  const { period, metric, rows, before, series, by, key, keyCount } = report;
  const steps = stepsOf(period);
  const byStart = new Map(rows.map((row) => [row.start.getTime(), row.quantity]));
  const all = steps.map((start) => byStart.get(start.getTime()) ?? '0');
  const isDay = period.range === 'day';
  const ofKeys = (series ?? []).map(({ name, quantities }) => ({
    name,
    values: quantities,
  }));
  const others = all.map((sum, i) =>
    ofKeys.reduce((left, { values }) => subtractDecimals(left, values[i]!), sum),
  );
  return toStackedChart({
    title: `${metric} by ${isDay ? 'hour' : 'day'}${series ? ` and ${by === 'key' ? 'API key' : by}` : ''}, ${formatPeriod(period)}`,
    stepName: isDay ? 'Hour (UTC)' : 'Day (UTC)',
    steps: steps.map((start, i) => ({
      axis: axisName(start, period),
      name: stepName(start, isDay),
      href: eventsOfStep(report, start),
      before: before?.quantities[i],
    })),
    series: series ? ofKeys : [{ name: key?.name ?? metric, values: all }],
    others:
      series && by === 'key' && keyCount > series.length
        ? { count: keyCount - series.length, values: others }
        : undefined,
    nameOthers: (count) => formatCount(count, by === 'key' ? 'other key' : 'other'),
    format: (quantity) => `${formatDecimal(quantity)} ${metric}`,
  });
}

/** One row for consecutive hours or days without usage. */
function collapseUnused(report: UsageReport, toRow: (row: UsageRow) => object) {
  const isDay = report.period.range === 'day';
  const runs: UsageRow[][] = [];
  for (const row of report.rows) {
    const run = runs.at(-1);
    const isUnused = (one: UsageRow | undefined) => one?.events === '0' && one.quantity === '0';
    if (isUnused(row) && isUnused(run?.[0])) run!.push(row);
    else runs.push([row]);
  }
  return runs.map((run) => {
    const [first, last] = [run[0]!, run.at(-1)!];
    if (run.length === 1) return toRow(first);
    return {
      unused: formatCount(run.length, isDay ? 'hour' : 'day'),
      name: `${rowName(report, first.start)} – ${rowName(report, last.start)}`,
    };
  });
}

const rowName = ({ period: { range } }: UsageReport, start: Date): string =>
  range === 'day' || range === 'custom' ? stepName(start, range === 'day') : shortDay.format(start);

function toBalanceView(balance: Balance, report: UsageReport, now: Date) {
  const { unitCap, used, projection } = balance;
  const cap = Number(unitCap);
  return {
    ...balance,
    percent: formatShare(used, unitCap),
    share: cap > 0 ? Number(used) / cap : balance.isOver ? 1 : 0,
    chart: balanceChart(balance, report, now),
    projection: projection && {
      ...projection,
      totalText: formatEstimate(projection.total),
      perDayText: formatEstimate(projection.perDay),
      daysText:
        projection.paceDays === 7
          ? 'the last 7 days'
          : `the ${Math.floor(projection.paceDays)} days since the first usage`,
      percent: cap > 0 ? `${formatEstimate((projection.total / cap) * 100)}%` : undefined,
      isOver: projection.total > cap,
    },
  };
}

/** Grows toward the cap, with the remaining days at the current pace. */
function balanceChart(
  { unitCap, projection }: Balance,
  { period, metric, rows }: UsageReport,
  now: Date,
): Chart {
  const byStart = new Map(rows.map((row) => [row.start.getTime(), row]));
  const used = Number(rows.at(-1)?.soFar ?? '0');
  const bars = stepsOf(period).map((start): Bar => {
    const day = formatDay(start);
    const row: UsageRow | undefined = byStart.get(start.getTime());
    const axis = axisName(start, period);
    if (row) {
      const label = `By the end of ${day}: ${formatDecimal(row.soFar)} ${metric}`;
      return { axis, label, value: Number(row.soFar) };
    }
    if (!projection) return { axis, label: `${day}: not yet`, value: 0 };
    const value = projectAt(used, projection, now.getTime(), start.getTime() + period.stepMs);
    const label = `By the end of ${day}, projected: about ${formatEstimate(value)} ${metric}`;
    return { axis, label, value, isProjected: true };
  });
  const summary = `${metric} of ${formatPeriod(period)} adding up, against the cap of ${formatDecimal(unitCap)}. The numbers are in the table below.`;
  return toChart(summary, bars, { value: Number(unitCap), label: `Cap ${formatTick(Number(unitCap))}` });
}

const estimate = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

/** At most three significant digits. */
const formatEstimate = (value: number): string =>
  value >= 1e15 ? formatTick(value) : estimate.format(value);
