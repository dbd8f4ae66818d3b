import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DayEnsemble, ObservedExtreme, WeatherData } from '../../../src/markets/weather/weather.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import type { ForecastInput } from '../../../src/markets/learning/forecast.js';
import { rawEnsemble } from './raw-ensemble.js';
import { makeEvent } from '../support/events.js';

// New York's climate day on this date: 05:00Z to 05:00Z.
const date = '2026-07-04';
const at = new Date('2026-07-04T18:00:00Z');
const event = makeEvent({ date, lowest: 68 });
const members = [69, 70, 71, 72, 73, 69, 70, 71, 72, 73];

const ensemble = (over: Partial<DayEnsemble> = {}): DayEnsemble => ({
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  modelRunAt: new Date('2026-07-04T12:00:00Z'),
  fetchedAt: new Date('2026-07-04T17:00:00Z'),
  membersF: members,
  ...over,
});
const observation = (over: Partial<ObservedExtreme> = {}): ObservedExtreme => ({
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  extremeF: 71.06,
  observedAt: new Date('2026-07-04T17:51:00Z'),
  fetchedAt: new Date('2026-07-04T17:55:00Z'),
  ...over,
});

const inputOf = (weather: Partial<WeatherData>, now: Date): ForecastInput => ({
  source: 'test',
  weather: { fetchedAt: now, ensembles: [ensemble()], observed: [], ...weather },
  events: [event],
  fits: noFits,
  at: now,
});
const run = (weather: Partial<WeatherData>, now = at) => rawEnsemble(inputOf(weather, now));
const dayOf = (weather: Partial<WeatherData>, now = at) => run(weather, now).get('KNYC')?.days[0];
const chances = (weather: Partial<WeatherData>, now = at) => [...dayOf(weather, now)!.probabilities.values()];

describe('the raw ensemble', () => {
  it('can pause after each target', () => {
    const ensembles = ['2026-07-04', '2026-07-05'].map((day) => ensemble({ date: day }));
    expect([...rawEnsemble.inSteps(inputOf({ ensembles }, at))]).toHaveLength(2);
    expect(run({ ensembles }).get('KNYC')!.days).toHaveLength(2);
  });

  it("uses the members' mean and sample deviation, and says that it is not calibrated", () => {
    // Two members each at −2, −1, 0, 1 and 2 around 71: the squares sum to 20, so the sample variance is 20/9.
    const day = dayOf({})!;
    expect(day.meanF).toBe(71);
    expect(day.deviationF).toBeCloseTo(Math.sqrt(20 / 9), 12);
    expect(day).toMatchObject({
      method: 'raw_ensemble',
      isCalibrated: false,
      eventTicker: event.eventTicker,
    });
    expect(day.quantiles.map(({ probability }) => probability)).toEqual([
      0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95,
    ]);
    expect(day.quantiles[3]!.temperatureF).toBeCloseTo(71, 9);
  });

  it('gives members that agree exactly a deviation of one degree', () => {
    expect(
      dayOf({ ensembles: [ensemble({ membersF: Array.from({ length: 31 }, () => 70) })] })!.deviationF,
    ).toBe(1);
  });

  it('rules out temperatures below the maximum reached, rounded to whole degrees', () => {
    const [below, cool, warm] = chances({ observed: [observation()] });
    expect([below, cool]).toEqual([0, 0]);
    expect(warm).toBeGreaterThan(0);
  });

  it('equals the observations once the day is over, if they cover it', () => {
    const over = new Date('2026-07-05T05:00:00Z');
    const late = observation({
      extremeF: 73.04,
      observedAt: new Date('2026-07-05T04:51:00Z'),
      fetchedAt: new Date('2026-07-05T04:55:00Z'),
    });
    // Not quite certain, because the report has not been issued yet.
    expect(chances({ observed: [late] }, over)).toEqual([0, 0, 0, 1 - 1e-7, 0, 0]);
    expect(dayOf({ observed: [late] }, over)!.quantiles[0]).toEqual({ probability: 0.05, temperatureF: 73 });
    // If a station stopped reporting at noon, the temperature may have risen since.
    expect(Math.max(...chances({ observed: [observation()] }, over))).toBeLessThan(1);
  });

  it.each([
    ['a member that is not a number', { membersF: [...members.slice(1), Number.NaN] }],
    ['an infinite member', { membersF: [...members.slice(1), Infinity] }],
    ['an impossible member', { membersF: [...members.slice(1), -459] }],
    ['too few members', { membersF: members.slice(1) }],
    ['no members', { membersF: [] }],
    ['an unknown station', { stationId: 'KJFK' }],
  ])('makes no forecast from %s', (_what, over) => {
    expect(run({ ensembles: [ensemble(over)] }).size).toBe(0);
  });

  it('prefers the newest run, however the data are ordered', () => {
    const older = ensemble({
      modelRunAt: new Date('2026-07-04T06:00:00Z'),
      membersF: members.map((f) => f + 9),
    });
    for (const ensembles of [
      [older, ensemble()],
      [ensemble(), older],
    ])
      expect(dayOf({ ensembles })!.meanF).toBe(71);
  });

  it('also forecasts days without markets, in order of days', () => {
    const tomorrow = ensemble({ date: '2026-07-05' });
    const { days } = run({ ensembles: [tomorrow, ensemble()] }).get('KNYC')!;
    expect(days.map(({ date, eventTicker }) => [date, eventTicker])).toEqual([
      ['2026-07-04', event.eventTicker],
      ['2026-07-05', null],
    ]);
  });

  it('ignores data fetched, started or reported after the requested time', () => {
    const time = fc
      .integer({ min: -48 * 60, max: 48 * 60 })
      .map((minutes) => new Date(at.getTime() + minutes * 60_000));
    const anyEnsemble = fc
      .record({ modelRunAt: time, fetchedAt: time, shift: fc.integer({ min: -20, max: 20 }) })
      .map(({ shift, ...times }) => ensemble({ ...times, membersF: members.map((f) => f + shift) }));
    const anyObservation = fc
      .record({ observedAt: time, fetchedAt: time, extremeF: fc.double({ min: 50, max: 90, noNaN: true }) })
      .map(observation);
    fc.assert(
      fc.property(fc.array(anyEnsemble), fc.array(anyObservation), (ensembles, observed) => {
        const isKnown = (...times: Date[]) => times.every((t) => t <= at);
        const then = {
          ensembles: ensembles.filter(({ modelRunAt, fetchedAt }) => isKnown(modelRunAt, fetchedAt)),
          observed: observed.filter(({ observedAt, fetchedAt }) => isKnown(observedAt, fetchedAt)),
        };
        expect(run({ ensembles, observed })).toEqual(run(then));
      }),
      { numRuns: 300 },
    );
  });

  it('changes its output when a datum moves past the decision', () => {
    const warmer = ensemble({
      modelRunAt: new Date('2026-07-04T13:00:00Z'),
      membersF: members.map((f) => f + 5),
    });
    expect(dayOf({ ensembles: [ensemble(), warmer] })!.meanF).toBe(76);
    const late = { ...warmer, fetchedAt: new Date(at.getTime() + 1) };
    expect(dayOf({ ensembles: [ensemble(), late] })!.meanF).toBe(71);
    const unseen = observation({ fetchedAt: new Date(at.getTime() + 1) });
    expect(chances({ observed: [unseen] })).toEqual(chances({}));
  });
});
