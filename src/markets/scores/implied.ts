import { probabilityWithin, type TemperatureDistribution } from '../market/distribution.js';
import { normalCdf, normalDensity } from '../../core/statistics/distributions.js';
import type { DegreeRange } from '../market/brackets.js';

/** °F. */
export type AtMost = (degrees: number) => number;

export interface Share extends DegreeRange {
  probability: number;
}

/** Without the error of whole-cent prices, one-cent minimum bids would be mistaken for a long tail. */
const PRICE_ERROR = 0.015;
/** °F, within a factor of e^SPREAD. Matters only where prices carry little information. */
const USUAL_DEVIATION = 2;
const SPREAD = 0.5;
const MIN_DEVIATION = 0.4;

interface Possible {
  /** For a maximum; `atMost` is for a minimum. */
  atLeast: number | null;
  atMost?: number | null;
  /** °F. Default: 1. */
  step?: number;
}

/**
 * Each outcome keeps its exact probability, distributed like the normal distribution closest to the market's cumulative
 * probabilities. Impossible degrees get none, unless the market still pays for an outcome of only such degrees.
 * @param shares from cold to warm; they sum to one
 */
export function atMostOfMarket(
  shares: readonly Share[],
  { atLeast, atMost = null, step = 1 }: Possible,
): AtMost {
  const shape = fitNormal(shares, step);
  const parts = shares.map((share) => ({
    ...possible(share, atLeast, atMost),
    probability: share.probability,
  }));
  return (degrees) =>
    Math.min(
      1,
      parts.reduce((sum, part) => sum + part.probability * shareUpTo(shape, part, degrees, step), 0),
    );
}

function possible(
  { lowest, highest }: DegreeRange,
  atLeast: number | null,
  atMost: number | null,
): DegreeRange {
  const isCut = atLeast !== null && (highest === null || highest >= atLeast);
  const isCapped = atMost !== null && (lowest === null || lowest <= atMost);
  return {
    lowest: isCut ? Math.max(lowest ?? -Infinity, atLeast) : lowest,
    highest: isCapped ? Math.min(highest ?? Infinity, atMost) : highest,
  };
}

function shareUpTo(
  shape: TemperatureDistribution,
  { lowest, highest }: DegreeRange,
  degrees: number,
  step: number,
): number {
  if (highest !== null && degrees >= highest) return 1;
  if (lowest !== null && degrees < lowest) return 0;
  const whole = probabilityWithin(shape, { lowest, highest, step });
  if (whole > 0) return probabilityWithin(shape, { lowest, highest: degrees, step }) / whole;
  // Probabilities underflow this far out.
  if (lowest === null) return 0;
  return highest === null ? 1 : (degrees - lowest + step) / (highest - lowest + step);
}

/**
 * Minimises Σ ((Φ((edge − mean) / deviation) − cumulative) / PRICE_ERROR)² + (ln (deviation / USUAL_DEVIATION) /
 * SPREAD)² by Levenberg-Marquardt (D. W. Marquardt, J. SIAM 11, 1963).
 */
export function fitNormal(shares: readonly Share[], step = 1): TemperatureDistribution {
  const edges = cumulative(shares, step);
  let mean = shares.reduce((sum, share) => sum + share.probability * centreOf(share), 0);
  let log = Math.log(USUAL_DEVIATION);
  let { cost, gradient, curvature } = costAt(edges, mean, log);
  let damping = 1e-3;
  for (let step = 0; step < 60 && damping < 1e9; step++) {
    const [[a, b], [, d]] = curvature;
    const [p, q] = [a * (1 + damping), d * (1 + damping)];
    const determinant = p * q - b * b;
    const nextMean = mean - (q * gradient[0] - b * gradient[1]) / determinant;
    const nextLog = Math.max(
      Math.log(MIN_DEVIATION),
      log - (p * gradient[1] - b * gradient[0]) / determinant,
    );
    const next = costAt(edges, nextMean, nextLog);
    if (!(next.cost < cost)) {
      damping *= 10;
      continue;
    }
    const isDone = cost - next.cost < 1e-12 * cost;
    [mean, log, { cost, gradient, curvature }] = [nextMean, nextLog, next];
    if (isDone) break;
    damping /= 10;
  }
  return { mean, deviation: Math.exp(log), atLeast: null };
}

/** Half a step above the lower outcome, with the cumulative probability below. */
function cumulative(shares: readonly Share[], step: number): { edge: number; below: number }[] {
  let below = 0;
  return shares.slice(0, -1).map(({ highest, probability }) => {
    below += probability;
    return { edge: highest! + step / 2, below };
  });
}

const centreOf = ({ lowest, highest }: DegreeRange): number =>
  ((lowest ?? highest! - 2) + (highest ?? lowest! + 2)) / 2;

/** Half the gradient and half the Gauss-Newton curvature, without terms that vanish near the optimum. */
function costAt(edges: readonly { edge: number; below: number }[], mean: number, log: number) {
  const deviation = Math.exp(log);
  const usual = (log - Math.log(USUAL_DEVIATION)) / SPREAD;
  let cost = usual ** 2;
  const gradient: [number, number] = [0, usual / SPREAD];
  const curvature: [[number, number], [number, number]] = [
    [1e-9, 0],
    [0, 1 / SPREAD ** 2],
  ];
  for (const { edge, below } of edges) {
    const z = (edge - mean) / deviation;
    const miss = (normalCdf(z) - below) / PRICE_ERROR;
    const byMean = -normalDensity(z) / deviation / PRICE_ERROR;
    const byLog = (-normalDensity(z) * z) / PRICE_ERROR;
    cost += miss ** 2;
    gradient[0] += miss * byMean;
    gradient[1] += miss * byLog;
    curvature[0][0] += byMean ** 2;
    curvature[0][1] += byMean * byLog;
    curvature[1][1] += byLog ** 2;
  }
  return { cost, gradient, curvature };
}
