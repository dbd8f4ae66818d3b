import { bracketRange, type Bracket } from '../settlement/brackets.js';
import { millsRatio, normalCdf, normalQuantile } from './normal.js';

/**
 * A day's maximum as the report will have it, in whole °F: normally distributed, rounded, and not below what has been
 * reached already (the part below is cut off, the rest made to sum to one).
 */
export interface MaximumDistribution {
  /** °F, before anything is cut off. */
  mean: number;
  /** °F. 0: the maximum is known, and `mean` is a whole degree. */
  deviation: number;
  /** The report cannot be below this whole degree any more; null where nothing is known of the day. */
  atLeast: number | null;
}

/**
 * The whole degree that a report is sure to reach once `extremeF` has been measured. Exactly between two degrees it is
 * the lower one: a bound must hold.
 */
export const sureDegree = (extremeF: number): number => Math.ceil(extremeF - 0.5);

/**
 * P(a ≤ Z < b) for a standard normal Z that is known to be f or more. Differences are taken on the side where the
 * values are small, and beyond 5 deviations as ratios of tails, so that nothing is lost there.
 */
function probabilityBetween(a: number, b: number, f: number): number {
  const from = Math.max(a, f);
  if (!(b > from)) return 0;
  if (b <= 0) return (normalCdf(b) - normalCdf(from)) / normalCdf(-f);
  return Math.min(1, Math.max(0, survival(from, f) - survival(b, f)));
}

/** P(Z ≥ z | Z ≥ f), for z ≥ f. */
function survival(z: number, f: number): number {
  if (z === Infinity) return 0;
  if (z === f) return 1;
  if (f < 5) return normalCdf(-z) / normalCdf(-f);
  return (Math.exp(-0.5 * (z - f) * (z + f)) * millsRatio(z)) / millsRatio(f);
}

/** The probability that a bracket's YES pays. Over a whole ladder they sum to one. */
export function probabilityOf(distribution: MaximumDistribution, bracket: Bracket): number {
  const { mean, deviation } = distribution;
  const { lowest, highest } = bracketRange(bracket);
  return probabilityBetween(
    lowest === null ? -Infinity : (lowest - 0.5 - mean) / deviation,
    highest === null ? Infinity : (highest + 0.5 - mean) / deviation,
    floorOf(distribution),
  );
}

/**
 * The temperature in °F, before it is rounded, that the maximum stays below with this probability.
 * @param probability above 0 and below 1
 */
export function quantileOf(distribution: MaximumDistribution, probability: number): number {
  const { mean, deviation } = distribution;
  if (deviation === 0) return mean;
  const floor = floorOf(distribution);
  if (floor < 5) return mean - deviation * normalQuantile((1 - probability) * normalCdf(-floor));
  // Far out the tail falls almost exponentially: two steps of Newton's method on its logarithm are enough.
  const target = Math.log(1 - probability);
  let z = Math.sqrt(floor * floor - 2 * target);
  for (let i = 0; i < 3; i++) z += (Math.log(survival(z, floor)) - target) * millsRatio(z);
  return mean + deviation * Math.max(floor, z);
}

/** In deviations from the mean: what lies below has been ruled out. */
const floorOf = ({ mean, deviation, atLeast }: MaximumDistribution): number =>
  atLeast === null ? -Infinity : (atLeast - 0.5 - mean) / deviation;
