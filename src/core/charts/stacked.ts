import { addDecimals, sumDecimals } from '../decimal.js';
import { formatColumn, formatDecimal, roundFigure, roundFigures } from '../pages/format.js';
import { formatTick, toChart } from './bars.js';
import type { ChartTable } from './text.js';

/** Values are exact decimals, one per step. */
export interface StackedInput {
  title: string;
  /** Header of the table's first column, for example `Day (UTC)`. */
  stepName: string;
  steps: { axis: string; name: string; href?: string | undefined }[];
  /** The ones without a name of their own are last. */
  series: { name: string; values: readonly string[]; isLast?: boolean }[];
  others?: { count: number; values: readonly string[] } | undefined;
  /** For example `3 other keys`. */
  nameOthers: (count: number) => string;
  format?: (decimal: string) => string;
  /** Values of the first steps. */
  before?: { name: string; values: readonly string[] } | undefined;
  /** Estimates of what each step will add, in doubles. */
  estimates?: readonly number[] | undefined;
  cap?: { value: number; label: string; isPassed: boolean } | undefined;
  /** The remaining steps have not begun. Default: all have. */
  begun?: number;
  /** Each step that has begun includes the ones before it. */
  isSum?: boolean;
}

/** The style sheet and the template define this many fills, and one more for the other series. */
export const MAX_SERIES = 5;

/** The largest series, by name: filters and periods rarely change their order and fills. */
export function toStackedChart(input: StackedInput) {
  const { title, stepName, steps, format = formatDecimal, estimates, cap, isSum } = input;
  const { begun = steps.length } = input;
  const series = joinOthers(
    input.series
      .map((one) => ({ ...one, total: sumDecimals(one.values) }))
      .filter(({ total }) => total !== '0')
      .sort((a, b) => Number(b.total) - Number(a.total)),
    input,
  ).map((one) => (isSum ? { ...one, values: addUp(one.values).slice(0, begun) } : one));
  const before = input.before && {
    name: input.before.name,
    values: (isSum ? addUp(input.before.values) : input.before.values).slice(0, steps.length),
  };
  const totals = steps.map((_, i) => sumDecimals(series.map(({ values }) => values[i] ?? '0')));
  const bars = steps.map(({ axis, name, href }, i) => {
    const parts = series.flatMap(({ name, values: { [i]: value = '0' } }) =>
      value === '0' ? [] : [`${name} ${formatDecimal(roundFigure(value))}`],
    );
    const named = series.length > 1 && parts.length > 0 ? parts.map((part) => `\n${part}`).join('') : '';
    const estimate = estimates?.[i] ?? 0;
    const estimated = estimate > 0 ? `estimated ${formatEstimate(Number(totals[i]) + estimate)}` : '';
    const isAhead = i >= begun && totals[i] === '0' && estimate > 0;
    const known = isAhead ? '' : `${format(roundFigure(totals[i]!))}${named}${estimated && '\n'}`;
    const compared =
      before?.values[i] === undefined
        ? ''
        : `\n${before.name} ${formatDecimal(roundFigure(before.values[i]))}`;
    return {
      axis,
      label: `${name}: ${known}${estimated}${compared}`,
      isAhead,
      value: Number(totals[i]),
      parts: series.map(({ values }) => Number(values[i] ?? '0')),
      estimate,
      ...(href === undefined ? {} : { href }),
    };
  });
  const total = sumDecimals(series.map((one) => one.total));
  const round = roundFigures(series.map((one) => one.total));
  const hasEstimates = bars.some(({ estimate }) => estimate > 0);
  return {
    ...toChart(
      `${title}: ${format(roundFigure(total))} in total. The numbers are in the table below.`,
      bars,
      {
        before: before?.values.map(Number),
        cap,
      },
    ),
    legend: series.map(({ name, total }) => ({ name, total: formatDecimal(round(total)) })),
    beforeName: before?.name,
    hasEstimates,
    table: toTable(),
  };

  function toTable(): ChartTable {
    const columns = [
      ...series.map(({ name, values }) => ({ name, values })),
      ...(series.length > 1 ? [{ name: 'Total', values: totals }] : []),
      ...(before ? [before] : []),
    ].map(({ name, values }) => ({ name, values: steps.map((_, i) => values[i] ?? '0') }));
    const formats = columns.map(({ values }) => formatColumn(values, formatDecimal));
    const rows = steps.flatMap(({ name, href }, i) => {
      const { value, estimate, isAhead } = bars[i]!;
      const cells = columns.map(({ values }) => values[i]!);
      if (cells.every((cell) => cell === '0') && estimate === 0) return [];
      const estimated = hasEstimates ? [estimate > 0 ? formatEstimate(value + estimate) : ''] : [];
      const isEmpty = (at: number) => isAhead && columns[at]!.name !== before?.name;
      const shown = cells.map((cell, at) => (isEmpty(at) ? '' : formats[at]!(cell)));
      return [{ href, cells: [name, ...shown, ...estimated] }];
    });
    return {
      caption: title,
      columns: [stepName, ...columns.map(({ name }) => name), ...(hasEstimates ? ['Estimate'] : [])],
      rows: rows.map(({ cells }) => cells),
      hrefs: rows.map(({ href }) => href),
    };
  }
}

/** Running totals. */
function addUp(values: readonly string[]): string[] {
  let sum = '0';
  return values.map((value) => (sum = addDecimals(sum, value)));
}

const estimateFormat = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

/** At most three significant digits. */
export const formatEstimate = (value: number): string =>
  value >= 1e15 ? formatTick(value) : estimateFormat.format(value);

type Series = StackedInput['series'][number] & { total: string };

function joinOthers(sorted: Series[], { others, nameOthers, steps }: StackedInput): Series[] {
  const rest = sorted.slice(MAX_SERIES);
  const count = rest.length + (others?.count ?? 0);
  if (count === 0 || (count === 1 && !others)) return byName(sorted);
  const parts = [...rest.map((one) => one.values), ...(others ? [others.values] : [])];
  const values = steps.map((_, i) => sumDecimals(parts.map((part) => part[i] ?? '0')));
  const total = sumDecimals(values);
  const joined = { name: nameOthers(count), values, total };
  return [...byName(sorted.slice(0, MAX_SERIES)), ...(total === '0' ? [] : [joined])];
}

const byName = (series: Series[]): Series[] =>
  series.toSorted((a, b) => Number(a.isLast ?? 0) - Number(b.isLast ?? 0) || (a.name < b.name ? -1 : 1));
