/** Mean and sample variance of the members; the variance of a single one is 0. */
export function momentsOf(membersF: readonly number[]): { mean: number; variance: number } {
  const mean = membersF.reduce((sum, x) => sum + x, 0) / membersF.length;
  const squares = membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, variance: membersF.length > 1 ? squares / (membersF.length - 1) : 0 };
}

/** What the air has never been. An ensemble with such a member is broken. */
const POSSIBLE_F = { lowest: -100, highest: 150 };

export const isPossible = (temperatureF: number): boolean =>
  temperatureF >= POSSIBLE_F.lowest && temperatureF <= POSSIBLE_F.highest;
