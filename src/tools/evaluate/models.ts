import { LOGISTIC_DEVIATION } from '../../core/statistics/logistic.js';
import { fitEmos, predictEmos, type EmosCoefficients } from '../../trading/forecast/emos.js';
import { fitLinear, predictLinear, type LinearRule } from '../../trading/forecast/linear-fit.js';
import type { CaseRow } from './case-table.js';
import { distributions } from './training.js';

/** A row as far as a model knows it; `observed` of training only. */
export type ModelRow = Pick<CaseRow, 'day' | 'group' | 'mean' | 'variance' | 'observed'>;

interface Fitted {
  predict(row: ModelRow): { mean: number; deviation: number };
  coefficients: Record<string, number>;
  /** Where the search for almost the same rows starts. */
  values: ArrayLike<number>;
}

export interface Model {
  title: string;
  /** Whether rows of all values of the column --by are fitted together. */
  isPooled: boolean;
  distribution: (typeof distributions)[keyof typeof distributions];
  /** @returns undefined for too few rows, or those that nothing can be learned from */
  fit(rows: readonly ModelRow[], near: ArrayLike<number> | undefined): Fitted | undefined;
}

export const modelNames = ['emos', 'shrunk', 'seasonal'] as const;
export type ModelName = (typeof modelNames)[number];

const YEAR_DAYS = 365.25;
const LEAST_ROWS = 20;

export const models: Readonly<Record<ModelName, Model>> = {
  emos: {
    title: 'EMOS, each value of --by for itself, normal',
    isPooled: false,
    distribution: distributions.normal,
    fit(rows, near) {
      const [a = 0, b = 0, c = 0, d = 0] = near ? Array.from(near) : [];
      const found = fitEmos(rows, near ? { near: { a, b, c, d } } : {});
      if ('reason' in found) return undefined;
      const { coefficients } = found;
      return {
        predict: ({ mean, variance }) => predictEmos(coefficients, mean, variance),
        coefficients: { ...coefficients } satisfies EmosCoefficients,
        values: Object.values(coefficients),
      };
    },
  },
  shrunk: {
    title: 'all values of --by together, bias and spread of each shrunk, slope shrunk to 1, logistic',
    isPooled: true,
    distribution: distributions.logistic,
    fit: (rows, near) => fitLinearModel(rows, shrunk(rows), near),
  },
  seasonal: {
    title: 'bias, slope and spread with the seasons, each value of --by for itself, logistic',
    isPooled: false,
    distribution: distributions.logistic,
    fit: (rows, near) => fitLinearModel(rows, seasonal, near),
  },
};

interface Design {
  location: string[];
  logScale: string[];
  /** By name: how firmly a variable is held at 0, in CRPS of one case in units of the rows' spread. */
  ridge: (name: string) => number;
  /** @param x mean of the members in widths; @param spread ln of theirs */
  variables(row: ModelRow, x: number, spread: number): Record<string, number>;
}

/** How much a value of --by differs is learned of it as if some days of all others had been its own. */
function shrunk(rows: readonly ModelRow[]): Design {
  const groups = [...new Set(rows.map(({ group }) => group))].sort((a, b) => a - b);
  const names = groups.map(String);
  const own = (row: ModelRow, prefix: string) =>
    Object.fromEntries(names.map((name) => [`${prefix}${name}`, Number(String(row.group) === name)]));
  const ridges: Record<string, number> = { bias: 3, wide: 6, slope: 30 };
  return {
    location: ['constant', 'slope', ...names.map((name) => `bias ${name}`)],
    logScale: ['ln scale', 'by spread', ...names.map((name) => `wide ${name}`)],
    ridge: (name) => ridges[name.split(' ')[0]!] ?? 0.1,
    variables: (row, x, spread) => ({
      constant: 1,
      slope: x,
      'ln scale': 1,
      'by spread': spread,
      ...own(row, 'bias '),
      ...own(row, 'wide '),
    }),
  };
}

const seasonal: Design = {
  location: ['constant', 'cos', 'sin', 'cos 2', 'sin 2', 'slope', 'slope cos', 'slope sin'],
  logScale: ['ln scale', 'by spread', 'scale cos', 'scale sin'],
  ridge: () => 0.1,
  variables({ day }, x, spread) {
    const angle = (2 * Math.PI * day) / YEAR_DAYS;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    return {
      constant: 1,
      cos,
      sin,
      'cos 2': Math.cos(2 * angle),
      'sin 2': Math.sin(2 * angle),
      slope: x,
      'slope cos': x * cos,
      'slope sin': x * sin,
      'ln scale': 1,
      'by spread': spread,
      'scale cos': cos,
      'scale sin': sin,
    };
  },
};

/** What the members' mean leaves, in units of its own spread: so that ridges mean the same whatever the unit of the file. */
function fitLinearModel(
  rows: readonly ModelRow[],
  design: Design,
  near: ArrayLike<number> | undefined,
): Fitted | undefined {
  if (rows.length < LEAST_ROWS) return undefined;
  const errors = momentsOf(rows.map(({ observed, mean }) => observed - mean));
  const means = momentsOf(rows.map(({ mean }) => mean));
  if (!(errors.deviation > 0) || !(means.deviation > 0)) return undefined;
  const spreadOf = ({ variance }: ModelRow) =>
    Math.log(Math.max(Math.sqrt(variance), 0.02 * errors.deviation));
  const spreads = momentsOf(rows.map(spreadOf));
  const names = [...design.location, ...design.logScale];
  const variablesOf = (row: ModelRow): Float64Array => {
    const values = design.variables(
      row,
      (row.mean - means.mean) / means.deviation,
      spreads.deviation > 1e-6 ? spreadOf(row) - spreads.mean : 0,
    );
    return Float64Array.from(names, (name) => values[name] ?? 0);
  };
  const rule: LinearRule = {
    ofLocation: design.location.length,
    prior: names.map((name) => (name === 'ln scale' ? Math.log(1 / LOGISTIC_DEVIATION) : 0)),
    ridge: names.map(design.ridge),
    scale: { lowest: 0.01, highest: 10 },
  };
  const cases = rows.map((row) => ({
    variables: variablesOf(row),
    observed: (row.observed - row.mean - errors.mean) / errors.deviation,
    bound: -Infinity,
  }));
  const { coefficients } = fitLinear(cases, rule, near?.length === names.length ? near : undefined);
  return {
    predict(row) {
      const { location, scale } = predictLinear(coefficients, variablesOf(row), rule);
      return {
        mean: row.mean + errors.mean + errors.deviation * location,
        deviation: errors.deviation * scale * LOGISTIC_DEVIATION,
      };
    },
    coefficients: {
      bias: errors.mean,
      deviation: errors.deviation,
      centre: means.mean,
      width: means.deviation,
      ...Object.fromEntries(names.map((name, i) => [name, coefficients[i]!])),
    },
    values: coefficients,
  };
}

function momentsOf(values: readonly number[]): { mean: number; deviation: number } {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const squares = values.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / values.length) };
}
