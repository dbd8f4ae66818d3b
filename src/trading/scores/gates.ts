import { setImmediate as nextTurn } from 'node:timers/promises';
import { DAY_MS } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import type { ForecastMethod } from '../forecast/forecast.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import type { Gate, GateBook, GateKey } from '../signals/gate.js';
import { leadsOf } from '../signals/signal.js';
import { blockBootstrap, type Interval } from './bootstrap.js';
import type { SourceNames } from '../forecast/queries.js';
import { listJudgedRecords } from './queries.js';

/**
 * What makes a gate open. The block length is about the cube root of the window, which is
 * what estimates of a mean's error want (P. Hall, J. L. Horowitz, B.-Y. Jing, Biometrika 82, 1995), and about as long as a
 * weather pattern, and what a forecast makes wrong of it, lasts.
 */
export const gateRule = Object.freeze({
  windowDays: 90,
  minimumDays: 30,
  blockDays: 7,
  resamples: 1_000,
  confidence: 0.95,
  evidence: 100,
});

/**
 * How often the rule is wrong, at most, and right, at least: simulated over many seasons of days that depend on each
 * other, and held to by the tests. See docs/decisions/013-honesty-gate.md.
 */
export const gateErrorRates = Object.freeze({
  /** Open at a model as good as the market: at one time, and at any time within the 90 days after the first judgement. */
  equal: 0.05,
  equalEver: 0.2,
  /** At one that is worse by 0.08 or more, or at any if the market is right. */
  worse: 0.01,
  /** At one that is better by this much in log score, after a whole window. */
  better: 0.8,
  betterBy: 0.35,
});

export const gateRuleText =
  `A gate is open while, over the settled days of the last ${gateRule.windowDays} (at least ${gateRule.minimumDays} of them), the ${gateRule.confidence * 100} % interval of the difference between the calibrated forecast's mean log score and the market's lies below zero ` +
  `(circular block bootstrap over days, blocks of ${gateRule.blockDays}, studentised), and what happened was at least ${gateRule.evidence} times as likely under the forecast as under the market. Otherwise it is shut, and signals are withheld.`;

/** The first day that a judgement at this time looks at. */
export const judgedSince = (at: Date): string =>
  new Date(at.getTime() - gateRule.windowDays * DAY_MS).toISOString().slice(0, 10);

/** A settled forecast, as far as gates are judged by it. */
export interface JudgedRecord {
  kind: TemperatureKind;
  station: string;
  date: string;
  leadHours: number;
  method: ForecastMethod;
  modelLogScore: number | null;
  marketLogScore: number | null;
  /** Null while it has not settled. */
  settledAt: Date | null;
}

/**
 * Judges the gate of every kind, station and lead by the records of one pair of sources: calibrated ones only, that had a
 * market price and had settled at that time. What became known later does not exist for it.
 * @param records in any order; pure: the same records and time give the same book
 */
export function judgeGates(records: readonly JudgedRecord[], at: Date): GateBook {
  const known = recordsKnown(records, at);
  const gates = gateKeys().map((key) => judgeGate(known, key));
  return Object.freeze({ madeAt: at, gates });
}

export const gateKeys = (): GateKey[] =>
  temperatureKinds.flatMap((kind) =>
    placesOf(kind).flatMap(({ id }) =>
      leadsOf(kind).map((leadHours) => ({ kind, stationId: id, leadHours })),
    ),
  );

/**
 * By gate: model less market of each day, in the order of days. The hours of a day have their errors in common, so that they count
 * as one, by their mean: the rule is about days.
 */
type KnownDifferences = ReadonlyMap<string, readonly number[]>;

