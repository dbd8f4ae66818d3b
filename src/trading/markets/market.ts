import type { Micros } from '../money.js';
import type { Bracket } from '../settlement/brackets.js';
import type { Station } from '../settlement/stations.js';

/** The venue's states. A market pays only once it is `finalized`: before that its result may still change. */
export const marketStatuses = [
  'initialized',
  'inactive',
  'active',
  'closed',
  'determined',
  'disputed',
  'amended',
  'finalized',
] as const;
export type MarketStatus = (typeof marketStatuses)[number];

/** A range of prices and the step that orders in it must keep. Both ends are included. */
export interface PriceRange {
  start: Micros;
  end: Micros;
  step: Micros;
}

/** One bracket of one day at one station, as the venue has it, checked and in our terms. */
export interface Market {
  ticker: string;
  eventTicker: string;
  seriesTicker: string;
  station: Station;
  /** The climate day, `YYYY-MM-DD`. */
  date: string;
  bracket: Bracket;
  status: MarketStatus;
  /** Best prices; null where nobody bids or asks. */
  yesBid: Micros | null;
  yesAsk: Micros | null;
  noBid: Micros | null;
  noAsk: Micros | null;
  lastPrice: Micros | null;
  /** Contracts. */
  volume: number;
  volume24h: number;
  openInterest: number;
  openTime: Date;
  closeTime: Date;
  priceRanges: readonly PriceRange[];
  /** What YES pays; null until the venue has said so. */
  settlementValue: Micros | null;
  /** True for a market that the venue has called off: its contracts give back what they cost. Absent for all others. */
  isVoid?: true;
  /** The reported temperature in whole degrees; null until it is known. */
  settledTemperature: number | null;
}

/** True if an order may name this price. */
export const isOnTick = (ranges: readonly PriceRange[], price: Micros): boolean =>
  ranges.some(({ start, end, step }) => price >= start && price <= end && (price - start) % step === 0n);
