import { allAtOnce, type Steps } from '../../core/steps.js';

export type Objective = (point: Float64Array, gradient: Float64Array) => number;

export interface Minimum {
  point: Float64Array;
  value: number;
  gradient: Float64Array;
}

const MAX_ITERATIONS = 200;
const MAX_TRIALS = 50;
/** Weak Wolfe conditions: minimum share of the predicted descent. */
const DESCENT = 1e-4;
const SLOPE = 0.9;

/**
 * BFGS with a bisecting line search for the weak Wolfe conditions: J. Nocedal, S. J. Wright, Numerical Optimization
 * (2006), algorithm 6.1; A. S. Lewis, M. L. Overton, Math. Program. 141 (2013), algorithm 2.6. For a few variables of
 * size about 1.
 */
export const minimize = (objective: Objective, start: ArrayLike<number>, tolerance: number): Minimum =>
  allAtOnce(minimizeInSteps(objective, start, tolerance));

export function* minimizeInSteps(
  objective: Objective,
  start: ArrayLike<number>,
  tolerance: number,
): Steps<Minimum> {
  const n = start.length;
  let point: Float64Array = Float64Array.from(start);
  let gradient: Float64Array = new Float64Array(n);
  let value = objective(point, gradient);
  const inverse = new Float64Array(n * n);
  setDiagonal(inverse, n, 1);
  let iterations = 0;
  for (; iterations < MAX_ITERATIONS && largest(gradient) > tolerance; iterations++) {
    const found = searchLine(objective, { point, value, gradient }, descentFrom(inverse, gradient));
    if (!found) break;
    const step = found.point.map((x, i) => x - point[i]!);
    const change = found.gradient.map((x, i) => x - gradient[i]!);
    const curvature = dot(step, change);
    // The first step sets the scale (equation 6.20).
    if (iterations === 0) setDiagonal(inverse, n, curvature / dot(change, change));
    if (curvature > 0) update(inverse, step, change, curvature);
    ({ point, value, gradient } = found);
    yield;
  }
  return { point, value, gradient };
}

/** Undefined if rounding errors prevent a point that satisfies both Wolfe conditions. */
function searchLine(objective: Objective, from: Minimum, direction: Float64Array): Minimum | undefined {
  const slope = dot(from.gradient, direction);
  const point = new Float64Array(direction.length);
  const gradient = new Float64Array(direction.length);
  let low = 0;
  let high = Infinity;
  let length = 1;
  for (let trial = 0; trial < MAX_TRIALS; trial++) {
    for (let i = 0; i < point.length; i++) point[i] = from.point[i]! + length * direction[i]!;
    const value = objective(point, gradient);
    if (!(value <= from.value + DESCENT * length * slope)) high = length;
    else if (dot(gradient, direction) < SLOPE * slope) low = length;
    else return { point, value, gradient };
    length = high < Infinity ? (low + high) / 2 : 2 * low;
  }
  return undefined;
}

/** −H g, or −g if rounding has made H indefinite. */
function descentFrom(inverse: Float64Array, gradient: Float64Array): Float64Array {
  const direction = multiply(inverse, gradient).map((x) => -x);
  return dot(direction, gradient) < 0 ? direction : gradient.map((x) => -x);
}

/** H ← (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ with ρ = 1/(yᵀs) (equation 6.17). */
function update(inverse: Float64Array, step: Float64Array, change: Float64Array, curvature: number): void {
  const n = step.length;
  const turned = multiply(inverse, change);
  const factor = (1 + dot(change, turned) / curvature) / curvature;
  for (let i = 0; i < n; i++) {
    const ofStep = factor * step[i]! - turned[i]! / curvature;
    const ofTurned = step[i]! / curvature;
    for (let j = 0; j < n; j++) inverse[i * n + j]! += ofStep * step[j]! - ofTurned * turned[j]!;
  }
}

function multiply(matrix: Float64Array, vector: Float64Array): Float64Array {
  const n = vector.length;
  const product = new Float64Array(n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) product[i]! += matrix[i * n + j]! * vector[j]!;
  return product;
}

function setDiagonal(matrix: Float64Array, n: number, value: number): void {
  for (let i = 0; i < n; i++) matrix[i * n + i] = value;
}

const dot = (a: Float64Array, b: Float64Array): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
};

const largest = (vector: Float64Array): number => vector.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
