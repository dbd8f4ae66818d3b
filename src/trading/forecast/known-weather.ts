import { targetKey } from '../market/market.js';
import type { DayEnsemble, ObservedExtreme, WeatherData } from './forecast.js';
import { isPossible } from './moments.js';

/** A spread of fewer members says nothing. */
export const MIN_MEMBERS = 10;

/** By target: the newest ensemble that can be used, and the extreme that was reported. */
export function whatWasKnown({ ensembles, observed }: WeatherData, at: Date) {
  const newest = new Map<string, DayEnsemble>();
  for (const ensemble of ensembles) {
    if (ensemble.fetchedAt > at || ensemble.modelRunAt > at || !isUsable(ensemble.membersF)) continue;
    const key = targetKey(ensemble);
    const found = newest.get(key);
    if (!found || isNewer(ensemble, found)) newest.set(key, ensemble);
  }
  const extremes = new Map<string, ObservedExtreme>();
  for (const observation of observed) {
    const { fetchedAt, observedAt, extremeF } = observation;
    if (fetchedAt > at || observedAt > at || !isPossible(extremeF)) continue;
    const key = targetKey(observation);
    const found = extremes.get(key);
    // A later report of the same day is never less extreme, so the newest is what counts.
    if (!found || observedAt > found.observedAt) extremes.set(key, observation);
  }
  return { ensembles: newest, observed: extremes };
}

const isUsable = (membersF: readonly number[]): boolean =>
  membersF.length >= MIN_MEMBERS && membersF.every(isPossible);

const isNewer = (a: DayEnsemble, b: DayEnsemble): boolean =>
  a.modelRunAt.getTime() === b.modelRunAt.getTime() ? a.fetchedAt > b.fetchedAt : a.modelRunAt > b.modelRunAt;
