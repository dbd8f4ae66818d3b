import { bracketRange, type Bracket } from './brackets.js';
import { LOGISTIC_DEVIATION, softplus, survivalAbove } from '../../core/statistics/logistic.js';
import { millsRatio, normalCdf, normalQuantile } from '../../core/statistics/normal.js';

/** Of a temperature before it is rounded. A logistic one has heavier tails. */
export type DistributionShape = 'normal' | 'logistic';

/**
 * A temperature as it will be reported: rounded to the step of the markets' brackets, and a maximum not below, a minimum not above
 * what has been reached already.
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
  /**
   * The probability that it stays at the bound, which is all of what may still come and would be no more. Null or left out: what is
   * ruled out is cut off, and the rest made to sum to one.
   */
  stays?: number | null;
  /** Of what may still come where `stays` is given; left out: normal. All else is normal. */
  shape?: DistributionShape;
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
  const { mean, deviation, atMost = null, stays = null } = distribution;
  if (stays !== null)
    return atMost === null
      ? probabilityFromBound(distribution, { lowest, highest, step })
      : probabilityFromBound(mirrored(distribution), {
          lowest: highest === null ? null : -highest,
          highest: lowest === null ? null : -lowest,
          step,
        });
  const from = lowest === null ? -Infinity : (lowest - step / 2 - mean) / deviation;
  const to = highest === null ? Infinity : (highest + step / 2 - mean) / deviation;
  return atMost === null
    ? probabilityBetween(from, to, floorOf(distribution))
    : probabilityBetween(-to, -from, floorOf(mirrored(distribution)));
}

/** Of a maximum that stays with some probability. */
function probabilityFromBound(
  distribution: TemperatureDistribution,
  { lowest, highest, step }: { lowest: number | null; highest: number | null; step: number },
): number {
  const { mean, deviation, atLeast, stays } = distribution;
  const bound = (atLeast! + step / 2 - mean) / deviation;
  /** The probability of more than a reported temperature. */
  const above = (temperature: number): number =>
    temperature < atLeast!
      ? 1
      : (1 - stays!) * tailOf(distribution, (temperature + step / 2 - mean) / deviation, bound);
  const from = lowest === null ? 1 : above(lowest - step);
  return Math.max(0, from - (highest === null ? 0 : above(highest)));
}

/** P(Z > z | Z > f) of what may still come, in deviations from the mean. */
const tailOf = ({ shape }: TemperatureDistribution, z: number, f: number): number =>
  shape === 'logistic' ? survivalAbove(z * LOGISTIC_DEVIATION, f * LOGISTIC_DEVIATION) : survival(z, f);

/** Of the temperature with its sign changed: a bound from above is one from below then. */
const mirrored = ({ atMost = null, ...rest }: TemperatureDistribution): TemperatureDistribution => ({
  ...rest,
  mean: -rest.mean,
  atLeast: atMost === null ? null : -atMost,
});

/**
 * The temperature in °F, before it is rounded, that the report stays below with this probability.
 * @param probability above 0 and below 1
 */
export function quantileOf(distribution: TemperatureDistribution, probability: number): number {
  const { mean, deviation, atLeast, atMost = null, stays = null, ...rest } = distribution;
  if (deviation === 0) return mean;
  if (atMost !== null) return -quantileOf(mirrored(distribution), 1 - probability);
  if (stays !== null) {
    if (probability <= stays) return atLeast!;
    // Above half a degree more than the bound nothing else has been ruled out.
    const more = { ...rest, mean, deviation, atLeast: atLeast! + 1 };
    return quantileOf(more, (probability - stays) / (1 - stays));
  }
  const floor = floorOf(distribution);
  if (rest.shape === 'logistic') {
    const least = softplus(floor * LOGISTIC_DEVIATION) - Math.log(1 - probability);
    return mean + (deviation * (least + Math.log(-Math.expm1(-least)))) / LOGISTIC_DEVIATION;
  }
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
