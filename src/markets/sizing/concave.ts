/** Maximise Σ targetᵢ·ln(sᵢ) with s = slack + Gx and 0 ≤ x ≤ upper. A row with target 0 is a limit s ≥ 0. */
export interface ConcaveProblem {
  /** By column: column l holds `targets.length` numbers from index l·rows. */
  columns: Float64Array;
  /** s at x = 0, all positive. */
  slack: Float64Array;
  targets: Float64Array;
  upper: Float64Array;
}

export function rowsAt({ columns, slack, upper }: ConcaveProblem, x: Float64Array): Float64Array {
  const s = slack.slice();
  const rows = s.length;
  for (let l = 0; l < upper.length; l++)
    if (x[l] !== 0) for (let i = 0; i < rows; i++) s[i]! += columns[l * rows + i]! * x[l]!;
  return s;
}

/**
 * Upper bound on how much better than x any feasible point can be: the duality gap of x at these multipliers. The
 * multipliers must be positive for the objective's rows and non-negative for limits. The bound holds for any such
 * multipliers, however they and x were found. Infinity for an infeasible x.
 *
 * With s̃ = target/multiplier per row, the objective lies below its tangent at s̃. On the tangent, no point beats x by
 * more than the limits' slack at their multipliers plus, for each leg, its remaining worth times the distance to its
 * bound. x itself lies target·(s/s̃ − 1 − ln s/s̃) below the tangent.
 */
export function optimalityGap(problem: ConcaveProblem, x: Float64Array, multipliers: Float64Array): number {
  const { columns, targets, upper } = problem;
  const rows = targets.length;
  const s = rowsAt(problem, x);
  let gap = 0;
  for (let i = 0; i < rows; i++) {
    const product = multipliers[i]! * s[i]!;
    if (targets[i]! > 0) {
      const off = product / targets[i]! - 1;
      if (!(off > -1)) return Infinity;
      gap += targets[i]! * (off - Math.log1p(off));
    } else {
      if (!(s[i]! >= -FEASIBLE && multipliers[i]! >= 0)) return Infinity;
      gap += Math.max(0, product);
    }
  }
  for (let l = 0; l < upper.length; l++) {
    let worth = 0;
    for (let i = 0; i < rows; i++) worth += columns[l * rows + i]! * multipliers[i]!;
    gap += worth > 0 ? worth * (upper[l]! - x[l]!) : -worth * x[l]!;
  }
  return gap;
}

/** Violation of a binding limit that counts as rounding, as a share of wealth. */
const FEASIBLE = 1e-12;
