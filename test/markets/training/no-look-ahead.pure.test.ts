import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { allAtOnce } from '../../../src/core/steps.js';
import {
  MIN_SEASONAL_DAYS,
  train,
  trainStationInSteps,
  withStation,
} from '../../../src/markets/training/training.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';
import { makeEvent, makeHour } from '../support/events.js';
import { type Past, dateAfter, first, makePast, together } from '../support/forecast-past.js';

interface World extends Past {
  ensembles: DayEnsemble[];
  observed: ObservedExtreme[];
}
type Reader = (past: Past, at: Date) => KnownHistory;

const HOUR_MS = 3_600_000;
const days = 32;
const date = dateAfter(first, days + 1);
// New York's climate day begins at 05:00Z.
const at = new Date(`${date}T18:00:00Z`);
const before = (hours: number) => new Date(at.getTime() - hours * HOUR_MS);
const newYork = { stationId: 'KNYC', biasF: 2, errorF: 2, spreadF: 1 };

const world: World = {
  // Just enough days: with one day fewer, there is no fit.
  ...together(
    makePast(newYork, 17, { from: 15 }),
    makePast({ ...newYork, stationId: 'KMIA', biasF: -3 }, 13, { from: 19 }),
  ),
  ensembles: [12, 6].map((hours) => ({
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date,
    modelRunAt: before(hours),
    fetchedAt: before(hours - 4),
    membersF: Array.from({ length: 12 }, (_, i) => 70 + (i % 6) + hours / 4),
  })),
  observed: [4, 1].map((hours) => ({
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date,
    extremeF: 74.1 - hours,
    observedAt: before(hours),
    fetchedAt: before(hours - 0.1),
  })),
};
const event = makeEvent({ date, lowest: 68 });

/** The same world for minima, and for the hour of New York's index at the end of the decision's local day. */
const minimaOf = <T extends { kind: string }>(all: readonly T[]) =>
  all.map((each) => ({ ...each, kind: 'daily_minimum' as const }));
const minima: World = {
  runs: minimaOf(world.runs),
  reports: minimaOf(world.reports),
  ensembles: minimaOf(world.ensembles),
  observed: minimaOf(world.observed).map((each) => ({ ...each, extremeF: 140 - each.extremeF })),
};
const ofHour = { kind: 'hourly' as const, stationId: 'INDEX-NYC', hour: 23 };
const hours: World = {
  ...together(
    makePast({ ...newYork, ...ofHour }, 17, { from: 15 }),
    makePast({ ...newYork, ...ofHour, stationId: 'INDEX-MIAMI', biasF: -3 }, 13, { from: 19 }),
  ),
  ensembles: world.ensembles.map((each) => ({ ...each, ...ofHour })),
  observed: [{ ...world.observed[1]!, ...ofHour }],
};
const hour = makeHour({ date, hour: 23 });

/** The same world with a second model that has fewer days, and with an earlier run of the first model. */
const asOther = <T extends object>(all: readonly T[]) => all.map((each) => ({ ...each, model: 'other' }));
const longer = together(
  makePast(newYork, 30, { from: 2 }),
  makePast({ ...newYork, stationId: 'KMIA', biasF: -3 }, 20, { from: 12 }),
);
const several: World = {
  ...world,
  reports: longer.reports,
  runs: [
    ...longer.runs,
    ...asOther(makePast({ ...newYork, biasF: -1 }, 28, { from: 4, leadHours: 23 }).runs),
    ...asOther(makePast({ ...newYork, stationId: 'KMIA' }, 20, { from: 12, leadHours: 23 }).runs),
    ...makePast({ ...newYork, errorF: 1.5 }, 28, { from: 4, leadHours: 35 }).runs,
    ...makePast({ ...newYork, stationId: 'KMIA', errorF: 1.5 }, 20, { from: 12, leadHours: 35 }).runs,
  ],
  ensembles: [
    ...world.ensembles,
    ...asOther(world.ensembles).map((each) => ({ ...each, membersF: [69] })),
    { ...world.ensembles[0]!, modelRunAt: before(19), fetchedAt: before(15) },
  ],
};

