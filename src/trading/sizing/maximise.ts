import { optimalityGap, type ConcaveProblem } from './concave.js';
import { climb, type Guess } from './active-set.js';
import { approach } from './interior-point.js';

interface Maximum {
  x: Float64Array;
  /** One per row: of the objective's its derivative, of a limit its price. */
  multipliers: Float64Array;
  /** See `optimalityGap`. */
  gap: number;
}

const TARGET_GAP = 1e-10;
/** Where it is mostly known which legs are between their bounds, and where it is for certain. */
const NEAR_GAPS = [1e-3, 1e-6, 1e-9];

/**
 * The maximum, with the proof of it. Climbing from nothing is quickest and all but always arrives; where degenerate bounds lead it
 * in a circle, it starts again from where the interior-point method has come. The best point that was seen is returned.
 */
export function maximise(problem: ConcaveProblem): Maximum {
  const { slack, targets, upper } = problem;
  const nothing: Guess = {
    x: new Float64Array(upper.length),
    multipliers: targets.map((target, i) => target / slack[i]!),
    isFree: Array.from(upper, () => false),
    isTight: Array.from(targets, () => false),
  };
  const measure = ({ x, multipliers }: Guess): Maximum => ({
    x: x.slice(),
    multipliers: multipliers.slice(),
    gap: optimalityGap(problem, x, multipliers),
  });
  let best = measure(nothing);
  for (const guess of guesses(problem, nothing)) {
    if (best.gap <= TARGET_GAP) break;
    const found = measure(climb(problem, guess));
    if (found.gap < best.gap) best = found;
  }
  return best;
}

function* guesses(problem: ConcaveProblem, nothing: Guess): Generator<Guess> {
  yield nothing;
  yield* approach(problem, NEAR_GAPS);
}
