import { HOUR_MS, DAY_MS } from '../../core/time.js';
import type { ForecastMethod } from '../learning/forecast.js';
import type { Side } from '../market/book.js';
import type { Market, TemperatureKind } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { SizedPurchase } from '../sizing/event.js';

/** A quarter of what Kelly gives: an error in the probability costs far more growth than a smaller stake does. */
export const KELLY_SHARE = 0.25;
/** Shares of the bankroll, with what is held already. Every purchase of an event may lose, so their stakes are added up. */
export const MARKET_CAP = 0.05;
export const EVENT_CAP = 0.1;
/** Over all events of one climate date: what makes one city warmer than expected does so with its neighbours. */
export const DAY_CAP = 0.2;

/** Without a newer run than this something is wrong with the forecasts: there are four a day. */
export const MAX_RUN_AGE_MS = 24 * HOUR_MS;
/** The same for how long ago they were fetched. */
export const MAX_FORECAST_AGE_MS = 6 * HOUR_MS;
/** While the day goes on, a trader who does not see the thermometer loses to those who do. Stations report every hour. */
export const MAX_OBSERVATION_AGE_MS = 2 * HOUR_MS;

/** Hours before the end of the climate day at which forecasts are recorded: the evening two days before, the mornings, the afternoon. */
export const LEAD_HOURS = [36, 24, 12, 6] as const;
/** The same before an hour: its markets open a day before it at most, and by then most of the day's runs are alike. */
const HOURLY_LEADS = [12, 6, 3, 1] as const;

type Leads = readonly [longest: number, second: number, ...rest: number[]];

/** The longest first. */
export const leadsOf = (kind: TemperatureKind): Leads => (kind === 'hourly' ? HOURLY_LEADS : LEAD_HOURS);

/**
 * What a purchase would be worth that waits in the book instead of taking what stands there. Nothing says that it is filled, and it
 * is filled sooner where those who trade with it know more.
 */
export interface RestHint {
  /** One step above the best bid of the side, where that does not reach an ask; else the best bid. */
  price: Micros;
  /** Contracts ahead of it there. */
  contractsAhead: number;
  /** With the fee of who waits. */
  breakEven: number;
  /** What it is worth more than it costs, if it is filled. */
  edge: number;
  /** The share of such purchases that has to be filled for waiting to be worth more than taking; null where it is not worth its cost either. */
  worthMoreAbove: number | null;
}

/** A purchase that the forecast speaks for, at what it would really cost. */
export interface Signal extends Omit<SizedPurchase, 'ticker' | 'limitedBy'> {
  market: Market;
  /** Probability less break-even. Below zero for a hedge. */
  edge: number;
  /** The most that it can lose by itself: its stake. What all purchases of the event can lose together is often less. */
  worstCase: Micros;
  /** Null for a hedge, which is worth nothing by itself. */
  rest: RestHint | null;
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

/** The totals of an event of which nothing is bought. */
export const nothingBought = { stake: 0n, worstCase: 0n, growth: 0, gap: 0 };

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

/** Which forecasts a gate is of. */
export interface GateKey {
  kind: TemperatureKind;
  stationId: string;
  /** The hours before the end of the day (before the hour) at which the forecasts were recorded that it is decided by. */
  leadHours: number;
}

/** Whether there is enough evidence to trade on the forecasts of a kind at a station and a lead. */
export interface Gate extends GateKey {
  isOpen: boolean;
  /** Settled days that it is decided by. */
  n: number;
  /** Days in between that had no record, no price or no calibrated forecast: they count for nothing. */
  dropped: number;
  /** What a dollar has become that was bet on the forecast being ahead of the prices that could be paid: 1 says nothing. */
  evidence: number;
  /** The evidence with which the gate is open, given that of the other gates. */
  needed: number;
  /**
   * Over the last days: mean log score of the model less that of what each outcome cost to buy, and its interval. Below zero the
   * model was ahead. Null for too few days.
   */
  difference: { mean: number; low: number; high: number } | null;
  /** Why it is open or closed, as a sentence. */
  reason: string;
}

/** Nothing is known of it. */
export const unjudged = { n: 0, dropped: 0, evidence: 1, needed: 1, difference: null };

export interface GateBook {
  /** Null while nothing has been decided: everything is closed. */
  madeAt: Date | null;
  gates: readonly Gate[];
}

export const noGates: GateBook = Object.freeze({ madeAt: null, gates: [] });

/** They are decided every few minutes: after that long without it is not known whether they would still be open. */
const MAX_AGE_MS = DAY_MS;

/**
 * The gate for a time this long before the end of a day or an hour: that of the next time at which forecasts are recorded,
 * when the market knows more than now. Within the last of them nothing is scored, and long before the first one neither, so
 * nothing is open. What was decided later than `at` does not exist, and what was decided more than a day before is not gone by.
 */
export function gateAt(
  { gates, madeAt }: GateBook,
  { kind, stationId }: Pick<GateKey, 'kind' | 'stationId'>,
  { hoursToEnd, at }: { hoursToEnd: number; at: Date },
): Gate {
  const leads = leadsOf(kind);
  // As far before the first time at which forecasts are recorded as that is before the second.
  const longest = 2 * leads[0] - leads[1];
  const leadHours = leads.find((lead) => lead <= hoursToEnd);
  const closed = (reason: string): Gate => ({
    kind,
    stationId,
    leadHours: leadHours ?? 0,
    isOpen: false,
    ...unjudged,
    reason,
  });
  if (leadHours === undefined)
    return closed(
      kind === 'hourly'
        ? `Within ${count(leads.at(-1)!)} of the hour forecasts are not scored.`
        : `Within ${count(leads.at(-1)!)} of the end of a day forecasts are not scored.`,
    );
  if (hoursToEnd > longest)
    return closed(
      `More than ${count(longest)} before ${kind === 'hourly' ? 'the hour' : 'the end of a day'} forecasts are not scored.`,
    );
  if (madeAt === null || madeAt > at) return closed('The scores have not been added up yet.');
  if (at.getTime() - madeAt.getTime() > MAX_AGE_MS)
    return closed(
      `The scores were last added up on ${madeAt.toISOString().slice(0, 10)}, more than a day ago.`,
    );
  const found = gates.find(
    (gate) => gate.stationId === stationId && gate.leadHours === leadHours && gate.kind === kind,
  );
  return found ?? closed('Nothing has been scored yet.');
}

const count = (hours: number): string => (hours === 1 ? '1 hour' : `${hours} hours`);
