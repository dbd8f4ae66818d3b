import { DOLLAR, type Micros } from '../market/money.js';
import { quoteOrder } from '../market/quote.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { HeldPosition, RiskFacts } from './facts.js';
import { valueOf } from '../market/contracts.js';
import { feeRuleOf } from '../market/fee-rules.js';

type MarketView = Pick<Snapshot, 'markets' | 'data'>;

/** The lowest price there is: whatever is bid is taken. */
const ANY_PRICE: Micros = 1n;

/**
 * What a position is worth at this moment: what it could be sold for to those who bid, after fees; nothing for the
 * contracts that nobody bids for, and nothing for a market that the venue no longer shows. A market that is closed for
 * trading is worth what it will pay. Until that is known, nobody bids, which is no loss yet: the lesser of its cost and its last
 * price counts, so that neither the close of a winner looks like a loss nor that of a loser makes one be forgotten.
 * @throws if the book or the fee of an open market is not known
 */
export function markOf(
  { ticker, side, contracts, cost }: HeldPosition,
  { markets, data }: MarketView,
): Micros {
  const market = markets.get(ticker);
  if (!market) return 0n;
  if (market.status !== 'active') {
    const valueOfYes = market.settlementValue ?? market.lastPrice;
    if (valueOfYes === null) return 0n;
    const value = valueOf(side === 'yes' ? valueOfYes : DOLLAR - valueOfYes, contracts);
    return market.settlementValue !== null || value < cost ? value : cost;
  }
  const [book, feeRule] = [data.books.get(ticker), feeRuleOf(data, market)];
  if (!book || !feeRule) throw new RangeError(`${ticker} has no book or no fee, so it cannot be valued`);
  const sale = {
    side,
    action: 'sell',
    contracts,
    limitPrice: ANY_PRICE,
    timeInForce: 'immediate_or_cancel',
  } as const;
  const { balanceChange } = quoteOrder(book, feeRule, sale);
  return balanceChange > 0n ? balanceChange : 0n;
}

/** What was lost since midnight UTC: realised, in fees and by the change of the mark. Negative for a profit. */
export function dayLossOf(
  { cash, positions, dayStart }: Pick<RiskFacts, 'cash' | 'positions' | 'dayStart'>,
  view: MarketView,
): Micros {
  const marked = positions.reduce((sum, position) => sum + markOf(position, view), 0n);
  if (dayStart.kind === 'equity') return dayStart.equity + dayStart.deposits - (cash + marked);
  const cost = positions.reduce((sum, position) => sum + position.cost, 0n);
  return dayStart.spent + (cost - marked);
}
