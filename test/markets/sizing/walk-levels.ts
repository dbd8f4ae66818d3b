import type { Level } from '../../../src/markets/market/book.js';
import { allInCost, tradeFee, type FeeRule } from '../../../src/markets/market/fees.js';
import { shareOf, type Micros } from '../../../src/markets/market/money.js';

/**
 * The share of a bankroll that makes it grow fastest, for a contract that costs `cost` dollars, pays one with this
 * probability and is worth nothing otherwise. 0 where it is not worth its cost.
 * J. L. Kelly, A New Interpretation of Information Rate, Bell System Technical Journal 35 (1956).
 */
export function kellyFraction(probability: number, cost: number): number {
  if (!(probability > cost) || !(cost < 1)) return 0;
  return (Math.min(1, probability) - cost) / (1 - cost);
}

interface StakeRule {
  bankroll: Micros;
  /** Of the Kelly fraction. */
  kellyShare: number;
  /** The most that may be spent. */
  maxStake: Micros;
}

interface Walked {
  contracts: number;
  /** Of the dearest contract. */
  limitPrice: Micros;
  /** What all of them may cost, at that price. */
  budget: Micros;
}

/**
 * How many contracts to buy, level by level from the cheapest: at each price as many as keep the whole stake within the
 * used share of what Kelly gives for that price. So the last contract, too, is worth what it costs. What the order's
 * fee is rounded by is not in it: the caller quotes the exact cost and holds it against the budget.
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
