import { expect, it } from 'vitest';
import { allAtOnce } from '../../../src/core/steps.js';
import {
  crpsOfCensored,
  fitLinearInSteps,
  type LinearCase,
  type LinearRule,
} from '../../../src/markets/learning/linear-fit.js';
import { minimize } from '../../../src/markets/learning/minimize.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';

const STATIONS = 12;
const LOCATION = 2 + STATIONS;
const SIZE = 2 * LOCATION;

/**
 * Cases with a constant and a slope, plus a bias and a width per station. The constant's column is the sum of the bias
 * columns, so the columns are linearly dependent.
 */
function casesFrom(firstDay: number, days: number): LinearCase[] {
  return Array.from({ length: days * STATIONS }, (_, i): LinearCase => {
    const [day, station] = [firstDay + Math.floor(i / STATIONS), i % STATIONS];
    const x = gaussian('x', day, station);
    const sureness = gaussian('sureness', day, station);
    const error = (1 + 0.3 * gaussian('width', station)) * gaussian('error', day, station);
    const observed = 0.4 * gaussian('bias', station) - 0.1 * x + Math.exp(0.3 * sureness) * error;
    const places = [0, 1, 2 + station, LOCATION, LOCATION + 1, LOCATION + 2 + station];
    return { places, values: [1, x, 1, 1, sureness, 1], observed, bound: station === 0 ? -1.5 : -Infinity };
  }).map((each) => ({ ...each, observed: Math.max(each.observed, each.bound) }));
}

const rule: LinearRule = {
  ofLocation: LOCATION,
  prior: Array.from({ length: SIZE }, (_, k) => (k === LOCATION ? -0.6 : 0)),
  ridge: Array.from({ length: SIZE }, (_, k) => [0.1, 10][k % LOCATION] ?? 3),
  scale: { lowest: 0.01, highest: 10 },
  tolerance: 1e-4,
};

const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0);

/** Reference implementation: the same search on dense rows, orthogonalised by Gram–Schmidt. */
function fitDense(cases: readonly LinearCase[], near: ArrayLike<number>): Float64Array {
  const n = cases.length;
  const columns = Array.from({ length: SIZE }, (_, k) =>
    Float64Array.from(cases, ({ places, values }) => {
      const found = Array.from(places).indexOf(k);
      return found < 0 ? 0 : values[found]!;
    }),
  );
  const triangle = columns.map(() => new Float64Array(SIZE));
  for (const [j, column] of columns.entries()) {
    const before = dot(column, column);
    for (let k = j < LOCATION ? 0 : LOCATION; k < j; k++) {
      const share = dot(column, columns[k]!) / n;
      triangle[k]![j] = share;
      for (let i = 0; i < n; i++) column[i]! -= share * columns[k]![i]!;
    }
    const left = dot(column, column);
    const isOwn = left > 1e-12 * before;
    triangle[j]![j] = isOwn ? Math.sqrt(left / n) : 1;
    for (let i = 0; i < n; i++) column[i] = isOwn ? column[i]! / triangle[j]![j] : 0;
  }
  const toCoefficients = (point: ArrayLike<number>): Float64Array => {
    const values = Float64Array.from(point);
    for (let i = SIZE - 1; i >= 0; i--) {
      for (let j = i + 1; j < SIZE; j++) values[i]! -= triangle[i]![j]! * values[j]!;
      values[i]! /= triangle[i]![i]!;
    }
    return values;
  };
  const out = new Float64Array(3);
  const start = triangle.map((row) => dot(row, near));
  const { point } = minimize(
    (at, gradient) => {
      let sum = 0;
      gradient.fill(0);
      for (const [i, { observed, bound }] of cases.entries()) {
        const row = columns.map((column) => column[i]!);
        const location = dot(row.slice(0, LOCATION), at);
        const scale = Math.exp(dot(row.slice(LOCATION), at.subarray(LOCATION)));
        crpsOfCensored(observed - location, bound - location, scale, out);
        sum += out[0]!;
        for (const [k, value] of row.entries())
          gradient[k]! += value * (k < LOCATION ? out[1]! : out[2]! * scale);
      }
      const slopes = toCoefficients(at).map((value, k) => {
        const off = value - rule.prior[k]!;
        sum += rule.ridge[k]! * off * off;
        return 2 * rule.ridge[k]! * off;
      });
      for (let j = 0; j < SIZE; j++) {
        for (let i = 0; i < j; i++) slopes[j]! -= triangle[i]![j]! * slopes[i]!;
        slopes[j]! /= triangle[j]![j]!;
        gradient[j] = (gradient[j]! + slopes[j]!) / n;
      }
      return sum / n;
    },
    start,
    rule.tolerance!,
  );
  return toCoefficients(point);
}

it('the sparse search finds what a dense search finds, up to rounding, day after day', () => {
  let near: ArrayLike<number> = rule.prior;
  for (const firstDay of [0, 1, 2]) {
    const cases = casesFrom(firstDay, 30);
    const found = allAtOnce(fitLinearInSteps(cases, rule, near));
    const expected = fitDense(cases, near);
    expect(found.hasConverged).toBe(true);
    for (const [k, value] of expected.entries()) expect(found.coefficients[k]).toBeCloseTo(value, 9);
    near = found.coefficients;
  }
});
