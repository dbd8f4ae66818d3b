import type { ForecastMethod } from '../forecast/forecast.js';
import type { Side } from '../market/book.js';
import type { Market, TemperatureKind } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { Gate } from './gate.js';
import type { SizedPurchase } from '../sizing/event.js';

/** A purchase that the forecast speaks for, at what it would really cost. */
export interface Signal extends Omit<SizedPurchase, 'ticker' | 'limitedBy'> {
  market: Market;
  /** Probability less break-even. Below zero for a hedge. */
  edge: number;
  /** The most that it can lose by itself: its stake. What all purchases of the event can lose together is often less. */
  worstCase: Micros;
  /** What kept it smaller than Kelly would have it. */
  limitedBy: SizedPurchase['limitedBy'] | 'day';
  reasons: readonly string[];
  expiresAt: Date;
}

/** Why a side of a market has no signal. */
export interface Suppressed {
  ticker: string;
  side: Side;
  reason: string;
  /** It would have been one, and was held back. */
  isWithheld: boolean;
}

export interface EventSignals {
  eventTicker: string;
  kind: TemperatureKind;
  stationId: string;
  date: string;
  /** By the clock of the place; of an hour only. */
  hour?: number | undefined;
  /** How the probabilities were made; null without a forecast. */
  method: ForecastMethod | null;
  /** Whether they are corrected by how earlier ones came out. Nothing is a signal where they are not. */
  isCalibrated: boolean;
  /** Whether such forecasts have been ahead of the market. Nothing is a signal where they have not. */
  gate: Gate;
  /** From cold to warm, and YES before NO. */
  signals: readonly Signal[];
  suppressed: readonly Suppressed[];
  /** Of all its signals together. */
  stake: Micros;
  /** The most that they can lose together, whichever bracket wins. */
  worstCase: Micros;
  /** Expected growth of the logarithm of the part of the bankroll that the Kelly share puts at stake, exact costs included. */
  growth: number;
  /** How far from the best possible growth the sizes may be, before they are cut to the used share and to whole contracts. */
  gap: number;
}

export interface SignalReport {
  /** What sizes are reckoned from. */
  bankroll: Micros;
  /** The share of the Kelly fraction that is used. */
  kellyShare: number;
  /** The most that is staked on a market, on an event and on all events of a climate date, as shares of the bankroll. */
  marketCap: number;
  eventCap: number;
  dayCap: number;
  /** All markets of an event are sized together, by the outcomes that they tell apart. */
  sizing: 'joint_event';
  events: readonly EventSignals[];
}
