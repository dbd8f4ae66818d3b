import type { Guess } from './active-set.js';
import { optimalityGap, rowsAt, type ConcaveProblem } from './concave.js';

/** Cholesky factorisation of the lower triangle, in place. Undefined if rounding leaves a nonpositive pivot. */
function factorise(matrix: Float64Array, size: number): Float64Array | undefined {
  for (let i = 0; i < size; i++)
    for (let j = 0; j <= i; j++) {
      let value = matrix[i * size + j]!;
      for (let k = 0; k < j; k++) value -= matrix[i * size + k]! * matrix[j * size + k]!;
      if (j < i) matrix[i * size + j] = value / matrix[j * size + j]!;
      else if (value > 0) matrix[i * size + i] = Math.sqrt(value);
      else return undefined;
    }
  return matrix;
}

/** Solves L·Lᵀ·v = right in place. */
function solveFactored(factor: Float64Array, right: Float64Array): void {
  const size = right.length;
  for (let i = 0; i < size; i++) {
    let value = right[i]!;
    for (let k = 0; k < i; k++) value -= factor[i * size + k]! * right[k]!;
    right[i] = value / factor[i * size + i]!;
  }
  for (let i = size - 1; i >= 0; i--) {
    let value = right[i]!;
    for (let k = i + 1; k < size; k++) value -= factor[k * size + i]! * right[k]!;
    right[i] = value / factor[i * size + i]!;
  }
}

const MAX_ITERATIONS = 60;
/** Share of the distance to the nearest bound that a step covers. */
const MOST_OF_THE_WAY = 0.995;

/**
 * Approaches the maximum from any start by a primal–dual interior-point method with predictor and corrector (S. Mehrotra,
 * On the implementation of a primal–dual interior point method, SIAM J. Optim. 2, 1992). A logarithm sᵢ with weight pᵢ is a
 * complementarity sᵢ·yᵢ = pᵢ that does not tend to zero, so objective and limits are treated alike. The Newton system is
 * diagonal plus a matrix whose rank is the small number of rows; Woodbury's identity reduces it to that size, at the price
 * of digits near the maximum.
 * @returns a guess whenever the gap falls below the next of the descending `gaps`, and one at the end
 */
export function* approach(problem: ConcaveProblem, gaps: readonly number[]): Generator<Guess> {
  const state = start(problem);
  const left = [...gaps];
  for (let iteration = 0; iteration < MAX_ITERATIONS && left.length > 0; iteration++) {
    if (!advance(problem, state)) break;
    updateSlacks(problem, state);
    if (!(optimalityGap(problem, state.x, state.y) <= left[0]!)) continue;
    left.shift();
    yield guessOf(problem, state);
  }
  yield guessOf(problem, state);
}

/** Guesses free legs and binding limits by which number of each complementary pair is nearer to zero. */
function guessOf({ targets, upper }: ConcaveProblem, { x, room, s, y, low, high }: State): Guess {
  const isLow = x.map((value, l) => Number(value <= low[l]!));
  const isHigh = room.map((value, l) => Number(value <= high[l]!));
  return {
    x: x.map((value, l) => (isLow[l] ? 0 : isHigh[l] ? upper[l]! : value)),
    multipliers: y.slice(),
    isFree: Array.from(x, (_, l) => !isLow[l] && !isHigh[l]),
    isTight: Array.from(s, (value, i) => !(targets[i]! > 0) && value < y[i]!),
  };
}

interface State {
  x: Float64Array;
  room: Float64Array;
  s: Float64Array;
  y: Float64Array;
  /** Multipliers of 0 ≤ x and of x ≤ upper. */
  low: Float64Array;
  high: Float64Array;
}

