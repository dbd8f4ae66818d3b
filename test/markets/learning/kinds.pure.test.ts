import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { predictAhead } from '../../../src/markets/learning/day-ahead.js';
import {
  probabilityOf,
  quantileOf,
  sureMinimum,
  type TemperatureDistribution,
} from '../../../src/markets/market/distribution.js';
import { type DayEnsemble, type ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { forecastOf } from '../../../src/markets/learning/forecast.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import { rawEnsemble } from './raw-ensemble.js';
import type { Bracket } from '../../../src/markets/market/brackets.js';
import { learn, makePast, together } from '../support/forecast-past.js';
import { makeEvent, makeHour } from '../support/events.js';

const later = new Date('2026-12-31T00:00:00Z');

/** Returns the bracket with the signs of its temperatures reversed. */
function mirror({ kind, floor, cap }: Bracket): Bracket {
  if (kind === 'less') return { kind: 'greater', floor: -cap, cap: null };
  return kind === 'greater'
    ? { kind: 'less', floor: null, cap: -floor }
    : { kind: 'between', floor: -cap, cap: -floor };
}

describe('a minimum with an upper bound', () => {
  const drawn = fc.record({
    mean: fc.double({ min: -20, max: 90, noNaN: true }),
    deviation: fc.double({ min: 0.3, max: 8, noNaN: true }),
    away: fc.integer({ min: -40, max: 40 }),
  });

  it('mirrors a maximum with reversed sign', () => {
    fc.assert(
      fc.property(drawn, fc.integer({ min: -6, max: 6 }), ({ mean, deviation, away }, at) => {
        const atMost = Math.round(mean) + away;
        const minimum: TemperatureDistribution = { mean, deviation, atLeast: null, atMost };
        const maximum = { mean: -mean, deviation, atLeast: -atMost };
        const middle = Math.round(mean) + at;
        for (const bracket of [
          { kind: 'less', floor: null, cap: middle },
          { kind: 'between', floor: middle, cap: middle + 1 },
          { kind: 'greater', floor: middle + 1, cap: null },
        ] satisfies Bracket[])
          expect(probabilityOf(minimum, bracket)).toBeCloseTo(probabilityOf(maximum, mirror(bracket)), 12);
        for (const p of [0.05, 0.5, 0.95])
          expect(quantileOf(minimum, p)).toBeCloseTo(-quantileOf(maximum, 1 - p), 9);
        expect(quantileOf(minimum, 0.95)).toBeLessThanOrEqual(atMost + 0.5 + 1e-9);
      }),
    );
  });

  it('is bounded by the highest degree that the report can show, the warmer one exactly between two', () => {
    expect([40.4, 40.5, 40.6, 41].map(sureMinimum)).toEqual([40, 41, 41, 41]);
  });
});

describe('the model', () => {
  const date = '2026-09-13';
  const at = new Date('2026-09-13T12:00:00Z');
  const ensemble = (over: Partial<DayEnsemble>): DayEnsemble => ({
    kind: 'daily_minimum',
    stationId: 'KNYC',
    date,
    modelRunAt: new Date('2026-09-13T00:00:00Z'),
    fetchedAt: new Date('2026-09-13T05:00:00Z'),
    membersF: [69, 70, 70, 71, 71, 72, 72, 73, 73, 74],
    ...over,
  });
  const observed = (over: Partial<ObservedExtreme>): ObservedExtreme => ({
    kind: 'daily_minimum',
    stationId: 'KNYC',
    date,
    extremeF: 70.3,
    observedAt: new Date('2026-09-13T11:51:00Z'),
    fetchedAt: new Date('2026-09-13T11:55:00Z'),
    ...over,
  });
  const model = (
    events: ReturnType<typeof makeEvent>[],
    ensembles: DayEnsemble[],
    seen: ObservedExtreme[],
    time = at,
  ) => {
    const weather = { fetchedAt: time, ensembles, observed: seen };
    return rawEnsemble({ source: 'test', weather, events, fits: noFits, at: time });
  };

  it('gives brackets above the lowest temperature so far no probability, and leaves maxima unaffected', () => {
    const maximum = makeEvent({ date, lowest: 68 });
    const minimum = { ...makeEvent({ date, lowest: 68 }), kind: 'daily_minimum' as const };
    const forecasts = model(
      [maximum, minimum],
      [ensemble({ kind: 'daily_maximum' }), ensemble({})],
      [observed({})],
    );
    const low = forecastOf(forecasts, minimum)!;
    expect(low).toMatchObject({ kind: 'daily_minimum', distribution: { atMost: 70, atLeast: null } });
    // The brackets are 68 to 69, 70 to 71, and so on: all mass above 70 moves to 70, and 72 or more is impossible.
    const chances = [...low.probabilities.values()];
    expect(chances.slice(3)).toEqual([0, 0, 0]);
    expect(chances.reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 12);
    expect(low.quantiles.at(-1)!.temperatureF).toBeLessThanOrEqual(70.5);
    expect(forecastOf(forecasts, maximum)).toMatchObject({
      kind: 'daily_maximum',
      distribution: { atLeast: null },
      running: null,
    });
  });

  it('knows a minimum once its day is over', () => {
    const minimum = { ...makeEvent({ date, lowest: 68 }), kind: 'daily_minimum' as const };
    const end = new Date('2026-09-14T06:00:00Z');
    const seen = observed({ observedAt: new Date('2026-09-14T04:51:00Z'), fetchedAt: end });
    const day = forecastOf(model([minimum], [ensemble({})], [seen], end), minimum)!;
    // Not quite certain, because the report has not been issued yet.
    expect([...day.probabilities.values()]).toEqual([0, 0, 1 - 1e-7, 0, 0, 0]);
  });

  it("nests an hour's threshold probabilities by hundredths, and is certain once the index has the hour", () => {
    const hour = makeHour({ date, hour: 12, floors: [70.99, 71.49, 71.99] });
    const members = ensemble({ kind: 'hourly', stationId: 'INDEX-NYC', hour: 12 });
    const day = forecastOf(model([hour], [members], []), hour)!;
    // Local noon is 16:00Z.
    expect(day).toMatchObject({ kind: 'hourly', hour: 12, leadHours: 16 });
    const chances = [...day.probabilities.values()];
    expect(chances[1]).toBeCloseTo(0.5 + 0.005 * 0.2 * Math.SQRT2, 2);
    expect(chances[0]!).toBeGreaterThan(chances[1]!);
    expect(chances[1]!).toBeGreaterThan(chances[2]!);
    const noon = new Date('2026-09-13T16:05:00Z');
    const report = observed({
      kind: 'hourly',
      stationId: 'INDEX-NYC',
      hour: 12,
      extremeF: 71.49,
      observedAt: new Date('2026-09-13T16:00:00Z'),
      fetchedAt: noon,
    });
    const known = forecastOf(model([hour], [members], [report], noon), hour)!;
    expect([...known.probabilities.values()]).toEqual([1, 0, 0]);
    expect(forecastOf(model([hour], [members], [report]), { ...hour, hour: 11 })).toBeUndefined();
  });
});

describe('the fit of hours', () => {
  const truth = { kind: 'hourly' as const, stationId: 'INDEX-NYC', errorF: 1.5, spreadF: 1 };

  it('is shared by all hours, with a bias for each hour of the day', () => {
    const past = together(
      makePast({ ...truth, hour: 9, biasF: -2 }, 45),
      makePast({ ...truth, hour: 15, biasF: 3 }, 45),
    );
    const [fit] = learn(past, later).book.fits;
    expect(fit).toMatchObject({ kind: 'hourly', stationId: null, leadHours: 24, n: 90 });
    const correctionAt = (hour: number) =>
      predictAhead(fit!.coefficients, { group: 'INDEX-NYC', day: 20_600, hour, mean: 75, variance: 1 }).mean -
      75;
    // With 45 days, an hour gets almost its full bias; an unseen hour gets the common bias.
    expect(Math.abs(correctionAt(9) - 2)).toBeLessThan(0.8);
    expect(Math.abs(correctionAt(15) + 3)).toBeLessThan(0.8);
    expect(Math.abs(correctionAt(3) + 0.5)).toBeLessThan(0.8);
    expect(fit!.trainingCrps).toBeLessThan(0.6 * fit!.rawCrps);
  });

  it('counts days, not hours', () => {
    const hours = Array.from({ length: 24 }, (_, hour) => makePast({ ...truth, hour, biasF: 1 }, 29));
    const { fits, missing } = learn(together(...hours), later).book;
    expect(fits.filter(({ kind }) => kind === 'hourly')).toEqual([]);
    expect(missing!.find(({ kind, leadHours }) => kind === 'hourly' && leadHours === 24)!.reason).toBe(
      'only 29 of 30 days are known over all stations at this lead',
    );
  });
});

describe('a fit', () => {
  it('is kept for the rest of the day whatever arrives, and made again the next day', () => {
    const truth = { stationId: 'KNYC', biasF: 2, errorF: 2, spreadF: 1 };
    const day = (n: number) => new Date(Date.parse('2026-06-15T12:00:00Z') + n * 86_400_000);
    const [before, after] = [makePast(truth, 44), makePast(truth, 46)];
    const first = learn(before, day(0));
    expect(first.added.length).toBeGreaterThan(0);
    const soon = learn(after, new Date(day(0).getTime() + 3_600_000), first.book);
    expect(soon.added).toEqual([]);
    const next = learn(after, day(1), first.book);
    expect(next.added[0]!.fit.lastDate > first.added[0]!.fit.lastDate).toBe(true);
    // A large increase in data triggers a new fit immediately.
    expect(learn(makePast(truth, 60), later, learn(makePast(truth, 30), later).book).added).toHaveLength(1);
  });
});
