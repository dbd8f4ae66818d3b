import { rowsAt, type ConcaveProblem } from './concave.js';

/** matrix·v = right, with pivoting. Writes v into `right` and overwrites `matrix`. False if singular. */
function solveLinear(matrix: Float64Array, right: Float64Array): boolean {
  const size = right.length;
  for (let c = 0; c < size; c++) {
    let pivot = c;
    for (let r = c + 1; r < size; r++)
      if (Math.abs(matrix[r * size + c]!) > Math.abs(matrix[pivot * size + c]!)) pivot = r;
    if (!(Math.abs(matrix[pivot * size + c]!) > 1e-300)) return false;
    if (pivot !== c) swapRows(matrix, right, c, pivot);
    for (let r = c + 1; r < size; r++) {
      const factor = matrix[r * size + c]! / matrix[c * size + c]!;
      if (factor === 0) continue;
      for (let k = c; k < size; k++) matrix[r * size + k]! -= factor * matrix[c * size + k]!;
      right[r]! -= factor * right[c]!;
    }
  }
  for (let r = size - 1; r >= 0; r--) {
    for (let k = r + 1; k < size; k++) right[r]! -= matrix[r * size + k]! * right[k]!;
    right[r]! /= matrix[r * size + r]!;
  }
  return true;
}

function swapRows(matrix: Float64Array, right: Float64Array, a: number, b: number): void {
  const size = right.length;
  for (let k = 0; k < size; k++)
    [matrix[a * size + k], matrix[b * size + k]] = [matrix[b * size + k]!, matrix[a * size + k]!];
  [right[a], right[b]] = [right[b]!, right[a]!];
}

const MAX_STEPS = 200;
/** In growth per unit of wealth. Smaller multipliers have no reliable sign. */
const NO_WORTH = 1e-14;
/** Predicted gain of a step, below which the bounds are rechecked. */
const LITTLE_GAIN = 1e-8;
const NO_GAIN = 1e-22;
/** Slack of a binding limit that counts as none, as a share of wealth. */
const NO_SLACK = 1e-13;
/** Regularises the system if several legs are equivalent; otherwise it only costs an extra step. */
const REGULAR = 1e-12;

/** Near the optimum. Legs that are not free are at a bound; tight limits have no slack. */
export interface Guess {
  x: Float64Array;
  /** Per row: the derivative for the objective, the price for a limit. */
  multipliers: Float64Array;
  isFree: boolean[];
  isTight: boolean[];
}

/**
 * Newton's method on the legs between their bounds and the binding limits, to rounding accuracy. A leg or limit enters
 * or leaves this set when a step reaches a bound or a multiplier has the wrong sign (J. Nocedal and S. Wright,
 * Numerical Optimization, 2nd ed., ch. 16.5).
 */
export function climb(problem: ConcaveProblem, guess: Guess): Guess {
  const { targets } = problem;
  const { x, multipliers: y, isFree, isTight } = guess;
  // Near zero, recomputing `s` from `slack` would lose all significant digits.
  const s = rowsAt(problem, x);
  for (let steps = 0; steps < MAX_STEPS; steps++) {
    for (let i = 0; i < s.length; i++) y[i] = targets[i]! > 0 ? targets[i]! / s[i]! : isTight[i] ? y[i]! : 0;
    const free = indicesOf(isFree);
    const tight = indicesOf(isTight);
    const move = newtonStep(problem, s, y, free, tight);
    tight.forEach((i, at) => (y[i] = move[free.length + at]!));
    const { gain, leg, row } = stepAlong(problem, { x, s, free, move, isTight });
    if (leg !== undefined) isFree[leg] = false;
    else if (row !== undefined) isTight[row] = true;
    else if (gain < LITTLE_GAIN && !release(problem, guess))
      if (gain < NO_GAIN && tight.every((i) => Math.abs(s[i]!) < NO_SLACK)) break;
  }
  for (let i = 0; i < s.length; i++) y[i] = targets[i]! > 0 ? targets[i]! / s[i]! : Math.max(0, y[i]!);
  return guess;
}

