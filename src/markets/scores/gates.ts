import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../core/db/client.js';
import { groupBy } from '../../core/collections.js';
import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import type { SourceNames } from '../learning/queries.js';
import { dateOf } from '../market/climate-day.js';
import { temperatureKinds } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { type Gate, type GateBook, type GateKey, leadsOf } from '../signals/signal.js';
import { blockBootstrap } from './bootstrap.js';
import { listJudgedRecords, type JudgedRecord } from './queries.js';

/** See docs/decisions/030-gates-that-cannot-be-lucky.md. */
export const gateRule = Object.freeze({
  /** Among the open gates: forecasts that were not expected to beat their prices on any day. */
  falseShare: 0.1,
  minimumDays: 30,
  /** The forecast must not have fallen behind in these days. */
  windowDays: 90,
  /** The cube root of the window, and about as long as a weather pattern lasts. */
  blockDays: 7,
  confidence: 0.95,
});

/** One bet begins at each of the last four calendar quarters, with an equal share of the evidence. */
const QUARTERS = 4;
/** Per nat of advantage. The bet is split equally, so the best stake eventually dominates. */
const STAKES = [0.1, 0.2, 0.4, 0.7];
/** Share of the stake that one day can lose. */
const MAX_LOSS = 0.9;
/** In nats per day, so that no single day opens a gate. */
const MAX_GAIN = 4;
/** Whatever the evidence for other gates. */
const MIN_EVIDENCE = 1 / gateRule.falseShare;
const RESAMPLES = 1_000;

/** Error rates from simulations of 28 gates; tests check the rule against these figures. See the decision above. */
export const gateErrorRates = Object.freeze({
  gates: 28,
  /** Gates a year that ever open by chance, if no day's expected advantage is above zero; an upper bound. */
  boundary: 0.2,
  /** The same for models that match mid prices and pay `costs`. */
  equal: 0.2,
  /** In nats per day: one cent above the mid price in whole cents, and the taker's fee. */
  costs: 0.15,
  /** Gates that ever open in a year for models that beat mid prices by `betterBy` and pay `costs`; a lower bound. */
  better: 25,
  betterBy: 0.32,
  /** Half of the `better` gates are then open. */
  betterAfterDays: 140,
  /** Gates that ever open in two years with an advantage over the prices of `smallBy` nats a day; a lower bound. */
  small: 15,
  smallBy: 0.05,
});

export const gateRuleText =
  `A gate opens on evidence that the forecast beats the payable prices, including spread and fees. The evidence is the value of one dollar that was bet on each day's difference in log score (an e-process). ` +
  `The guarantee is about each day's expected advantage over those prices, given everything known before the day: if it is never above zero, the evidence averages at most 1 at any time. ` +
  `All gates are decided together (closed e-BH), so that at any time at most ${gateRule.falseShare * 100}% of the open gates are expected to lack such an advantage; each needs evidence of at least ${MIN_EVIDENCE} to 1. ` +
  `It guarantees nothing about models that are only equally good on average: such a model can have an expected advantage on days that are recognisable beforehand, and without spread and fees its gate can open. ` +
  `At least ${gateRule.minimumDays} days must have settled, and a forecast that has been behind over the last ${gateRule.windowDays} closes its gate. While a gate is closed, its signals are withheld.`;

export const judgedSince = (at: Date): string => dateOf(at.getTime() - gateRule.windowDays * DAY_MS);

/**
 * Ignores records that settled after `at`. Pure: the same records and time give the same book.
 * @param records in any order
 */
export function judgeGates(records: readonly JudgedRecord[], at: Date): GateBook {
  const byGate = groupBy(records, ({ station: stationId, ...record }) => gateKey({ stationId, ...record }));
  const toTracks = (key: GateKey) => ({ key, track: toTrack(byGate.get(gateKey(key)) ?? [], key, at) });
  return decide(gateKeys().map(toTracks), at);
}

/** One place at a time, so that requests can run in between. */
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

export const gateKey = ({ kind, stationId, leadHours }: GateKey): string =>
  `${kind} ${stationId} ${leadHours}`;

const quarterAt = (at: Date): number => at.getUTCFullYear() * 4 + Math.floor(at.getUTCMonth() / 3);

const firstDayOf = (quarter: number): string =>
  `${Math.floor(quarter / 4)}-${String((quarter % 4) * 3 + 1).padStart(2, '0')}-01`;

/** Compares a forecast with the cost of its outcomes; hourly kinds have many records a day. */
interface JudgedDay {
  date: string;
  /** Days since 1970-01-01. */
  number: number;
  records: { advantage: number; worst: number }[];
}

