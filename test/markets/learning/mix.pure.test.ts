import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noFits, type FitBook, type Mix } from '../../../src/markets/learning/fits.js';
import type { DayEnsemble } from '../../../src/markets/weather/weather.js';
import type { DayForecast } from '../../../src/markets/learning/forecast.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';
import { type ModelError, learnMix, pairOf } from '../../../src/markets/learning/mix.js';
import { makeEvent } from '../support/events.js';
import {
  type Past,
  type Truth,
  dateAfter,
  first,
  learn,
  makePast,
  together,
} from '../support/forecast-past.js';

const HOUR_MS = 3_600_000;
const days = 45;
const date = dateAfter(first, days + 2);
// `at` is one hour before New York's climate day begins; the day lasts from 05:00Z to 05:00Z.
const at = new Date(`${date}T04:00:00Z`);
const end = new Date(`${dateAfter(date, 1)}T05:00:00Z`);
const truth: Truth = { stationId: 'KNYC', biasF: 2, errorF: 3, spreadF: 1 };

/** One model's past forecasts for two stations. Different leads have independent errors. */
function pastOf(model: string | undefined, over: Partial<Truth> = {}, leadHours = 36, of = days): Past {
  const places = ['KNYC', 'KMIA'].map((stationId) =>
    makePast({ ...truth, ...over, stationId }, of, { leadHours, from: days - of }),
  );
  const past = together(...places);
  return model === undefined ? past : { ...past, runs: past.runs.map((run) => ({ ...run, model })) };
}

const runOf = (model: string | undefined, meanF: number, leadHours = 36): DayEnsemble => ({
  ...(model !== undefined && { model }),
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  modelRunAt: new Date(end.getTime() - leadHours * HOUR_MS),
  fetchedAt: at,
  membersF: Array.from({ length: 12 }, (_, i) => meanF + (i % 2 === 0 ? 1 : -1)),
});

const forecast = (ensembles: DayEnsemble[], fits: FitBook): DayForecast =>
  calibratedModel({
    source: 'test',
    weather: { fetchedAt: at, ensembles, observed: [] },
    events: [makeEvent({ date, lowest: 68 })],
    fits,
    at,
  }).get('KNYC')!.days[0]!;

const shares = ({ models = [] }: DayForecast): Record<string, number> =>
  Object.fromEntries(models.map(({ model, weight }) => [model, weight]));

/**
 * A model with a single run per forecast has no spread. Its lead here is 35 hours, in the same half-day as 36 hours but
 * with independent errors.
 */
const single = { members: 1, biasF: -1 };
const main = pastOf(undefined);
const better = pastOf('other', { ...single, errorF: 1 }, 35);
const learned = (...pasts: Past[]) => learn({ ...together(...pasts), reports: main.reports }, at).book;
const runs = [runOf(undefined, 77), runOf('other', 71)];

