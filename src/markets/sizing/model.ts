import type { Holding } from '../ledger/positions.js';
import type { OrderBook, Side } from '../market/book.js';
import type { Payout } from '../market/brackets.js';
import type { FeeRule } from '../market/fees.js';
import type { Micros } from '../market/money.js';

export interface MarketToSize {
  ticker: string;
  probability: number;
  /** Default: the market's own index, as for mutually exclusive brackets. */
  pays?: Payout;
  /** Undefined if nothing may be bought here. Holdings still count. */
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  held: Holding | undefined;
  /** Net, fees included; negative after profits. Default: the cost of the held contracts. */
  spent?: Micros | undefined;
}

export interface EventToSize {
  /** From cold to warm. */
  markets: readonly MarketToSize[];
  /** They sum to one, and exactly one occurs. Default: one outcome per market. */
  outcomes?: readonly number[];
  /** Cash and holdings elsewhere, without this event's. */
  bankroll: Micros;
  cash: Micros;
  /** Above 0 and at most 1. */
  kellyShare: number;
  /** Maximum stakes, including holdings. */
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
  /** The venue immediately pays a dollar for each pair. */
  closing: number;
  averagePrice: Micros;
  fee: Micros;
  stake: Micros;
  /** `stake` per contract in dollars. */
  breakEven: number;
  /** Payout minus `stake`. Negative for a hedge. */
  expectedValue: Micros;
  /** Shares of the bankroll in the event's joint optimum, in full and at `kellyShare`. */
  fullKelly: number;
  fractionalKelly: number;
  /** Costs more than it is worth alone but reduces the other purchases' risk. */
  isHedge: boolean;
  limitedBy: 'market' | 'event' | 'cash' | 'depth' | null;
}

/**
 * The Kelly share of everything, from which holdings in the event were bought. A purchase turns its cash into contracts
 * and leaves the optimum unchanged, so nothing is bought twice.
 */
export interface Fund {
  whole: Micros;
  cash: Micros;
  /** Possible outcomes have at least one in a million, so that no bet relies on the last digits of a tail. */
  probabilities: number[];
  /** In each outcome without further purchases. */
  wealth: number[];
  spent: Micros[];
  paid: Micros[];
  totalPaid: Micros;
}

/** Negative if holdings exceed a cap. */
export interface Headroom {
  cash: Micros;
  fund: Micros;
  event: Micros;
  markets: Micros[];
}

export interface Leg {
  /** NO pays in all other outcomes. */
  pays: Payout;
  side: Side;
  /** Dollars per contract, fee included. */
  cost: number;
  /** Above 0. May be infinite if the limits are finite. */
  contracts: number;
}

/** Σ weight·contracts over all legs is at most `room`. */
export interface Limit {
  room: number;
  /** A negative weight frees room. */
  weights: readonly number[];
}

export interface Optimum {
  contracts: number[];
  shares: number[];
  limitedBy: SizedPurchase['limitedBy'][];
  gap: number;
}
