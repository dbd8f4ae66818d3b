import { HOUR_MS } from '../../../core/time.js';
import { probabilityOf, sureDegree, type TemperatureDistribution } from '../../market/distribution.js';
import type { Bracket } from '../../market/brackets.js';
import { gridBiasF, seedParts, newestRunAt, sharedErrorF } from './ensemble.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';
import { cityStationOf, type SimulatedSubject } from './world.js';

interface Temperament {
  /** Share of the grid point's bias that they correct; 1 reads the ensemble correctly. */
  corrected: number;
  /** Assumed uncertainty as a multiple of the true one. */
  width: number;
  blindness: number;
}

/**
 * Traders differ by city. In busy cities prices match the best possible forecast; elsewhere traders follow a grid point
 * that is not the station, or are overconfident. A calibrated forecast can profit from that.
 */
const temperaments: Readonly<Record<string, Temperament>> = {
  KNYC: { corrected: 1, width: 1, blindness: 1.5 },
  KMDW: { corrected: 1, width: 1.1, blindness: 2 },
  KMIA: { corrected: -1, width: 1.3, blindness: 8 },
  KAUS: { corrected: 1, width: 1, blindness: 1.5 },
  KDEN: { corrected: -1, width: 1.3, blindness: 8 },
  KLAX: { corrected: -0.6, width: 1.3, blindness: 8 },
  KPHL: { corrected: -0.6, width: 1.2, blindness: 8 },
  KSFO: { corrected: -0.8, width: 1.2, blindness: 8 },
  KPHX: { corrected: -1, width: 1.2, blindness: 8 },
  KBOS: { corrected: -0.5, width: 1.1, blindness: 6 },
  KLAS: { corrected: -0.8, width: 1.2, blindness: 8 },
  KMSY: { corrected: -0.5, width: 1.2, blindness: 8 },
  KSAN: { corrected: -0.8, width: 1.2, blindness: 8 },
  KTTN: { corrected: -0.8, width: 1.2, blindness: 8 },
};
const usual: Temperament = { corrected: 1, width: 1, blindness: 2 };

export interface Belief {
  /** °F, before truncation by that day's observations. */
  meanF: number;
  probabilityOf(bracket: Bracket): number;
}

/** Combines the ensemble, an own view that sharpens as the peak nears, and the thermometer so far. */
export function believe(
  seed: string,
  weather: SimulatedWeather,
  subject: SimulatedSubject,
  at: Date,
): Belief {
  const { corrected, width, blindness } = temperaments[cityStationOf(subject.station).id] ?? usual;
  const decidedMs = weather.decidedAt(subject).getTime();
  const runAt = newestRunAt(subject.span, at);
  const read = {
    mean: meanOf(weather.members(subject, runAt)) - corrected * gridBiasF(subject),
    deviation: sharedErrorF((decidedMs - runAt.getTime()) / HOUR_MS),
  };
  const seenDeviation = insightF((decidedMs - at.getTime()) / HOUR_MS, blindness);
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, ...seedParts(subject), 'crowd');
  const seen = { mean: weather.truth(subject) + seenDeviation * error, deviation: seenDeviation };
  const { mean, deviation } = weigh(read, seen);
  return toBelief(subject, mean, width * deviation, soFar(weather, subject, at));
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

interface Estimate {
  mean: number;
  deviation: number;
}

function weigh(a: Estimate, b: Estimate): Estimate {
  const [ofA, ofB] = [1 / a.deviation ** 2, 1 / b.deviation ** 2];
  return { mean: (a.mean * ofA + b.mean * ofB) / (ofA + ofB), deviation: 1 / Math.sqrt(ofA + ofB) };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