describe('the mix of several models', () => {
  it('of one model equals that model exactly', () => {
    const { book } = learn(main, at);
    const alone = forecast([runs[0]!], book);
    expect(alone).not.toHaveProperty('models');
    // A model without training gets no weight, even if its run is available.
    const { models, ...beside } = forecast(runs, book);
    expect(beside).toEqual(alone);
    expect(models).toMatchObject([
      { model: 'main', weight: 1, reason: null },
      { model: 'other', weight: 0, rawMeanF: 71 },
    ]);
    expect(models![1]!.reason).toContain('not corrected');
    // Training on other models does not change a forecast from one model either.
    const several = learned(main, better);
    expect(forecast([runs[0]!], several)).toEqual(
      forecast([runs[0]!], { ...several, mixes: [], fits: several.fits.filter((fit) => !fit.model) }),
    );
  });

  it('says that the run of the first model is unknown', () => {
    const [main, other] = runs as [DayEnsemble, DayEnsemble];
    expect(forecast([{ ...main, isRunUnknown: true }, other], noFits).isRunUnknown).toBe(true);
    expect(forecast(runs, noFits)).not.toHaveProperty('isRunUnknown');
  });

  it('of uncorrected models is the first one unchanged', () => {
    const day = forecast(runs, noFits);
    expect(day).toMatchObject({ method: 'raw_ensemble', isCalibrated: false, meanF: 77 });
    expect(shares(day)).toEqual({ main: 1, other: 0 });
  });

  it('starts with equal weights and fully correlated errors', () => {
    const { mixes: _, ...book } = learned(main, better);
    const day = forecast(runs, book);
    expect(shares(day)).toEqual({ main: 0.5, other: 0.5 });
    const [a, b] = day.models!;
    expect(day.meanF).toBeCloseTo((a!.meanF + b!.meanF) / 2, 12);
    expect(day.deviationF).toBeCloseTo((a!.deviationF + b!.deviationF) / 2, 12);
    expect([...day.probabilities.values()].reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 12);
  });

  it('starts with a low weight for the gridpoint forecast', () => {
    const { mixes: _, ...book } = learned(main, pastOf('gridpoints', single, 35));
    const { main: first, gridpoints } = shares(forecast([runs[0]!, runOf('gridpoints', 71)], book));
    expect(gridpoints! / first!).toBeCloseTo(1 / 3, 6);
  });

  it('shifts to the better model, further with more data', () => {
    const lately = (of: number) =>
      shares(
        forecast(
          runs,
          learn(
            {
              ...together(pastOf(undefined, {}, 36, of), pastOf('other', { ...single, errorF: 1 }, 35, of)),
              reports: main.reports,
            },
            at,
          ).book,
        ),
      )['other']!;
    expect(lately(22)).toBeGreaterThan(0.55);
    expect(lately(45)).toBeGreaterThan(lately(22));
    expect(lately(45)).toBeLessThan(1);
    const worse = learned(main, pastOf('other', { ...single, errorF: 6 }, 35));
    expect(shares(forecast(runs, worse))['other']).toBeLessThan(0.3);
  });

  it('is more certain than its models if their errors are nearly independent', () => {
    const day = forecast(runs, learned(main, pastOf('other', { ...single, errorF: 3 }, 35)));
    for (const { weight, deviationF } of day.models!) {
      expect(weight).toBeGreaterThan(0.3);
      expect(day.deviationF).toBeLessThan(0.92 * deviationF);
    }
    expect(day.deviationF).toBeGreaterThan(
      0.6 * Math.min(...day.models!.map(({ deviationF }) => deviationF)),
    );
  });

  it('continues without the first model if that has no fit, and reports the method of the others', () => {
    const { book } = learn({ runs: better.runs, reports: main.reports }, at);
    const day = forecast(runs, book);
    expect(shares(day)).toEqual({ main: 0, other: 1 });
    expect(day).toMatchObject({ method: 'emos_pooled', isCalibrated: true, fit: { model: 'other' } });
    expect([day.rawMeanF, day.membersF]).toEqual([77, runs[0]!.membersF]);
    expect(day.models![0]!.reason).toContain('not corrected');
  });

  it('gives an earlier run of the first model no weight until it has earned one', () => {
    const earlier = runOf(undefined, 74, 48);
    const { mixes, ...book } = learned(main, pastOf(undefined, {}, 48));
    const start = forecast([runs[0]!, earlier], book);
    expect(shares(start)).toEqual({ main: 1, earlier: 0 });
    expect(start.models![1]!.reason).toBe('it has had nothing to add to the others');
    expect(start.meanF).toBe(forecast([runs[0]!], book).meanF);
    // The runs' errors are independent, so the earlier run adds information.
    const day = forecast([runs[0]!, earlier], { ...book, mixes: mixes! });
    expect(shares(day)['earlier']).toBeGreaterThan(0.2);
    // Runs less than half a day apart count as the same run.
    expect(forecast([runs[0]!, runOf(undefined, 74, 47)], book)).not.toHaveProperty('models');
  });

  it('ignores later training', () => {
    const book = learned(main, better);
    const tomorrow = book.mixes!.map((mix) => ({ ...mix, trainedAt: new Date(at.getTime() + 1) }));
    expect(shares(forecast(runs, { ...book, mixes: tomorrow }))).toEqual({ main: 0.5, other: 0.5 });
  });

  it('is the same with an exact copy of any of its models', () => {
    const two = learned(main, better);
    const before = forecast(runs, two);
    const copyOf = ({ runs: all }: Past) => ({
      ...main,
      runs: all.map((run) => ({ ...run, model: 'copy' })),
    });
    for (const [of, past] of Object.entries({ main, other: better })) {
      const copied = { ...runs[of === 'main' ? 0 : 1]!, model: 'copy' };
      const day = forecast([...runs, copied], learned(main, better, copyOf(past)));
      const weights = shares(day);
      expect(weights[of]! + weights['copy']!).toBeCloseTo(shares(before)[of]!, 3);
      expect(day.meanF).toBeCloseTo(before.meanF, 2);
      expect(day.deviationF).toBeCloseTo(before.deviationF, 2);
    }
  });

  it('gives a model of noise almost nothing', () => {
    const noisy = learned(main, better, pastOf('noise', { ...single, errorF: 20 }, 34));
    expect(shares(forecast([...runs, runOf('noise', 71)], noisy))['noise']).toBeLessThan(0.02);
  });

  it('stays the same without new data', () => {
    const past = { ...together(main, better), reports: main.reports };
    const { book } = learn(past, at);
    const again = learn(past, new Date(at.getTime() + 60_000), book);
    expect(again.addedMixes).toEqual([]);
    expect(again.book.mixes).toEqual(book.mixes);
    // A new model triggers a new mix.
    const third = { ...past, runs: [...past.runs, ...pastOf('third', single, 34).runs] };
    const { addedMixes } = learn(third, new Date(at.getTime() + 60_000), book);
    expect(addedMixes).toMatchObject([{ kind: 'daily_maximum', leadHours: 36 }]);
    expect(Object.keys(addedMixes[0]!.skill).toSorted()).toEqual(['main', 'other', 'third']);
  });
});

