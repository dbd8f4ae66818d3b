import { formatCount } from '../../core/pages/format.js';
import { HOUR_MS, DAY_MS } from '../../core/time.js';
import type { ForecastMethod } from '../learning/forecast.js';
import type { Market, TemperatureKind } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { SizedPurchase } from '../sizing/model.js';
import type { RefusedOffer } from '../sizing/offers.js';

/** An error in the probability costs far more growth than a smaller stake. */
export const KELLY_SHARE = 0.25;
/** Shares of the bankroll, including holdings. Stakes in an event add up because every purchase may lose. */
export const MARKET_CAP = 0.05;
export const EVENT_CAP = 0.1;
/** For all events of one climate date: forecast errors of neighbouring cities are correlated. */
export const DAY_CAP = 0.2;

/** There are four runs a day, so an older run means that forecasts are broken. */
export const MAX_RUN_AGE_MS = 24 * HOUR_MS;
export const MAX_FORECAST_AGE_MS = 6 * HOUR_MS;
/** Stations report every hour; traders without recent observations lose to those with them. */
export const MAX_OBSERVATION_AGE_MS = 2 * HOUR_MS;

/** Before the end of the climate day, in local standard time: from noon the day before to 6 p.m. on the day. */
export const LEAD_HOURS = [36, 24, 12, 6] as const;
/** Markets open at most a day ahead of their hour, and within that day most runs are alike. */
const HOURLY_LEADS = [12, 6, 3, 1] as const;

type Leads = readonly [longest: number, second: number, ...rest: number[]];

export const leadsOf = (kind: TemperatureKind): Leads => (kind === 'hourly' ? HOURLY_LEADS : LEAD_HOURS);

/** The fill is uncertain, and likelier if the counterparty is better informed. */
export interface RestHint {
  /** One step above the side's best bid if that stays below the ask; otherwise the best bid. */
  price: Micros;
  contractsAhead: number;
  breakEven: number;
  edge: number;
  /** Above this fill rate resting beats taking; null if resting is not worth its cost. */
  worthMoreAbove: number | null;
  /** Why such an order is refused unless observations do not cancel it; null if it is accepted. */
  problem: string | null;
}

/** The purchase is valued at its real cost. */
export interface Signal extends Omit<SizedPurchase, 'ticker' | 'limitedBy'> {
  market: Market;
  edge: number;
  /** The most that the purchase alone can lose. An event's purchases together often risk less. */
  worstCase: Micros;
  /** Null for a hedge, which has no value alone. */
  rest: RestHint | null;
  limitedBy: SizedPurchase['limitedBy'] | 'day';
  reasons: readonly string[];
  expiresAt: Date;
}

export interface WithheldSignal extends RefusedOffer {
  isWithheld: boolean;
}

export interface EventSignals {
  eventTicker: string;
  kind: TemperatureKind;
  stationId: string;
  date: string;
  hour?: number | undefined;
  method: ForecastMethod | null;
  isCalibrated: boolean;
  /** Signals require an open gate. */
  gate: Gate;
  /** From cold to warm, YES before NO. */
  signals: readonly Signal[];
  suppressed: readonly WithheldSignal[];
  stake: Micros;
  worstCase: Micros;
  /** Expected log growth of the wealth at stake, at exact cost. */
  growth: number;
  /** From the best possible growth, before sizes are cut to the Kelly share and whole contracts; an upper bound. */
  gap: number;
}

export const nothingBought = { stake: 0n, worstCase: 0n, growth: 0, gap: 0 };

export interface SignalReport {
  bankroll: Micros;
  kellyShare: number;
  /** Shares of the bankroll per market, event and climate date. */
  marketCap: number;
  eventCap: number;
  dayCap: number;
  sizing: 'joint_event';
  events: readonly EventSignals[];
}

export interface GateKey {
  kind: TemperatureKind;
  stationId: string;
  /** Before the end of the day, or before the hour. */
  leadHours: number;
}

/** For one kind of forecast at a station and lead. */
export interface Gate extends GateKey {
  isOpen: boolean;
  n: number;
  /** Without a record, a price or a calibrated forecast; these do not count. */
  dropped: number;
  /** One dollar bet on the forecast beating the available prices: 1 is neutral. */
  evidence: number;
  /** Given the evidence for the other gates. */
  needed: number;
  /** Mean log score of the model minus that of buying the outcome. Negative if the model was ahead. */
  difference: { mean: number; low: number; high: number } | null;
  reason: string;
}

export const unjudged = { n: 0, dropped: 0, evidence: 1, needed: 1, difference: null };

export interface GateBook {
  /** Before the first judgement, every gate is closed. */
  madeAt: Date | null;
  gates: readonly Gate[];
}

export const noGates: GateBook = Object.freeze({ madeAt: null, gates: [] });

/** Gates are judged every few minutes. */
const MAX_AGE_MS = DAY_MS;

/**
 * The next recording time, when the market will have more information than now. Closed after the last and long before
 * the first. Judgements from after `at`, or more than a day before it, do not count.
 */
export function gateAt(
  { gates, madeAt }: GateBook,
  { kind, stationId }: Pick<GateKey, 'kind' | 'stationId'>,
  { hoursToEnd, at }: { hoursToEnd: number; at: Date },
): Gate {
  const leads = leadsOf(kind);
  // Extended by the interval between the first two.
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
  const end = kind === 'hourly' ? 'the hour' : 'the end of a day';
  if (leadHours === undefined)
    return closed(`Forecasts within ${formatCount(leads.at(-1)!, 'hour')} of ${end} are not scored.`);
  if (hoursToEnd > longest)
    return closed(`Forecasts more than ${formatCount(longest, 'hour')} before ${end} are not scored.`);
  if (madeAt === null || madeAt > at) return closed('The scores have not been computed yet.');
  if (at.getTime() - madeAt.getTime() > MAX_AGE_MS)
    return closed(
      `The scores were last computed on ${madeAt.toISOString().slice(0, 10)}, more than a day ago.`,
    );
  const found = gates.find(
    (gate) => gate.stationId === stationId && gate.leadHours === leadHours && gate.kind === kind,
  );
  return found ?? closed('Nothing has been scored yet.');
}
