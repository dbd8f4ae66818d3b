import type { ClimateDay } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import { nextGaussian, smoothNoise, uniformsOf } from './random.js';
import { createRecall } from './recall.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const RUN_MS = 6 * HOUR_MS;
/** A run is there some hours after it was started. */
const RUN_TAKES_MS = 4 * HOUR_MS;
const MEMBERS = 31;
/** °F. Less than the error that the members share: the ensemble is surer than it may be, as real ones are. */
const MEMBER_SPREAD_F = 1.5;
/** °F. The grid point is not the station: what the members are too warm by, on every day. */
export const gridBiasF: Readonly<Record<string, number>> = {
  KNYC: 0.4,
  KMDW: 1.2,
  KMIA: -2.1,
  KAUS: 0.8,
  KDEN: -2.5,
  KLAX: 3.5,
  KPHL: -1.9,
};
/** Members are made of many numbers, and asked for again with every refresh: as many days are kept. */
const MAX_KEPT = 500;

/** Runs share most of their error with those of the same day: it is made anew every other day. */
const ERROR_LASTS_MS = 2 * DAY_MS;

/** °F: the standard deviation of the error that all members of a run share, by hours from its start to the day's peak. */
export const sharedErrorF = (leadHours: number): number => 1.2 + 0.04 * Math.max(0, leadHours);

/** Runs are made for today and tomorrow, so a day's first one is there a day before it begins. */
const SEEN_BEFORE_MS = DAY_MS;

/** The start of the newest run that is there at a time and was started before the day was over. */
export function newestRunAt({ end }: ClimateDay, at: Date): Date {
  const there = Math.floor((at.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS;
  return new Date(Math.min(there, (Math.ceil(end.getTime() / RUN_MS) - 1) * RUN_MS));
}

/** The starts of all runs that are there at some time for a day. */
export function runsOf(day: ClimateDay): Date[] {
  const first = newestRunAt(day, new Date(day.start.getTime() - SEEN_BEFORE_MS));
  const runs: Date[] = [];
  for (let ms = first.getTime(); ms < day.end.getTime(); ms += RUN_MS) runs.push(new Date(ms));
  return runs;
}

/** When a run is first there for a day. */
export const firstSeenAt = ({ start }: ClimateDay, runAt: Date): Date =>
  new Date(Math.max(runAt.getTime() + RUN_TAKES_MS, start.getTime() - SEEN_BEFORE_MS));

/** The day's maximum of each member of a run, °F. */
export type Ensembles = (station: Station, date: string, runAt: Date) => readonly number[];

/**
 * Ensembles of the invented world: around the truth, with the station's bias, an error that all members share and that
 * drifts from run to run, and each member's own.
 */
export function simulateEnsembles(
  seed: string,
  weather: { maximum(station: Station, date: string): number; peak(station: Station, date: string): Date },
): Ensembles {
  const recall = createRecall<readonly number[]>(MAX_KEPT);

  function make(station: Station, date: string, runMs: number): readonly number[] {
    const leadHours = (weather.peak(station, date).getTime() - runMs) / HOUR_MS;
    const shared =
      sharedErrorF(leadHours) * smoothNoise(runMs / ERROR_LASTS_MS, seed, station.id, date, 'error');
    const centre = weather.maximum(station, date) + (gridBiasF[station.id] ?? 0) + shared;
    const next = uniformsOf(seed, station.id, date, runMs);
    return Array.from({ length: MEMBERS }, () => toTenths(centre + MEMBER_SPREAD_F * nextGaussian(next)));
  }

  return (station, date, runAt) =>
    recall(`${station.id} ${date} ${runAt.getTime()}`, () => make(station, date, runAt.getTime()));
}

/** As weather services give them. */
const toTenths = (degrees: number): number => Math.round(degrees * 10) / 10;
