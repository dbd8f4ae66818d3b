import { groupBy } from '../../core/collections.js';
import type { ReportedDatabase } from '../../core/db/shards.js';
import { sumDecimals } from '../../core/decimal.js';
import { toStackedChart } from '../../core/charts/stacked.js';
import { formatCount, formatDay, formatDecimal, formatMonth, formatTime } from '../../core/pages/format.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import {
  listCustomerUsage,
  type CustomerUsage,
  type CustomerUsageRange,
} from '../reports/operator/queries.js';
import { addMonths } from '../reports/period.js';
import { axisName } from '../reports/report-view.js';

/** Per page. */
const MAX_ROWS = 5_000;
const MAX_HOURS = 48;
const MAX_DAYS = 92;

type Range = Omit<CustomerUsageRange, 'granularity' | 'after' | 'limit'>;

export type NameOf = (kind: 'organization' | 'product', slug: string) => string;

interface Chosen {
  customer: { name: string } | undefined;
  product: { slug: string; usageMetric: string } | undefined;
  nameOf: NameOf;
}

/**
 * Charts one product by customer, or the credits of all products. If no credits were burned, it charts events instead.
 * Undefined if the range has too many sums.
 */
export async function readUsageChart(db: ReportedDatabase, range: Range, chosen: Chosen) {
  const step = stepOf(range);
  const rows = await listCustomerUsage(db, {
    ...range,
    granularity: step,
    after: undefined,
    limit: MAX_ROWS + 1,
  });
  if (rows.length > MAX_ROWS) return undefined;
  const metric = metricOf(rows, chosen.product);
  const kind = metric === undefined ? 'product' : 'organization';
  const own = metric === undefined ? rows : rows.filter((row) => row.metric === metric);
  const hasCredits = own.some(({ credits }) => Number(credits) !== 0);
  const unit = metric ?? (hasCredits ? 'credits' : 'events');
  const starts = startsOf(range, step);
  const measure = ({ quantity, events, credits }: CustomerUsage) =>
    metric !== undefined ? quantity : hasCredits ? credits : events;
  const isOne = metric !== undefined && chosen.customer !== undefined;
  const series = [...groupBy(own, (row) => row[kind])].map(([slug, rows]) => {
    const byStart = groupBy(rows, ({ start }) => Date.parse(start));
    return {
      name: isOne ? metric : chosen.nameOf(kind, slug),
      values: starts.map((start) => sumDecimals((byStart.get(start.getTime()) ?? []).map(measure))),
    };
  });
  const span = `${formatDay(range.from)} – ${formatDay(new Date(range.to.getTime() - 1))}`;
  const by = isOne ? '' : ` and ${kind === 'product' ? 'product' : 'customer'}`;
  const { axis, name } = labels[step];
  return {
    unit,
    total: sumDecimals(series.flatMap(({ values }) => values)),
    chart: toStackedChart({
      title: `${unit.charAt(0).toUpperCase()}${unit.slice(1)} by ${step}${by}, ${span}`,
      stepName: `${step.charAt(0).toUpperCase()}${step.slice(1)} (UTC)`,
      steps: starts.map((start) => ({ axis: axis(start), name: name(start) })),
      series,
      nameOthers: (count) => formatCount(count, `other ${kind === 'product' ? 'product' : 'customer'}`),
      format: (decimal) => `${formatDecimal(decimal)} ${unit}`,
    }),
  };
}

type Step = 'hour' | 'day' | 'month';

const labels: Record<Step, { axis: (at: Date) => string; name: (at: Date) => string }> = {
  hour: { axis: (at) => at.toISOString().slice(11, 16), name: formatTime },
  day: { axis: (at) => axisName(at, { range: 'custom' }), name: formatDay },
  month: { axis: (at) => formatMonth(at).replace(/^(\w{3})\w*/, '$1'), name: formatMonth },
};

function stepOf({ from, to }: Range): Step {
  const ms = to.getTime() - from.getTime();
  if (ms <= MAX_HOURS * HOUR_MS) return 'hour';
  const isWhole = from.getUTCDate() === 1 && to.getUTCDate() === 1;
  return ms > MAX_DAYS * DAY_MS && isWhole ? 'month' : 'day';
}

function startsOf({ from, to }: Range, step: Step): Date[] {
  const starts: Date[] = [];
  for (let at = from; at < to; at = nextOf(at, step)) starts.push(at);
  return starts;
}

const nextOf = (at: Date, step: Step): Date =>
  step === 'month' ? addMonths(at, 1) : new Date(at.getTime() + (step === 'day' ? DAY_MS : HOUR_MS));

/** Undefined for several products: quantities of different metrics cannot be added. */
function metricOf(rows: CustomerUsage[], product: Chosen['product']): string | undefined {
  const metrics = new Set(rows.map(({ metric }) => metric));
  if (product) return metrics.has(product.usageMetric) ? product.usageMetric : rows[0]?.metric;
  const products = new Set(rows.map((row) => row.product));
  return products.size === 1 && metrics.size === 1 ? rows[0]!.metric : undefined;
}
