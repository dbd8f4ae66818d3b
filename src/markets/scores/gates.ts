import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../core/db/client.js';
import { groupBy } from '../../core/collections.js';
import { formatDecimal } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import type { SourceNames } from '../learning/queries.js';
import { dateOf } from '../market/climate-day.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { type Gate, type GateBook, type GateKey, leadsOf } from '../signals/signal.js';
import { blockBootstrap } from './bootstrap.js';
import { listJudgedRecords } from './queries.js';
import type { ForecastRecord } from './records.js';

/** See docs/decisions/030-gates-that-cannot-be-lucky.md. */
export const gateRule = Object.freeze({
  /** Largest expected share of the open gates whose forecasts could not be expected to be ahead of their prices on any day. */
  falseShare: 0.1,
  minimumDays: 30,
  /** How far back the last days reach, in which it must not have fallen behind. */
  windowDays: 90,
  /** Of the interval of their mean: about the cube root of the window, and as long as a weather pattern. */
  blockDays: 7,
  confidence: 0.95,
});

/** Quarters of a year in which the evidence that counts has begun; each has an equal share of it. */
const QUARTERS = 4;
/** What is staked on each day, per nat; each has an equal share, and time tells which is best. */
const STAKES = [0.1, 0.2, 0.4, 0.7];
/** Of what is staked, what a day can take away at the most. */
const MOST_LOST = 0.9;
/** Nats that a day counts as at the most: no single day opens a gate. */
const MOST_GAINED = 4;
/** No gate opens with less, whatever the others have. */
const LEAST_EVIDENCE = 1 / gateRule.falseShare;
const RESAMPLES = 1_000;

/**
 * Error rates of the gate rule with 28 gates, from simulation; tests hold the rule to them. See
 * docs/decisions/030-gates-that-cannot-be-lucky.md.
 */
export const gateErrorRates = Object.freeze({
  gates: 28,
  /** Most gates ever open in a year, on average, where each day's expected advantage over the prices that could be paid is zero. */
  boundary: 0.2,
  /** The same for models as good as their markets' mid prices, which pay `costs`. */
  equal: 0.2,
  /** Nats a day: spread and fee, a cent above the mid price in whole cents and the taker's fee. */
  costs: 0.15,
  /** Fewest gates ever open in a year for models with a log score better by `betterBy` than mid prices, which pay `costs`. */
  better: 25,
  betterBy: 0.32,
  /** Days until half of them are. */
  betterAfterDays: 140,
  /** Fewest gates ever open in two years where the expected advantage over the prices that could be paid is `smallBy` nats a day. */
  small: 15,
  smallBy: 0.05,
});

export const gateRuleText =
  `A gate opens on evidence that the forecast is ahead of the prices that could be paid, spread and fees included. The evidence is what one dollar has become that was bet on each day's difference in log score (an e-process). ` +
  `The promise is about each day's expected advantage over those prices, given all that is known before the day: where it is never above zero, the evidence is 1 or less on average at any time. ` +
  `All gates are decided together (closed e-BH), so that at any one time at most ${gateRule.falseShare * 100}% of the open gates are expected to be without such an advantage; each needs evidence of at least ${LEAST_EVIDENCE} to 1. ` +
  `It is no promise about models that are equally good on average: one of them can be expected to be ahead on days that are recognizable beforehand, and without spread and fees its gate can open. ` +
  `At least ${gateRule.minimumDays} days must have settled, and a forecast that has been behind over the last ${gateRule.windowDays} closes its gate. While a gate is closed, its signals are withheld.`;

/** The first of the last days that scores are shown of. */
export const judgedSince = (at: Date): string => dateOf(at.getTime() - gateRule.windowDays * DAY_MS);

/** A forecast, as far as gates are judged by it. */
export type JudgedRecord = Pick<
  ForecastRecord,
  'kind' | 'station' | 'date' | 'leadHours' | 'method' | 'advantage' | 'worstAdvantage' | 'settledAt'
>;

/**
 * Judges the gate of every kind, station and lead by the records of one pair of sources. What settled later than `at` does not
 * exist for it.
 * @param records in any order; pure: the same records and time give the same book
 */
export function judgeGates(records: readonly JudgedRecord[], at: Date): GateBook {
  const byGate = groupBy(records, ({ kind, station, leadHours }) => nameOf(kind, station, leadHours));
  return decide(
    gateKeys().map((key) => {
      const own = byGate.get(nameOf(key.kind, key.stationId, key.leadHours)) ?? [];
      return { key, track: toTrack(own, key, at) };
    }),
    at,
  );
}

