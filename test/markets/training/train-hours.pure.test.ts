import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { allAtOnce } from '../../../src/core/steps.js';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { problemOf, trainHoursInSteps } from '../../../src/markets/training/train-hours.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/markets/weather/weather.js';
import type { HourFit } from '../../../src/markets/learning/running-day.js';
import { stations } from '../../../src/markets/market/stations.js';
import { makeEvent } from '../support/events.js';
import {
  courseOf,
  dateAfter,
  first,
  makeRunning,
  runningTogether,
  type RunningPast,
} from '../support/forecast-past.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';

const HOUR_MS = 3_600_000;
const days = 32;
const date = dateAfter(first, days + 1);
/** 13:00 in New York's standard time, when hours 11 to 13 are known. */
const at = new Date(`${date}T18:00:00Z`);
const before = (hours: number) => new Date(at.getTime() - hours * HOUR_MS);
const past = runningTogether(
  makeRunning({ stationId: 'KNYC', biasF: 2 }, days),
  makeRunning({ stationId: 'KMIA', biasF: -3 }, days),
);
type Reader = (past: RunningPast, at: Date) => KnownHistory;
const honest: Reader = (known, time) => KnownHistory.at(time, known);

const train = (known: RunningPast, { read = honest, previous = [] as readonly HourFit[], time = at } = {}) =>
  allAtOnce(trainHoursInSteps(read(known, time), { previous, newId: () => 'a fit', hours: [13] }));
const fitOf = (known: RunningPast, read = honest) => train(known, { read }).fits[0];

const course = courseOf('KNYC', date, 2);
const ensembles = [12, 6].map((hours): DayEnsemble => ({
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  modelRunAt: before(hours),
  fetchedAt: before(hours - 4),
  membersF: Array.from({ length: 12 }, (_, i) => 70 + (i % 6)),
  curveF: course.map(({ forecastF }) => forecastF + hours / 12),
}));
const observed = [13, 12].map((hour): ObservedExtreme => {
  const temperaturesF = course.map(({ temperatureF }) => temperatureF);
  const observedAt = before(13 - hour + 0.15);
  return {
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date,
    extremeF: Math.max(...temperaturesF.slice(1, hour + 1)),
    observedAt,
    fetchedAt: new Date(observedAt.getTime() + 240_000),
    hoursF: temperaturesF.map((temperatureF, i) => (i <= hour && i > 0 ? temperatureF : null)),
  };
});
interface World extends RunningPast {
  ensembles: DayEnsemble[];
  observed: ObservedExtreme[];
}
const world: World = { ...past, ensembles, observed };
const event = makeEvent({ date, lowest: 68 });

function decide({ ensembles, observed, ...known }: World, read: Reader = honest) {
  const hours = train(known, { read });
  const weather = { fetchedAt: at, ensembles, observed };
  const fits = { madeAt: at, fits: [], hours };
  return calibratedModel({ source: 'test', weather, events: [event], fits, at }).get('KNYC')?.days[0];
}

