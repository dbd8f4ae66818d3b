export interface ExclusiveStakes {
  /** Shares of the bankroll, in input order. */
  fractions: number[];
  reserve: number;
  /** Expected growth of log wealth. */
  growth: number;
  /** Indexes of the outcomes bought, highest probability per cost first. */
  order: number[];
}

/**
 * Exact growth-optimal shares of a bankroll for mutually exclusive outcomes, exactly one of which occurs. Each contract
 * pays one and has the same price at any size. Outcomes are added in descending order of probability per cost while
 * that ratio exceeds the reserve rate R = (1 − Σp) / (1 − Σk), summed over those already added; the shares are then f =
 * p − R·k. An outcome that would lose on its own can therefore be bought as a hedge. If all costs add up to less than
 * one, R is 0 and f = p: wealth grows whatever happens.
 *
 * P. Smoczynski and D. Tomkins, An explicit solution to the problem of optimizing the allocations of a bettor's wealth
 * when wagering on horse races, Mathematical Scientist 35 (2010).
 * @param probabilities sum to one
 * @param costs per contract that pays one, fee included; all above 0
 */
export function stakeOnExclusive(
  probabilities: readonly number[],
  costs: readonly number[],
): ExclusiveStakes {
  const ratio = (i: number) => probabilities[i]! / costs[i]!;
  const order: number[] = [];
  let [restOfChance, restOfCost, reserve] = [1, 1, 1];
  for (const i of probabilities.map((_, i) => i).toSorted((a, b) => ratio(b) - ratio(a) || a - b)) {
    if (!(ratio(i) > reserve)) break;
    order.push(i);
    restOfChance -= probabilities[i]!;
    restOfCost -= costs[i]!;
    // No reserve is needed once every outcome is bought or the rest cannot occur.
    reserve = restOfChance > 1e-12 && restOfCost > 0 ? restOfChance / restOfCost : 0;
  }
  const fractions = probabilities.map((p, i) => (order.includes(i) ? p - reserve * costs[i]! : 0));
  return { fractions, reserve, growth: growthOf(probabilities, costs, fractions), order };
}

function growthOf(probabilities: readonly number[], costs: readonly number[], fractions: readonly number[]) {
  const kept = 1 - fractions.reduce((sum, f) => sum + f, 0);
  return probabilities.reduce(
    (sum, p, i) => (p > 0 ? sum + p * Math.log(kept + fractions[i]! / costs[i]!) : sum),
    0,
  );
}
