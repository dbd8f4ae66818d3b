import { DAY_MS, HOUR_MS } from '../../../core/time.js';
import { probabilityOf, sureDegree, type TemperatureDistribution } from '../../market/distribution.js';
import type { Bracket } from '../../market/brackets.js';
import { gridBiasF, seedParts, newestRunAt, readEnsemble, readModels, type Estimate } from './ensemble.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather, SimulatedWorld } from './weather.js';
import { cityStationOf, type SimulatedSubject } from './world.js';

/**
 * Cities with fewer traders. Prices lean toward the grid point instead of the station, by a share of the traders'
 * uncertainty, and few traders watch the thermometer before the peak. In the other cities, prices match the best
 * possible forecast. The gates opened while the lean was large, before the traders noticed.
 */
const quiet = new Set(['KMIA', 'KLAX', 'KPHL', 'KSFO', 'KBOS', 'KSAN']);
const EARLY_LEAN = 2;
/** Lean that remains after the traders have noticed; it shifts prices by a few cents. */
const LASTING_LEAN = 0.2;
/** Lean from a forecast that they follow: edges stay below 12 cents. */
const FOLLOWING_LEAN = 0.3;

const NOTICING_MS = 7 * DAY_MS;
/** In the last hours, observations correct the error of the grid point. */
const CORRECTED_HOURS = 3;
/** How much less the traders of a quiet city know of the day themselves, hours before its peak. */
const QUIET_INSIGHT = 3;

/** Returns when the traders must begin to notice, so that only the lasting lean is left at `at`. */
export const noticedBefore = (at: Date): Date => new Date(at.getTime() - NOTICING_MS);

/**
 * Combines both models, observations so far, and the traders' own view, which sharpens as the peak nears. `meanF` is
 * before truncation by the day's observations.
 */
export function believe(
  { seed, weather, noticedAt, forecast }: Pick<SimulatedWorld, 'seed' | 'weather' | 'noticedAt' | 'forecast'>,
  subject: SimulatedSubject,
  at: Date,
) {
  const isQuiet = quiet.has(cityStationOf(subject.station).id);
  const hoursAhead = (weather.decidedAt(subject).getTime() - at.getTime()) / HOUR_MS;
  const uncorrected = share(hoursAhead / CORRECTED_HOURS);
  const towardGrid = isQuiet ? Math.sign(gridBiasF(subject)) * uncorrected : 0;
  const followed = isQuiet && subject.kind !== 'hourly' ? forecast?.(subject, at) : undefined;
  if (followed) {
    const mean = followed.mean + FOLLOWING_LEAN * towardGrid * followed.deviation;
    return {
      meanF: mean,
      probabilityOf: (bracket: Bracket) => probabilityOf({ ...followed, mean }, bracket),
    };
  }
  const read = isQuiet
    ? readQuietly(weather, subject, at)
    : readModels(weather, subject, newestRunAt(subject.span, at));
  const seenDeviation = insightF(hoursAhead) * (isQuiet ? 1 + (QUIET_INSIGHT - 1) * uncorrected : 1);
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, ...seedParts(subject), 'crowd');
  const seen = { mean: weather.truth(subject) + seenDeviation * error, deviation: seenDeviation };
  const { mean, deviation } = weigh(read, seen);
  const lean = towardGrid * leanAt(at, noticedAt) * deviation;
  return toBelief(subject, mean + lean, deviation, soFar(weather, subject, at));
}

const share = (value: number): number => Math.max(0, Math.min(1, value));

/** A maximum as a quiet city's traders expect it: near the usual, and from the ensemble alone early in the day. */
function readQuietly(weather: SimulatedWeather, subject: SimulatedSubject, at: Date): Estimate {
  const runAt = newestRunAt(subject.span, at);
  const read = readModels(weather, subject, runAt);
  if (subject.kind !== 'daily_maximum') return read;
  const begun = share((at.getTime() - subject.span.start.getTime()) / HOUR_MS);
  const mean = read.mean + begun * (readEnsemble(weather, subject, runAt) - read.mean);
  return weigh({ ...read, mean }, weather.usual(subject));
}

/** @param noticedAt when the traders begin to notice; undefined means long ago */
function leanAt(at: Date, noticedAt: Date | undefined): number {
  const sinceMs = noticedAt ? at.getTime() - noticedAt.getTime() : Infinity;
  const unnoticed = share(1 - sinceMs / NOTICING_MS);
  return LASTING_LEAN + (EARLY_LEAN - LASTING_LEAN) * unnoticed;
}

const soFar = (weather: SimulatedWeather, { kind, station, date }: SimulatedSubject, at: Date) =>
  kind === 'hourly' ? null : weather.running(kind, station, date, at);

/** Handles a minimum as the maximum of negated temperatures, and an hour's value in hundredths. */
function toBelief({ kind }: SimulatedSubject, mean: number, deviation: number, reachedF: number | null) {
  const scale = kind === 'hourly' ? 100 : kind === 'daily_minimum' ? -1 : 1;
  const distribution: TemperatureDistribution = {
    mean: scale * mean,
    deviation: Math.abs(scale) * deviation,
    atLeast: reachedF === null ? null : sureDegree(scale * reachedF),
  };
  return {
    meanF: mean,
    probabilityOf: (bracket: Bracket) => probabilityOf(distribution, scaled(bracket, scale)),
  };
}

function scaled({ kind, floor, cap }: Bracket, scale: number): Bracket {
  const at = (value: number) => Math.round(value * scale);
  if (kind === 'between')
    return { kind, floor: Math.min(at(floor), at(cap)), cap: Math.max(at(floor), at(cap)) };
  if (kind === 'less' ? scale > 0 : scale < 0) return { kind: 'less', floor: null, cap: at(floor ?? cap) };
  return { kind: 'greater', floor: at(floor ?? cap), cap: null };
}

/** °F of the traders' own view: large a day ahead, a few tenths once the temperature is reached. */
const insightF = (hoursAhead: number): number =>
  hoursAhead > 0 ? 0.3 + 2 * Math.expm1(hoursAhead / 8) : Math.max(0.05, 0.3 * Math.exp(hoursAhead / 6));

function weigh(a: Estimate, b: Estimate): Estimate {
  const [ofA, ofB] = [1 / a.deviation ** 2, 1 / b.deviation ** 2];
  return { mean: (a.mean * ofA + b.mean * ofB) / (ofA + ofB), deviation: 1 / Math.sqrt(ofA + ofB) };
}