/** Makes a whole decision: knowledge → fits → model → probabilities. */
function decide({ ensembles, observed, ...past }: World, read: Reader) {
  const { book } = train(read(past, at), { previous: noFits, newId: () => 'a fit' });
  const weather = { fetchedAt: at, ensembles, observed };
  return calibratedModel({
    source: 'test',
    weather,
    events: [event, { ...event, kind: 'daily_minimum' }, hour],
    fits: book,
    at,
  });
}

const parts = ['runs', 'reports', 'ensembles', 'observed'] as const;
const times = {
  runs: ['modelRunAt', 'fetchedAt'],
  reports: ['knownAt'],
  ensembles: ['modelRunAt', 'fetchedAt'],
  observed: ['observedAt', 'fetchedAt'],
} as const;

/** Chooses any datum, one of its times, and how far past the decision that time moves. */
const move = fc.constantFrom(...parts).chain((part) =>
  fc.record({
    part: fc.constant(part),
    index: fc.nat({ max: world[part].length - 1 }),
    time: fc.constantFrom(...times[part]),
    byMs: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 90 * 24 * HOUR_MS })),
  }),
);
type Move = typeof move extends fc.Arbitrary<infer T> ? T : never;

const moved = ({ part, index, time, byMs }: Move): World => ({
  ...world,
  [part]: world[part].map((datum, i) =>
    i === index ? { ...datum, [time]: new Date(at.getTime() + byMs) } : datum,
  ),
});
const without = ({ part, index }: Move): World => ({
  ...world,
  [part]: world[part].filter((_, i) => i !== index),
});

/** Asserts that a datum moved past the decision does not affect the decision. */
const knowsNothingLater = (read: Reader) =>
  fc.property(move, (change) => {
    expect(decide(moved(change), read)).toEqual(decide(without(change), read));
  });

const honest: Reader = (past, time) => KnownHistory.at(time, past);

describe('no look-ahead', () => {
  it('holds for a whole decision: a later datum might as well not exist', () => {
    fc.assert(knowsNothingLater(honest), { numRuns: 150 });
  });

  it('is a real test: the decision depends on every part of the data', () => {
    const decision = decide(world, honest);
    expect(decision.get('KNYC')!.days[0]!.method).toBe('emos_pooled');
    const newest = { runs: 16, reports: 16, ensembles: 1, observed: 1 };
    for (const part of parts)
      expect(decide(without({ part, index: newest[part], time: 'fetchedAt', byMs: 1 }), honest)).not.toEqual(
        decision,
      );
  });

  it.each<[string, Reader]>([
    [
      'reports dated by the day they cover',
      (past, time) =>
        KnownHistory.at(time, {
          ...past,
          reports: past.reports.map((report) => ({
            ...report,
            knownAt: new Date(`${report.date}T23:59:59Z`),
          })),
        }),
    ],
    [
      'runs dated by their start instead of their arrival',
      (past, time) =>
        KnownHistory.at(time, {
          ...past,
          runs: past.runs.map((run) => ({ ...run, fetchedAt: run.modelRunAt })),
        }),
    ],
    [
      'forecasts stitched from later runs and backdated',
      (past, time) =>
        KnownHistory.at(time, {
          ...past,
          runs: past.runs.map((run) => ({ ...run, modelRunAt: new Date(`${run.date}T05:00:00Z`) })),
        }),
    ],
  ])('catches a leak: %s', (_what, leaky) => {
    const { failed, counterexample } = fc.check(knowsNothingLater(leaky), { numRuns: 150, seed: 1 });
    expect(failed).toBe(true);
    expect(['runs', 'reports']).toContain(counterexample![0].part);
  });

  it('ignores training from later data, because fits record when they were made', () => {
    const tomorrow: Reader = (past) => KnownHistory.at(new Date(at.getTime() + 24 * HOUR_MS), past);
    expect(decide(world, tomorrow).get('KNYC')!.days[0]).toMatchObject({
      method: 'raw_ensemble',
      fit: null,
      fallback: 'no fit exists yet; not corrected',
    });
  });

  it('can make a history only as of a given time', () => {
    const made = { knownAt: at, runs: world.runs, reports: world.reports, reportOf: () => undefined };
    // @ts-expect-error: a look-alike is not a history
    const history: KnownHistory = made;
    expect(history).not.toBeInstanceOf(KnownHistory);
    // @ts-expect-error: the constructor is private
    const construct = () => new KnownHistory(at, world.runs, new Map());
    expect(construct).toBeTypeOf('function');
  });
});

