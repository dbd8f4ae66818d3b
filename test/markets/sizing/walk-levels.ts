import type { Level } from '../../../src/markets/market/book.js';
import { allInCost, tradeFee, type FeeRule } from '../../../src/markets/market/fees.js';
import { shareOf, type Micros } from '../../../src/markets/market/money.js';

/**
 * Growth-optimal share of a bankroll for a contract that costs `cost` dollars and pays one dollar with this
 * probability, otherwise nothing. 0 if the contract is not worth its cost. J. L. Kelly, A New Interpretation of
 * Information Rate, Bell System Technical Journal 35 (1956).
 */
export function kellyFraction(probability: number, cost: number): number {
  if (!(probability > cost) || !(cost < 1)) return 0;
  return (Math.min(1, probability) - cost) / (1 - cost);
}

interface StakeRule {
  bankroll: Micros;
  kellyShare: number;
  maxStake: Micros;
}

interface Walked {
  contracts: number;
  /** Price of the most expensive contract. */
  limitPrice: Micros;
  /** Budget for all contracts at the limit price. */
  budget: Micros;
}

/**
 * Buys level by level from the cheapest. At each price, it buys only as many contracts as keep the total stake within
 * the configured fraction of the Kelly stake at that price, so even the last contract is worth its cost. Ignores the
 * rounding of the order's fee; the caller checks the exact cost against the budget.
 */
export function walkLevels(
  asks: readonly Level[],
  probability: number,
  feeRule: FeeRule,
  { bankroll, kellyShare, maxStake }: StakeRule,
): Walked | undefined {
  let contracts = 0;
  let spent = 0n;
  let last: Pick<Walked, 'limitPrice' | 'budget'> | undefined;
  for (const { price, contracts: depth } of asks) {
    const wanted = shareOf(bankroll, kellyShare * kellyFraction(probability, allInCost(feeRule, price)));
    const budget = wanted < maxStake ? wanted : maxStake;
    const unit = price + tradeFee(feeRule, { price, contracts: 1 });
    const affordable = budget <= spent ? 0 : Number((budget - spent) / unit);
    const taken = Math.min(Math.floor(depth), affordable);
    if (taken === 0) break;
    contracts += taken;
    spent += unit * BigInt(taken);
    last = { limitPrice: price, budget };
    if (taken < depth) break;
  }
  return last && { contracts, ...last };
}
