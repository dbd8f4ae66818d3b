import { createRecall } from '../../../core/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../core/time.js';
import type { ClimateDay } from '../../market/climate-day.js';
import type { Station } from '../../market/stations.js';
import { blend, gaussian, nextGaussian, smoothNoise, uniformsOf } from './random.js';
import { cityStationOf, dailySubject, type StationDay, type SimulatedSubject } from './world.js';

const RUN_MS = 6 * HOUR_MS;
/** Time from a run's start until it is available. */
const RUN_TAKES_MS = 4 * HOUR_MS;
const MEMBERS = 31;
/** °F. Smaller than the error that the members share, so the ensemble is overconfident, as real ones are. */
const MEMBER_SPREAD_F = 1.5;
/** °F. Warm bias of the members at the daily maximum, because the grid point is not the station. */
const maximumBiasF: Readonly<Record<string, number>> = {
  KNYC: 0.4,
  KMDW: 1.2,
  KMIA: -2.1,
  KAUS: 0.8,
  KDEN: -2.5,
  KLAX: 3.5,
  KPHL: -1.9,
  KSFO: 2.4,
  KPHX: -1.6,
  KSEA: 0.6,
  KATL: 0.9,
  KBOS: -1.8,
  KDFW: 0.5,
  KDCA: 1.1,
  KLAS: -2.2,
  KHOU: 1.4,
  KMSP: 0.7,
  KOKC: -1.2,
  KMSY: 1.9,
  KSAT: 0.8,
  KSAN: 2.8,
  KTTN: -2.4,
  KEWR: 1,
  KSDF: -0.9,
};
/** The minimum's bias relative to the maximum's: if days are too warm, nights are too cold, by less. */
const MINIMUM_BIAS = -0.6;

/** Returns the warm bias of the members in °F. An hour's bias lies between the night's and the afternoon's. */
export function gridBiasF({ kind, station, span }: Pick<SimulatedSubject, 'kind' | 'station' | 'span'>) {
  const maximumBias = maximumBiasF[cityStationOf(station).id] ?? 0;
  if (kind === 'daily_maximum') return maximumBias;
  if (kind === 'daily_minimum') return MINIMUM_BIAS * maximumBias;
  const hour = (span.end.getTime() / HOUR_MS + station.standardOffsetHours) % 24;
  // 1 at 16:00, 0 at 4:00.
  const day = (1 - Math.cos(((hour - 4) / 12) * Math.PI)) / 2;
  return maximumBias * (day + MINIMUM_BIAS * (1 - day));
}

/** Number of subject days to cache, because members are expensive to compute and requested at every refresh. */
const MAX_KEPT = 2_000;

/** `LATE_MS`: standard deviation of a run's timing error. `CURVE_NOISE_F`: additional error in °F over a few hours. */
const LATE_MS = 40 * MINUTE_MS;
const CURVE_NOISE_F = 0.8;
const CURVE_NOISE_HOURS = 3;

/**
 * The other model has a finer grid, different biases and slightly smaller errors. Half of its error variance is shared,
 * because models start from the same data.
 */
const other = { biasShare: -0.5, errorShare: 0.9, inCommon: Math.SQRT1_2 };

/** The weights minimize the error; `errorShare` is what remains of the ensemble's. */
const best = { ensemble: 0.35, single: 0.65, errorShare: 0.87 };

/** Correlation time of the error: runs of the same day share most of it. */
const ERROR_LASTS_MS = 2 * DAY_MS;

/** °F (standard deviation), by hours from the run's start to the target. */
export const sharedErrorF = (leadHours: number): number => 1.2 + 0.04 * Math.max(0, leadHours);

export interface Estimate {
  /** °F. */
  mean: number;
  deviation: number;
}

