import { groupBy } from '../../core/collections.js';
import type { ReportedDatabase } from '../../core/db/shards.js';
import { sumDecimals } from '../../core/decimal.js';
import { formatEstimate } from '../../core/charts/stacked.js';
import { DAY_MS } from '../../core/time.js';
import {
  listCustomerUsage,
  type CustomerUsage,
  type CustomerUsageRange,
} from '../reports/operator/queries.js';
import {
  addMonths,
  dayPeriod,
  daysOf,
  monthPeriod,
  readBefore,
  stepsOf,
  type Period,
} from '../reports/period.js';
import { toProjection } from '../reports/projection.js';
import { toBeforeView, toUsageChart } from '../reports/report-view.js';

/** Per chart. */
const MAX_ROWS = 5_000;
const MAX_DAYS = 92;

type Range = Omit<CustomerUsageRange, 'granularity' | 'after' | 'limit'>;
type Sum = Omit<CustomerUsage, 'start'> & { start: number };

export const kinds = ['product', 'organization'] as const;
type Kind = (typeof kinds)[number];
export type NameOf = (kind: Kind, slug: string) => string;

interface Chosen {
  customer: object | undefined;
  product: { usageMetric: string } | undefined;
  by: Kind | undefined;
  isSum: boolean;
  nameOf: NameOf;
  linkTo: (change: Record<string, string | undefined>) => string;
  now: Date;
}

/**
 * Charts one product by customer, or the credits of all products. If no credits were burned, it charts events instead.
 * Undefined if the range has too many sums.
 */
export async function readUsageChart(db: ReportedDatabase, range: Range, chosen: Chosen) {
  const { linkTo, nameOf, now, product, customer } = chosen;
  const period = periodOf(range);
  const months = monthsOf(period);
  let isTooLarge = false;
  const read = async ({ from, to }: Period): Promise<Sum[]> => {
    const granularity = months ? 'month' : period.range === 'day' ? 'hour' : 'day';
    const slice = { ...range, from, to, granularity, after: undefined, limit: MAX_ROWS + 1 } as const;
    const sums = await listCustomerUsage(db, slice);
    isTooLarge ||= sums.length > MAX_ROWS;
    return sums.map((sum) => ({ ...sum, start: Date.parse(sum.start) }));
  };
  const all = await read(period);
  const before = months || isTooLarge ? undefined : await readBefore(period, now, read);
  if (isTooLarge) return undefined;
  const metric = metricOf(all, product);
  const rows = metric === undefined ? all : all.filter((row) => row.metric === metric);
  const hasCredits = rows.some(({ credits }) => Number(credits) !== 0);
  const measured = metric !== undefined ? 'quantity' : hasCredits ? 'credits' : 'events';
  const unit = metric ?? measured;
  const isCounted = (row: Sum) => metric === undefined || row.metric === metric;
  const totalOf = (sums: readonly Sum[]) => sumDecimals(sums.filter(isCounted).map((sum) => sum[measured]));
  const toSteps = (sums: readonly Sum[]) =>
    [...groupBy(sums, ({ start }) => start)].map(([start, own]) => ({ start, quantity: totalOf(own) }));
  const total = totalOf(rows);
  const days = months ? [] : [...toSteps(before?.rows ?? []), ...toSteps(rows)];
  const projection = toProjection(days, period, now);
  const open = kinds.filter((kind) => (kind === 'product' ? metric === undefined : customer === undefined));
  const kind = open.find((one) => one === chosen.by) ?? open[0];
  const starts = months ?? stepsOf(period);
  const series = [...groupBy(rows, (row) => (kind ? row[kind] : unit))].map(([slug, own]) => {
    const byStart = groupBy(own, ({ start }) => start);
    return {
      name: kind ? nameOf(kind, slug) : unit,
      values: starts.map((start) => totalOf(byStart.get(start.getTime()) ?? [])),
    };
  });
  return {
    unit,
    total,
    before: before && toBeforeView(before, totalOf, total),
    projected: projection?.total && formatEstimate(projection.total),
    credits: metric !== undefined && hasCredits ? sumDecimals(rows.map(({ credits }) => credits)) : undefined,
    by: kind && labels[kind],
    stacks: (open.length > 1 ? open : []).map((one) => ({
      label: one === 'product' ? 'Product' : 'Customer',
      href: linkTo({ by: one }),
      isCurrent: one === kind,
    })),
    chart: toUsageChart({
      period,
      months,
      isSum: chosen.isSum && period.range === 'month',
      hrefOf: (start) => linkTo(daysFrom(start, months)),
      sumHrefOf: (isSum) => linkTo({ sum: isSum ? '1' : undefined }),
      unit,
      by: kind && labels[kind],
      series,
      before: before && { ...before, rows: toSteps(before.rows) },
      projection,
      now,
    }),
  };
}

const labels: Record<Kind, string> = { product: 'product', organization: 'customer' };

/** A month or a day. */
function daysFrom(start: Date, months: unknown) {
  const { from, to } = daysOf(months ? monthPeriod(start) : dayPeriod(start));
  return { from, to, granularity: 'total', sum: undefined };
}

function periodOf({ from, to }: Range): Period {
  const [day, month] = [dayPeriod(from), monthPeriod(from)];
  const whole = [day, month].find((one) => +one.from === +from && +one.to === +to);
  return whole ?? { range: 'custom', from, to, stepMs: DAY_MS };
}

/** Undefined unless the range is long and has whole months. */
function monthsOf({ from, to }: Period): Date[] | undefined {
  const isWhole = from.getUTCDate() === 1 && to.getUTCDate() === 1;
  if (!isWhole || to.getTime() - from.getTime() <= MAX_DAYS * DAY_MS) return undefined;
  const starts: Date[] = [];
  for (let at = from; at < to; at = addMonths(at, 1)) starts.push(at);
  return starts;
}

/** Undefined for several products: quantities of different metrics cannot be added. */
function metricOf(rows: Sum[], product: Chosen['product']): string | undefined {
  const metrics = new Set(rows.map(({ metric }) => metric));
  if (product) return metrics.has(product.usageMetric) ? product.usageMetric : rows[0]?.metric;
  const products = new Set(rows.map((row) => row.product));
  return products.size === 1 && metrics.size === 1 ? rows[0]!.metric : undefined;
}