function indicesOf(flags: readonly boolean[]): number[] {
  const indices: number[] = [];
  for (let i = 0; i < flags.length; i++) if (flags[i]) indices.push(i);
  return indices;
}

function newtonStep(
  { columns, targets }: ConcaveProblem,
  s: Float64Array,
  y: Float64Array,
  free: number[],
  tight: number[],
) {
  const rows = targets.length;
  const size = free.length + tight.length;
  const matrix = new Float64Array(size * size);
  const right = new Float64Array(size);
  free.forEach((l, a) => {
    for (let i = 0; i < rows; i++) {
      if (!(targets[i]! > 0)) continue;
      right[a]! += columns[l * rows + i]! * y[i]!;
      const curved = (columns[l * rows + i]! * y[i]!) / s[i]!;
      for (let b = 0; b < free.length; b++) matrix[a * size + b]! += curved * columns[free[b]! * rows + i]!;
    }
    matrix[a * size + a]! += REGULAR;
    tight.forEach((i, at) => {
      matrix[a * size + free.length + at] = -columns[l * rows + i]!;
      matrix[(free.length + at) * size + a] = -columns[l * rows + i]!;
    });
  });
  tight.forEach((i, at) => {
    const d = (free.length + at) * (size + 1);
    matrix[d] = -REGULAR;
    right[free.length + at] = s[i]! - REGULAR * y[i]!;
  });
  solveLinear(matrix, right);
  return right;
}

interface StepStart {
  x: Float64Array;
  s: Float64Array;
  free: readonly number[];
  move: Float64Array;
  isTight: readonly boolean[];
}

/** Returns the constraint that was met and the growth predicted for the full step. */
function stepAlong({ columns, targets, upper }: ConcaveProblem, { x, s, free, move, isTight }: StepStart) {
  const rows = targets.length;
  let share = 1;
  let gain = 0;
  let met: { leg?: number; row?: number } = {};
  const fall = new Float64Array(rows);
  free.forEach((l, at) => {
    const by = move[at]!;
    for (let i = 0; i < rows; i++) fall[i]! -= columns[l * rows + i]! * by;
    const most = by < 0 ? -x[l]! / by : by > 0 ? (upper[l]! - x[l]!) / by : Infinity;
    if (most < share) [share, met] = [Math.max(0, most), { leg: l }];
  });
  for (let i = 0; i < rows; i++) {
    if (targets[i]! > 0) gain += targets[i]! * (fall[i]! / s[i]!) ** 2;
    if (isTight[i] || !(fall[i]! > 0)) continue;
    // A logarithm's argument must stay positive, while a limit's slack may reach zero.
    const most = ((targets[i]! > 0 ? 0.9 : 1) * Math.max(0, s[i]!)) / fall[i]!;
    if (most < share) [share, met] = [most, targets[i]! > 0 ? {} : { row: i }];
  }
  for (let i = 0; i < rows; i++) s[i]! -= share * fall[i]!;
  free.forEach((l, at) => {
    const to = x[l]! + share * move[at]!;
    x[l] = met.leg === l ? (move[at]! < 0 ? 0 : upper[l]!) : Math.min(upper[l]!, Math.max(0, to));
  });
  return { gain, ...met };
}

/** The one with the largest wrong multiplier; false if all signs are right. */
function release({ columns, targets }: ConcaveProblem, { x, multipliers, isFree, isTight }: Guess): boolean {
  const rows = targets.length;
  let most = NO_WORTH;
  let [leg, row] = [-1, -1];
  for (let l = 0; l < x.length; l++) {
    if (isFree[l]) continue;
    let worth = 0;
    for (let i = 0; i < rows; i++) worth += columns[l * rows + i]! * multipliers[i]!;
    const wrong = x[l] === 0 ? worth : -worth;
    if (wrong > most) [most, leg] = [wrong, l];
  }
  for (let i = 0; i < rows; i++)
    if (isTight[i] && -multipliers[i]! > most) [most, leg, row] = [-multipliers[i]!, -1, i];
  if (leg >= 0) isFree[leg] = true;
  if (row >= 0) isTight[row] = false;
  return leg >= 0 || row >= 0;
}
