import { describe, expect, it } from 'vitest';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import type { DayEnsemble } from '../../../src/markets/weather/weather.js';
import { isPlaced, targetKey, targetOf } from '../../../src/markets/market/market.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { everything, type Selection } from '../../../src/markets/venue/simulation/world.js';

const HOUR_MS = 3_600_000;
const seed = 'seed';
const weather = simulateWeather(seed);
const signal = new AbortController().signal;
const range = { from: '2026-07-02', to: '2026-07-05' };

const worldAt = (time: number | string) => {
  const clock = { now: () => new Date(time).getTime() };
  return { clock, seed, weather };
};
/** One city per time zone, because all cities work alike. */
const cities = ['KNYC', 'KMDW', 'KDEN', 'KLAX'].map((id) => findStation(id)!);
const selection: Selection = { stations: cities, kinds: everything.kinds };
const weatherAt = (time: number | string) => createSimulatedWeatherSource(worldAt(time), selection);
const marketsAt = (time: number | string) => createSimulatedSource(worldAt(time), selection);
const isSame = (a: DayEnsemble, b: DayEnsemble) => targetKey(a) === targetKey(b) && a.model === b.model;
/** Maxima and minima of each city, and 13 hours of the three cities with an index. */
const A_DAY = 4 * 2 + 3 * 13;

describe('the history of the simulated forecasts', () => {
  it('has each run as it was readable on arrival, and not a moment before', async () => {
    const runs = await weatherAt('2026-09-01T00:00:00Z').history.readRuns(range, signal);
    expect(new Set(runs.map(targetKey)).size).toBe(4 * A_DAY);
    for (const run of runs.filter((_, i) => i % 11 === 0)) {
      const then = await weatherAt(run.fetchedAt.getTime()).read(signal);
      expect(then.ensembles.find((ensemble) => isSame(ensemble, run))).toEqual(run);
      const before = await weatherAt(run.fetchedAt.getTime() - 1).read(signal);
      const older = before.ensembles.find((ensemble) => isSame(ensemble, run));
      expect(older?.modelRunAt).not.toEqual(run.modelRunAt);
    }
  });

  it('has every run that was readable', async () => {
    const runs = await weatherAt('2026-09-01T00:00:00Z').history.readRuns(range, signal);
    const keyOf = (run: DayEnsemble) =>
      `${targetKey(run)} ${run.modelRunAt.toISOString()} ${run.model ?? ''}`;
    const byKey = new Map(runs.map((run) => [keyOf(run), run]));
    expect(byKey.size).toBe(runs.length);
    expect(new Set(runs.map(({ kind }) => kind)).size).toBe(3);
    const seen = new Set<string>();
    for (let ms = Date.parse('2026-06-30T00:00:00Z'); ms < Date.parse('2026-07-08T00:00:00Z'); ms += HOUR_MS)
      for (const ensemble of (await weatherAt(ms).read(signal)).ensembles) {
        if (ensemble.date < range.from || ensemble.date > range.to) continue;
        const key = keyOf(ensemble);
        seen.add(key);
        expect(byKey.get(key)!.membersF).toEqual(ensemble.membersF);
        expect(byKey.get(key)!.fetchedAt.getTime()).toBeLessThanOrEqual(ms);
      }
    expect(seen).toEqual(new Set(byKey.keys()));
  });

  it('ends with the present', async () => {
    const now = Date.parse('2026-07-04T11:00:00Z');
    const all = await weatherAt('2026-09-01T00:00:00Z').history.readRuns(range, signal);
    const known = await weatherAt(now).history.readRuns(range, signal);
    expect(known).toEqual(all.filter(({ fetchedAt }) => fetchedAt.getTime() <= now));
    expect(known.length).toBeLessThan(all.length);
    // The 06:00Z run becomes available at 10:00Z.
    expect(Math.max(...known.map(({ modelRunAt }) => modelRunAt.getTime()))).toBe(
      Date.parse('2026-07-04T06:00:00Z'),
    );
    for (const { modelRunAt, fetchedAt } of known)
      expect(fetchedAt.getTime() - modelRunAt.getTime()).toBeGreaterThanOrEqual(4 * HOUR_MS);
  });
});

describe('the history of the simulated markets', () => {
  it('has the final days, with their settlement temperature', async () => {
    const at = '2026-07-05T15:30:00Z';
    const days = await marketsAt(at).history.readSettledDays(range, signal);
    // July 4 becomes final nine hours after its end: at 14:00Z in the Eastern zone, at 15:00Z in the Central zone, and
    // later farther west.
    const ofDays = days.filter(({ kind }) => kind !== 'hourly');
    for (const kind of ['daily_maximum', 'daily_minimum'])
      expect(
        ofDays.filter((day) => day.date === '2026-07-04' && day.kind === kind).map((day) => day.stationId),
      ).toEqual(['KNYC', 'KMDW']);
    expect(ofDays.filter(({ date }) => date === '2026-07-05')).toEqual([]);
    expect(ofDays).toHaveLength(2 * (4 + 4 + 2));
    // Hourly markets become final 40 minutes after their hour: 10:00 in New York (14:00Z) and 9:00 in Chicago are
    // final, but no hour in Los Angeles is final yet.
    const hours = days.filter(({ date, kind }) => kind === 'hourly' && date === '2026-07-05');
    expect(hours.map(({ stationId, hour }) => `${stationId} ${hour}`)).toEqual([
      'INDEX-NYC 8',
      'INDEX-NYC 9',
      'INDEX-NYC 10',
      'INDEX-CHICAGO 8',
      'INDEX-CHICAGO 9',
    ]);
    const { markets } = await marketsAt(at).read(signal);
    for (const day of days.filter((_, i) => i % 7 === 0)) {
      const { temperatureF, knownAt } = day;
      const isOfDay = (market: (typeof markets)[number]) =>
        isPlaced(market) && targetKey(targetOf(market)) === targetKey(day);
      const statusAt = async (ms: number) => (await marketsAt(ms).read(signal)).markets.find(isOfDay)!.status;
      expect(await statusAt(knownAt.getTime())).toBe('finalized');
      expect(await statusAt(knownAt.getTime() - 1)).toBe('determined');
      const shown = markets.find(isOfDay);
      if (shown) expect(shown.settledTemperature).toBe(temperatureF);
    }
  });
});