describe('the comparison of models', () => {
  const errors = (values: readonly number[], from = 0): ModelError[] =>
    values.map((errorF, i) => ({ key: `day ${i + from}`, date: dateAfter(first, i + from), errorF }));

  it('measures relative error size and correlation on the days that both forecast', () => {
    const found = learnMix(
      new Map([
        ['main', errors([2, -2, 2, -2])],
        // Lacks the first day, which may have been harder to forecast.
        ['other', errors([-1, 1, 1], 1)],
      ]),
    )!;
    expect(found.skill['other']).toMatchObject({ value: 0.25, dates: expect.closeTo(2.93, 2) as number });
    expect(found.skill['main']!.value).toBe(1);
    // The products of the errors are +2, +2 and −2, with almost equal weights.
    expect(found.correlation[pairOf('other', 'main')]!.value).toBeCloseTo(1 / 3, 1);
    expect([found.firstDate, found.lastDate]).toEqual([first, dateAfter(first, 3)]);
  });

  it('forgets: data two months old count a quarter', () => {
    const of = (error: number) => [error, ...Array.from({ length: 59 }, () => NaN), 1];
    const isThere = ({ errorF }: ModelError) => !Number.isNaN(errorF);
    const found = learnMix(
      new Map([
        ['main', errors(of(1)).filter(isThere)],
        ['other', errors(of(3)).filter(isThere)],
      ]),
    )!;
    expect(found.skill['other']).toMatchObject({ value: (9 / 4 + 1) / (1 / 4 + 1), dates: 1.25 });
  });

  it('does not let a few extreme days decide', () => {
    const ordinary = (errorF: number) =>
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? errorF : -errorF));
    const extreme = ordinary(1).map((errorF, i) => (i % 20 === 10 ? 12 : errorF));
    const found = learnMix(
      new Map([
        ['main', errors(ordinary(2))],
        ['other', errors(extreme)],
      ]),
    )!;
    // The mean squared error of the other model is twice that of the first.
    expect(found.skill['other']!.value).toBeLessThan(0.9);
  });

  it('counts several stations of a date as more than one date, but not as one each', () => {
    const ofStations = (stations: number) =>
      errors(Array.from({ length: 10 * stations }, () => 1)).map((each, i) => ({
        ...each,
        date: dateAfter(first, Math.floor(i / stations)),
      }));
    const datesOf = (stations: number) =>
      learnMix(
        new Map([
          ['main', ofStations(stations)],
          ['other', ofStations(stations)],
        ]),
      )!.skill['other']!.dates;
    expect(datesOf(4)).toBeCloseTo(2 * datesOf(1), 9);
  });

  it('counts errors of an earlier version a quarter, and keeps the number of days', () => {
    const mark = (all: ModelError[]) => all.map((each, i) => ({ ...each, isOlder: i < 2 }));
    const of = (marked: typeof mark) =>
      learnMix(
        new Map([
          ['main', errors([1, 1, 1])],
          ['other', marked(errors([3, 3, 1]))],
        ]),
      )!.skill['other']!;
    const [told, untold] = [of(mark), of((all) => all.map((each) => ({ ...each, isOlder: false })))];
    expect(told.value).toBeLessThan(0.6 * untold.value);
    expect(told.dates).toBe(untold.dates);
    // If every day is from the older version, nothing changes.
    const allOlder = of((all) => all.map((each) => ({ ...each, isOlder: true })));
    expect(allOlder.value).toBeCloseTo(untold.value, 12);
  });

  it('needs the first model and another', () => {
    expect(learnMix(new Map([['main', errors([1])]]))).toBeUndefined();
    expect(
      learnMix(
        new Map([
          ['a', errors([1])],
          ['b', errors([2])],
        ]),
      ),
    ).toBeUndefined();
  });

  it('yields nonnegative weights that sum to one, and no shift between two of them improves the error', () => {
    const { mixes: _, ...book } = learned(main, better, pastOf('third', single, 34));
    const known = (value: fc.Arbitrary<number>) =>
      fc.record({ value, dates: fc.double({ min: 0, max: 60, noNaN: true }) });
    const anyMix = fc.record({
      other: known(fc.double({ min: 0.1, max: 5, noNaN: true })),
      third: known(fc.double({ min: 0.1, max: 5, noNaN: true })),
      pairs: fc.tuple(...[0, 1, 2].map(() => known(fc.double({ min: -1, max: 1, noNaN: true })))),
    });
    fc.assert(
      fc.property(anyMix, ({ other, third, pairs }) => {
        const mix: Mix = {
          id: 'a mix',
          kind: 'daily_maximum',
          leadHours: 36,
          skill: { main: { value: 1, dates: 60 }, other, third },
          correlation: Object.fromEntries(
            ['main other', 'main third', 'other third'].map((pair, i) => [pair, pairs[i]!]),
          ),
          firstDate: first,
          lastDate: first,
          knownThrough: at,
          trainedAt: at,
        };
        const day = forecast([...runs, runOf('third', 73)], { ...book, mixes: [mix] });
        const weights = Object.values(shares(day));
        expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 9);
        expect(Math.min(...weights)).toBeGreaterThanOrEqual(0);
        expect(day.deviationF).toBeGreaterThanOrEqual(0.5);
        expect(day.deviationF).toBeLessThanOrEqual(
          Math.max(...day.models!.map(({ deviationF }) => deviationF)) + 1e-9,
        );
      }),
      { numRuns: 200 },
    );
  });
});
