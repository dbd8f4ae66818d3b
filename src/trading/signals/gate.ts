import { DAY_MS } from '../../core/time.js';
import type { TemperatureKind } from '../market/market.js';
import { leadsOf } from './signal.js';

/** Which forecasts a gate is of. */
export interface GateKey {
  kind: TemperatureKind;
  stationId: string;
  /** The hours before the end of the day (before the hour) at which the forecasts were recorded that it is decided by. */
  leadHours: number;
}

/**
 * Whether the forecasts of a kind at a station and a lead have earned to be traded on: they were ahead of the prices that could be
 * paid, by more than chance explains.
 */
export interface Gate extends GateKey {
  isOpen: boolean;
  /** Settled days that it is decided by. */
  n: number;
  /** Days in between that had no record, no price or no calibrated forecast: they count for nothing. */
  dropped: number;
  /** How many times more likely what happened makes it that the forecast is ahead: 1 says nothing. */
  evidence: number;
  /** The evidence that it is open with, given that of the other gates. */
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
