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

/** Before rounding; `logistic` has heavier tails. */
export type DistributionShape = 'normal' | 'logistic';

/** Rounded to the brackets' step and bounded by the extreme so far: a maximum from below, a minimum from above. */
export interface TemperatureDistribution {
  /** °F, before truncation. */
  mean: number;
  /** °F; 0 means that `mean` is the reported value. */
  deviation: number;
  /** For a maximum, in whole degrees; null before any measurement. */
  atLeast: number | null;
  /** For a minimum. At most one of the two bounds is set. */
  atMost?: number | null;
  /** That the extreme stays at the bound. Without it, the distribution is truncated there and renormalized. */
  stays?: number | null;
  /** Default: normal. */
  shape?: DistributionShape;
}

/** A half rounds down, so the bound holds whichever way the report rounds halves. */
export const sureDegree = (extremeF: number): number => Math.ceil(extremeF - 0.5);

/** Does for a minimum what `sureDegree` does for a maximum. */
export const sureMinimum = (extremeF: number): number => Math.floor(extremeF + 0.5);

/** Symmetric about 0, with standard deviation 1. */
interface Family {
  cdf: (z: number) => number;
  /** P(Z ≥ z | Z ≥ f), for z ≥ f. */
  survival: (z: number, f: number) => number;
  /** From 1 down to 0. */
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
    // The tail decays almost exponentially, so a few Newton steps on its logarithm suffice.
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

/** P(a ≤ Z < b | Z ≥ f). Survival probabilities above 0 avoid cancellation. */
function probabilityBetween({ cdf, survival }: Family, a: number, b: number, f: number): number {
  const from = Math.max(a, f);
  if (!(b > from)) return 0;
  if (b <= 0) return (cdf(b) - cdf(from)) / cdf(-f);
  return Math.min(1, Math.max(0, survival(from, f) - survival(b, f)));
}

/** A complete ladder sums to one; thresholds are nested. */
export function probabilityOf(distribution: TemperatureDistribution, bracket: Bracket): number {
  return probabilityWithin(distribution, { ...bracketRange(bracket), step: bracket.step ?? 1 });
}

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

function probabilityFromBound(
  distribution: TemperatureDistribution,
  { lowest, highest, step }: DegreeRange & { step: number },
): number {
  const { mean, deviation, atLeast, stays } = distribution;
  const bound = (atLeast! + step / 2 - mean) / deviation;
  const { survival } = familyOf(distribution);
  const above = (temperature: number): number =>
    temperature < atLeast! ? 1 : (1 - stays!) * survival((temperature + step / 2 - mean) / deviation, bound);
  const from = lowest === null ? 1 : above(lowest - step);
  return Math.max(0, from - (highest === null ? 0 : above(highest)));
}

/** Turns an upper bound into a lower one. */
const mirrored = ({ atMost = null, ...rest }: TemperatureDistribution): TemperatureDistribution => ({
  ...rest,
  mean: -rest.mean,
  atLeast: atMost === null ? null : -atMost,
});

/**
 * °F, before rounding.
 * @param probability above 0 and below 1
 */
export function quantileOf(distribution: TemperatureDistribution, probability: number): number {
  const { mean, deviation, atLeast, atMost = null, stays = null, ...rest } = distribution;
  if (deviation === 0) return mean;
  if (atMost !== null) return -quantileOf(mirrored(distribution), 1 - probability);
  if (stays !== null) {
    if (probability <= stays) return atLeast!;
    // A reported value above the bound is at least half a degree higher before rounding.
    const more = { ...rest, mean, deviation, atLeast: atLeast! + 1 };
    return quantileOf(more, (probability - stays) / (1 - stays));
  }
  return mean + deviation * familyOf(distribution).quantile(1 - probability, floorOf(distribution));
}

/** In standard deviations from the mean. */
const floorOf = ({ mean, deviation, atLeast }: TemperatureDistribution): number =>
  atLeast === null ? -Infinity : (atLeast - 0.5 - mean) / deviation;
