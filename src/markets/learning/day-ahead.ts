import { groupBy } from '../../core/collections.js';
import { allAtOnce, type Steps } from '../../core/steps.js';
import { LOGISTIC_DEVIATION } from '../../core/statistics/distributions.js';
import { fitLinearInSteps, predictLinear, type LinearCase, type LinearRule } from './linear-fit.js';

/* Day-ahead forecast: a logistic distribution whose location and ln scale are linear in the ensemble's mean and spread,
   place, hour and season. Non-homogeneous regression: T. Gneiting et al., Mon. Wea. Rev. 133 (2005). Logistic
   distribution: M. Gebetsberger et al., Adv. Stat. Clim. Meteorol. Oceanogr. 5 (2019). Seasonal terms: M. N. Lang et
   al., Nonlin. Processes Geophys. 27 (2020). */

/** In the unit of the observations. */
export interface AheadRow {
  day: number;
  hour?: number | undefined;
  /** Has its own bias and spread, such as a station. */
  group: string;
  mean: number;
  /** 0 for a single member. */
  variance: number;
  /** An older version of the model may have another bias; its spread is assumed to be the same. */
  isOlder?: boolean | undefined;
}

export interface AheadCase extends AheadRow {
  observed: number;
}

/** `shrunk` pools all groups, shrinks their differences and weights recent days more; `seasonal` fits one group. */
export type AheadDesign = 'shrunk' | 'seasonal';

export interface AheadFit {
  /**
   * By variable. Also the errors' `bias` and `deviation`, the means' `centre` and `width`, and, if the spread varies,
   * the mean logarithm of the `spread`.
   */
  coefficients: Readonly<Record<string, number>>;
  /** With the ridge penalty, in the unit of the observations. */
  trainingCrps: number;
  hasConverged: boolean;
}

const YEAR_DAYS = 365.25;
const LEAST_ROWS = 20;
/** A tolerance ten times smaller changes no score by even a thousandth (measured). */
const TOLERANCE = 1e-4;
/** In standard deviations of the errors. */
const SCALE = { lowest: 0.01, highest: 10 };
/** Share of the errors' standard deviation; a smaller spread carries no more information. */
const LEAST_SPREAD = 0.02;
/** Spreads are limited to between a quarter and four times the usual one. */
const FURTHEST_SPREAD = Math.log(4);

/** For the bias of older versions relative to the newest. */
const OLDER = 'older version';

type Visit = (name: string, value: number) => void;

/** Variables that do not apply to the row are 0. */
function eachVariable(
  row: AheadRow,
  coefficients: AheadFit['coefficients'],
  { ofLocation, ofScale }: { ofLocation: Visit; ofScale: Visit },
): void {
  const { day, hour, group, isOlder } = row;
  const { centre = 0, width = 1, deviation = 1, spread } = coefficients;
  const x = (row.mean - centre) / width;
  const off = spread === undefined ? 0 : spreadOf(row, deviation) - spread;
  const angle = (2 * Math.PI * day) / YEAR_DAYS;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  ofLocation('constant', 1);
  ofLocation('slope', x);
  ofLocation('cos', cos);
  ofLocation('sin', sin);
  ofLocation('cos 2', Math.cos(2 * angle));
  ofLocation('sin 2', Math.sin(2 * angle));
  ofLocation('slope cos', x * cos);
  ofLocation('slope sin', x * sin);
  ofLocation(`bias ${group}`, 1);
  ofLocation(`local slope ${group}`, (row.mean - (coefficients[`centre ${group}`] ?? row.mean)) / width);
  if (hour !== undefined) ofLocation(`hour ${hour}`, 1);
  if (isOlder) ofLocation(OLDER, 1);
  ofScale('ln scale', 1);
  ofScale('by spread', Math.max(-FURTHEST_SPREAD, Math.min(FURTHEST_SPREAD, off)));
  ofScale('scale cos', cos);
  ofScale('scale sin', sin);
  ofScale(`wide ${group}`, 1);
}

