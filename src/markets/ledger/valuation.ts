import { quoteOrder, sidePrice, type OrderBook } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import { endsOf, type MarketEvent } from '../market/event.js';
import { isSupported, type FeeRule } from '../market/fees.js';
import type { Market, MarketStatus } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Holding } from './positions.js';

export type HeldBracket = Pick<Holding, 'side' | 'contracts' | 'cost'> & { ticker: string };

export type EventOutcomes = ReturnType<typeof eventOutcomes>;

/**
 * Netted as in `endsOf`: YES on one bracket covers NO on another. Excludes void markets, which refund the cost. Markets
 * without a known relation give only the worst and best outcomes.
 * @param event brackets from cold to warm; undefined if the venue does not list it
 */
export function eventOutcomes(
  eventTicker: string,
  held: readonly HeldBracket[],
  event: Pick<MarketEvent, 'kind' | 'markets'> | undefined,
) {
  const tickers = held.map(({ ticker }) => ticker);
  const { outcomes: ends, free } = endsOf(eventTicker, event, tickers);
  const cost = held.reduce((sum, position) => sum + position.cost, 0n);
  const bound = held.filter(({ ticker }) => !free.has(ticker));
  const loose = held.filter(({ ticker }) => free.has(ticker));
  // Each pays on all of its contracts or on none.
  const most = loose.reduce((sum, position) => sum + valueOf(DOLLAR, position.contracts), 0n);
  const toOutcome = (ticker: string | null, payout: Micros) => ({
    /** The winning bracket or the highest threshold passed; null for every other outcome. */
    ticker,
    payout,
    result: payout - cost,
  });
  const certain = ends.map(({ ticker, paying }) => toOutcome(ticker, payoutOf(bound, paying)));
  const payouts = ends.length === 0 ? [0n] : certain.map(({ payout }) => payout);
  const worst = toOutcome(null, payouts.reduce(lower));
  const best = toOutcome(null, payouts.reduce(higher) + most);
  return {
    eventTicker,
    cost,
    outcomes: loose.length === 0 ? certain : [worst, best],
    worstCase: worst.result,
    bestCase: best.result,
  };
}

const payoutOf = (held: readonly HeldBracket[], paying: ReadonlySet<string>): Micros =>
  held.reduce((sum, { ticker, side, contracts }) => {
    const pays = (side === 'yes') === paying.has(ticker);
    return pays ? sum + valueOf(DOLLAR, contracts) : sum;
  }, 0n);

const lower = (a: Micros, b: Micros): Micros => (a < b ? a : b);
const higher = (a: Micros, b: Micros): Micros => (a > b ? a : b);

/**
 * `book`: sold into the current bids. `expected`: the venue's result, not final or not booked. `closed`: no orders and
 * no result. `not_listed`: no longer shown, result unknown. `unknown`: no market data.
 */
type Valuation = 'book' | 'expected' | 'closed' | 'not_listed' | 'unknown';

export interface Mark {
  valuation: Valuation;
  /** After fees. Null only for `unknown`. */
  value: Micros | null;
  /** 0 if the position is not sold. */
  fees: Micros;
  unsellableContracts: number;
  status: MarketStatus | null;
}

export interface Quotes {
  /** Undefined if the venue does not list the market. */
  market: Pick<Market, 'status' | 'settlementValue'> | undefined;
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  /** YES payout in the latest report; null without one. */
  knownValue: Micros | null;
}

export const quoteSale = (book: OrderBook, feeRule: FeeRule, held: Pick<Holding, 'side' | 'contracts'>) =>
  quoteOrder(book, feeRule, {
    ...held,
    action: 'sell',
    limitPrice: 1n,
    timeInForce: 'immediate_or_cancel',
  });

/**
 * Sold into the bids after the taker fee; contracts without a bid are worth nothing. The Organization's own paper fills
 * are not deducted: the next book, seconds later, no longer reflects them, so the mark would only jump.
 */
export function markPosition(held: Pick<Holding, 'side' | 'contracts'>, quotes: Quotes | undefined): Mark {
  if (!quotes) return mark('unknown', { value: null, status: null });
  const status = quotes.market?.status ?? null;
  if (status === 'active') return markOnBook(held, quotes);
  const valueOfYes = quotes.market?.settlementValue ?? quotes.knownValue;
  if (valueOfYes !== null)
    return mark('expected', { value: valueOf(sidePrice(held.side, valueOfYes), held.contracts), status });
  const unsellableContracts = held.contracts;
  return mark(quotes.market ? 'closed' : 'not_listed', { value: 0n, status, unsellableContracts });
}

function markOnBook({ side, contracts }: Pick<Holding, 'side' | 'contracts'>, { book, feeRule }: Quotes) {
  const status = 'active';
  // Without a fee rule the proceeds are unknown.
  if (!book || !isSupported(feeRule))
    return mark('book', { value: 0n, status, unsellableContracts: contracts });
  const quote = quoteSale(book, feeRule, { side, contracts });
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

export const sumKnown = (amounts: readonly (Micros | null)[]): Micros | null =>
  amounts.reduce<Micros | null>((sum, next) => (sum === null || next === null ? null : sum + next), 0n);