function start({ columns, slack, targets, upper }: ConcaveProblem): State {
  const [rows, count] = [targets.length, upper.length];
  // A share of every upper bound that leaves at least half of every slack.
  const fall = new Float64Array(rows);
  for (let l = 0; l < count; l++)
    for (let i = 0; i < rows; i++) fall[i]! += columns[l * rows + i]! * upper[l]!;
  let share = 0.5;
  for (let i = 0; i < rows; i++) if (fall[i]! < 0) share = Math.min(share, (0.5 * slack[i]!) / -fall[i]!);
  const x = upper.map((most) => most * share);
  const room = upper.map((most) => most * (1 - share));
  const s = slack.map((value, i) => value + share * fall[i]!);
  const centre = 0.05 / (count + 1);
  return {
    x,
    room,
    s,
    y: s.map((value, i) => (targets[i]! || centre) / value),
    low: x.map((value) => centre / value),
    high: room.map((value) => centre / value),
  };
}

function updateSlacks(problem: ConcaveProblem, { x, room, s }: State): void {
  s.set(rowsAt(problem, x));
  for (let l = 0; l < x.length; l++) room[l] = problem.upper[l]! - x[l]!;
}

/** One predictor–corrector step; false once floating-point accuracy is exhausted. */
function advance(problem: ConcaveProblem, state: State): boolean {
  const { columns, targets, upper } = problem;
  const [rows, count] = [targets.length, upper.length];
  const { x, room, s, y, low, high } = state;
  const inverse = new Float64Array(count);
  for (let l = 0; l < count; l++) inverse[l] = 1 / (low[l]! / x[l]! + high[l]! / room[l]!);
  const factor = factorise(systemOf(columns, inverse, s, y), rows);
  if (factor === undefined) return false;
  const newton = { problem, state, inverse, factor };
  const predicted = direction(newton, 0);
  const before = centreOf(problem, state);
  const after = centreOf(problem, state, predicted);
  const step = direction(newton, before * (after / before) ** 3, predicted);
  const [primal, dual] = stepLengths(state, step);
  for (let l = 0; l < count; l++) {
    x[l]! += primal * step.x[l]!;
    low[l]! += dual * step.low[l]!;
    high[l]! += dual * step.high[l]!;
  }
  for (let i = 0; i < rows; i++) y[i]! += dual * step.y[i]!;
  return Number.isFinite(primal) && primal + dual > 1e-12;
}

/** S/Y + G·Θ⁻¹·Gᵀ, lower triangle. */
function systemOf(columns: Float64Array, inverse: Float64Array, s: Float64Array, y: Float64Array) {
  const rows = s.length;
  const matrix = new Float64Array(rows * rows);
  for (let i = 0; i < rows; i++) matrix[i * rows + i] = s[i]! / y[i]!;
  for (let l = 0; l < inverse.length; l++) {
    const from = l * rows;
    for (let i = 0; i < rows; i++) {
      const scaled = columns[from + i]! * inverse[l]!;
      if (scaled === 0) continue;
      for (let j = 0; j <= i; j++) matrix[i * rows + j]! += scaled * columns[from + j]!;
    }
  }
  return matrix;
}

interface Step {
  x: Float64Array;
  s: Float64Array;
  y: Float64Array;
  low: Float64Array;
  high: Float64Array;
}

interface Newton {
  problem: ConcaveProblem;
  state: State;
  inverse: Float64Array;
  factor: Float64Array;
}

