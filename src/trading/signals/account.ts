import type { MarketData } from '../market/source.js';
import type { Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import { markPosition } from '../portfolio/valuation.js';
import { paidFor } from '../sizing/fund.js';
import { feeRuleOf } from '../market/fee-rules.js';

/** Whom signals are sized for: what can be spent, and what is held already. */
export interface SignalAccount {
  cash: Micros;
  /** By ticker. */
  holdings: ReadonlyMap<string, Holding>;
}

/**
 * What the holdings in some markets are worth: sold into the present bids after fees, or what the venue has said that they
 * pay. What nobody bids for is worth nothing.
 */
export function worthOf(
  holdings: SignalAccount['holdings'],
  markets: MarketData['markets'],
  data: Pick<MarketData, 'books' | 'feeRules'>,
): Micros {
  let worth = 0n;
  for (const market of markets) {
    const held = holdings.get(market.ticker);
    if (!held || held.contracts === 0) continue;
    const [book, feeRule] = [data.books.get(market.ticker), feeRuleOf(data, market)];
    worth += markPosition(held, { market, book, feeRule, knownValue: null }).value ?? 0n;
  }
  return worth;
}

/** What was paid for the holdings in some markets, with fees: what of a cap is used up. */
export const paidOf = (
  holdings: SignalAccount['holdings'],
  markets: MarketData['markets'],
  data: Pick<MarketData, 'feeRules'>,
): Micros =>
  markets.reduce((sum, market) => sum + paidFor(holdings.get(market.ticker), feeRuleOf(data, market)), 0n);
