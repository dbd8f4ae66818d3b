import { normalQuantile } from '../../core/statistics/normal.js';

const MEMBERS = 31;

/** Quantiles at the middles of 31 equal parts, which have a mean of nothing, made to have a sample deviation of one. */
function standardMembers(): number[] {
  const half = Array.from({ length: (MEMBERS - 1) / 2 }, (_, i) => normalQuantile((i + 0.5) / MEMBERS));
  // Mirrored, so that the mean is exact.
  const members = [...half, 0, ...half.toReversed().map((z) => -z)];
  const deviation = Math.sqrt(members.reduce((sum, z) => sum + z * z, 0) / (MEMBERS - 1));
  return members.map((z) => z / deviation);
}

/** An ensemble that says as much as a mean and a deviation: always the same one, with just these as its own. */
export const normalMembers = (meanF: number, standardDeviationF: number): number[] =>
  standardMembers().map((z) => meanF + standardDeviationF * z);
