import { formatTick } from '../../core/charts/bars.js';
import { formatEstimate, toStackedChart, type StackedInput } from '../../core/charts/stacked.js';
import { subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { toAddress } from '../../core/pages/address.js';
import {
  formatCount,
  formatDecimal,
  formatGrowth,
  formatMonth,
  formatShare,
  formatShortDay,
  formatUnit,
} from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import type { ArchivedEvents } from '../events/event-queries.js';
import { capsOf } from '../entitlements/caps.js';
import { addUpProjection, capReachedAt, type Projection } from './projection.js';
import {
  dayPeriod,
  formatPeriod,
  includes,
  monthPeriod,
  stepName,
  stepsOf,
  toPeriodQuery,
  type Period,
} from './period.js';
import { DIMENSION, type readCosts, type UsageReport, type UsageRequest } from './report.js';

type Change = Partial<Omit<UsageRequest, 'values'>> & { correct?: string | undefined; values?: object };

/** Links that keep what the request chooses, except for what they change. An empty text takes a choice away. */
export const linksOf =
  (request: UsageRequest, product?: string) =>
  (change: Change = {}, path = request.path): string => {
    const { mode, period, hour, key, metric, by, subject, values, isSum, measure } = {
      ...request,
      ...change,
    };
    return toAddress(path, {
      product: change.product ?? product,
      mode,
      ...toPeriodQuery(period),
      hour: change.period ? undefined : hour,
      key,
      metric,
      by: product !== undefined && by === 'key' ? undefined : by,
      subject: request.isOfSubject ? undefined : subject,
      ...Object.fromEntries(
        Object.entries({ ...request.values, ...values }).map(([name, value]) => [DIMENSION + name, value]),
      ),
      sum: isSum ? '1' : undefined,
      measure,
      event: change.event,
      correct: change.correct,
      cursor: change.cursor,
    });
  };

/** @param costs undefined where the metric is the measure */
export function toReportView(report: UsageReport, costs: Awaited<ReturnType<typeof readCosts>>, now: Date) {
  const { product, request, metric, metrics, key, total, before, balance, latest, projection, isWhole } =
    report;
  const { mode, values } = request;
  const link = linksOf(request, product.slug);
  const reachedAt = balance && report.capPace && capReachedAt(report.capPace, Number(balance.unitCap));
  const cap = balance && { ...balance, isNear: balance.isNear && includes(request.period, now), reachedAt };
  return {
    product,
    isEmpty: total.events === '0',
    metric,
    metrics: metrics.map((other) => ({
      ...other,
      // Omitted if it is the product's own metric.
      href: link({ metric: other.metric === product.usageMetric ? '' : other.metric }),
      isCurrent: other.metric === metric,
      isFormer: other.metric !== product.usageMetric,
    })),
    ...toChosen(request, key, product.slug),
    stacks: report.stacks.map((name) => ({
      label: name === 'key' ? 'API key' : capitalise(name),
      href: link({ by: name }),
      isCurrent: name === report.by,
    })),
    /** The price of the value that the filter selects, if it has its own. */
    ownPrice: product.creditPrices?.[values[product.creditDimension ?? ''] ?? ''],
    total,
    before: before && toBeforeView(before, totalOf, total.quantity),
    isWhole,
    isUncapped: product.unitCap === null && metric === product.usageMetric,
    unit: costs ? 'credits' : metric,
    measures: [metric, 'credits'].map((name, i) => ({
      label: capitalise(name),
      href: link({ measure: i === 0 ? undefined : 'credits' }),
      isCurrent: (i === 0) === (costs === undefined),
    })),
    chart: chartOf(report, costs, now),
    balance: balance && { ...balance, percent: formatShare(balance.used, balance.unitCap) },
    isOfMonth: request.period.range === 'month',
    caps: capsOf([{ productSlug: product.slug, productName: product.name, usageMetric: metric, cap }]),
    projection: projection?.total && {
      totalText: formatEstimate(projection.total),
      percent:
        isWhole && balance && Number(balance.unitCap) > 0
          ? `${formatEstimate((projection.total / Number(balance.unitCap)) * 100)}%`
          : undefined,
    },
    latest: latest && {
      here: latest[mode],
      hereHref: latest[mode] && link({ period: monthPeriod(latest[mode]) }),
      hasOther: latest[mode === 'live' ? 'test' : 'live'] !== null,
    },
    csvHref: request.showsKeys ? link({}, `${request.path}.csv`) : undefined,
    keys: keysOf(report),
  };
}

/** Each part that the request chooses, with a link that removes it. */
export function toChosen(request: UsageRequest, key: UsageReport['key'], product?: string) {
  const { mode, values, subject } = request;
  const link = linksOf(request, product);
  return {
    key: key && { ...key, isOtherMode: key.livemode !== (mode === 'live') },
    /** That a statement is for. */
    month: toPeriodQuery(request.period)['month'],
    allHref: linksOf({ ...request, values: {} }, product)({ key: '', subject: '' }),
    filters: [
      ...(key ? [{ name: 'API key', value: key.name, href: link({ key: '' }) }] : []),
      ...Object.entries(values).map(([name, value]) => ({
        name: capitalise(name),
        value,
        href: link({ values: { [name]: '' } }),
      })),
      ...(subject === undefined || request.isOfSubject
        ? []
        : [{ name: 'Subject', value: subject, href: link({ subject: '' }) }]),
    ],
  };
}

export const capitalise = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

/** The change of a row of `parts.ejs` since the same part of the previous period. */
export const changeSince = (quantity: string, before = '0') => ({
  growth: formatGrowth(quantity, before),
  growthFrom: before,
});

export const totalOf = (rows: readonly { quantity: string }[]) =>
  sumDecimals(rows.map(({ quantity }) => quantity));

/** @param before in the part of the former period that has passed of this one, and in all of it */
export function toBeforeView<Row>(
  { whole, same, rows, sameRows }: { whole: Period; same: Period; rows: Row[]; sameRows: Row[] },
  totalOf: (rows: Row[]) => string,
  total: string,
) {
  const before = totalOf(sameRows);
  return {
    total: before,
    growth: formatGrowth(total, before),
    /** A change would mean little: not a whole day of several has passed. */
    isEarly:
      same.to < whole.to && same.stepMs === DAY_MS && same.to.getTime() - same.from.getTime() <= DAY_MS,
    when: sayWhen(whole, same.to < whole.to),
    whole: { name: nameBefore(whole), total: totalOf(rows) },
  };
}

function sayWhen(before: Period, isCut: boolean): string {
  if (before.range === 'day') return `${isCut ? 'by this hour on' : 'on'} ${nameBefore(before)}`;
  if (before.range === 'month') return `${isCut ? 'at this point of' : 'in'} ${nameBefore(before)}`;
  return `in ${nameBefore(before)}${isCut ? ', up to this time' : ''}`;
}

/** The year is clear from the period that follows. */
function nameBefore(before: Period): string {
  if (before.range === 'day') return formatShortDay(before.from);
  if (before.range === 'month') return formatMonth(before.from).replace(/ \d+$/, '');
  return `the ${formatCount(stepsOf(before).length, 'day')} before`;
}

function keysOf({ product, request, metric, metrics, key, keys, keysBefore, keyCount }: UsageReport) {
  if (!request.showsKeys || keys.length === 0) return [];
  const link = linksOf(request, product.slug);
  const whole = metrics.find((one) => one.metric === metric)?.quantity ?? '0';
  const rows = keys.map(({ apiKeyId, keyName, keyPrefix, quantity, events }) => ({
    id: apiKeyId,
    value: keyName ?? 'Operator',
    code: keyPrefix && `${keyPrefix}…`,
    ...(apiKeyId === key?.id
      ? { isCurrent: true, href: link({ key: '' }) }
      : { href: link({ key: apiKeyId! }) }),
    quantity,
    ...changeSince(quantity, keysBefore.find((sum) => sum.apiKeyId === apiKeyId)?.quantity),
    events,
    share: formatShare(quantity, whole),
  }));
  return [{ name: 'API key', rows, more: keyCount - rows.length }];
}

export function toArchivedView({ first, last, events, archivedAt }: ArchivedEvents) {
  const [from, to] = [first, last].map((month) => formatMonth(new Date(`${month}T00:00:00Z`)));
  return { events, archivedAt, months: from === to ? `of ${from}` : `from ${from} to ${to}` };
}

function axisName(start: Date, { range }: Pick<Period, 'range'>): string {
  // The chart's first label names the zone of all hours.
  if (range === 'day')
    return start
      .toISOString()
      .slice(11, 16)
      .replace(/^00:00$/, '$& UTC');
  return range === 'month' ? String(start.getUTCDate()) : formatShortDay(start);
}

function chartOf(report: UsageReport, costs: Awaited<ReturnType<typeof readCosts>>, now: Date) {
  const { request, product, metric, key, keyCount, balance, isWhole } = report;
  const { steps, before, series, projection } = costs ?? report;
  const unit = costs ? 'credits' : metric;
  const byStart = new Map(steps.map(({ start, quantity }) => [start, quantity]));
  const all = stepsOf(request.period).map((start) => byStart.get(start.getTime()) ?? '0');
  const parts = (series ?? []).map(({ quantities, ...one }) => ({ ...one, values: quantities }));
  const others = all.map((sum, i) =>
    parts.reduce((left, { values }) => subtractDecimals(left, values[i]!), sum),
  );
  return toUsageChart({
    ...chartLinksOf(request, product.slug),
    unit,
    by: series && (report.by === 'key' ? 'API key' : report.by),
    series: series ? parts : [{ name: key?.name ?? unit, values: all }],
    others:
      series && report.by === 'key' && keyCount > series.length
        ? { count: keyCount - series.length, values: others }
        : undefined,
    before,
    projection,
    cap:
      isWhole && balance && request.period.range === 'month' && !costs ? Number(balance.unitCap) : undefined,
    now,
  });
}

interface UsageChart extends Pick<StackedInput, 'series' | 'others'> {
  period: Period;
  /** Default: hours of a day, or days. */
  months?: readonly Date[] | undefined;
  isSum: boolean;
  hrefOf: (start: Date) => string | undefined;
  sumHrefOf: (isSum: boolean) => string;
  unit: string;
  by: string | undefined;
  before: { whole: Period; rows: readonly { start: number; quantity: string }[] } | undefined;
  projection: Projection | undefined;
  cap?: number | undefined;
  now: Date;
}

/** Bars link to the day, or to the events of the hour. */
export function chartLinksOf(request: UsageRequest, product?: string) {
  const { period, isSum } = request;
  const link = linksOf(request, product);
  return {
    period,
    isSum,
    hrefOf: (start: Date) =>
      period.range === 'day'
        ? `${link({ hour: start.toISOString().slice(11, 13) })}#events`
        : link({ period: dayPeriod(start) }),
    sumHrefOf: (isSum: boolean) => link({ isSum }),
  };
}

/** A cap so far above the days would flatten them. */
const MAX_CAP_SHARE = 4;

export function toUsageChart(input: UsageChart) {
  const { period, months, isSum, hrefOf, sumHrefOf, unit, by, series, others, projection, cap, now } = input;
  // A line at zero says nothing, and none is drawn from before the first event.
  const before = input.before?.rows.some(({ quantity }) => quantity !== '0') ? input.before : undefined;
  const isDay = period.range === 'day';
  const steps = months ?? stepsOf(period);
  const step = months ? 'month' : isDay ? 'hour' : 'day';
  const byStart = new Map(before?.rows.map(({ start, quantity }) => [start, quantity]));
  const most = Math.max(...steps.map((_, i) => Number(sumDecimals(series.map(({ values }) => values[i]!)))));
  const perDay = (cap ?? 0) / steps.length;
  const wholes = [...series, ...(others ? [others] : [])].map(({ values }) => sumDecimals(values));
  const isPassed = Math.max(Number(sumDecimals(wholes)), projection?.total ?? 0) > (cap ?? 0);
  const evenPace = `Even pace to the cap: ${formatTick(Number(perDay.toPrecision(3)))} a day`;
  return {
    ...toStackedChart({
      title: `${unit} by ${step}${by ? ` and ${by}` : ''}${isSum ? ', cumulative' : ''}, ${formatPeriod(period)}`,
      stepName: `${step.charAt(0).toUpperCase()}${step.slice(1)} (UTC)`,
      steps: steps.map((start) => ({
        axis: months ? formatMonth(start).slice(0, 3) : axisName(start, period),
        name: months ? formatMonth(start) : stepName(start, isDay),
        href: hrefOf(start),
      })),
      series,
      others,
      nameOthers: (count) =>
        formatCount(
          count,
          by === 'API key' ? 'other key' : `other ${['product', 'customer'].includes(by!) ? by : ''}`.trim(),
        ),
      format: (quantity) => `${formatDecimal(quantity)} ${formatUnit(quantity, unit)}`,
      before: before && {
        name: period.range === 'month' ? formatMonth(before.whole.from) : formatPeriod(before.whole),
        values: stepsOf(before.whole).map((start) => byStart.get(start.getTime()) ?? '0'),
      },
      estimates: projection && (isSum ? addUpProjection(projection) : projection.steps),
      cap:
        cap === undefined || (!isSum && perDay > MAX_CAP_SHARE * most)
          ? undefined
          : {
              value: isSum ? cap : perDay,
              label: isSum ? `Cap ${formatTick(cap)}` : evenPace,
              isPassed,
            },
      begun: steps.filter((start) => start <= now).length,
      isSum,
    }),
    stepName: step,
    pace: `the last ${formatCount(projection?.paceDays ?? 0, 'day')}`,
    ways:
      period.range === 'month'
        ? [false, true].map((isAdding) => ({
            label: isAdding ? 'Cumulative' : 'Each day',
            href: sumHrefOf(isAdding),
            isCurrent: isAdding === isSum,
          }))
        : [],
    isCurrent: includes(period, now),
  };
}