/** Judges all gates by what the database knew at a time, place by place: requests go in between. */
export async function readGates({ orm }: Database, sources: SourceNames, at: Date): Promise<GateBook> {
  const tracks: GateTrack[] = [];
  const since = firstDayOf(quarterAt(at) - QUARTERS + 1);
  for (const kind of temperatureKinds)
    for (const { id: stationId } of placesOf(kind)) {
      const judged = { kind, station: stationId, since, settledBy: at };
      const records = await listJudgedRecords(orm, sources, judged);
      for (const leadHours of leadsOf(kind)) {
        const key = { kind, stationId, leadHours };
        const own = records.filter((record) => record.leadHours === leadHours);
        tracks.push({ key, track: toTrack(own, key, at) });
      }
      await nextTurn();
    }
  return decide(tracks, at);
}

export const gateKeys = (): GateKey[] =>
  temperatureKinds.flatMap((kind) =>
    placesOf(kind).flatMap(({ id: stationId }) =>
      leadsOf(kind).map((leadHours) => ({ kind, stationId, leadHours })),
    ),
  );

const nameOf = (kind: TemperatureKind, stationId: string, leadHours: number): string =>
  `${kind} ${stationId} ${leadHours}`;

/** Quarters of a year, counted. */
const quarterAt = (at: Date): number => at.getUTCFullYear() * 4 + Math.floor(at.getUTCMonth() / 3);

const firstDayOf = (quarter: number): string =>
  `${Math.floor(quarter / 4)}-${String((quarter % 4) * 3 + 1).padStart(2, '0')}-01`;

/** A day at a gate: its forecasts, of which hours have many, against what the outcomes cost. */
interface JudgedDay {
  date: string;
  /** Days since 1970. */
  number: number;
  records: { advantage: number; worst: number }[];
}

/** What is known of a gate by itself. */
interface Track {
  n: number;
  dropped: number;
  evidence: number;
  difference: Gate['difference'];
}

interface GateTrack {
  key: GateKey;
  track: Track;
}

