import { createRecall } from '../../../core/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../core/time.js';
import type { ClimateDay } from '../../market/climate-day.js';
import type { Station } from '../../market/stations.js';
import { blend, gaussian, nextGaussian, smoothNoise, uniformsOf } from './random.js';
import { cityStationOf, dailySubject, type StationDay, type SimulatedSubject } from './world.js';

const RUN_MS = 6 * HOUR_MS;
/** A run is there some hours after it was started. */
const RUN_TAKES_MS = 4 * HOUR_MS;
const MEMBERS = 31;
/** °F. Less than the error that the members share: the ensemble is surer than it may be, as real ones are. */
const MEMBER_SPREAD_F = 1.5;
/** °F. The grid point is not the station: what the members are too warm by at a day's maximum, on every day. */
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
/** A grid point whose days are too warm is one whose nights are too cold, by less. */
const MINIMUM_BIAS = -0.6;

/** °F: what the members are too warm by. Of an hour it lies between that of the night and that of the afternoon. */
export function gridBiasF({
  kind,
  station,
  span,
}: Pick<SimulatedSubject, 'kind' | 'station' | 'span'>): number {
  const ofMaximum = maximumBiasF[cityStationOf(station).id] ?? 0;
  if (kind === 'daily_maximum') return ofMaximum;
  if (kind === 'daily_minimum') return MINIMUM_BIAS * ofMaximum;
  const hour = (span.end.getTime() / HOUR_MS + station.standardOffsetHours) % 24;
  // 1 at 16:00, 0 at 4:00.
  const day = (1 - Math.cos(((hour - 4) / 12) * Math.PI)) / 2;
  return ofMaximum * (day + MINIMUM_BIAS * (1 - day));
}

/** Members are made of many numbers, and asked for again with every refresh: as many days are kept. */
const MAX_KEPT = 2_000;

/** How early or late a run has a day's course (standard deviation), and °F that it is off for a few hours besides. */
const LATE_MS = 40 * MINUTE_MS;
const CURVE_NOISE_F = 0.8;
const CURVE_NOISE_HOURS = 3;

/**
 * The other model has a finer grid, whose points are warmer or colder than stations in ways of their own. Its errors are a little less,
 * and half of them those of the first one: models start from the same measurements.
 */
const other = { biasShare: -0.5, errorShare: 0.9, inCommon: Math.SQRT1_2 };

/** Runs share most of their error with those of the same day: it is made anew every other day. */
const ERROR_LASTS_MS = 2 * DAY_MS;

/** °F: the standard deviation of the error that all members of a run share, by hours from its start to what it is about. */
export const sharedErrorF = (leadHours: number): number => 1.2 + 0.04 * Math.max(0, leadHours);

/** Runs are made for today and tomorrow, so a day's first one is there a day before it begins. */
const SEEN_BEFORE_MS = DAY_MS;

type Span = Pick<ClimateDay, 'start' | 'end'>;

/** The start of the last run that says something of it: before the day was over; of an hour one that was there in time. */
function lastRunMs({ start, end }: Span): number {
  const isHour = start.getTime() === end.getTime();
  return isHour
    ? Math.floor((end.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS
    : (Math.ceil(end.getTime() / RUN_MS) - 1) * RUN_MS;
}

/** The start of the newest run that is there at a time and says something of a day or an hour. */
export function newestRunAt(span: Span, at: Date): Date {
  const there = Math.floor((at.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS;
  return new Date(Math.min(there, lastRunMs(span)));
}

/** The start of the first run that is there for a day or an hour. */
export const firstRunAt = (span: Span): Date =>
  newestRunAt(span, new Date(span.start.getTime() - SEEN_BEFORE_MS));

/** The starts of all runs that are there at some time for a day or an hour. */
export function runsOf(span: Span): Date[] {
  const runs: Date[] = [];
  for (let ms = firstRunAt(span).getTime(); ms <= lastRunMs(span); ms += RUN_MS) runs.push(new Date(ms));
  return runs;
}

/** When a run is first there for a day. */
export const firstSeenAt = ({ start }: Span, runAt: Date): Date =>
  new Date(Math.max(runAt.getTime() + RUN_TAKES_MS, start.getTime() - SEEN_BEFORE_MS));

/** What runs say. */
export interface Ensembles {
  /** Each member, °F. */
  members(subject: SimulatedSubject, runAt: Date): readonly number[];
  /** What the other model says, which is a single run, °F. */
  single(subject: SimulatedSubject, runAt: Date): number;
  /** The mean of the members at a day's hours 0 to 23 by local standard time, °F. */
  curve(day: StationDay, runAt: Date): readonly number[];
}

/** What noise about a subject is named by. Those of maxima have no more than the day, so that they stay what they were. */
export const nameOf = ({ kind, station, date, hour }: SimulatedSubject): (string | number)[] => [
  station.id,
  date,
  ...(kind === 'daily_maximum' ? [] : [kind]),
  ...(hour === undefined ? [] : [hour]),
];

/**
 * Ensembles of the invented world: around the truth, with the station's bias, an error that all members share and that
 * drifts from run to run, and each member's own.
 */
export function simulateEnsembles(
  seed: string,
  weather: {
    truth(subject: SimulatedSubject): number;
    decidedAt(subject: SimulatedSubject): Date;
    /** °F by the hours since a day's begin. */
    courseOf(station: Station, date: string): (hour: number) => number;
  },
): Ensembles {
  const recallMembers = createRecall<readonly number[]>(MAX_KEPT);
  const recallSingle = createRecall<number>(MAX_KEPT);
  const recallCurve = createRecall<readonly number[]>(MAX_KEPT);
  const recallError = createRecall<number>(MAX_KEPT);

  const leadHoursOf = (subject: SimulatedSubject, runMs: number): number =>
    (weather.decidedAt(subject).getTime() - runMs) / HOUR_MS;

  /** Standard normal. The hours of a day go wrong together. */
  function errorOf(subject: SimulatedSubject, runMs: number, ...name: string[]): number {
    const { hour: _, ...day } = subject;
    const of = [seed, ...nameOf(day), 'error', ...name].join('|');
    return blend(runMs / ERROR_LASTS_MS, (knot) => recallError(`${of}|${knot}`, () => gaussian(of, knot)));
  }

  /** What the members agree about. */
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
    const next = uniformsOf(seed, ...nameOf(subject), runMs);
    return Array.from({ length: MEMBERS }, () => toTenths(centre + MEMBER_SPREAD_F * nextGaussian(next)));
  }

  /** The day as it will be, a little early or late, drawn from the low to the high that are forecast. */
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
    members: (subject, runAt) =>
      recallMembers(`${nameOf(subject).join(' ')} ${runAt.getTime()}`, () =>
        makeMembers(subject, runAt.getTime()),
      ),
    single: (subject, runAt) =>
      recallSingle(`${nameOf(subject).join(' ')} ${runAt.getTime()}`, () =>
        makeSingle(subject, runAt.getTime()),
      ),
    curve: (stationDay, runAt) =>
      recallCurve(`${stationDay.station.id} ${stationDay.day.date} ${runAt.getTime()}`, () =>
        makeCurve(stationDay, runAt.getTime()),
      ),
  };
}

/** °F by the hour: blended between knots, as smooth noise is, which one hash is enough for. */
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

/** As weather services give them. */
const toTenths = (degrees: number): number => Math.round(degrees * 10) / 10;