describe('training on days in progress', () => {
  it('makes one fit for all stations and records its data', () => {
    const { fits, missing, added } = train(past);
    expect(missing).toEqual([]);
    expect(fits.map(({ kind, hour }) => `${kind} ${hour}`)).toEqual(['daily_maximum 13', 'daily_minimum 13']);
    const [fit] = fits;
    expect(fit).toMatchObject({
      n: 64,
      firstDate: first,
      lastDate: dateAfter(first, days - 1),
      trainedAt: at,
    });
    expect(fit!.knownThrough <= at).toBe(true);
    expect(fit!.trainingCrps).toBeLessThan(fit!.rawCrps);
    // The forecasts' biases are 2 °F in New York and −3 °F in Miami.
    expect(Math.abs(fit!.stationBiasF.KNYC! - 2)).toBeLessThan(1.5);
    expect(Math.abs(fit!.stationBiasF.KMIA! + 3)).toBeLessThan(1.5);
    expect(added[0]!.cases).toHaveLength(64);
    expect(added[0]!.cases.every(({ knownAt }) => knownAt <= at)).toBe(true);
  });

  it("learns the hours of a station's extremes from its whole days", () => {
    const whole = past.hours
      .filter(({ stationId, hour }) => stationId === 'KNYC' && hour === 13)
      .flatMap((known) =>
        Array.from({ length: 24 }, (_, hour) => {
          const observedAt = new Date(Date.parse(`${known.date}T05:00:00Z`) + hour * HOUR_MS);
          const temperatureF = 70 - Math.abs(hour - 14);
          return { ...known, hour, temperatureF, observedAt, fetchedAt: observedAt };
        }),
      );
    expect(train({ ...past, hours: whole }).extremes).toEqual([
      { kind: 'daily_maximum', stationId: 'KNYC', from: 13, to: 15, days },
      { kind: 'daily_minimum', stationId: 'KNYC', from: 0, to: 1, days },
    ]);
    expect(train(past).extremes).toEqual([]);
  });

  it('waits for sixty days and says how many there are', () => {
    const few = makeRunning({ stationId: 'KNYC', biasF: 2 }, 20);
    const { fits, missing } = train(few);
    expect(fits).toEqual([]);
    expect(missing[0]).toEqual({
      kind: 'daily_maximum',
      hour: 13,
      reason: 'only 20 of 60 days are known hour by hour',
    });
  });

  it('also waits for nine dates, however many stations they cover', () => {
    const many = runningTogether(...stations.map(({ id }) => makeRunning({ stationId: id, biasF: 1 }, 8)));
    expect(train(many).missing[0]!.reason).toBe('only 8 of 9 dates are known hour by hour');
    const enough = runningTogether(...stations.map(({ id }) => makeRunning({ stationId: id, biasF: 1 }, 9)));
    expect(train(enough).fits.map(({ n }) => n)).toEqual([9 * 24, 9 * 24]);
  });

  it('keeps a fit while it is recent or its data are unchanged, and replaces it after that', () => {
    const { fits } = train(past);
    const soon = train(past, { previous: fits, time: new Date(at.getTime() + HOUR_MS) });
    expect(soon).toMatchObject({ fits, added: [] });
    const tomorrow = new Date(at.getTime() + 24 * HOUR_MS);
    expect(train(past, { previous: fits, time: tomorrow })).toMatchObject({ fits, added: [] });
    const more = runningTogether(past, makeRunning({ stationId: 'KNYC', biasF: 2 }, 1, { from: days }));
    const next = train(more, { previous: fits, time: tomorrow });
    expect(next.added.map(({ fit }) => fit.n)).toEqual([65, 65]);
    expect(next.fits[0]!.lastDate).toBe(dateAfter(first, days));
  });

  it('rejects a fit that is broken or no better than the forecast itself', () => {
    const [fit] = train(past).fits;
    expect(problemOf(fit!, fit!.rawCrps)).toBeUndefined();
    expect(problemOf(fit!, fit!.trainingCrps)).toMatch(/no better/);
    const withCoefficient = (over: Record<string, number>) =>
      problemOf({ ...fit!, coefficients: { ...fit!.coefficients, ...over } }, fit!.rawCrps);
    expect(withCoefficient({ b: 3.5 })).toMatch(/slope of 3\.50/);
    expect(withCoefficient({ a: -20 })).toMatch(/corrects by -20\.0/);
    expect(withCoefficient({ g1: Number.NaN })).toMatch(/not finite/);
    expect(problemOf({ ...fit!, stationBiasF: { KNYC: 30 } }, fit!.rawCrps)).toMatch(/bias of 30\.0/);
  });
});

