interface Case {
  observed: number;
  mean: number;
  deviation: number;
}

type Cdf = (z: number) => number;

export interface Tail {
  side: 'above' | 'below';
  threshold: number;
}

const POINTS = 200;

/** Outside the range, all forecast probabilities and outcomes are effectively 0 or 1. */
function rangeOf(cases: readonly Case[]): { from: number; to: number } {
  let [from, to] = [Infinity, -Infinity];
  for (const { observed, mean, deviation } of cases) {
    from = Math.min(from, observed, mean - 5 * deviation);
    to = Math.max(to, observed, mean + 5 * deviation);
  }
  return { from, to };
}

const probabilityAt = ({ mean, deviation }: Case, cdf: Cdf, t: number): number =>
  deviation === 0 ? Number(t >= mean) : cdf((t - mean) / deviation);

/**
 * ∫ (F(t) − 1{y ≤ t})² dt over the tail, averaged over the cases. T. Gneiting, R. Ranjan, J. Bus. Econ. Stat. 29
 * (2011).
 */
export function weightedCrps(cases: readonly Case[], cdf: Cdf, { side, threshold }: Tail): number {
  let sum = 0;
  for (const each of cases) {
    const { from, to } = rangeOf([each]);
    const [low, high] = side === 'above' ? [Math.max(from, threshold), to] : [from, Math.min(to, threshold)];
    if (!(high > low)) continue;
    const step = (high - low) / POINTS;
    for (let i = 0; i < POINTS; i++) {
      const t = low + (i + 0.5) * step;
      sum += (probabilityAt(each, cdf, t) - Number(each.observed <= t)) ** 2 * step;
    }
  }
  return sum / cases.length;
}

/** CRPS = reliability − resolution + uncertainty. */
export interface Decomposition {
  /** From probabilities that differ from observed frequencies; 0 is best. */
  reliability: number;
  /** Gain from distinguishing between cases. */
  resolution: number;
  /** The distribution of all observations as the forecast in every case. */
  uncertainty: number;
}

/**
 * The Brier score at each temperature, recalibrated by isotonic regression (pool adjacent violators), which needs no
 * bins. T. Dimitriadis, T. Gneiting, A. I. Jordan, PNAS 118 (2021); over thresholds: S. Arnold, E.-M. Walz, J. Ziegel,
 * T. Gneiting, Electron. J. Stat. 18 (2024).
 * @param crps the mean CRPS, which the parts add up to
 */
export function decompose(cases: readonly Case[], cdf: Cdf, crps: number): Decomposition {
  const { from, to } = rangeOf(cases);
  const step = (to - from) / POINTS;
  const n = cases.length;
  let [calibrated, uncertainty] = [0, 0];
  for (let i = 0; i < POINTS; i++) {
    const t = from + (i + 0.5) * step;
    const chances = Float64Array.from(cases, (each) => probabilityAt(each, cdf, t));
    const order = Uint32Array.from(chances.keys()).sort((a, b) => chances[a]! - chances[b]!);
    const base = cases.reduce((sum, { observed }) => sum + Number(observed <= t), 0) / n;
    uncertainty += base * (1 - base) * step;
    calibrated += isotonicScore(order, chances, (row) => Number(cases[row]!.observed <= t)) * step;
  }
  return { reliability: crps - calibrated, resolution: uncertainty - calibrated, uncertainty };
}

/** Mean of p (1 − p) over blocks: the Brier score of the recalibrated probabilities. */
function isotonicScore(
  order: Uint32Array,
  chances: Float64Array,
  outcomeOf: (row: number) => number,
): number {
  const blocks: { sum: number; count: number }[] = [];
  for (let i = 0; i < order.length;) {
    const block = { sum: 0, count: 0 };
    // Equal forecasts form one block, whatever their outcomes.
    for (const first = chances[order[i]!]!; i < order.length && chances[order[i]!] === first; i++) {
      block.sum += outcomeOf(order[i]!);
      block.count++;
    }
    for (
      let last = blocks.at(-1);
      last && last.sum * block.count >= block.sum * last.count;
      last = blocks.at(-1)
    ) {
      block.sum += last.sum;
      block.count += last.count;
      blocks.pop();
    }
    blocks.push(block);
  }
  return blocks.reduce((total, { sum, count }) => total + (sum * (count - sum)) / count, 0) / order.length;
}