function recordsKnown(records: readonly JudgedRecord[], at: Date): KnownDifferences {
  const since = judgedSince(at);
  const known = records
    .filter(
      ({ method, date, settledAt }) => method !== 'raw_ensemble' && date >= since && isBy(settledAt, at),
    )
    .toSorted((a, b) => (a.date < b.date ? -1 : 1));
  const byDay = new Map<string, Map<string, number[]>>();
  for (const { kind, station: stationId, date, leadHours, modelLogScore, marketLogScore } of known) {
    if (modelLogScore === null || marketLogScore === null) continue;
    const key = keyOf({ kind, stationId, leadHours });
    const days = byDay.get(key) ?? new Map<string, number[]>();
    byDay.set(key, days.set(date, [...(days.get(date) ?? []), modelLogScore - marketLogScore]));
  }
  return new Map([...byDay].map(([key, days]) => [key, [...days.values()].map(meanOf)]));
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;

const isBy = (time: Date | null, at: Date): boolean => time !== null && time.getTime() <= at.getTime();

const keyOf = ({ kind, stationId, leadHours }: GateKey): string => `${kind} ${stationId} ${leadHours}`;

/** A millisecond's work. */
function judgeGate(known: KnownDifferences, key: GateKey): Gate {
  const differences = known.get(keyOf(key)) ?? [];
  const n = differences.length;
  if (n < gateRule.minimumDays) {
    const days = n === 1 ? '1 day has' : `${n} days have`;
    const reason = `${days} settled that had a calibrated forecast and a market price; at least ${gateRule.minimumDays} are needed.`;
    return { ...key, isOpen: false, n, difference: null, reason };
  }
  const difference = blockBootstrap(differences, {
    blockLength: gateRule.blockDays,
    resamples: gateRule.resamples,
    confidence: gateRule.confidence,
    seed: 1,
  });
  return { ...key, ...verdictOn(difference, n), n, difference };
}

/**
 * The interval does not see a disaster that has not happened: a model that is a little surer than the market wins a little on
 * most days, until it loses much. So what did happen must also have been `evidence` times as likely under the model as
 * under the market. Were the market right, that ratio would get there in one window of `evidence` at most, however the
 * model is wrong: it is a martingale with mean one (J. Ville, Étude critique de la notion de collectif, 1939). At the leads at which
 * two days are open together that is nearly so, see docs/decisions/013-honesty-gate.md.
 */
function verdictOn({ mean, low, high }: Interval, n: number): Pick<Gate, 'isOpen' | 'reason'> {
  const scores = `Over ${n} settled days the forecast's log score was ${comparisonOf(mean)} the market's`;
  const interval = `${gateRule.confidence * 100} % interval of the difference: ${toText(low)} to ${toText(high)}`;
  if (high >= 0) {
    const chance = mean < 0 ? ', which may be chance' : '';
    return { isOpen: false, reason: `${scores}${chance} (${interval}).` };
  }
  const likelier = Math.exp(-mean * n);
  if (likelier >= gateRule.evidence) return { isOpen: true, reason: `${scores} (${interval}).` };
  const little = `what happened was ${likelier.toFixed(1)} times as likely under the forecast as under the market, and ${gateRule.evidence} times are needed`;
  return {
    isOpen: false,
    reason: `${scores}, but by so little in all that one bad day could undo it: ${little}.`,
  };
}

function comparisonOf(mean: number): string {
  if (mean === 0) return 'the same as';
  return `${mean < 0 ? 'better' : 'worse'} by ${Math.abs(mean).toFixed(3)} than`;
}

const toText = (value: number): string => value.toFixed(3).replace('-', '−');

/** Judges all gates by what the database knew at a time, one after the other: requests go in between. */
export async function readGates({ orm }: Database, sources: SourceNames, at: Date): Promise<GateBook> {
  const records: JudgedRecord[] = [];
  for (const kind of temperatureKinds)
    records.push(...(await listJudgedRecords(orm, sources, { kind, since: judgedSince(at), settledBy: at })));
  const known = recordsKnown(records, at);
  const gates: Gate[] = [];
  for (const key of gateKeys()) {
    gates.push(judgeGate(known, key));
    await nextTurn();
  }
  return Object.freeze({ madeAt: at, gates });
}
