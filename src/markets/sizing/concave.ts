/**
 * Maximise Σ targetᵢ·ln(sᵢ) over x, with s = slack + Gx and 0 ≤ x ≤ upper. A row with target 0 is no term of the objective but a
 * limit: s ≥ 0.
 */
export interface ConcaveProblem {
  /** G by column: column l has the `targets.length` numbers from l·rows on. */
  columns: Float64Array;
  /** s at x = 0; above zero everywhere. */
  slack: Float64Array;
  targets: Float64Array;
  upper: Float64Array;
}

/** s = slack + Gx. */
export function rowsAt({ columns, slack, upper }: ConcaveProblem, x: Float64Array): Float64Array {
  const s = slack.slice();
  const rows = s.length;
  for (let l = 0; l < upper.length; l++)
    if (x[l] !== 0) for (let i = 0; i < rows; i++) s[i]! += columns[l * rows + i]! * x[l]!;
  return s;
}

/**
 * No feasible point is better than x by more than this: what x lacks of the value of Lagrange's dual at these multipliers, which
 * are all above 0 for the objective's rows and at least 0 for limits. It holds for any of them, so it needs no trust in how they
 * and x were found. Infinity for an x that is not feasible.
 *
 * With s̃ = target/multiplier, row by row: the objective lies below its tangent at s̃, on which no point is better than x by more
 * than the limits' slack at their multipliers and, leg by leg, what the multipliers leave of its worth times the way to its
 * bound; and x is off the tangent by target·(s/s̃ − 1 − ln s/s̃).
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

/** What rounding may leave of a limit that binds, as a share of wealth. */
const FEASIBLE = 1e-12;