describe.each([
  ['several models', several, 'KNYC'],
  ['minima', minima, 'KNYC'],
  ['hours', hours, 'INDEX-NYC'],
])('no look-ahead for %s', (_what, ofKind, stationId) => {
  const move = fc.constantFrom(...parts).chain((part) =>
    fc.record({
      part: fc.constant(part),
      index: fc.nat({ max: ofKind[part].length - 1 }),
      time: fc.constantFrom(...times[part]),
      byMs: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 90 * 24 * HOUR_MS })),
    }),
  );
  const knowsNothing = (read: Reader) =>
    fc.property(move, ({ part, index, time, byMs }) => {
      const later = ofKind[part].map((datum, i) =>
        i === index ? { ...datum, [time]: new Date(at.getTime() + byMs) } : datum,
      );
      const missing = ofKind[part].filter((_, i) => i !== index);
      expect(decide({ ...ofKind, [part]: later }, read)).toEqual(
        decide({ ...ofKind, [part]: missing }, read),
      );
    });

  it('holds for a whole decision, which depends on the known data', () => {
    fc.assert(knowsNothing(honest), { numRuns: 100 });
    const decision = decide(ofKind, honest).get(stationId)!.days[0]!;
    expect(decision).toMatchObject({ method: 'emos_pooled', kind: ofKind.ensembles[0]!.kind });
    expect(decision.probabilities.size).toBeGreaterThan(0);
    for (const part of parts)
      expect(decide({ ...ofKind, [part]: [] }, honest).get(stationId)?.days[0]).not.toEqual(decision);
  });

  it('catches reports known before they arrive', () => {
    const leaky: Reader = (past, time) =>
      KnownHistory.at(time, {
        ...past,
        reports: past.reports.map((report) => ({ ...report, knownAt: new Date(`${report.date}T00:00:00Z`) })),
      });
    expect(fc.check(knowsNothing(leaky), { numRuns: 150, seed: 1 }).failed).toBe(true);
  });
});

