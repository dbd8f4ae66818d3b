import { describe, expect, it } from 'vitest';
import { noFits } from '../../../src/markets/learning/fits.js';
import { noGates } from '../../../src/markets/signals/signal.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { groupEvents } from '../../../src/markets/market/event.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { climateDayOf, hourOf } from '../../../src/markets/market/climate-day.js';
import { findPlace, stations } from '../../../src/markets/market/stations.js';
import { makeSignals } from '../../../src/markets/signals/signals.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { everything, hourSubject, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { DOLLAR } from '../../../src/markets/market/money.js';

const seed = 'seed';
const weather = simulateWeather(seed);
const signal = new AbortController().signal;
const DAY_MS = 86_400_000;
const leading = { ...everything, stations: leadingStations };

function readAt(time: number | string, selection = everything) {
  const clock = { now: () => (typeof time === 'string' ? Date.parse(time) : time) };
  return createSimulatedWeatherSource({ clock, seed, weather }, selection).read(signal);
}

describe('the simulated forecasts', () => {
  it('depend on seed and clock alone, whatever was requested before', async () => {
    let now = Date.parse('2026-07-04T20:00:00Z');
    const source = createSimulatedWeatherSource({ clock: { now: () => now }, seed, weather });
    const first = await source.read(signal);
    now += DAY_MS;
    await source.read(signal);
    now -= DAY_MS;
    expect(await source.read(signal)).toEqual(first);
    expect(await readAt(now)).toEqual(first);
  });

  it('contain nothing that is not yet available', async () => {
    for (let hour = 0; hour < 24; hour++) {
      const at = new Date(Date.parse('2026-07-04T00:30:00Z') + hour * 3_600_000);
      const { ensembles, observed } = await readAt(at.getTime(), leading);
      for (const { modelRunAt, fetchedAt } of ensembles) {
        expect(fetchedAt <= at).toBe(true);
        expect(at.getTime() - modelRunAt.getTime()).toBeGreaterThanOrEqual(4 * 3_600_000);
      }
      expect(new Set(ensembles.map(({ kind }) => kind)).size).toBe(3);
      for (const { kind, observedAt, date, hour, stationId, extremeF } of observed) {
        expect(observedAt <= at).toBe(true);
        const station = findPlace(stationId)!;
        if (kind === 'daily_maximum') expect(extremeF).toBeLessThanOrEqual(weather.maximum(station, date));
        else if (kind === 'daily_minimum')
          expect(extremeF).toBeGreaterThanOrEqual(weather.minimum(station, date));
        else {
          // The index publishes each hour's value five minutes after the hour.
          expect(at.getTime() - observedAt.getTime()).toBeGreaterThanOrEqual(300_000);
          expect(observedAt).toEqual(hourOf(station, date, hour!));
          expect(extremeF).toBe(weather.value(hourSubject(station, date, hour!)));
        }
      }
    }
  });

  it('are biased by station and overconfident', async () => {
    const errors = new Map<string, number[]>();
    const spreads: number[] = [];
    const note = (of: string, error: number) => errors.set(of, [...(errors.get(of) ?? []), error]);
    for (let day = 0; day < 200; day++) {
      const { ensembles } = await readAt(Date.parse('2026-01-01T18:00:00Z') + day * DAY_MS, {
        stations: leadingStations,
        kinds: ['daily_maximum', 'daily_minimum'],
      });
      for (const station of leadingStations) {
        const of = (kind: string) =>
          ensembles.filter(
            ({ stationId, kind: its, model }) =>
              stationId === station.id && its === kind && model === undefined,
          )[4]!;
        const { membersF, date } = of('daily_maximum');
        const mean = membersF.reduce((sum, x) => sum + x, 0) / membersF.length;
        note(station.id, mean - weather.maximum(station, date));
        const ofMinimum = of('daily_minimum');
        const meanOfMinimum = ofMinimum.membersF.reduce((sum, x) => sum + x, 0) / membersF.length;
        note(`${station.id} minimum`, meanOfMinimum - weather.minimum(station, date));
        spreads.push(
          Math.sqrt(membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (membersF.length - 1)),
        );
      }
    }
    const mean = (values: number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;
    // With 200 errors and a standard deviation above 2, a mean is known to within about 0.25.
    expect(mean(errors.get('KLAX')!)).toBeCloseTo(3.5, 0);
    expect(mean(errors.get('KMIA')!)).toBeCloseTo(-2.1, 0);
    // Nights are too cold where days are too warm.
    expect(mean(errors.get('KLAX minimum')!)).toBeCloseTo(-2.1, 0);
    const chicago = errors.get('KMDW')!;
    const deviation = Math.sqrt(mean(chicago.map((error) => (error - mean(chicago)) ** 2)));
    expect(mean(spreads)).toBeLessThan(0.8 * deviation);
  });

  it('end at the reported value', async () => {
    const date = '2026-07-04';
    const { markets } = await createSimulatedSource({
      clock: { now: () => Date.parse('2026-07-05T09:00:00Z') },
      seed,
      weather,
    }).read(signal);
    const at = new Date('2026-07-05T09:00:00Z');
    const forecasts = rawEnsemble({
      source: 's',
      weather: await readAt(at.getTime()),
      events: groupEvents(markets),
      fits: noFits,
      at,
    });
    for (const station of stations) {
      const day = forecasts.get(station.id)!.days.find((day) => day.date === date)!;
      expect(climateDayOf(station, date).end <= at).toBe(true);
      expect(day.quantiles[3]!.temperatureF).toBe(weather.report(station, date));
      expect([...day.probabilities.values()].toSorted((a, b) => a - b)).toEqual([0, 0, 0, 0, 0, 1 - 1e-7]);
    }
  });

  it('give every open demo market a forecast and either a signal or a reason', async () => {
    const at = new Date('2026-11-21T18:00:00Z');
    const clock = { now: () => at.getTime() };
    const data = await createSimulatedSource({ clock, seed, weather }).read(signal);
    const events = groupEvents(data.markets);
    const forecasts = rawEnsemble({
      source: 's',
      weather: await readAt(at.getTime()),
      events,
      fits: noFits,
      at,
    });
    const report = makeSignals({ data, events, forecasts, gates: noGates, bankroll: 1_000n * DOLLAR, at });
    const maxima = new Set(stations.map(({ series }) => series.maximum));
    const ofMaxima = report.events.filter(({ eventTicker }) => maxima.has(eventTicker.split('-')[0]!));
    expect(ofMaxima).toHaveLength(48);
    const reasons = new Set<string>();
    for (const { signals, suppressed } of ofMaxima) {
      expect(signals.length + suppressed.length).toBe(12);
      for (const { reason } of suppressed) reasons.add(reason.replace(/\d[\d.]*/, 'N'));
    }
    expect(
      [...reasons].every((reason) =>
        /^(after the fee it costs N points more than it is worth|its order book|withheld: |it is not worth|its stake is|its exact fee|better purchases)/.test(
          reason,
        ),
      ),
    ).toBe(true);
  });
});
