import { HOUR_MS } from '../../../core/time.js';
import { probabilityOf, sureDegree, type TemperatureDistribution } from '../../market/distribution.js';
import type { Bracket } from '../../market/brackets.js';
import { gridBiasF, nameOf, newestRunAt, sharedErrorF } from './ensemble.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';
import { cityStationOf, type SimulatedSubject } from './world.js';

/** How those who trade on a city's temperatures go about it. */
interface Temperament {
  /** The share of the grid point's bias that they know of. 1: they read the ensemble as it should be read. */
  corrected: number;
  /** What they take their uncertainty to be, as a multiple of what it is. */
  width: number;
  /** How little they know besides the ensemble, see `insightF`. */
  blindness: number;
}

/**
 * Every city has its own crowd. Where many trade, prices are as good as any forecast can be; elsewhere they follow a grid
 * point that is not the station, or are surer than they may be. That is what a calibrated forecast can find.
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
  /** °F, before anything that has been seen of the day is taken off. */
  meanF: number;
  probabilityOf(bracket: Bracket): number;
}

/**
 * What those who trade in the invented world believe about a temperature. They read the same ensemble as all, weigh
 * it against what they see of the day themselves, which is more the nearer the day's peak is, and read the thermometer.
 */
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
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, ...nameOf(subject), 'crowd');
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

/** A minimum is the maximum of the temperatures below zero turned around; an hour is counted in hundredths. */
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

/** The bracket of the same values times 100 or −1, in whole numbers. */
function scaled({ kind, floor, cap }: Bracket, scale: number): Bracket {
  const at = (value: number) => Math.round(value * scale);
  if (kind === 'between')
    return { kind, floor: Math.min(at(floor), at(cap)), cap: Math.max(at(floor), at(cap)) };
  if (kind === 'less' ? scale > 0 : scale < 0) return { kind: 'less', floor: null, cap: at(floor ?? cap) };
  return { kind: 'greater', floor: at(floor ?? cap), cap: null };
}

/** °F: the error of what can be seen of a temperature. A day ahead that is nothing; once it is there only tenths are open. */
const insightF = (hoursAhead: number, blindness: number): number =>
  hoursAhead > 0
    ? 0.3 + blindness * Math.expm1(hoursAhead / 8)
    : Math.max(0.05, 0.3 * Math.exp(hoursAhead / 6));

interface Estimate {
  mean: number;
  deviation: number;
}

/** Two independent estimates as one, each with the weight of its precision. */
function weigh(a: Estimate, b: Estimate): Estimate {
  const [ofA, ofB] = [1 / a.deviation ** 2, 1 / b.deviation ** 2];
  return { mean: (a.mean * ofA + b.mean * ofB) / (ofA + ofB), deviation: 1 / Math.sqrt(ofA + ofB) };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