/** Uses knowledge of how the simulated world is built. */
export function readModels(
  weather: Pick<Ensembles, 'members' | 'single'> & { decidedAt(subject: SimulatedSubject): Date },
  subject: SimulatedSubject,
  runAt: Date,
): Estimate {
  const ensemble = readEnsemble(weather, subject, runAt);
  const single = weather.single(subject, runAt) - other.biasShare * gridBiasF(subject);
  const leadHours = (weather.decidedAt(subject).getTime() - runAt.getTime()) / HOUR_MS;
  return {
    mean: best.ensemble * ensemble + best.single * single,
    deviation: best.errorShare * sharedErrorF(leadHours),
  };
}

/** Returns the ensemble's mean in °F without its bias. */
export function readEnsemble(weather: Pick<Ensembles, 'members'>, subject: SimulatedSubject, runAt: Date) {
  const members = weather.members(subject, runAt);
  return members.reduce((sum, member) => sum + member, 0) / members.length - gridBiasF(subject);
}

/** Runs cover today and tomorrow, so the first run for a day starts a day before it. */
const SEEN_BEFORE_MS = DAY_MS;

type Span = Pick<ClimateDay, 'start' | 'end'>;

/** A day's last run starts before the day ends; an hour's is available before the hour. */
function lastRunMs({ start, end }: Span): number {
  const isHour = start.getTime() === end.getTime();
  return isHour
    ? Math.floor((end.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS
    : (Math.ceil(end.getTime() / RUN_MS) - 1) * RUN_MS;
}

export function newestRunAt(span: Span, at: Date): Date {
  const newestAvailable = Math.floor((at.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS;
  return new Date(Math.min(newestAvailable, lastRunMs(span)));
}

export const firstRunAt = (span: Span): Date =>
  newestRunAt(span, new Date(span.start.getTime() - SEEN_BEFORE_MS));

export function runsOf(span: Span): Date[] {
  const runs: Date[] = [];
  for (let ms = firstRunAt(span).getTime(); ms <= lastRunMs(span); ms += RUN_MS) runs.push(new Date(ms));
  return runs;
}

export const firstSeenAt = ({ start }: Span, runAt: Date): Date =>
  new Date(Math.max(runAt.getTime() + RUN_TAKES_MS, start.getTime() - SEEN_BEFORE_MS));

export type Ensembles = ReturnType<typeof simulateEnsembles>;

/** Returns the seed of a subject's noise. Maxima use only the day, which keeps their values stable. */
export const seedParts = ({ kind, station, date, hour }: SimulatedSubject): (string | number)[] => [
  station.id,
  date,
  ...(kind === 'daily_maximum' ? [] : [kind]),
  ...(hour === undefined ? [] : [hour]),
];

const keyOf = (subject: SimulatedSubject, runAt: Date): string =>
  `${seedParts(subject).join(' ')} ${runAt.getTime()}`;

/** A member is the truth, the station's bias, a shared error that drifts between runs, and its own error. */
export function simulateEnsembles(
  seed: string,
  weather: {
    truth(subject: SimulatedSubject): number;
    decidedAt(subject: SimulatedSubject): Date;
    /** °F by hours since the start of the day. */
    courseOf(station: Station, date: string): (hour: number) => number;
  },
) {
  const recallMembers = createRecall<readonly number[]>(MAX_KEPT);
  const recallSingle = createRecall<number>(MAX_KEPT);
  const recallCurve = createRecall<readonly number[]>(MAX_KEPT);
  const recallError = createRecall<number>(MAX_KEPT);

  const leadHoursOf = (subject: SimulatedSubject, runMs: number): number =>
    (weather.decidedAt(subject).getTime() - runMs) / HOUR_MS;

  /** Returns a standard normal error, which all hours of a day share. */
  function errorOf(subject: SimulatedSubject, runMs: number, ...name: string[]): number {
    const { hour: _, ...day } = subject;
    const of = [seed, ...seedParts(day), 'error', ...name].join('|');
    return blend(runMs / ERROR_LASTS_MS, (knot) => recallError(`${of}|${knot}`, () => gaussian(of, knot)));
  }

  function centreOf(subject: SimulatedSubject, runMs: number): number {
    const shared = sharedErrorF(leadHoursOf(subject, runMs)) * errorOf(subject, runMs);
    return weather.truth(subject) + gridBiasF(subject) + shared;
  }

  function makeSingle(subject: SimulatedSubject, runMs: number): number {
    const { biasShare, errorShare, inCommon } = other;
    const own = Math.sqrt(1 - inCommon ** 2) * errorOf(subject, runMs, 'single');
    const error = errorShare * (inCommon * errorOf(subject, runMs) + own);
    const shared = sharedErrorF(leadHoursOf(subject, runMs)) * error;
    return toTenths(weather.truth(subject) + biasShare * gridBiasF(subject) + shared);
  }

  function makeMembers(subject: SimulatedSubject, runMs: number): readonly number[] {
    const centre = centreOf(subject, runMs);
    const next = uniformsOf(seed, ...seedParts(subject), runMs);
    return Array.from({ length: MEMBERS }, () => toTenths(centre + MEMBER_SPREAD_F * nextGaussian(next)));
  }

  /** Shifts the day's true temperatures in time and rescales them to the forecast low and high. */
  function makeCurve(stationDay: StationDay, runMs: number): readonly number[] {
    const { station, day } = stationDay;
    const [high, low] = (['daily_maximum', 'daily_minimum'] as const).map((kind) => {
      const subject = dailySubject(kind, stationDay);
      return { truth: weather.truth(subject), forecast: centreOf(subject, runMs) };
    }) as [Extreme, Extreme];
    const name = [seed, station.id, day.date];
    const lateMs = LATE_MS * smoothNoise(runMs / ERROR_LASTS_MS, ...name, 'late');
    const noiseAt = curveNoise(uniformsOf(...name, runMs, 'curve'));
    const temperatureAt = weather.courseOf(station, day.date);
    const stretch = (high.forecast - low.forecast) / (high.truth - low.truth);
    return Array.from({ length: 24 }, (_, hour) => {
      const atMs = day.start.getTime() + hour * HOUR_MS - lateMs;
      const within = Math.max(day.start.getTime(), Math.min(day.end.getTime() - 1, atMs));
      const truth = temperatureAt((Math.trunc(within) - day.start.getTime()) / HOUR_MS);
      return toTenths(low.forecast + (truth - low.truth) * stretch + noiseAt(hour));
    });
  }

  return {
    /** °F per member. */
    members: (subject: SimulatedSubject, runAt: Date) =>
      recallMembers(keyOf(subject, runAt), () => makeMembers(subject, runAt.getTime())),
    /** The other model's single run, °F. */
    single: (subject: SimulatedSubject, runAt: Date) =>
      recallSingle(keyOf(subject, runAt), () => makeSingle(subject, runAt.getTime())),
    /** Ensemble mean at hours 0 to 23 of local standard time, °F. */
    curve: (stationDay: StationDay, runAt: Date) =>
      recallCurve(`${stationDay.station.id} ${stationDay.day.date} ${runAt.getTime()}`, () =>
        makeCurve(stationDay, runAt.getTime()),
      ),
  };
}

/** Returns noise in °F by hour, blended between knots as in `smoothNoise`, but computed from a single hash. */
function curveNoise(next: () => number): (hour: number) => number {
  const knots = Array.from({ length: 24 / CURVE_NOISE_HOURS + 1 }, () => nextGaussian(next));
  return (hour) => {
    const angle = ((hour % CURVE_NOISE_HOURS) / CURVE_NOISE_HOURS) * (Math.PI / 2);
    const knot = Math.floor(hour / CURVE_NOISE_HOURS);
    return CURVE_NOISE_F * (Math.cos(angle) * knots[knot]! + Math.sin(angle) * knots[knot + 1]!);
  };
}

interface Extreme {
  truth: number;
  forecast: number;
}

const toTenths = (degrees: number): number => Math.round(degrees * 10) / 10;
