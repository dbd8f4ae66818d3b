import { probabilityWithin, type TemperatureDistribution } from '../market/distribution.js';

/** The probability of at most this temperature, °F, as it is reported. */
export type AtMost = (degrees: number) => number;

/** Below it what a degree adds to the score cannot be seen any more. */
const NEGLIGIBLE = 1e-8;
/** °F. No forecast reaches further; a distribution that never ends must not either. */
const FURTHEST = 500;
/** °F. Hundredths would be ten times the work for the same score. */
const WIDTH_OF_HUNDREDTHS = 0.1;

/**
 * The continuous ranked probability score in °F, ∫ (F(x) − 1{outcome ≤ x})² dx: of whole degrees Σ over all of them, of
 * hundredths a sum over tenths, at their middles. Smaller is better, and one sure temperature scores its distance from the
 * outcome. J. E. Matheson & R. L. Winkler, Scoring Rules for Continuous Probability Distributions, Management Science 22
 * (1976); T. Gneiting & A. E. Raftery, JASA 102 (2007).
 */
export function degreeCrps(atMost: AtMost, outcome: number, step: 1 | 0.01 = 1): number {
  const width = step === 1 ? 1 : WIDTH_OF_HUNDREDTHS;
  // F is constant from each reported temperature to the next: the middle one of those in a part stands for it.
  const middle = (width - step) / 2;
  let sum = 0;
  for (let i = 1; i * width < FURTHEST; i++) {
    const below = atMost(outcome - i * width + middle);
    if (below < NEGLIGIBLE) break;
    sum += below ** 2;
  }
  for (let i = 0; i * width < FURTHEST; i++) {
    const above = 1 - atMost(outcome + i * width + middle);
    if (above < NEGLIGIBLE) break;
    sum += above ** 2;
  }
  return sum * width;
}

/** Of a normal distribution that is rounded, and cut off where the day has got already. */
export const atMostOf =
  (distribution: TemperatureDistribution, step: 1 | 0.01 = 1): AtMost =>
  (degrees) =>
    probabilityWithin(distribution, { lowest: null, highest: degrees, step });

/** Of an ensemble as it is: each member, rounded, has an equal share. What was observed is not taken into account. */
export function atMostOfMembers(membersF: readonly number[], step: 1 | 0.01 = 1): AtMost {
  const rounded = step === 1 ? membersF.map(Math.round) : membersF;
  return (degrees) => rounded.filter((member) => member <= degrees).length / rounded.length;
}
