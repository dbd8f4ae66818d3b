import type { Holding } from '../ledger/positions.js';
import type { OrderBook, Side } from '../market/book.js';
import type { Payout } from '../market/brackets.js';
import type { FeeRule } from '../market/fees.js';
import type { Micros } from '../market/money.js';

export interface MarketToSize {
  ticker: string;
  probability: number;
  /** Outcomes in which YES pays. Defaults to the market's own index, as for mutually exclusive brackets. */
  pays?: Payout;
  /** Undefined if nothing may be bought here (closed, no book or a crossed book). Holdings still count. */
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  held: Holding | undefined;
  /**
   * Net cash paid into this market, fees included; negative after profits. Defaults to the cost of the held contracts.
   */
  spent?: Micros | undefined;
}

export interface EventToSize {
  /** From cold to warm. */
  markets: readonly MarketToSize[];
  /**
   * Probability of each outcome. They sum to one, and exactly one outcome occurs. Defaults to one outcome per market.
   */
  outcomes?: readonly number[];
  /** Basis of Kelly shares: cash and holdings elsewhere, excluding holdings in this event. */
  bankroll: Micros;
  cash: Micros;
  /** Share of the Kelly fraction, above 0 and at most 1. */
  kellyShare: number;
  /** Maximum stakes on one market and on the whole event, including holdings. */
  marketRoom: Micros;
  eventRoom: Micros;
}

export interface SizedPurchase {
  ticker: string;
  side: Side;
  price: Micros;
  depth: number;
  probability: number;
  contracts: number;
  limitPrice: Micros;
  /**
   * Contracts that close a pair with a contract held on the other side. The venue immediately pays a dollar for each
   * pair.
   */
  closing: number;
  averagePrice: Micros;
  fee: Micros;
  stake: Micros;
  /** `stake` per contract in dollars: the probability above which the purchase alone is profitable. */
  breakEven: number;
  /** Expected payout minus `stake`. Negative for a hedge. */
  expectedValue: Micros;
  /** Share of the bankroll that the event's joint optimum puts into this purchase, in full and at `kellyShare`. */
  fullKelly: number;
  fractionalKelly: number;
  /** True if the purchase costs more than it is worth alone but reduces the risk of the other purchases. */
  isHedge: boolean;
  limitedBy: 'market' | 'event' | 'cash' | 'depth' | null;
}

/**
 * The part of the bankroll at stake, treated as a separate fund: the Kelly share of everything, from which holdings in
 * the event were bought. A purchase turns the fund's cash into contracts and leaves the optimum unchanged, so nothing
 * is bought twice.
 */
export interface Fund {
  whole: Micros;
  cash: Micros;
  /**
   * Possible outcomes have a probability of at least one in a million, so that no bet relies on the last digits of a
   * tail.
   */
  probabilities: number[];
  /** Dollars in each outcome without further purchases. */
  wealth: number[];
  spent: Micros[];
  paid: Micros[];
  totalPaid: Micros;
}

/** Remaining budgets for cash, the event and each market. Negative if holdings exceed a cap. */
export interface Headroom {
  cash: Micros;
  fund: Micros;
  event: Micros;
  markets: Micros[];
}

export interface Leg {
  /** Outcomes in which YES pays a dollar; NO pays in all others. */
  pays: Payout;
  side: Side;
  /** Dollars per contract, fee included. */
  cost: number;
  /** Available contracts, above 0. May be infinite if the limits are finite. */
  contracts: number;
}

/** Requires that Σ weight·contracts over all legs is at most `room`. */
export interface Limit {
  room: number;
  /** Weight of each leg. A negative weight frees room. */
  weights: readonly number[];
}

export interface Optimum {
  contracts: number[];
  shares: number[];
  limitedBy: SizedPurchase['limitedBy'][];
  gap: number;
}