describe('no look-ahead for seasonal fits', () => {
  // Just enough days, and only for New York.
  const past = makePast(newYork, MIN_SEASONAL_DAYS, { from: days - MIN_SEASONAL_DAYS });
  const ofNewYork = { kind: 'daily_maximum' as const, station: findStation('KNYC')! };
  const options = { previous: noFits, newId: () => 'a fit' };

  function decideBySeasons(past: Past, read: Reader) {
    const known = read(past, at);
    const made = allAtOnce(trainStationInSteps(known, ofNewYork, options));
    const weather = { fetchedAt: at, ensembles: world.ensembles, observed: [] };
    const fits = withStation(train(known, options).book, ofNewYork, made);
    return calibratedModel({ source: 'test', weather, events: [event], fits, at }).get('KNYC')!.days[0]!;
  }
  const moves = fc.record({
    part: fc.constantFrom('runs' as const, 'reports' as const),
    index: fc.nat({ max: past.runs.length - 1 }),
    byMs: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 90 * 24 * HOUR_MS })),
  });
  const knowsNothing = (read: Reader) =>
    fc.property(moves, fc.boolean(), ({ part, index, byMs }, isFirstTime) => {
      const time = part === 'reports' ? 'knownAt' : isFirstTime ? 'modelRunAt' : 'fetchedAt';
      const later = new Date(at.getTime() + byMs);
      const moved = past[part].map((datum, i) => (i === index ? { ...datum, [time]: later } : datum));
      expect(decideBySeasons({ ...past, [part]: moved }, read)).toEqual(
        decideBySeasons({ ...past, [part]: past[part].filter((_, i) => i !== index) }, read),
      );
    });

  it('holds for the whole decision, which depends on them', () => {
    const decision = decideBySeasons(past, honest);
    expect(decision).toMatchObject({ method: 'emos', seasonalFit: { n: MIN_SEASONAL_DAYS } });
    expect(decideBySeasons(makePast(newYork, 60, { from: days - 60 }), honest).meanF).not.toBe(
      decision.meanF,
    );
    fc.assert(knowsNothing(honest), { numRuns: 12 });
  });

  it.each<[string, Reader]>([
    [
      'reports known before they arrive',
      (past, time) =>
        KnownHistory.at(time, {
          ...past,
          reports: past.reports.map((report) => ({
            ...report,
            knownAt: new Date(`${report.date}T00:00:00Z`),
          })),
        }),
    ],
    [
      'runs dated by their start instead of their arrival',
      (past, time) =>
        KnownHistory.at(time, {
          ...past,
          runs: past.runs.map((run) => ({ ...run, fetchedAt: run.modelRunAt })),
        }),
    ],
  ])('catches a leak: %s', (_what, leaky) => {
    expect(fc.check(knowsNothing(leaky), { numRuns: 40, seed: 1 }).failed).toBe(true);
  });
});

describe('kinds', () => {
  it('learn nothing from each other', () => {
    const together: World = {
      runs: [...world.runs, ...minima.runs, ...hours.runs],
      reports: [...world.reports, ...minima.reports, ...hours.reports],
      ensembles: [...world.ensembles, ...minima.ensembles, ...hours.ensembles],
      observed: [...world.observed, ...minima.observed, ...hours.observed],
    };
    const all = decide(together, honest);
    for (const [alone, id] of [
      [world, 'KNYC'],
      [minima, 'KNYC'],
      [hours, 'INDEX-NYC'],
    ] as const) {
      const [own] = decide(alone, honest).get(id)!.days;
      expect(all.get(id)!.days.find(({ kind }) => kind === own!.kind)).toEqual(own);
    }
  });
});

describe('several models', () => {
  it('all have a share in the tested decision', () => {
    const { models } = decide(several, honest).get('KNYC')!.days[0]!;
    expect(models!.map(({ model }) => model).toSorted()).toEqual(['earlier', 'main', 'other']);
    expect(models!.filter(({ weight }) => weight > 0.02)).toHaveLength(3);
  });

  it('are weighted without later knowledge: leaking readers are caught', () => {
    const ofWeights = (world: World, read: Reader) =>
      decide(world, read)
        .get('KNYC')!
        .days[0]!.models!.map(({ weight }) => weight);
    const index = several.reports.length - 1;
    const time = new Date(at.getTime() + HOUR_MS);
    const later = several.reports.map((report, i) => (i === index ? { ...report, knownAt: time } : report));
    const known = ofWeights({ ...several, reports: several.reports.slice(0, -1) }, honest);
    expect(ofWeights({ ...several, reports: later }, honest)).toEqual(known);
    const leaky: Reader = (past, when) =>
      KnownHistory.at(when, {
        ...past,
        reports: past.reports.map((report) => ({ ...report, knownAt: new Date(`${report.date}T00:00:00Z`) })),
      });
    expect(ofWeights({ ...several, reports: later }, leaky)).not.toEqual(known);
  });
});