/** Newton step towards the central path at `centre`, with second-order terms from a first guess. */
function direction(newton: Newton, centre: number, guess?: Step): Step {
  const { problem, state } = newton;
  const { columns, targets } = problem;
  const { x, room, s, y, low, high } = state;
  const [rows, count] = [targets.length, x.length];
  const step: Step = {
    x: new Float64Array(count),
    s: new Float64Array(rows),
    y: new Float64Array(rows),
    low: new Float64Array(count),
    high: new Float64Array(count),
  };
  const force = new Float64Array(count);
  for (let i = 0; i < rows; i++)
    step.y[i] = ((targets[i]! || centre) - (guess ? guess.s[i]! * guess.y[i]! : 0)) / s[i]!;
  for (let l = 0; l < count; l++) {
    step.low[l] = (centre - (guess ? guess.x[l]! * guess.low[l]! : 0)) / x[l]!;
    step.high[l] = (centre + (guess ? guess.x[l]! * guess.high[l]! : 0)) / room[l]!;
    let pull = step.low[l]! - step.high[l]!;
    for (let i = 0; i < rows; i++) pull += columns[l * rows + i]! * step.y[i]!;
    force[l] = pull;
  }
  solveNewton(newton, force, step);
  for (let l = 0; l < count; l++) {
    step.low[l]! -= low[l]! * (1 + step.x[l]! / x[l]!);
    step.high[l]! -= high[l]! * (1 - step.x[l]! / room[l]!);
  }
  for (let i = 0; i < rows; i++) step.y[i]! -= y[i]! * (1 + step.s[i]! / s[i]!);
  return step;
}

/** (Θ + Gᵀ·Y/S·G)·x = force by Woodbury's identity, and s = G·x. */
function solveNewton({ problem: { columns }, inverse, factor }: Newton, force: Float64Array, step: Step) {
  const rows = step.s.length;
  const right = new Float64Array(rows);
  for (let l = 0; l < force.length; l++) {
    const scaled = inverse[l]! * force[l]!;
    for (let i = 0; i < rows; i++) right[i]! += columns[l * rows + i]! * scaled;
  }
  solveFactored(factor, right);
  for (let l = 0; l < force.length; l++) {
    let pull = force[l]!;
    for (let i = 0; i < rows; i++) pull -= columns[l * rows + i]! * right[i]!;
    const move = pull * inverse[l]!;
    step.x[l] = move;
    for (let i = 0; i < rows; i++) step.s[i]! += columns[l * rows + i]! * move;
  }
}

/** Mean of the products that tend to zero, optionally after a step. */
function centreOf({ targets }: ConcaveProblem, state: State, step?: Step): number {
  const { x, room, s, y, low, high } = state;
  const [primal, dual] = step ? stepLengths(state, step) : [0, 0];
  let sum = 0;
  let terms = 0;
  for (let l = 0; l < x.length; l++) {
    const moved = primal * (step?.x[l] ?? 0);
    sum += (x[l]! + moved) * (low[l]! + dual * (step?.low[l] ?? 0));
    sum += (room[l]! - moved) * (high[l]! + dual * (step?.high[l] ?? 0));
    terms += 2;
  }
  for (let i = 0; i < targets.length; i++) {
    if (targets[i]! > 0) continue;
    sum += (s[i]! + primal * (step?.s[i] ?? 0)) * (y[i]! + dual * (step?.y[i] ?? 0));
    terms++;
  }
  return Math.max(sum, 0) / terms;
}

function stepLengths({ x, room, s, y, low, high }: State, step: Step): [primal: number, dual: number] {
  let primal = 1 / MOST_OF_THE_WAY;
  let dual = 1 / MOST_OF_THE_WAY;
  for (let l = 0; l < x.length; l++) {
    const move = step.x[l]!;
    if (move < 0) primal = Math.min(primal, -x[l]! / move);
    else if (move > 0) primal = Math.min(primal, room[l]! / move);
    if (step.low[l]! < 0) dual = Math.min(dual, -low[l]! / step.low[l]!);
    if (step.high[l]! < 0) dual = Math.min(dual, -high[l]! / step.high[l]!);
  }
  for (let i = 0; i < s.length; i++) {
    if (step.s[i]! < 0) primal = Math.min(primal, -s[i]! / step.s[i]!);
    if (step.y[i]! < 0) dual = Math.min(dual, -y[i]! / step.y[i]!);
  }
  return [primal * MOST_OF_THE_WAY, dual * MOST_OF_THE_WAY];
}
