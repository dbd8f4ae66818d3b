import { bracketRange, type Bracket, type DegreeRange } from './brackets.js';
import {
  LOGISTIC_DEVIATION,
  sigmoid,
  softplus,
  survivalAbove,
  millsRatio,
  normalCdf,
  normalQuantile,
} from '../../core/statistics/distributions.js';

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
  /** Left out: normal. */
  shape?: DistributionShape;
}

/**
 * The whole degree that a maximum's report is sure to reach once `extremeF` has been measured. Exactly between two degrees it
 * is the lower one: a bound must hold.
 */
export const sureDegree = (extremeF: number): number => Math.ceil(extremeF - 0.5);

/** The same of a minimum: the degree that the report cannot be above. */
export const sureMinimum = (extremeF: number): number => Math.floor(extremeF + 0.5);

/** A standard distribution, symmetric about 0 and with a deviation of 1: normal, or logistic. */
interface Family {
  /** P(Z < z) */
  cdf: (z: number) => number;
  /** P(Z ≥ z | Z ≥ f), for z ≥ f. */
  survival: (z: number, f: number) => number;
  /** The z with this survival, of 1 down to 0. */
  quantile: (survival: number, f: number) => number;
}

const normal: Family = {
  cdf: normalCdf,
  survival(z, f) {
    if (z === Infinity) return 0;
    if (z === f) return 1;
    if (f < 5) return normalCdf(-z) / normalCdf(-f);
    return (Math.exp(-0.5 * (z - f) * (z + f)) * millsRatio(z)) / millsRatio(f);
  },
  quantile(survival, f) {
    if (f < 5) return -normalQuantile(survival * normalCdf(-f));
    // Far out the tail falls almost exponentially: two steps of Newton's method on its logarithm are enough.
    const target = Math.log(survival);
    let z = Math.sqrt(f * f - 2 * target);
    for (let i = 0; i < 3; i++) z += (Math.log(normal.survival(z, f)) - target) * millsRatio(z);
    return Math.max(f, z);
  },
};

const logistic: Family = {
  cdf: (z) => sigmoid(z * LOGISTIC_DEVIATION),
  survival: (z, f) => (z === Infinity ? 0 : survivalAbove(z * LOGISTIC_DEVIATION, f * LOGISTIC_DEVIATION)),
  quantile(survival, f) {
    const least = softplus(f * LOGISTIC_DEVIATION) - Math.log(survival);
    return (least + Math.log(-Math.expm1(-least))) / LOGISTIC_DEVIATION;
  },
};

const familyOf = ({ shape = 'normal' }: Pick<TemperatureDistribution, 'shape'>): Family =>
  shape === 'normal' ? normal : logistic;

/**
 * P(a ≤ Z < b) for a Z that is known to be f or more. Differences are taken on the side where the values are small, and far out as
 * ratios of tails, so that nothing is lost there.
 */
function probabilityBetween({ cdf, survival }: Family, a: number, b: number, f: number): number {
  const from = Math.max(a, f);
  if (!(b > from)) return 0;
  if (b <= 0) return (cdf(b) - cdf(from)) / cdf(-f);
  return Math.min(1, Math.max(0, survival(from, f) - survival(b, f)));
}

/** The probability that a bracket's YES pays. Over a whole ladder they sum to one; of thresholds each lies within the one below. */
export function probabilityOf(distribution: TemperatureDistribution, bracket: Bracket): number {
  return probabilityWithin(distribution, { ...bracketRange(bracket), step: bracket.step ?? 1 });
}

/** The probability of a range of reported temperatures, both ends included; null where it has none. */
export function probabilityWithin(
  distribution: TemperatureDistribution,
  { lowest, highest, step }: DegreeRange & { step: number },
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
  const family = familyOf(distribution);
  return atMost === null
    ? probabilityBetween(family, from, to, floorOf(distribution))
    : probabilityBetween(family, -to, -from, floorOf(mirrored(distribution)));
}

/** Of a maximum that stays with some probability. */
function probabilityFromBound(
  distribution: TemperatureDistribution,
  { lowest, highest, step }: DegreeRange & { step: number },
): number {
  const { mean, deviation, atLeast, stays } = distribution;
  const bound = (atLeast! + step / 2 - mean) / deviation;
  const { survival } = familyOf(distribution);
  /** The probability of more than a reported temperature. */
  const above = (temperature: number): number =>
    temperature < atLeast! ? 1 : (1 - stays!) * survival((temperature + step / 2 - mean) / deviation, bound);
  const from = lowest === null ? 1 : above(lowest - step);
  return Math.max(0, from - (highest === null ? 0 : above(highest)));
}

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
  return mean + deviation * familyOf(distribution).quantile(1 - probability, floorOf(distribution));
}

/** In deviations from the mean: what lies below has been ruled out. */
const floorOf = ({ mean, deviation, atLeast }: TemperatureDistribution): number =>
  atLeast === null ? -Infinity : (atLeast - 0.5 - mean) / deviation;
