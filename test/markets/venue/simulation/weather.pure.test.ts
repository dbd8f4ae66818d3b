import { describe, expect, it } from 'vitest';
import { addDays, climateDayOf } from '../../../../src/markets/market/climate-day.js';
import { findStation, indexAreas, stations } from '../../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../../src/markets/venue/simulation/weather.js';
import { cityStationOf, hourSubject } from '../../../../src/markets/venue/simulation/world.js';

const weather = simulateWeather('seed');
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const days = Array.from({ length: 20 }, (_, i) => addDays('2026-01-03', i * 18));
const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

describe('the simulated weather', () => {
  it('has a temperature whose extremes in each climate day match the reports', () => {
    for (const station of stations)
      for (const date of days) {
        const { start, end } = climateDayOf(station, date);
        const curve: number[] = [];
        for (let ms = start.getTime(); ms < end.getTime(); ms += 2 * MINUTE_MS)
          curve.push(weather.temperature(station, new Date(ms)));
        const [highest, lowest] = [Math.max(...curve), Math.min(...curve)];
        expect(highest).toBeLessThanOrEqual(weather.maximum(station, date));
        expect(highest).toBeGreaterThan(weather.maximum(station, date) - 0.02);
        expect(lowest).toBeGreaterThanOrEqual(weather.minimum(station, date));
        expect(lowest).toBeLessThan(weather.minimum(station, date) + 0.02);
        expect(weather.report(station, date)).toBe(Math.round(weather.maximum(station, date)));
        expect(weather.report(station, date, 'daily_minimum')).toBe(
          Math.round(weather.minimum(station, date)),
        );
        expect(weather.minimum(station, date)).toBeLessThan(weather.maximum(station, date));
      }
  });

  it('is continuous, also over midnight', () => {
    for (const station of stations) {
      const { start } = climateDayOf(station, '2026-03-07');
      let before = weather.temperature(station, start);
      for (let ms = start.getTime(); ms < start.getTime() + 72 * HOUR_MS; ms += 5 * MINUTE_MS) {
        const now = weather.temperature(station, new Date(ms));
        expect(Math.abs(now - before)).toBeLessThan(1.5);
        before = now;
      }
    }
  });

  it('has a running maximum that only rises and a running minimum that only falls, each to the reported value', () => {
    for (const station of stations)
      for (const date of days.slice(0, 5)) {
        const { start, end } = climateDayOf(station, date);
        const early = new Date(start.getTime() - 1);
        expect(weather.running('daily_maximum', station, date, early)).toBeNull();
        expect(weather.running('daily_minimum', station, date, early)).toBeNull();
        let [highest, lowest] = [-Infinity, Infinity];
        for (let ms = start.getTime(); ms <= end.getTime(); ms += 15 * MINUTE_MS) {
          const [high, low] = [
            weather.running('daily_maximum', station, date, new Date(ms))!,
            weather.running('daily_minimum', station, date, new Date(ms))!,
          ];
          expect(high).toBeGreaterThanOrEqual(highest);
          expect(low).toBeLessThanOrEqual(lowest);
          [highest, lowest] = [high, low];
        }
        expect([highest, lowest]).toEqual([weather.maximum(station, date), weather.minimum(station, date)]);
        // At the last report, nine minutes before the day's end, the day's extremes have been reached.
        const last = new Date(end.getTime() - 9 * MINUTE_MS);
        expect(weather.running('daily_minimum', station, date, last)).toBe(lowest);
      }
  });

  it('is coldest around sunrise on most days and at a midnight on some', () => {
    const hours = stations.flatMap((station) =>
      days.map((date) => {
        const { start, end } = climateDayOf(station, date);
        const span = { start, end };
        const at = weather.decidedAt({ kind: 'daily_minimum', station, date, span });
        return (at.getTime() - start.getTime()) / HOUR_MS;
      }),
    );
    const share = (from: number, to: number) =>
      hours.filter((hour) => hour >= from && hour <= to).length / hours.length;
    expect(share(4, 9)).toBeGreaterThan(0.6);
    expect(share(20, 24)).toBeGreaterThan(0.05);
  });

  it('is warm in summer and cold in winter, close to the cities’ climates', () => {
    const year = Array.from({ length: 122 }, (_, i) => addDays('2026-01-01', i * 3));
    const means = (id: string) => {
      const station = findStation(id)!;
      return [
        mean(year.map((date) => weather.maximum(station, date))),
        mean(year.map((date) => weather.minimum(station, date))),
      ];
    };
    // Mean maxima and minima over a year, from almanacs: 63 and 49, 87 and 65, 55 and 38 °F. A simulated day's minimum
    // may also occur at its end, so it is slightly lower.
    for (const [id, high, low] of [
      ['KNYC', 63, 49],
      ['KPHX', 87, 65],
      ['KMSP', 55, 38],
    ] as const) {
      const [highs, lows] = means(id);
      expect(Math.abs(highs! - high), id).toBeLessThan(3);
      expect(lows! - low, id).toBeLessThan(3);
      expect(lows! - low, id).toBeGreaterThan(-6);
    }
    const chicago = findStation('KMDW')!;
    const month = (name: string) =>
      mean(Array.from({ length: 28 }, (_, i) => weather.maximum(chicago, addDays(`2026-${name}-01`, i))));
    expect(month('07')).toBeGreaterThan(month('01') + 25);
    expect(new Set(year.map((date) => weather.maximum(chicago, date))).size).toBe(year.length);
  });

  it('has an index for each area near its city’s temperature, in hundredths', () => {
    for (const area of indexAreas) {
      const station = cityStationOf(area);
      expect(station.city).toBe(area.city);
      const differences = days.flatMap((date) =>
        [8, 12, 20].map((hour) => {
          const subject = hourSubject(area, date, hour);
          const value = weather.value(subject);
          expect(value * 100).toBeCloseTo(Math.round(value * 100), 6);
          return value - weather.temperature(station, subject.span.end);
        }),
      );
      expect(Math.max(...differences.map(Math.abs))).toBeLessThan(5);
      expect(new Set(differences).size).toBe(differences.length);
    }
  });
});
