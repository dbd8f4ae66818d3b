import type { Side } from '../markets/book.js';
import type { Market } from '../markets/market.js';
import type { Micros } from '../money.js';

/** A purchase that the forecast speaks for, at what it would really cost. */
export interface Signal {
  market: Market;
  side: Side;
  /** The best ask and what stands there. */
  price: Micros;
  depth: number;
  /** That the side pays, by the forecast. */
  probability: number;
  /** From which probability on the purchase is worth its average price and fee. */
  breakEven: number;
  /** Probability less break-even. */
  edge: number;
  /** Shares of the bankroll: the whole Kelly fraction at the best ask, and what is used of it. */
  fullKelly: number;
  fractionalKelly: number;
  /** What to buy: whole contracts that stand in the book, walked level by level. */
  contracts: number;
  /** The dearest level that is needed. */
  limitPrice: Micros;
  averagePrice: Micros;
  fee: Micros;
  /** Price and fee of all contracts. It is also the worst case. */
  stake: Micros;
  expectedValue: Micros;
  reasons: readonly string[];
  expiresAt: Date;
}

/** Why a side of a market has no signal. */
export interface Suppressed {
  ticker: string;
  side: Side;
  reason: string;
}

export interface EventSignals {
  eventTicker: string;
  stationId: string;
  date: string;
  signals: readonly Signal[];
  suppressed: readonly Suppressed[];
}

export interface SignalReport {
  bankroll: Micros;
  /** How the probabilities were made, and whether they have been corrected by how earlier ones came out. */
  method: 'raw_ensemble';
  isCalibrated: boolean;
  /** The share of the Kelly fraction that is used. */
  kellyShare: number;
  /** The most that is staked on a market and on an event, as shares of the bankroll. */
  marketCap: number;
  eventCap: number;
  /** How sizes are found: `single_market` sizes each market for itself. */
  sizing: 'single_market';
  events: readonly EventSignals[];
}
