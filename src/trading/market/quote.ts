import type { Level, OrderBook } from './book.js';
import { DOLLAR, type Micros } from './money.js';
import { matchOrder, type MarketableOrder } from './match.js';
import { chargeFill, newOrderAccount, type FeeRule } from './fees.js';
import { perContract, valueOf } from './contracts.js';

export interface QuotedFill extends Level {
  fee: Micros;
  /** Negative for a purchase. */
  balanceChange: Micros;
}

/** What an order would do to a book at this moment, as it would be charged. */
export interface Quote {
  fills: QuotedFill[];
  filledContracts: number;
  /** Of what is filled, rounded to the millionth; null if nothing is. */
  averagePrice: Micros | null;
  fees: Micros;
  /** What the balance changes by: negative for a purchase. */
  balanceChange: Micros;
  /** What the filled contracts may pay at the most. For a purchase: one dollar each. */
  maximumPayout: Micros;
  /** For a purchase: the probability from which on it is worth its price and fee; null if nothing is filled. */
  breakEven: number | null;
  /** The balance change before its rounding, see `OrderAccount`. */
  exact: Micros;
}

/** Matches an order and charges the venue's fee, as `POST /trade` does in paper mode. */
export function quoteOrder(book: OrderBook, feeRule: FeeRule, order: MarketableOrder): Quote {
  const match = matchOrder(book, order);
  let account = newOrderAccount;
  const fills = match.fills.map(({ price, contracts }): QuotedFill => {
    const charge = chargeFill(feeRule, account, { action: order.action, price, contracts });
    account = charge.account;
    return { price, contracts, fee: charge.fee, balanceChange: charge.balanceChange };
  });
  const { filledContracts } = match;
  const value = fills.reduce((sum, { price, contracts }) => sum + valueOf(price, contracts), 0n);
  const balanceChange = fills.reduce((sum, fill) => sum + fill.balanceChange, 0n);
  const maximumPayout = valueOf(DOLLAR, filledContracts);
  return {
    fills,
    filledContracts,
    averagePrice: filledContracts === 0 ? null : perContract(value, filledContracts),
    fees: fills.reduce((sum, { fee }) => sum + fee, 0n),
    balanceChange,
    maximumPayout,
    breakEven: filledContracts === 0 ? null : Number(-balanceChange) / Number(maximumPayout),
    exact: account.exact,
  };
}

/**
 * What a purchase may cost at the most: everything at its limit price, with the fee of that. The fee is largest at 50
 * cents, so a purchase that is filled below its limit could pay more fee than at the limit, but not more in sum: only where prices have parts of
 * a cent each of many small fills may be rounded by up to $0.0001 that is not given back.
 */
export function worstCost(
  feeRule: FeeRule,
  { contracts, limitPrice }: Pick<MarketableOrder, 'contracts' | 'limitPrice'>,
): Micros {
  return -chargeFill(feeRule, newOrderAccount, { action: 'buy', price: limitPrice, contracts }).balanceChange;
}
