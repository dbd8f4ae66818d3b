import { describe, expect, it } from 'vitest';
import { noFits } from '../../../src/markets/learning/fits.js';
import { forecastOf } from '../../../src/markets/learning/forecast.js';
import { forecastRunning, withMinutes, type HourFit } from '../../../src/markets/learning/running-day.js';
import { fitSameDay, type SameDayCase } from '../../../src/markets/learning/same-day.js';
import { probabilityWithin, type TemperatureDistribution } from '../../../src/markets/market/distribution.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { createMinuteBook, type MemberReading } from '../../../src/markets/weather/minutes.js';
import type {
  DayEnsemble,
  MinuteBound,
  MinuteLevel,
  ObservedExtreme,
} from '../../../src/markets/weather/weather.js';
import { makeEvent } from '../support/events.js';
import { rawEnsemble } from './raw-ensemble.js';

describe('the forecast of a day with one-minute readings', () => {
  const date = '2026-09-13';
  const at = new Date('2026-09-13T19:00:00Z');
  const event = makeEvent({ date, lowest: 84 });
  const ensemble: DayEnsemble = {
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date,
    modelRunAt: new Date('2026-09-13T00:00:00Z'),
    fetchedAt: new Date('2026-09-13T05:00:00Z'),
    membersF: [83, 84, 84, 85, 85, 86, 86, 87, 87, 88],
  };
  const observed = (minutes?: MinuteBound, more: Partial<ObservedExtreme> = {}): ObservedExtreme => ({
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date,
    extremeF: 84.9,
    observedAt: new Date('2026-09-13T18:51:00Z'),
    fetchedAt: new Date('2026-09-13T18:55:00Z'),
    ...(minutes && { minutes }),
    ...more,
  });
  const bound = { lowestF: 87, highestF: 88, at: new Date('2026-09-13T18:31:00Z'), count: 1 };
  const forecast = (seen: ObservedExtreme, time = at) => {
    const weather = { fetchedAt: time, ensembles: [ensemble], observed: [seen] };
    return forecastOf(
      rawEnsemble({ source: 'test', weather, events: [event], fits: noFits, at: time }),
      event,
    )!;
  };
  const chances = (seen: ObservedExtreme, time = at) => [...forecast(seen, time).probabilities.values()];

  it('refutes the brackets below the bound, and leaves those at and above it', () => {
    // The brackets are 83 or below, 84 to 85, 86 to 87, 88 to 89, 90 to 91, 92 or above.
    expect(chances(observed())[1]).toBeGreaterThan(0.3);
    const [cold, passed, atBound, above, ...rest] = chances(observed(bound));
    expect([cold, passed]).toEqual([0, 0]);
    expect(atBound).toBeGreaterThan(0.2);
    expect(above).toBeGreaterThan(0.05);
    expect(atBound! + above! + rest.reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 9);
    expect(forecast(observed(bound)).distribution.atLeast).toBe(87);
  });

  it('leaves the farther degree a chance that grows with the minutes at the reading', () => {
    const stays = [1, 60, 300].map((count) => forecast(observed({ ...bound, count })).running!.stays);
    expect(stays[1]!).toBeCloseTo(stays[0]! / 2, 3);
    expect(stays[2]!).toBeLessThan(stays[0]! / 20);
  });

  it('is as before if the minutes prove no more than the reports', () => {
    const same = { ...bound, lowestF: 84, highestF: 85 };
    expect(chances(observed(same))).toEqual(chances(observed()));
  });

  it('is not settled by minutes once the day is over', () => {
    const end = new Date('2026-09-14T06:00:00Z');
    const seen = { observedAt: new Date('2026-09-14T04:51:00Z'), fetchedAt: end };
    expect(Math.max(...chances(observed(undefined, seen), end))).toBeCloseTo(1, 6);
    const open = chances(observed(bound, seen), end);
    expect(open.slice(0, 2)).toEqual([0, 0]);
    expect(Math.max(...open)).toBeLessThan(0.9);
  });
});