interface Named {
  location: string[];
  logScale: string[];
  /** Shrinks a coefficient toward 0: the CRPS of one day, in units of the errors' standard deviation. */
  ridge: (name: string) => number;
}

/** Weighting recent days more lowers a mix's CRPS by 1.3 % (measured; 15 to 30 days do equally well). */
const HALF_LIFE_DAYS = 20;
const LOOSE_RIDGE = 0.1;
const BIAS_RIDGE = 3;

const designs: Readonly<Record<AheadDesign, (rows: readonly AheadRow[]) => Named>> = {
  shrunk(rows) {
    const groups = [...new Set(rows.map(({ group }) => group))].sort();
    const hours = [...new Set(rows.map(({ hour }) => hour))]
      .filter((hour) => hour !== undefined)
      .sort((a, b) => a - b);
    // Errors of a day are correlated, so the ridge is scaled to days instead of rows.
    const perDay = rows.length / new Set(rows.map(({ group, day }) => `${group} ${day}`)).size;
    const ridges: Record<string, number> = {
      bias: BIAS_RIDGE * perDay,
      older: BIAS_RIDGE * perDay,
      wide: 6 * perDay,
      slope: 10 * perDay,
      local: perDay,
      hour: 3,
    };
    return {
      location: [
        'constant',
        'slope',
        ...groups.map((name) => `bias ${name}`),
        ...(groups.length > 1 ? groups.map((name) => `local slope ${name}`) : []),
        ...hours.map((hour) => `hour ${hour}`),
        ...olderIn(rows),
      ],
      logScale: ['ln scale', 'by spread', ...groups.map((name) => `wide ${name}`)],
      ridge: (name) => ridges[name.split(' ')[0]!] ?? LOOSE_RIDGE,
    };
  },
  seasonal: (rows) => ({
    location: [
      'constant',
      'cos',
      'sin',
      'cos 2',
      'sin 2',
      'slope',
      'slope cos',
      'slope sin',
      ...olderIn(rows),
    ],
    logScale: ['ln scale', 'by spread', 'scale cos', 'scale sin'],
    ridge: (name) => (name === OLDER ? BIAS_RIDGE : LOOSE_RIDGE),
  }),
};

const olderIn = (rows: readonly AheadRow[]): string[] => (rows.some(({ isOlder }) => isOlder) ? [OLDER] : []);

/** @param near starting point: a fit to almost the same cases */
export const fitAhead = (...input: Parameters<typeof fitAheadInSteps>): AheadFit | undefined =>
  allAtOnce(fitAheadInSteps(...input));

/**
 * Fits residuals in units of their own standard deviation, so that ridges do not depend on the unit.
 * @returns undefined for fewer than 20 rows, or for rows without variation
 */
export function* fitAheadInSteps(
  cases: readonly AheadCase[],
  design: AheadDesign,
  near?: AheadFit['coefficients'],
): Steps<AheadFit | undefined> {
  if (cases.length < LEAST_ROWS) return undefined;
  const errors = momentsOf(cases, ({ observed, mean }) => observed - mean);
  const means = momentsOf(cases, ({ mean }) => mean);
  if (!(errors.deviation > 0 && errors.deviation < Infinity && means.deviation > 0)) return undefined;
  const spreads = momentsOf(cases, (row) => spreadOf(row, errors.deviation));
  const { location, logScale, ridge } = designs[design](cases);
  const names = [...location, ...logScale];
  const scaling: Record<string, number> = {
    bias: errors.mean,
    deviation: errors.deviation,
    centre: means.mean,
    width: means.deviation,
    ...centresOf(cases),
    ...(spreads.deviation > 1e-6 && { spread: spreads.mean }),
  };
  const rule: LinearRule = {
    ofLocation: location.length,
    prior: names.map((name) => (name === 'ln scale' ? Math.log(1 / LOGISTIC_DEVIATION) : 0)),
    ridge: names.map(ridge),
    scale: SCALE,
    tolerance: TOLERANCE,
  };
  const places = new Map(names.map((name, i) => [name, i]));
  const rows: LinearCase[] = [];
  const lastDay = cases.reduce((last, { day }) => Math.max(last, day), -Infinity);
  for (const each of cases) {
    const own: { places: number[]; values: number[] } = { places: [], values: [] };
    const add: Visit = (name, value) => {
      const place = places.get(name);
      if (place === undefined) return;
      own.places.push(place);
      own.values.push(value);
    };
    eachVariable(each, scaling, { ofLocation: add, ofScale: add });
    const observed = (each.observed - each.mean - errors.mean) / errors.deviation;
    const weight = design === 'shrunk' ? 0.5 ** ((lastDay - each.day) / HALF_LIFE_DAYS) : 1;
    if (rows.push({ ...own, observed, bound: -Infinity, weight }) % ROWS_AT_ONCE === 0) yield;
  }
  const start = near && names.every((name) => name in near) ? names.map((name) => near[name]!) : undefined;
  const found = yield* fitLinearInSteps(rows, rule, start);
  return {
    coefficients: {
      ...scaling,
      ...Object.fromEntries(names.map((name, i) => [name, found.coefficients[i]!])),
    },
    trainingCrps: errors.deviation * found.trainingCrps,
    hasConverged: found.hasConverged,
  };
}

