import { describe, expect, it } from 'vitest';
import { createSimulatedWeatherSource } from '../../src/trading/forecast/simulated.js';
import type { DayEnsemble } from '../../src/trading/forecast/forecast.js';
import { createSimulatedSource } from '../../src/trading/markets/simulated.js';
import { simulateWeather } from '../../src/trading/simulation/weather.js';

const HOUR_MS = 3_600_000;
const seed = 'seed';
const weather = simulateWeather(seed);
const signal = new AbortController().signal;
const range = { from: '2026-07-02', to: '2026-07-05' };

const worldAt = (time: number | string) => {
  const clock = { now: () => new Date(time).getTime() };
  return { clock, seed, weather };
};
const weatherAt = (time: number | string) => createSimulatedWeatherSource(worldAt(time));
const marketsAt = (time: number | string) => createSimulatedSource(worldAt(time));
const isSameDay = (a: DayEnsemble, b: DayEnsemble) => a.stationId === b.stationId && a.date === b.date;

describe('the history of the simulated forecasts', () => {
  it('has each run as it could be read when it came, and not a moment before', async () => {
    const runs = await weatherAt('2026-09-01T00:00:00Z').history.readRuns(range, signal);
    expect(new Set(runs.map(({ stationId, date }) => `${stationId} ${date}`)).size).toBe(28);
    for (const run of runs.filter((_, i) => i % 5 === 0)) {
      const then = await weatherAt(run.fetchedAt.getTime()).read(signal);
      expect(then.ensembles.find((ensemble) => isSameDay(ensemble, run))).toEqual(run);
      const before = await weatherAt(run.fetchedAt.getTime() - 1).read(signal);
      const older = before.ensembles.find((ensemble) => isSameDay(ensemble, run));
      expect(older?.modelRunAt).not.toEqual(run.modelRunAt);
    }
  });

  it('has every run that could be read', async () => {
    const runs = await weatherAt('2026-09-01T00:00:00Z').history.readRuns(range, signal);
    const keyOf = ({ stationId, date, modelRunAt }: DayEnsemble) =>
      `${stationId} ${date} ${modelRunAt.toISOString()}`;
    const byKey = new Map(runs.map((run) => [keyOf(run), run]));
    expect(byKey.size).toBe(runs.length);
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
    // 06:00Z is there at 10:00Z.
    expect(Math.max(...known.map(({ modelRunAt }) => modelRunAt.getTime()))).toBe(
      Date.parse('2026-07-04T06:00:00Z'),
    );
    for (const { modelRunAt, fetchedAt } of known)
      expect(fetchedAt.getTime() - modelRunAt.getTime()).toBeGreaterThanOrEqual(4 * HOUR_MS);
  });
});

describe('the history of the simulated markets', () => {
  it('has the days that are finally settled, with the temperature that they were settled by', async () => {
    const at = '2026-07-05T15:30:00Z';
    const days = await marketsAt(at).history.readSettledDays(range, signal);
    // The 4th of July is final nine hours after its end: at 14:00Z in the east, 15:00Z in the middle, later in the west.
    expect(days.filter(({ date }) => date === '2026-07-04').map(({ stationId }) => stationId)).toEqual([
      'KNYC',
      'KMDW',
      'KMIA',
      'KAUS',
      'KPHL',
    ]);
    expect(days.filter(({ date }) => date === '2026-07-05')).toEqual([]);
    expect(days).toHaveLength(7 + 7 + 5);
    const { markets } = await marketsAt(at).read(signal);
    for (const { stationId, date, temperatureF, knownAt } of days.filter((_, i) => i % 4 === 0)) {
      const isOfDay = (market: (typeof markets)[number]) =>
        market.station.id === stationId && market.date === date;
      const statusAt = async (ms: number) => (await marketsAt(ms).read(signal)).markets.find(isOfDay)!.status;
      expect(await statusAt(knownAt.getTime())).toBe('finalized');
      expect(await statusAt(knownAt.getTime() - 1)).toBe('determined');
      const shown = markets.find(isOfDay);
      if (shown) expect(shown.settledTemperature).toBe(temperatureF);
    }
  });
});