type Track = ReturnType<typeof toTrack>;

interface GateTrack {
  key: GateKey;
  track: Track;
}

function toTrack(records: readonly JudgedRecord[], { leadHours }: GateKey, at: Date) {
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

/** Includes days without a record, a price or a calibrated forecast. */
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
 * An e-process: the value of one dollar, a share of which is bet each day on the forecast being ahead. If no day's
 * advantage has a positive expectation given everything known before the day, the dollar is a supermartingale and ever
 * reaches x with a probability of at most 1 / x (J. Ville 1939; A. Henzi & J. Ziegel, Valid Sequential Inference on
 * Probability Forecast Performance, Biometrika 109, 2022; Y. J. Choe & A. Ramdas, Comparing Sequential Forecasters,
 * Operations Research 72, 2024). A mean advantage of zero over days is not enough, because the share that is bet
 * depends on the possible loss, which is known before the day, as is the previous day's result. Losses count in full;
 * gains are capped, which can only make the dollar smaller.
 *
 * A quarter of the dollar is bet from the start of each of the last four calendar quarters, so that an improved
 * forecast need not first make up for its past. The bound of 1 / x holds within one quarter. A year spans seven starts,
 * so its bound is 7 / 4 times as large.
 *
 * A forecast made before the previous day has ended cannot reflect that day's result. The dollar is therefore split
 * into as many bets as are open at the same time, and the bets take turns by day. Their sum has an expectation of at
 * most 1 at any fixed time; at a stopping time, the bound holds for the evidence one day later (Henzi & Ziegel, section
 * 3, and its correction, Biometrika 109, 1181).
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

/** Hours of a day share their errors, so each gets an equal share of the bet. */
function growthOf(records: JudgedDay['records'], stake: number): number {
  let gains = 0;
  for (const { advantage, worst } of records)
    gains += Math.min(advantage, MAX_GAIN) * Math.min(stake, worst < 0 ? MAX_LOSS / -worst : stake);
  return 1 + gains / records.length;
}

/**
 * Closed e-BH. Opens the largest number of eligible gates with the best evidence such that every set S of gates that
 * contains `a` of the `open` ones has mean evidence of at least a / (open × false share). The set of all gates that do
 * not beat their prices is one such S, and its mean has an expectation of at most 1. The expected share of such gates
 * among the open ones is therefore at most the false share, however the gates depend on each other (Z. Xu, A. Solari,
 * L. Fischer, R. de Heide, A. Ramdas & J. Goeman, Bringing Closure to False Discovery Rate Control, arXiv:2509.02517,
 * 2025).
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
    const isOpen = open.has(track);
    return { ...key, ...track, needed, isOpen, reason: describeVerdict(track, needed, isOpen) };
  });
  return Object.freeze({ madeAt: at, gates });
}

const hasEnoughDays = ({ n }: Track): boolean => n >= gateRule.minimumDays;

function mayOpen(track: Track): boolean {
  const isAhead = track.difference !== null && track.difference.mean < 0;
  return hasEnoughDays(track) && isAhead && track.evidence >= MIN_EVIDENCE;
}

/**
 * The most that any set containing the gate requires; of sets with equally many open gates, the one with the least
 * evidence.
 * @param known by ascending evidence
 */
function evidenceNeeded(one: Track, open: ReadonlySet<Track>, known: readonly Track[]): number {
  const others = known.filter((track) => track !== one);
  const inside = others.filter((track) => open.has(track));
  const outside = others.filter((track) => !open.has(track));
  let needed = MIN_EVIDENCE;
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

function describeVerdict(track: Track, needed: number, isOpen: boolean): string {
  const { n, evidence, difference } = track;
  const days = formatCount(n, 'day');
  if (!hasEnoughDays(track) || difference === null)
    return `${days} ${n === 1 ? 'has' : 'have'} settled that had a calibrated forecast and prices; at least ${gateRule.minimumDays} are needed.`;
  const odds = `odds of ${formatOdds(evidence)} to 1 (${formatOdds(needed)} to 1 are needed)`;
  if (isOpen) return `Proven over ${days}: ${odds}.`;
  if (difference.mean < 0) return `Not proven after ${days}: ${odds}.`;
  return `No better than the prices over the last ${gateRule.windowDays} days. After ${days}: ${odds}.`;
}

/** To 1, with two significant digits, in the informative range. */
function formatOdds(ratio: number): string {
  if (ratio < 1) return 'under 1';
  return ratio >= 1e6 ? 'over 1,000,000' : formatDecimal(Number(ratio.toPrecision(2)));
}