/** A group's slope applies to deviations from its own mean, so that it does not change the group's bias. */
const centresOf = (cases: readonly AheadCase[]): Record<string, number> =>
  Object.fromEntries(
    [...groupBy(cases, ({ group }) => group)].map(([group, own]) => [
      `centre ${group}`,
      momentsOf(own, ({ mean }) => mean).mean,
    ]),
  );

const ROWS_AT_ONCE = 500;

/** An unknown group or hour gets the common forecast. */
export function predictAhead(coefficients: AheadFit['coefficients'], row: AheadRow) {
  const used: { of: number[]; values: number[] } = { of: [], values: [] };
  const add: Visit = (name, value) => {
    const coefficient = coefficients[name];
    if (coefficient === undefined) return;
    used.of.push(coefficient);
    used.values.push(value);
  };
  let ofLocation = 0;
  eachVariable(row, coefficients, {
    ofLocation(name, value) {
      add(name, value);
      ofLocation = used.of.length;
    },
    ofScale: add,
  });
  const predicted = predictLinear(used.of, used.values, { ofLocation, scale: SCALE });
  const { bias = Number.NaN, deviation = Number.NaN } = coefficients;
  return {
    mean: row.mean + bias + deviation * predicted.location,
    deviation: deviation * predicted.scale * LOGISTIC_DEVIATION,
  };
}

/** Two lines: mean a + b·m and ln deviation c + d·ln s, for the members' mean m and standard deviation s. */
export function lineOf(
  coefficients: AheadFit['coefficients'],
  row: Pick<AheadRow, 'day' | 'hour' | 'group' | 'isOlder'>,
): Record<'a' | 'b' | 'c' | 'd', number> {
  const { spread = 0 } = coefficients;
  const at = (mean: number) => predictAhead(coefficients, { ...row, mean, variance: Math.exp(2 * spread) });
  const { mean: a, deviation } = at(0);
  const d = coefficients.spread === undefined ? 0 : coefficients['by spread']!;
  return { a, b: at(1).mean - a, c: Math.log(deviation) - d * spread, d };
}

/** Relative to the common bias. */
export const biasOf = (
  { deviation = 0, ...coefficients }: AheadFit['coefficients'],
  { group, hour }: Pick<AheadRow, 'group' | 'hour'>,
): number => -deviation * ((coefficients[`bias ${group}`] ?? 0) + (coefficients[`hour ${hour}`] ?? 0));

const spreadOf = ({ variance }: AheadRow, deviation: number): number =>
  Math.log(Math.max(Math.sqrt(variance), LEAST_SPREAD * deviation));

function momentsOf(cases: readonly AheadCase[], read: (each: AheadCase) => number) {
  const n = cases.length;
  const mean = cases.reduce((sum, each) => sum + read(each), 0) / n;
  const squares = cases.reduce((sum, each) => sum + (read(each) - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / n) };
}
