import { sumDecimals } from '../decimal.js';
import { formatDecimal } from '../pages/format.js';
import { toChart } from './bars.js';
import type { ChartTable } from './text.js';

/** Values are exact decimals, one per step. */
export interface StackedInput {
  title: string;
  /** Header of the table's first column, for example `Day (UTC)`. */
  stepName: string;
  steps: { axis: string; name: string; href?: string | undefined; before?: string | undefined }[];
  series: { name: string; values: readonly string[] }[];
  others?: { count: number; values: readonly string[] } | undefined;
  /** For example `3 other keys`. */
  nameOthers: (count: number) => string;
  format?: (decimal: string) => string;
}

export type StackedChart = ReturnType<typeof toStackedChart>;

/** The style sheet and the template define this many fills, and one more for the other series. */
export const MAX_SERIES = 5;

/** Order and fills follow the totals, so they can change between periods. */
export function toStackedChart(input: StackedInput) {
  const { title, stepName, steps, format = formatDecimal } = input;
  const series = joinOthers(
    input.series
      .map((one) => ({ ...one, total: sumDecimals(one.values) }))
      .filter(({ total }) => total !== '0')
      .sort((a, b) => Number(b.total) - Number(a.total)),
    input,
  );
  const totals = steps.map((_, i) => sumDecimals(series.map(({ values }) => values[i] ?? '0')));
  const bars = steps.map(({ axis, name, href, before }, i) => {
    const parts = series.flatMap(({ name, values: { [i]: value = '0' } }) =>
      value === '0' ? [] : [`${name} ${formatDecimal(value)}`],
    );
    const named = series.length > 1 && parts.length > 0 ? `: ${parts.join(', ')}` : '';
    const compared = before === undefined ? '' : `, in the previous period ${formatDecimal(before)}`;
    return {
      axis,
      label: `${name}: ${format(totals[i]!)}${named}${compared}`,
      value: Number(totals[i]),
      parts: series.map(({ values }) => Number(values[i] ?? '0')),
      ...(href === undefined ? {} : { href }),
      ...(before === undefined ? {} : { before: Number(before) }),
    };
  });
  const total = sumDecimals(totals);
  return {
    ...toChart(`${title}: ${format(total)} in total. The numbers are in the table below.`, bars),
    legend: series.map(({ name, total }) => ({ name, total: formatDecimal(total) })),
    table: toTable(),
  };

  function toTable(): ChartTable {
    const hasSum = series.length > 1;
    return {
      caption: title,
      columns: [stepName, ...series.map(({ name }) => name), ...(hasSum ? ['Total'] : [])],
      rows: steps.flatMap(({ name }, i) => {
        if (totals[i] === '0') return [];
        const cells = [...series.map(({ values }) => values[i] ?? '0'), ...(hasSum ? [totals[i]!] : [])];
        return [[name, ...cells.map(formatDecimal)]];
      }),
    };
  }
}

interface Series {
  name: string;
  values: readonly string[];
  total: string;
}

function joinOthers(sorted: Series[], { others, nameOthers, steps }: StackedInput): Series[] {
  const rest = sorted.slice(MAX_SERIES);
  const count = rest.length + (others?.count ?? 0);
  if (count === 0 || (count === 1 && !others)) return sorted;
  const parts = [...rest.map((one) => one.values), ...(others ? [others.values] : [])];
  const values = steps.map((_, i) => sumDecimals(parts.map((part) => part[i] ?? '0')));
  const total = sumDecimals(values);
  const joined = { name: nameOthers(count), values, total };
  return [...sorted.slice(0, MAX_SERIES), ...(total === '0' ? [] : [joined])];
}
