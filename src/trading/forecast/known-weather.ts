import type { DayEnsemble, ObservedExtreme, WeatherData } from './forecast.js';
import { isPossible } from './moments.js';

/** A spread of fewer members says nothing. */
export const MIN_MEMBERS = 10;

export const keyOf = (stationId: string, date: string): string => `${stationId} ${date}`;

/** By station and day: the newest ensemble that can be used, and the highest temperature that was reported. */
export function whatWasKnown({ ensembles, observed }: WeatherData, at: Date) {
  const newest = new Map<string, DayEnsemble>();
  for (const ensemble of ensembles) {
    if (ensemble.fetchedAt > at || ensemble.modelRunAt > at || !isUsable(ensemble.membersF)) continue;
    const key = keyOf(ensemble.stationId, ensemble.date);
    const found = newest.get(key);
    if (!found || isNewer(ensemble, found)) newest.set(key, ensemble);
  }
  const highest = new Map<string, ObservedExtreme>();
  for (const observation of observed) {
    const { fetchedAt, observedAt, extremeF } = observation;
    if (fetchedAt > at || observedAt > at || !isPossible(extremeF)) continue;
    const key = keyOf(observation.stationId, observation.date);
    const found = highest.get(key);
    // A later report of the same day is never lower, so the newest is the highest.
    if (!found || observedAt > found.observedAt) highest.set(key, observation);
  }
  return { ensembles: newest, observed: highest };
}

const isUsable = (membersF: readonly number[]): boolean =>
  membersF.length >= MIN_MEMBERS && membersF.every(isPossible);

const isNewer = (a: DayEnsemble, b: DayEnsemble): boolean =>
  a.modelRunAt.getTime() === b.modelRunAt.getTime() ? a.fetchedAt > b.fetchedAt : a.modelRunAt > b.modelRunAt;
