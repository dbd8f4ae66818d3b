import { bracketRange, type Bracket } from './brackets.js';
import { millsRatio, normalCdf, normalQuantile } from '../../core/statistics/normal.js';

/**
 * A temperature as it will be reported: normally distributed, rounded to the step of the markets' brackets, and a maximum not below,
 * a minimum not above what has been reached already (what is ruled out is cut off, the rest made to sum to one).
 */
export interface TemperatureDistribution {
  /** °F, before anything is cut off. */
  mean: number;
  /** °F. 0: the temperature is known, and `mean` is what is reported. */
  deviation: number;
  /** A day's maximum cannot be below this whole degree any more; null where nothing is known of the day. */
  atLeast: number | null;
  /** A day's minimum cannot be above this one any more. At most one of the two bounds is there. */
  atMost?: number | null;
}

/**
 * The whole degree that a maximum's report is sure to reach once `extremeF` has been measured. Exactly between two degrees it
 * is the lower one: a bound must hold.
 */
export const sureDegree = (extremeF: number): number => Math.ceil(extremeF - 0.5);

/** The same of a minimum: the degree that the report cannot be above. */
export const sureMinimum = (extremeF: number): number => Math.floor(extremeF + 0.5);

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

/** The probability that a bracket's YES pays. Over a whole ladder they sum to one; of thresholds each lies within the one below. */
export function probabilityOf(distribution: TemperatureDistribution, bracket: Bracket): number {
  const { lowest, highest } = bracketRange(bracket);
  return probabilityWithin(distribution, { lowest, highest, step: bracket.step ?? 1 });
}

/** The probability of a range of reported temperatures, both ends included; null where it has none. */
export function probabilityWithin(
  distribution: TemperatureDistribution,
  { lowest, highest, step }: { lowest: number | null; highest: number | null; step: number },
): number {
  const { mean, deviation, atMost = null } = distribution;
  const from = lowest === null ? -Infinity : (lowest - step / 2 - mean) / deviation;
  const to = highest === null ? Infinity : (highest + step / 2 - mean) / deviation;
  return atMost === null
    ? probabilityBetween(from, to, floorOf(distribution))
    : probabilityBetween(-to, -from, floorOf(mirrored(distribution)));
}

/** Of the temperature with its sign changed: a bound from above is one from below then. */
const mirrored = ({ mean, deviation, atMost = null }: TemperatureDistribution): TemperatureDistribution => ({
  mean: -mean,
  deviation,
  atLeast: atMost === null ? null : -atMost,
});

/**
 * The temperature in °F, before it is rounded, that the report stays below with this probability.
 * @param probability above 0 and below 1
 */
export function quantileOf(distribution: TemperatureDistribution, probability: number): number {
  const { mean, deviation, atMost = null } = distribution;
  if (deviation === 0) return mean;
  if (atMost !== null) return -quantileOf(mirrored(distribution), 1 - probability);
  const floor = floorOf(distribution);
  if (floor < 5) return mean - deviation * normalQuantile((1 - probability) * normalCdf(-floor));
  // Far out the tail falls almost exponentially: two steps of Newton's method on its logarithm are enough.
  const target = Math.log(1 - probability);
  let z = Math.sqrt(floor * floor - 2 * target);
  for (let i = 0; i < 3; i++) z += (Math.log(survival(z, floor)) - target) * millsRatio(z);
  return mean + deviation * Math.max(floor, z);
}

/** In deviations from the mean: what lies below has been ruled out. */
const floorOf = ({ mean, deviation, atLeast }: TemperatureDistribution): number =>
  atLeast === null ? -Infinity : (atLeast - 0.5 - mean) / deviation;
