import { HOUR_MS } from '../../../core/time.js';
import { probabilityOf, sureDegree, type TemperatureDistribution } from '../../market/distribution.js';
import type { Bracket } from '../../market/brackets.js';
import { gridBiasF, seedParts, newestRunAt, readModels, type Estimate } from './ensemble.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';
import { cityStationOf, type SimulatedSubject } from './world.js';

/**
 * In most cities prices match the best possible forecast. In these, they lean towards the grid point, which is not the
 * station, by this share of the traders' uncertainty while few watch.
 */
const leans: Readonly<Record<string, number>> = {
  KMIA: 1.45,
  KDEN: 1.3,
  KLAX: 1.45,
  KPHL: 1.3,
  KSFO: 1.3,
  KPHX: 0.4,
  KBOS: 0.3,
  KLAS: 1.3,
  KMSY: 0.3,
  KSAN: 1.3,
  KTTN: 1.3,
};

/** Share of the lean that stays while many watch. */
const LASTING = 0.25;
/** The thermometer corrects the grid point in the last hours. */
const CORRECTED_HOURS = 3;

export interface Belief {
  /** °F, before truncation by that day's observations. */
  meanF: number;
  probabilityOf(bracket: Bracket): number;
}

/** Combines both models, an own view that sharpens as the peak nears, and the thermometer so far. */
export function believe(
  seed: string,
  weather: SimulatedWeather,
  subject: SimulatedSubject,
  at: Date,
): Belief {
  const lean = leans[cityStationOf(subject.station).id];
  const read = readModels(weather, subject, newestRunAt(subject.span, at));
  const hoursAhead = (weather.decidedAt(subject).getTime() - at.getTime()) / HOUR_MS;
  const seenDeviation = insightF(hoursAhead, lean === undefined ? 2 : 8);
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, ...seedParts(subject), 'crowd');
  const seen = { mean: weather.truth(subject) + seenDeviation * error, deviation: seenDeviation };
  const { mean, deviation } = weigh(read, seen);
  const leaning = lean === undefined ? 0 : lean * leaningAt(subject, at, hoursAhead) * deviation;
  return toBelief(subject, mean + leaning, deviation, soFar(weather, subject, at));
}

/** From −1 to 1: towards the grid point, fully only at noon and midnight, when few trade. */
function leaningAt(subject: SimulatedSubject, at: Date, hoursAhead: number): number {
  const hour = at.getTime() / HOUR_MS + cityStationOf(subject.station).standardOffsetHours;
  // 1 at noon and midnight, a half 40 minutes away. Minima have few traders at any time, and those watch.
  const inattention = subject.kind === 'daily_minimum' ? 0 : Math.cos((Math.PI * hour) / 12) ** 48;
  const uncorrected = Math.max(0, Math.min(1, hoursAhead / CORRECTED_HOURS));
  return Math.sign(gridBiasF(subject)) * uncorrected * (LASTING + (1 - LASTING) * inattention);
}

function soFar(
  weather: SimulatedWeather,
  { kind, station, date }: SimulatedSubject,
  at: Date,
): number | null {
  if (kind === 'hourly') return null;
  return kind === 'daily_maximum'
    ? weather.runningMaximum(station, date, at)
    : weather.runningMinimum(station, date, at);
}

/** Treats a minimum as the maximum of negated temperatures, and an hour's value in hundredths. */
function toBelief(
  { kind }: SimulatedSubject,
  mean: number,
  deviation: number,
  reachedF: number | null,
): Belief {
  const scale = kind === 'hourly' ? 100 : kind === 'daily_minimum' ? -1 : 1;
  const distribution: TemperatureDistribution = {
    mean: scale * mean,
    deviation: Math.abs(scale) * deviation,
    atLeast: reachedF === null ? null : sureDegree(scale * reachedF),
  };
  return { meanF: mean, probabilityOf: (bracket) => probabilityOf(distribution, scaled(bracket, scale)) };
}

function scaled({ kind, floor, cap }: Bracket, scale: number): Bracket {
  const at = (value: number) => Math.round(value * scale);
  if (kind === 'between')
    return { kind, floor: Math.min(at(floor), at(cap)), cap: Math.max(at(floor), at(cap)) };
  if (kind === 'less' ? scale > 0 : scale < 0) return { kind: 'less', floor: null, cap: at(floor ?? cap) };
  return { kind: 'greater', floor: at(floor ?? cap), cap: null };
}

/** Error of the traders' own view in °F: large a day ahead, tenths once the temperature is reached. */
const insightF = (hoursAhead: number, blindness: number): number =>
  hoursAhead > 0
    ? 0.3 + blindness * Math.expm1(hoursAhead / 8)
    : Math.max(0.05, 0.3 * Math.exp(hoursAhead / 6));

function weigh(a: Estimate, b: Estimate): Estimate {
  const [ofA, ofB] = [1 / a.deviation ** 2, 1 / b.deviation ** 2];
  return { mean: (a.mean * ofA + b.mean * ofB) / (ofA + ofB), deviation: 1 / Math.sqrt(ofA + ofB) };
}
