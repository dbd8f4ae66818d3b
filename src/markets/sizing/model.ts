import type { Holding } from '../ledger/positions.js';
import type { OrderBook, Side } from '../market/book.js';
import type { Payout } from '../market/brackets.js';
import type { FeeRule } from '../market/fees.js';
import type { Micros } from '../market/money.js';

export interface MarketToSize {
  ticker: string;
  probability: number;
  /** Outcomes in which YES pays; defaults to the market's own index, as for mutually exclusive brackets. */
  pays?: Payout;
  /** Undefined if nothing may be bought here (closed, no book or a crossed one); holdings still count. */
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  held: Holding | undefined;
  /** Net cash paid into this market, fees included; negative after profits. Defaults to the cost of the held contracts. */
  spent?: Micros | undefined;
}

export interface EventToSize {
  /** From cold to warm. */
  markets: readonly MarketToSize[];
  /** Probability of each outcome, summing to one; exactly one occurs. Defaults to one outcome per market. */
  outcomes?: readonly number[];
  /** Basis of Kelly shares: cash and holdings elsewhere, excluding holdings in this event. */
  bankroll: Micros;
  cash: Micros;
  /** Share of the Kelly fraction, above 0 and at most 1. */
  kellyShare: number;
  /** Maximum stake on one market and on the whole event, including holdings. */
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
  /** Contracts that close a pair with a held opposite side; the venue pays a dollar for each at once. */
  closing: number;
  averagePrice: Micros;
  fee: Micros;
  stake: Micros;
  /** `stake` per contract in dollars: the probability above which the purchase alone pays. */
  breakEven: number;
  /** Expected payout less `stake`. Negative for a hedge. */
  expectedValue: Micros;
  /** Share of the bankroll that the event's joint optimum puts here, in full and at `kellyShare`. */
  fullKelly: number;
  fractionalKelly: number;
  /** Bought although it costs more than it is worth alone, because it reduces the risk of the other purchases. */
  isHedge: boolean;
  limitedBy: 'market' | 'event' | 'cash' | 'depth' | null;
}

/**
 * The part of the bankroll at stake, as a purse: the Kelly share of everything, from which holdings in the event were
 * bought. A purchase turns the purse's cash into contracts and leaves the optimum unchanged, so nothing is bought twice.
 */
export interface Fund {
  whole: Micros;
  cash: Micros;
  /** Possible outcomes have at least one in a million, so that no bet relies on the last digits of a tail. */
  probabilities: number[];
  /** Dollars in each outcome without further purchases. */
  wealth: number[];
  spent: Micros[];
  paid: Micros[];
  totalPaid: Micros;
}

/** Remaining budgets for cash, the event and each market. Negative where holdings exceed a cap. */
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
  /** Available contracts, above 0; finite only together with the limits. */
  contracts: number;
}

/** Σ weight·contracts over all legs is at most `room`. */
export interface Limit {
  room: number;
  /** One per leg; a negative weight frees room. */
  weights: readonly number[];
}

export interface Optimum {
  contracts: number[];
  shares: number[];
  limitedBy: SizedPurchase['limitedBy'][];
  gap: number;
}
