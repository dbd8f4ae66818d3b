import { quoteOrder, type OrderBook, type Quote } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import { endsOf, type MarketEvent } from '../market/event.js';
import { isSupported, type FeeRule } from '../market/fees.js';
import type { Market, MarketStatus } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Holding } from './positions.js';

/** A position among the others of its event. */
export type HeldBracket = Pick<Holding, 'side' | 'contracts' | 'cost'> & { ticker: string };

/** One way for an event to end, and what the positions then make. */
interface EventOutcome {
  /** The bracket that wins, or the highest threshold that is passed; null for every one that is not listed by name. */
  ticker: string | null;
  payout: Micros;
  /** Payout less cost. Fees are apart: they are paid already. */
  result: Micros;
}

export interface EventOutcomes {
  eventTicker: string;
  /** What the positions cost together. */
  cost: Micros;
  outcomes: EventOutcome[];
  worstCase: Micros;
  bestCase: Micros;
}

/**
 * What the positions of one event pay in each way that it can end, netted as `endsOf` says: YES on one bracket of a day covers NO on
 * another. A void market, which gives the cost back, is not among them. Where it is not known how the markets go together, only the
 * worst and the best way are listed.
 *
 * @param event its brackets from cold to warm, if the venue lists it
 */
export function eventOutcomes(
  eventTicker: string,
  held: readonly HeldBracket[],
  event: Pick<MarketEvent, 'kind' | 'markets'> | undefined,
): EventOutcomes {
  const tickers = held.map(({ ticker }) => ticker);
  const { outcomes: ends, free } = endsOf(eventTicker, event, tickers);
  const cost = held.reduce((sum, position) => sum + position.cost, 0n);
  const bound = held.filter(({ ticker }) => !free.has(ticker));
  const loose = held.filter(({ ticker }) => free.has(ticker));
  // Of each either all of its contracts are paid or none.
  const most = loose.reduce((sum, position) => sum + valueOf(DOLLAR, position.contracts), 0n);
  const toOutcome = (ticker: string | null, payout: Micros): EventOutcome => ({
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
 * What a position's value rests on. `book`: sold into the present bids. `expected`: the venue has named a result that is not
 * final or not booked yet, and it stands. `closed`: the market takes no orders and has no result. `not_listed`: the venue
 * no longer shows the market, and nothing is known of its result. `unknown`: there are no market data at all.
 */
type Valuation = 'book' | 'expected' | 'closed' | 'not_listed' | 'unknown';

/** What a position is worth at this moment. */
export interface Mark {
  valuation: Valuation;
  /** After fees. Null only for `unknown`: nothing is claimed about what cannot be seen. */
  value: Micros | null;
  /** What of the sale the venue would keep. 0 for what is not sold. */
  fees: Micros;
  /** Contracts without a bid now; they count as worth nothing. */
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

/** The sale of everything at once, which takes every bid there is: no price is lower than its limit. */
export const quoteSale = (
  book: OrderBook,
  feeRule: FeeRule,
  held: Pick<Holding, 'side' | 'contracts'>,
): Quote =>
  quoteOrder(book, feeRule, {
    ...held,
    action: 'sell',
    limitPrice: 1n,
    timeInForce: 'immediate_or_cancel',
  });

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

/** The sum of amounts, or null if one of them is not known. */
export const sumKnown = (amounts: readonly (Micros | null)[]): Micros | null =>
  amounts.reduce<Micros | null>((sum, next) => (sum === null || next === null ? null : sum + next), 0n);
