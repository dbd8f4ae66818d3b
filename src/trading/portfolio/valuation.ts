import type { OrderBook } from '../market/book.js';
import type { Market, MarketStatus } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { quoteOrder } from '../market/quote.js';
import { isSupported, type FeeRule } from '../market/fees.js';
import type { Holding } from '../ledger/positions.js';
import { subtractCounts, valueOf } from '../market/contracts.js';

/**
 * What a position's value rests on. `book`: sold into the present bids. `expected`: the venue has named a result that is not
 * final or not booked yet, and it stands. `closed`: the market takes no orders and has no result. `not_listed`: the venue
 * no longer shows the market, and nothing is known of its result. `unknown`: there are no market data at all.
 */
export type Valuation = 'book' | 'expected' | 'closed' | 'not_listed' | 'unknown';

/** What a position is worth at this moment. */
export interface Mark {
  valuation: Valuation;
  /** After fees. Null only for `unknown`: nothing is claimed about what cannot be seen. */
  value: Micros | null;
  /** What of the sale the venue would keep. 0 for what is not sold. */
  fees: Micros;
  /** Contracts that nobody bids for now; they count as worth nothing. */
  unsellableContracts: number;
  status: MarketStatus | null;
}

/** What is known about a market at the moment of valuation. */
export interface Quotes {
  /** Undefined: the venue does not show the market. */
  market: Pick<Market, 'status' | 'settlementValue'> | undefined;
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  /** What YES pays by the venue's last word that is on record; null if there is none. */
  knownValue: Micros | null;
}

/** Lower than any price: whoever sells everything at once takes every bid there is. */
const ANY_PRICE: Micros = 1n;

/**
 * A position at what it could be turned into now: sold into the whole depth of the bids of its side, after the taker's
 * fee with its roundings. What finds no bid is worth nothing.
 *
 * It is the venue's book as it stands. What the Organization's own paper orders have taken from it is not deducted here: that
 * is forgotten with the venue's next book, a few seconds later, and a mark that jumps with it would say nothing.
 */
export function markPosition(held: Pick<Holding, 'side' | 'contracts'>, quotes: Quotes | undefined): Mark {
  if (!quotes) return mark('unknown', { value: null, status: null });
  const status = quotes.market?.status ?? null;
  if (status === 'active') return markOnBook(held, quotes);
  const valueOfYes = quotes.market?.settlementValue ?? quotes.knownValue;
  if (valueOfYes !== null) {
    const each = held.side === 'yes' ? valueOfYes : DOLLAR - valueOfYes;
    return mark('expected', { value: valueOf(each, held.contracts), status });
  }
  const unsellableContracts = held.contracts;
  return mark(quotes.market ? 'closed' : 'not_listed', { value: 0n, status, unsellableContracts });
}

function markOnBook(
  { side, contracts }: Pick<Holding, 'side' | 'contracts'>,
  { book, feeRule }: Quotes,
): Mark {
  const status = 'active';
  // Without a rule for its fee, what a sale brings cannot be told, and neither can it be placed.
  if (!book || !isSupported(feeRule))
    return mark('book', { value: 0n, status, unsellableContracts: contracts });
  const quote = quoteOrder(book, feeRule, {
    side,
    action: 'sell',
    contracts,
    limitPrice: ANY_PRICE,
    timeInForce: 'immediate_or_cancel',
  });
  return mark('book', {
    value: quote.balanceChange,
    fees: quote.fees,
    status,
    unsellableContracts: subtractCounts(contracts, quote.filledContracts),
  });
}

const mark = (valuation: Valuation, rest: Pick<Mark, 'value' | 'status'> & Partial<Mark>): Mark => ({
  valuation,
  fees: 0n,
  unsellableContracts: 0,
  ...rest,
});

/** The sum of amounts, or null if one of them is not known. */
export const sumKnown = (amounts: readonly (Micros | null)[]): Micros | null =>
  amounts.reduce<Micros | null>((sum, next) => (sum === null || next === null ? null : sum + next), 0n);
