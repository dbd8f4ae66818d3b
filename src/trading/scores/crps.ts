import { probabilityOf, type MaximumDistribution } from '../forecast/distribution.js';

/** The probability of at most this whole degree, °F. */
export type AtMost = (degrees: number) => number;

/** Below it what a degree adds to the score cannot be seen any more. */
const NEGLIGIBLE = 1e-8;
/** No forecast reaches further; a distribution that never ends must not either. */
const FURTHEST = 500;

/**
 * The continuous ranked probability score of whole degrees, in °F: Σ (F(d) − 1{outcome ≤ d})² over all d. Smaller is
 * better, and one sure degree scores its distance from the outcome. J. E. Matheson & R. L. Winkler, Scoring Rules for
 * Continuous Probability Distributions, Management Science 22 (1976); T. Gneiting & A. E. Raftery, JASA 102 (2007).
 */
export function wholeDegreeCrps(atMost: AtMost, outcome: number): number {
  let sum = 0;
  for (let d = outcome - 1; d > outcome - FURTHEST; d--) {
    const below = atMost(d);
    if (below < NEGLIGIBLE) break;
    sum += below ** 2;
  }
  for (let d = outcome; d < outcome + FURTHEST; d++) {
    const above = 1 - atMost(d);
    if (above < NEGLIGIBLE) break;
    sum += above ** 2;
  }
  return sum;
}

/** Of a normal distribution that is rounded, and cut off where the day has got already. */
export const atMostOf =
  (distribution: MaximumDistribution): AtMost =>
  (degrees) =>
    probabilityOf(distribution, { kind: 'less', floor: null, cap: degrees + 1 });

/** Of an ensemble as it is: each member, rounded, has an equal share. What was observed is not taken into account. */
export function atMostOfMembers(membersF: readonly number[]): AtMost {
  const whole = membersF.map(Math.round);
  return (degrees) => whole.filter((member) => member <= degrees).length / whole.length;
}
