import { z } from 'zod';
import { parseInput } from '../../core/http/validate.js';
import { fieldError, textField, type FormFields } from '../../core/pages/form.js';
import { bidsOf, type OrderBook } from '../market/book.js';
import { parseDollars, type Micros } from '../market/money.js';
import { quoteOrder, type Quote } from '../market/quote.js';
import type { FeeRule } from '../market/fees.js';
import { applyFill, type Holding } from '../ledger/positions.js';
import { contractsText } from '../market/contract-fields.js';
import { addCounts, subtractCounts } from '../market/contracts.js';

/** What somebody wants to sell of a position. */
export interface Sale {
  contracts: number;
  limitPrice: Micros;
}

const saleSchema = z.object({
  contracts: contractsText,
  limitPrice: z.string().regex(/^0?\.\d{1,6}$/, 'must be a price in dollars below 1, like 0.42'),
});

/** @throws AppError invalid_request that names the field */
export function readSale(fields: FormFields, held: number): Sale {
  const typed = saleFields(fields);
  const { contracts, limitPrice } = parseInput(saleSchema, typed);
  if (held > 0 && Number(contracts) > held)
    throw fieldError('contracts', `must be at most ${held}: that many are held`);
  return { contracts: Number(contracts), limitPrice: parseDollars(limitPrice.replace(/^\./, '0.')) };
}

/** As they were typed; spaces around them do not count. */
export const saleFields = (fields: FormFields) => ({
  contracts: textField(fields, 'contracts')?.trim(),
  limitPrice: textField(fields, 'limitPrice')?.trim(),
});

/** Everything that finds a bid, at the price of the worst of those bids; undefined if nobody bids. */
export function proposeSale(book: OrderBook, { side, contracts }: Holding): Sale | undefined {
  let sold = 0;
  let limitPrice: Micros | undefined;
  for (const level of bidsOf(book, side)) {
    if (sold === contracts) break;
    sold = addCounts(sold, Math.min(level.contracts, subtractCounts(contracts, sold)));
    limitPrice = level.price;
  }
  return limitPrice === undefined ? undefined : { contracts: sold, limitPrice };
}

export interface SaleQuote extends Quote {
  /** What the sale earns or loses against what the contracts cost, fees apart. */
  realised: Micros;
  left: Holding;
}

/** What a sale would bring at this moment, to the last digit, and what it would leave. Pure. */
export function quoteSale(book: OrderBook, feeRule: FeeRule, held: Holding, sale: Sale): SaleQuote {
  const order = { side: held.side, action: 'sell' as const };
  const quote = quoteOrder(book, feeRule, { ...order, ...sale, timeInForce: 'immediate_or_cancel' });
  let left = held;
  let realised = 0n;
  for (const fill of quote.fills) {
    const booking = applyFill(left, { ...order, ...fill });
    left = booking.holding;
    realised -= booking.postings.realised;
  }
  return { ...quote, realised, left };
}
