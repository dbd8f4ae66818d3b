import { BALANCE_STEP, ceilTo, DOLLAR, type Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import { isPaid, type Payout } from '../market/outcomes.js';
import type { EventToSize } from './event.js';
import { isSupported, type FeeRule } from '../market/fees.js';
import { allInCost, shareOf } from './kelly.js';
import { valueOf } from '../market/contracts.js';

/**
 * The part of the bankroll that is put at stake, as a purse of its own: the Kelly share of everything, and what is held of the
 * event was bought out of it. So what has been bought is not bought again: after a purchase the purse has its contracts instead
 * of its cash, and the same optimum.
 */
export interface Fund {
  /** What it was before anything was bought. */
  whole: Micros;
  /** What is left of it to spend. */
  cash: Micros;
  /** Of the outcomes: what is possible is not held for less likely than one in a million, so that no tail's last digits are bet on. */
  probabilities: number[];
  /** Dollars in each outcome if nothing more is bought. */
  wealth: number[];
  /** Cash that went into the event and has not come back, by market. */
  spent: Micros[];
  /** What was paid for what is held, by market and in all. */
  paid: Micros[];
  totalPaid: Micros;
}

/** Where a market's YES pays: see `MarketToSize`. */
export const payoutOf = (markets: EventToSize['markets'], index: number): Payout =>
  markets[index]!.pays ?? { from: index, to: index };

/** The probability of each outcome: see `EventToSize`. */
export const outcomesOf = ({
  markets,
  outcomes,
}: Pick<EventToSize, 'markets' | 'outcomes'>): readonly number[] =>
  outcomes ?? markets.map(({ probability }) => probability);

export function toFund(event: EventToSize): Fund {
  const { markets, bankroll, kellyShare } = event;
  const outcomes = outcomesOf(event);
  const paid = markets.map(({ held, feeRule }) => paidFor(held, feeRule));
  const totalPaid = paid.reduce((sum, micros) => sum + micros, 0n);
  // What has gone into the event and the bankroll are the same in sum before and after every trade.
  const spent = markets.map((market, i) => market.spent ?? paid[i]!);
  const totalSpent = spent.reduce((sum, micros) => sum + micros, 0n);
  const whole = shareOf(bankroll + totalSpent, kellyShare);
  const cash = whole - totalSpent;
  const wealth = outcomes.map((_, outcome) => {
    const pays = markets.reduce((sum, { held }, i) => {
      const isWon = held !== undefined && isPaid(payoutOf(markets, i), outcome) === (held.side === 'yes');
      return isWon ? sum + valueOf(DOLLAR, held.contracts) : sum;
    }, cash);
    return Number(pays) / Number(DOLLAR);
  });
  const probabilities = prudent(outcomes);
  return { whole, cash, probabilities, wealth, spent, paid, totalPaid };
}

const LEAST_PROBABILITY = 1e-6;

function prudent(probabilities: readonly number[]): number[] {
  const raised = probabilities.map((p) => (p > 0 ? Math.max(p, LEAST_PROBABILITY) : 0));
  const total = raised.reduce((sum, p) => sum + p, 0);
  return raised.map((p) => p / total);
}

/**
 * What is held is known at its price without the fee. That of the average price is taken, which is at least what was charged for
 * one order at several prices: the fee is concave in the price.
 */
export function paidFor(held: Holding | undefined, feeRule: FeeRule | undefined): Micros {
  if (held === undefined || held.contracts === 0) return 0n;
  if (!isSupported(feeRule)) return held.cost;
  const each = Number(held.cost) / held.contracts;
  const fee = (allInCost(feeRule, each) - each / Number(DOLLAR)) * held.contracts;
  return ceilTo(held.cost + BigInt(Math.ceil(fee * Number(DOLLAR))), BALANCE_STEP);
}