function toTrack(records: readonly JudgedRecord[], { leadHours }: GateKey, at: Date): Track {
  const since = firstDayOf(quarterAt(at) - QUARTERS + 1);
  const settled = records.filter(
    ({ date, settledAt }) => date >= since && settledAt !== null && settledAt.getTime() <= at.getTime(),
  );
  const byDate = new Map<string, JudgedDay>();
  for (const { date, method, advantage, worstAdvantage } of settled) {
    if (method === 'raw_ensemble' || advantage === null || worstAdvantage === null) continue;
    let day = byDate.get(date);
    if (!day) byDate.set(date, (day = { date, number: numberOf(date), records: [] }));
    day.records.push({ advantage, worst: worstAdvantage });
  }
  const days = [...byDate.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
  const recentSince = judgedSince(at);
  const recent = days.filter(({ date }) => date >= recentSince).map(({ records }) => -meanAdvantage(records));
  return {
    n: days.length,
    dropped: daysCovered(settled) - days.length,
    evidence: evidenceOf(days, Math.ceil(leadHours / 24), quarterAt(at)),
    difference: recent.length < 2 * gateRule.blockDays ? null : intervalOf(recent),
  };
}

const meanAdvantage = (records: JudgedDay['records']): number =>
  records.reduce((sum, { advantage }) => sum + advantage, 0) / records.length;

const intervalOf = (values: readonly number[]) =>
  blockBootstrap(values, {
    blockLength: gateRule.blockDays,
    resamples: RESAMPLES,
    confidence: gateRule.confidence,
    seed: 1,
  });

/** From the first to the last day that something has settled of: a day without a record, a price or a calibrated forecast is one of them. */
function daysCovered(settled: readonly JudgedRecord[]): number {
  if (settled.length === 0) return 0;
  let [first, last] = [settled[0]!.date, settled[0]!.date];
  for (const { date } of settled) {
    if (date < first) first = date;
    if (date > last) last = date;
  }
  return numberOf(last) - numberOf(first) + 1;
}

const numberOf = (date: string): number => Date.parse(date) / DAY_MS;

/**
 * An e-process: what a dollar has become that was bet on the forecast being ahead, a share of it each day. If no day's advantage is above
 * zero in expectation, given all that is known before the day, the dollar is a supermartingale and reaches x at any time with
 * a probability of at most 1 / x (J. Ville 1939; A. Henzi & J. Ziegel, Valid Sequential Inference on Probability Forecast
 * Performance, Biometrika 109, 2022; Y. J. Choe & A. Ramdas, Comparing Sequential Forecasters, Operations Research 72, 2024). An advantage of zero
 * on average over days is not enough for that: the share that is bet depends on what can be lost, which is known before the day, as is
 * yesterday's result. Losses count in full; gains are cut off, which only makes the dollar smaller.
 *
 * A quarter of the dollar is bet from the beginning of each of the last four quarters of a year, so that a forecast that has become
 * better need not first make up for its past. The bound of 1 / x holds within one quarter. A year of looking sees seven beginnings, and its bound
 * is 7 / 4 of that.
 *
 * A forecast made before the day before has ended does not know that day's result. As many bets as are open at once take the days in turn and
 * share the dollar. Their sum is at most 1 in expectation at any one time, but the bound for a time that somebody picks holds for the
 * evidence a day later (Henzi & Ziegel, section 3, and its correction, Biometrika 109, 1181).
 */
function evidenceOf(days: readonly JudgedDay[], betsOpen: number, quarter: number): number {
  const byBet = Array.from({ length: betsOpen }, (_, bet) =>
    days.filter(({ number }) => number % betsOpen === bet),
  );
  const begins = Array.from({ length: QUARTERS }, (_, i) => firstDayOf(quarter - QUARTERS + 1 + i));
  let sum = 0;
  for (const stake of STAKES)
    for (const own of byBet) {
      const logs = own.map(({ records }) => Math.log(growthOf(records, stake)));
      for (const from of begins)
        sum += Math.exp(own.reduce((grown, { date }, i) => (date < from ? grown : grown + logs[i]!), 0));
    }
  return sum / (STAKES.length * betsOpen * QUARTERS);
}

/** The hours of a day have their errors in common: each has its share of the day's bet. */
function growthOf(records: JudgedDay['records'], stake: number): number {
  let gains = 0;
  for (const { advantage, worst } of records)
    gains += Math.min(advantage, MOST_GAINED) * Math.min(stake, worst < 0 ? MOST_LOST / -worst : stake);
  return 1 + gains / records.length;
}

/**
 * Closed e-BH: of the gates that may open, the largest number with the best evidence for which every set S of gates that holds `a` of
 * the `open` ones has evidence of at least a / (open × false share) on average. One of these sets is that of all gates that are no
 * better than their prices; its average is at most 1 in expectation, so the expected share of such gates among the open ones is at most the
 * false share, however gates depend on each other (Z. Xu, A. Solari, L. Fischer, R. de Heide, A. Ramdas & J. Goeman, Bringing Closure
 * to False Discovery Rate Control, arXiv:2509.02517, 2025).
 */
function decide(tracks: readonly GateTrack[], at: Date): GateBook {
  const known = tracks
    .map(({ track }) => track)
    .filter(({ n, dropped }) => n + dropped > 0)
    .sort((a, b) => a.evidence - b.evidence);
  const open = new Set(known.filter(mayOpen));
  for (const weakest of open) {
    if (weakest.evidence >= evidenceNeeded(weakest, open, known)) break;
    open.delete(weakest);
  }
  const gates = tracks.map(({ key, track }): Gate => {
    const needed = evidenceNeeded(track, open, known);
    return { ...key, ...track, needed, isOpen: open.has(track), reason: describeVerdict(track, needed) };
  });
  return Object.freeze({ madeAt: at, gates });
}

const hasEnoughDays = ({ n }: Track): boolean => n >= gateRule.minimumDays;

function mayOpen(track: Track): boolean {
  const isAhead = track.difference !== null && track.difference.mean < 0;
  return hasEnoughDays(track) && isAhead && track.evidence >= LEAST_EVIDENCE;
}

/**
 * The evidence with which a gate is open together with the open ones: the most that any set of gates that holds it asks for. Among sets
 * with equally many open gates, the one with the least evidence asks for the most.
 * @param known by ascending evidence
 */
function evidenceNeeded(one: Track, open: ReadonlySet<Track>, known: readonly Track[]): number {
  const others = known.filter((track) => track !== one);
  const inside = others.filter((track) => open.has(track));
  const outside = others.filter((track) => !open.has(track));
  let needed = LEAST_EVIDENCE;
  let had = 0;
  for (let a = 1; a <= inside.length + 1; a++) {
    const each = a / ((inside.length + 1) * gateRule.falseShare);
    let asked = a * each - had;
    for (const { evidence } of outside) {
      if (evidence >= each) break;
      asked += each - evidence;
    }
    needed = Math.max(needed, asked);
    had += inside[a - 1]?.evidence ?? 0;
  }
  return needed;
}

function describeVerdict(track: Track, needed: number): string {
  const { n, evidence, difference } = track;
  if (!hasEnoughDays(track) || difference === null) {
    const days = n === 1 ? '1 day has' : `${n} days have`;
    return `${days} settled that had a calibrated forecast and prices; at least ${gateRule.minimumDays} are needed.`;
  }
  const lately = `over the last ${gateRule.windowDays} days the forecast's log score was ${comparisonOf(difference.mean)} that of the prices that could be paid`;
  const grown = `the evidence that the forecast is ahead has come to ${formatOdds(evidence)} to 1, and ${formatOdds(needed)} to 1 is needed`;
  return `Over ${n} settled days ${grown}; ${lately}.`;
}

function comparisonOf(mean: number): string {
  if (mean === 0) return 'the same as';
  return `${mean < 0 ? 'better' : 'worse'} by ${Math.abs(mean).toFixed(3)} than`;
}

/** Two digits of so many to 1; what is beyond a million says no more, and below 1 nothing speaks for it. */
export function formatOdds(ratio: number): string {
  if (ratio < 1) return 'under 1';
  return ratio >= 1e6 ? 'over 1,000,000' : formatDecimal(Number(ratio.toPrecision(2)));
}
