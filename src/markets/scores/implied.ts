import { probabilityWithin, type TemperatureDistribution } from '../market/distribution.js';
import { minimize } from '../learning/minimize.js';
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
/** Slopes below this are far finer than the error of prices. */
const TOLERANCE = 1e-6;

/** `step` is in °F. Default: 1. */
type Possible = Pick<TemperatureDistribution, 'atLeast' | 'atMost'> & { step?: number };

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

function possible({ lowest, highest }: DegreeRange, atLeast: number | null, atMost: number | null) {
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
 * SPREAD)², over the mean and ln deviation.
 */
export function fitNormal(shares: readonly Share[], step = 1): TemperatureDistribution {
  const edges = cumulative(shares, step);
  const centre = shares.reduce((sum, share) => sum + share.probability * centreOf(share), 0);
  const deviationAt = (log: number) => Math.max(MIN_DEVIATION, USUAL_DEVIATION * Math.exp(log));
  const { point } = minimize(
    ([shift, log], slopes) => {
      const deviation = deviationAt(log!);
      let cost = (log! / SPREAD) ** 2;
      slopes.set([0, (2 * log!) / SPREAD ** 2]);
      for (const { edge, below } of edges) {
        const z = (edge - centre - shift!) / deviation;
        const miss = (normalCdf(z) - below) / PRICE_ERROR;
        const slope = (-2 * miss * normalDensity(z)) / PRICE_ERROR;
        cost += miss ** 2;
        slopes[0]! += slope / deviation;
        if (deviation > MIN_DEVIATION) slopes[1]! += slope * z;
      }
      return cost;
    },
    [0, 0],
    TOLERANCE,
  );
  return { mean: centre + point[0]!, deviation: deviationAt(point[1]!), atLeast: null };
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