/** A made-up day: the official temperature of each minute in whole °F, and the forecast for its hours. */
function makeDay(i: number) {
  const error = 2 * gaussian('minutes', 'error', i);
  const size = 10 + 3 * gaussian('minutes', 'size', i);
  const peak = 14.5 + gaussian('minutes', 'peak', i);
  const at = (hour: number) => 70 + size * Math.cos(((hour - peak) * Math.PI) / 12);
  let drift = 0;
  const official = Array.from({ length: 24 * 60 }, (_, minute) => {
    drift = 0.93 * drift + 0.35 * gaussian('minutes', i, minute);
    return Math.round(at(minute / 60) + error * Math.min(1, minute / 600) + drift);
  });
  return { official, curveF: Array.from({ length: 24 }, (_, hour) => at(hour)), most: Math.max(...official) };
}
type Day = ReturnType<typeof makeDay>;

const hourly = ({ official }: Day, hour: number) =>
  Array.from({ length: hour + 1 }, (_, h) => official[h * 60]!);

function caseOf(day: Day, hour: number): SameDayCase {
  const known = hourly(day, hour);
  const reachedF = Math.max(...known);
  return {
    stationId: 'KLAX',
    hour,
    reachedF,
    boundF: reachedF + 0.5,
    recentF: known.slice(-3),
    curveF: day.curveF,
    observedF: day.most,
  };
}

function fitAt(days: Day[], hour: number): HourFit {
  const found = fitSameDay(days.map((day) => caseOf(day, hour)))!;
  const time = new Date('2026-08-28T00:00:00Z');
  const more = { id: 'fit', firstDate: '', lastDate: '', rawCrps: 1, knownThrough: time, trainedAt: time };
  return { ...found, ...more, kind: 'daily_maximum' };
}

function crpsOf(distribution: TemperatureDistribution, most: number): number {
  let sum = 0;
  for (let degree = most - 30; degree < most + 30; degree++)
    sum +=
      (probabilityWithin(distribution, { lowest: null, highest: degree, step: 1 }) -
        Number(most <= degree)) **
      2;
  return sum;
}

/** Mean CRPS with minutes ÷ without, some minutes after an hour of made-up days. */
function compare(days: Day[], fit: HourFit, { hour, after }: { hour: number; after: number }): number {
  const midnight = Date.parse('2026-08-29T08:00:00Z');
  const kind = 'daily_maximum';
  let [without, withThem] = [0, 0];
  for (const day of days) {
    const known = hourly(day, hour);
    const reportedAt = new Date(midnight + hour * 3_600_000);
    const observed = {
      kind,
      stationId: 'KLAX',
      date: '2026-08-29',
      extremeF: Math.max(...known),
      observedAt: reportedAt,
      fetchedAt: reportedAt,
      hoursF: Array.from({ length: 24 }, (_, h) => known[h] ?? null),
    } as const;
    const forecast = (level?: MinuteLevel) =>
      forecastRunning(
        {
          ...observed,
          curveF: day.curveF,
          meanF: Math.max(...day.curveF),
          deviationF: 2,
          shape: 'logistic',
          isMixed: false,
          level,
        },
        { fits: [fit], missing: [] },
        new Date('2026-08-29T00:00:00Z'),
      );
    const book = createMinuteBook();
    const readings = day.official.slice(0, hour * 60 + after + 1).map((official, minute): MemberReading => {
      const celsius = Math.round((official - 32) / 1.8);
      return {
        stationId: 'KLAX',
        at: new Date(midnight + minute * 60_000),
        temperatureF: celsius * 1.8 + 32,
        code: 'ok',
      };
    });
    const now = midnight + (hour * 60 + after) * 60_000;
    book.take(readings, now);
    const { minutes } = book.addTo(observed, now);
    const isBeyond = minutes !== undefined && minutes.lowestF > observed.extremeF;
    const before = forecast(minutes?.level);
    without += crpsOf(forecast().distribution, day.most);
    withThem += crpsOf((isBeyond ? withMinutes(kind, before, minutes) : before).distribution, day.most);
  }
  return withThem / without;
}

describe('the error of the day’s forecast with minutes ÷ without', () => {
  const days = Array.from({ length: 500 }, (_, i) => makeDay(i));
  it.each([
    [9, 0, 1.005],
    [12, 0, 1],
    [15, 0, 0.97],
    [18, 0, 0.97],
    [9, 30, 0.97],
    [12, 30, 0.97],
    [15, 30, 0.9],
    [18, 30, 0.9],
  ])('at hour %d and %d minutes is at most %d', (hour, after, most) => {
    const fit = fitAt(days.slice(0, 300), hour);
    expect(compare(days.slice(300), fit, { hour, after })).toBeLessThanOrEqual(most);
  });
});
