import { normalCdf } from '../../core/statistics/normal.js';

/**
 * The probability that a chi-square variable of whole degrees of freedom exceeds x.
 * M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), 26.4.4 and 26.4.5.
 */
export function chiSquareTail(x: number, degreesOfFreedom: number): number {
  if (x <= 0) return 1;
  const isOdd = degreesOfFreedom % 2 === 1;
  let tail = isOdd ? 2 * normalCdf(-Math.sqrt(x)) : Math.exp(-x / 2);
  let term = isOdd ? Math.sqrt((2 * x) / Math.PI) * Math.exp(-x / 2) : (x / 2) * Math.exp(-x / 2);
  for (let k = isOdd ? 3 : 4; k <= degreesOfFreedom; k += 2) {
    tail += term;
    term *= x / k;
  }
  return Math.min(1, tail);
}
