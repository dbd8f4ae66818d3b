import type { TemperatureKind } from '../market/market.js';
import { leadsOf } from './leads.js';

/** Which forecasts a gate is of. */
export interface GateKey {
  kind: TemperatureKind;
  stationId: string;
  /** The hours before the end of the day (before the hour) at which the forecasts were written down that it is judged by. */
  leadHours: number;
}

/**
 * Whether the forecasts of a kind at a station and a lead have earned to be traded on: over the last days they scored better
 * than the market did, by more than chance explains.
 */
export interface Gate extends GateKey {
  isOpen: boolean;
  /** Settled days that it is judged by. */
  n: number;
  /** Mean log score of the model less that of the market, and its interval: below zero the model was better. Null for too few days. */
  difference: { mean: number; low: number; high: number } | null;
  /** Why it is open or shut, as a sentence. */
  reason: string;
}

export interface GateBook {
  /** Null while nothing has been judged: everything is shut. */
  madeAt: Date | null;
  gates: readonly Gate[];
}

export const noGates: GateBook = Object.freeze({ madeAt: null, gates: [] });

/** They are judged every few minutes: after that long without nobody knows whether they would still be open. */
const MAX_AGE_MS = 24 * 60 * 60 * 1000;

/**
 * The gate for a moment this long before the end of a day or an hour: that of the next moment at which forecasts are written down,
 * when the market knows more than now. Within the last of them nothing is scored, and long before the first one neither, so
 * nothing is open. What was judged later than `at` does not exist, and what was judged more than a day before is not gone by.
 */
export function gateAt(
  { gates, madeAt }: GateBook,
  { kind, stationId }: Pick<GateKey, 'kind' | 'stationId'>,
  { hoursToEnd, at }: { hoursToEnd: number; at: Date },
): Gate {
  const leads = leadsOf(kind);
  // As far before the first moment at which forecasts are written down as that is before the second.
  const longest = 2 * leads[0] - leads[1];
  const leadHours = leads.find((lead) => lead <= hoursToEnd);
  const shut = (reason: string): Gate => ({
    kind,
    stationId,
    leadHours: leadHours ?? 0,
    isOpen: false,
    n: 0,
    difference: null,
    reason,
  });
  if (leadHours === undefined)
    return shut(
      kind === 'hourly'
        ? `Within ${count(leads.at(-1)!)} of the hour forecasts are not scored.`
        : `Within ${count(leads.at(-1)!)} of the end of a day forecasts are not scored.`,
    );
  if (hoursToEnd > longest)
    return shut(
      `More than ${count(longest)} before ${kind === 'hourly' ? 'the hour' : 'the end of a day'} forecasts are not scored.`,
    );
  if (madeAt === null || madeAt > at) return shut('The scores have not been added up yet.');
  if (at.getTime() - madeAt.getTime() > MAX_AGE_MS)
    return shut(
      `The scores were last added up on ${madeAt.toISOString().slice(0, 10)}, more than a day ago.`,
    );
  const found = gates.find(
    (gate) => gate.stationId === stationId && gate.leadHours === leadHours && gate.kind === kind,
  );
  return found ?? shut('Nothing has been scored yet.');
}

const count = (hours: number): string => (hours === 1 ? '1 hour' : `${hours} hours`);
