import { ExactNumber } from '../core/http/json.js';
import { toAddress, type Query } from '../core/pages/address.js';
import type { CsvFile } from '../core/pages/csv.js';
import { textField, type FormFields, type FormState } from '../core/pages/form.js';
import type { UsageProduct } from './page-queries.js';
import { modes, ranges, type Mode, type RangeKind } from './page-schema.js';
import {
  asRange,
  formatPeriod,
  includes,
  monthPeriod,
  neighbour,
  toDateText,
  toPeriodQuery,
  type Period,
} from './period.js';
import { toProductOptions } from './product-choice.js';
import { toReportView, USAGE_PATH } from './report-view.js';
import type { UsageReport, UsageRequest } from './report.js';

interface UsagePage {
  /** As it was sent. */
  query: FormFields;
  form: FormState;
  products: UsageProduct[];
  /** Undefined where the query cannot be read. */
  request: UsageRequest | undefined;
  /** Undefined where something is wrong with the request, or there is no product. */
  report: UsageReport | undefined;
  now: Date;
}

/** The whole of the usage page: what can be chosen stays there, whatever is wrong with the query. */
export function toUsageView({ query, form, products, request, report, now }: UsagePage) {
  const { mode, period } = request ?? { mode: 'live' as const, period: monthPeriod(now) };
  const range = ranges.find((range) => range === query.range) ?? 'month';
  const product = report?.product.slug ?? textField(query, 'product');
  const kept = { product, key: textField(query, 'key') };
  return {
    form: { ...form, values: { ...toPeriodQuery(period), ...form.values, product: product ?? '' } },
    range,
    mode,
    key: kept.key,
    hasProducts: products.length > 0,
    productOptions: toProductOptions(products),
    modes: toModeTabs(USAGE_PATH, { ...kept, ...toPeriodQuery(period) }, mode),
    ranges: toRangeTabs(period, range, { ...kept, mode }, now),
    around: toNeighbours(period, { ...kept, mode }, now),
    periodName: formatPeriod(period),
    report: report && toReportView(report, now),
  };
}

export const toModeTabs = (path: string, query: Query, current: Mode) =>
  modes.map((mode) => ({
    label: mode === 'live' ? 'Live' : 'Test',
    href: toAddress(path, { ...query, mode }),
    isCurrent: mode === current,
  }));

const rangeLabels: Record<RangeKind, string> = { day: 'Day', month: 'Month', custom: 'Custom range' };

function toRangeTabs(period: Period, current: RangeKind, query: Query, now: Date) {
  return ranges.map((range) => ({
    label: rangeLabels[range],
    href: toAddress(USAGE_PATH, { ...query, ...toPeriodQuery(asRange(period, range, now)) }),
    isCurrent: range === current,
  }));
}

/** The ways to the period before and after, and back to this month. */
function toNeighbours(period: Period, query: Query, now: Date) {
  const link = (to: Period | undefined) => to && toAddress(USAGE_PATH, { ...query, ...toPeriodQuery(to) });
  const isAhead = includes(period, now) || period.from > now;
  const isThisMonth = period.range === 'month' && includes(period, now);
  return {
    previousHref: link(neighbour(period, -1)),
    nextHref: isAhead ? undefined : link(neighbour(period, 1)),
    thisMonthHref: isThisMonth ? undefined : link(monthPeriod(now)),
  };
}

/** What the table of a report shows, for a spreadsheet. */
export function toUsageCsv({ product, metric, mode, period, key, rows }: UsageReport): CsvFile {
  const isDay = period.range === 'day';
  const isMonth = period.range === 'month';
  const toCells = ({ start, quantity, events, soFar }: UsageReport['rows'][number]) => [
    isDay ? start : toDateText(start),
    product.slug,
    metric,
    mode,
    key?.id ?? null,
    new ExactNumber(quantity),
    new ExactNumber(events),
    ...(isMonth ? [new ExactNumber(soFar)] : []),
  ];
  const { range: _range, ...days } = toPeriodQuery(period);
  return {
    filename: `usage-${product.slug}-${mode}-${Object.values(days).join('-to-')}.csv`,
    columns: [
      isDay ? 'hour_utc' : 'day_utc',
      'product',
      'metric',
      'mode',
      'api_key_id',
      'quantity',
      'events',
      ...(isMonth ? ['month_so_far'] : []),
    ],
    pieces: inOnePiece(rows.map(toCells)),
  };
}

async function* inOnePiece<T>(rows: T[]): AsyncGenerator<T[]> {
  yield rows;
}