describe('no look-ahead while the day runs', () => {
  const parts = ['runs', 'reports', 'hours', 'ensembles', 'observed'] as const;
  const times = {
    runs: ['modelRunAt', 'fetchedAt'],
    reports: ['knownAt'],
    hours: ['observedAt', 'fetchedAt'],
    ensembles: ['modelRunAt', 'fetchedAt'],
    observed: ['observedAt', 'fetchedAt'],
  } as const;
  const move = fc.constantFrom(...parts).chain((part) =>
    fc.record({
      part: fc.constant(part),
      index: fc.nat({ max: world[part].length - 1 }),
      time: fc.constantFrom(...times[part]),
      byMs: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 90 * 24 * HOUR_MS })),
    }),
  );
  const without = (part: (typeof parts)[number], index: number): World => ({
    ...world,
    [part]: world[part].filter((_, i) => i !== index),
  });
  const knowsNothingLater = (read: Reader) =>
    fc.property(move, ({ part, index, time, byMs }) => {
      const later = world[part].map((datum, i) =>
        i === index ? { ...datum, [time]: new Date(at.getTime() + byMs) } : datum,
      );
      expect(decide({ ...world, [part]: later }, read)).toEqual(decide(without(part, index), read));
    });

  it('holds for a whole decision, which depends on every part of the known data', () => {
    fc.assert(knowsNothingLater(honest), { numRuns: 60 });
    const decision = decide(world)!;
    expect(decision).toMatchObject({ method: 'same_day', running: { hour: 13, fallback: null } });
    const newest = { runs: 31, reports: 62, hours: 95, ensembles: 1, observed: 0 };
    for (const part of parts) expect(decide(without(part, newest[part])), part).not.toEqual(decision);
  });

  it.each<[string, (typeof parts)[number], Reader]>([
    [
      'hours dated by their report instead of their arrival',
      'hours',
      (known, time) =>
        KnownHistory.at(time, {
          ...known,
          hours: known.hours.map((hour) => ({ ...hour, fetchedAt: hour.observedAt })),
        }),
    ],
    [
      'hours observed later and backdated',
      'hours',
      (known, time) =>
        KnownHistory.at(time, {
          ...known,
          hours: known.hours.map((hour) => ({ ...hour, observedAt: new Date(`${hour.date}T05:00:00Z`) })),
        }),
    ],
    [
      'reports dated by the day they cover',
      'reports',
      (known, time) =>
        KnownHistory.at(time, {
          ...known,
          reports: known.reports.map((report) => ({
            ...report,
            knownAt: new Date(`${report.date}T23:59:59Z`),
          })),
        }),
    ],
  ])('catches a leak: %s', (_what, part, leaky) => {
    const { failed, counterexample } = fc.check(knowsNothingLater(leaky), { numRuns: 150, seed: 1 });
    expect(failed).toBe(true);
    expect(counterexample![0].part).toBe(part);
  });

  it('uses each training day as known at its hour, without later runs or hours', () => {
    const fit = fitOf(past);
    // These runs are known before the decision but were made after the hours that they forecast.
    const later = past.runs.map((run) => {
      const known = past.hours.find((hour) => hour.date === run.date && hour.hour === 13)!;
      const fetchedAt = new Date(known.fetchedAt.getTime() + HOUR_MS);
      return { ...run, modelRunAt: known.observedAt, fetchedAt, curveF: run.curveF!.map((f) => f - 5) };
    });
    expect(fitOf({ ...past, runs: [...past.runs, ...later] })).toEqual(fit);
    const inTime = later.map((run) => ({ ...run, fetchedAt: new Date(run.modelRunAt.getTime() + 1) }));
    expect(fitOf({ ...past, runs: [...past.runs, ...inTime] })).not.toEqual(fit);
    // An observation that arrives after the next hour's is not known at that next hour.
    const late = past.hours.map((hour) =>
      hour.hour === 12 ? { ...hour, fetchedAt: new Date(hour.fetchedAt.getTime() + 2 * HOUR_MS) } : hour,
    );
    const missing = past.hours.filter(({ hour }) => hour !== 12);
    expect(fitOf({ ...past, hours: late })).toEqual(fitOf({ ...past, hours: missing }));
    expect(fitOf({ ...past, hours: late })).not.toEqual(fit);
  });

  it('ignores fits made later and old ones', () => {
    const { fits } = train(past);
    const decideBy = (trainedAt: Date) =>
      calibratedModel({
        source: 'test',
        weather: { fetchedAt: at, ensembles, observed },
        events: [event],
        fits: {
          madeAt: at,
          fits: [],
          hours: { fits: fits.map((fit) => ({ ...fit, trainedAt })), missing: [] },
        },
        at,
      }).get('KNYC')!.days[0]!;
    expect(decideBy(at).method).toBe('same_day');
    expect(decideBy(new Date(at.getTime() + 1))).toMatchObject({
      method: 'raw_ensemble',
      running: { fit: null, fallback: 'nothing has been learned of days at this hour yet' },
    });
    expect(decideBy(before(8 * 24)).running!.fallback).toMatch(/more than 7 days ago$/);
  });
});
