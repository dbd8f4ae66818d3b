import { describe, expect, it } from 'vitest';
import { problemOf } from '../../../src/markets/training/make-fit.js';
import { allAtOnce } from '../../../src/core/steps.js';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { trainStationInSteps, withStation } from '../../../src/markets/training/training.js';
import { predictAhead } from '../../../src/markets/learning/day-ahead.js';
import { findFit, noFits, type Fit } from '../../../src/markets/learning/fits.js';
import { findStation } from '../../../src/markets/market/stations.js';
import {
  dateAfter,
  first,
  learn,
  lineCoefficients,
  makePast,
  together,
  type Past,
  type Truth,
} from '../support/forecast-past.js';

const newYork = { stationId: 'KNYC', biasF: 0, errorF: 2, spreadF: 1 };
const later = new Date('2026-12-31T00:00:00Z');
const fitOf = (past: Past, lead = 24, at = later) =>
  findFit(learn(past, at).book, { kind: 'daily_maximum', stationId: null, leadHours: lead }, at);
const whyNot = (past: Past, lead = 24) =>
  learn(past, later).book.missing!.find((each) => each.kind === 'daily_maximum' && each.leadHours === lead)
    ?.reason;
const correctionOf = ({ coefficients }: Pick<Fit, 'coefficients'>, group = 'KNYC') =>
  predictAhead(coefficients, { group, day: 20_600, mean: 75, variance: 1 }).mean - 75;

describe('training', () => {
  it('pools all stations from 30 days on, and before that says how many are missing', () => {
    const two = (days: number) =>
      together(makePast(newYork, days), makePast({ ...newYork, stationId: 'KMIA' }, days));
    expect(fitOf(two(14))).toBeUndefined();
    expect(whyNot(two(14))).toBe('only 28 of 30 days are known over all stations at this lead');
    expect(fitOf(two(15))).toMatchObject({ n: 30, firstDate: first, lastDate: dateAfter(first, 14) });
    expect(fitOf(makePast(newYork, 30))).toMatchObject({ n: 30 });
  });

  it('uses the 60 latest days with data, whichever days are missing', () => {
    const past = makePast(newYork, 80);
    const gap = past.reports.filter((_, i) => i < 70 || i > 74);
    // Five of the 80 days are missing, so the latest 60 begin 65 days before the end.
    expect(fitOf({ ...past, reports: gap })).toMatchObject({
      n: 60,
      firstDate: dateAfter(first, 15),
      lastDate: dateAfter(first, 79),
    });
  });

  it('fits each lead separately, from the run with the longest lead of several', () => {
    const at24 = makePast(newYork, 40);
    const at18 = makePast({ ...newYork, errorF: 0.1 }, 40, { leadHours: 18 });
    const at48 = makePast({ ...newYork, errorF: 5 }, 40, { leadHours: 48 });
    const past = { runs: [...at18.runs, ...at24.runs, ...at48.runs], reports: at24.reports };
    expect(fitOf(past)).toEqual(fitOf(at24));
    expect(fitOf(past, 48)).toEqual(fitOf(at48, 48));
    expect(fitOf(past, 12)).toBeUndefined();
  });

  it('ignores runs started after the day or more than three days before its end', () => {
    for (const leadHours of [0, -6, 73])
      expect(
        learn(makePast(newYork, 40, { leadHours }), later).book.missing!.every(({ reason }) =>
          reason.startsWith('only 0 of'),
        ),
      ).toBe(true);
  });

  it('learns bias but not spread from single runs', () => {
    const single = makePast({ ...newYork, biasF: 3, members: 1 }, 45);
    const fit = fitOf(single)!;
    expect(fit.coefficients).not.toHaveProperty('spread');
    expect(correctionOf(fit)).toBeCloseTo(-3, 0);
    // A week of real ensembles is too short to learn spread from, so all runs are used, but without their spread.
    const few = fitOf(together(single, makePast(newYork, 7, { from: 45 })))!;
    expect(few.n).toBe(52);
    expect(few.coefficients).not.toHaveProperty('spread');
    // Once there are enough real ensembles, only those are used.
    const many = makePast({ ...newYork, biasF: -1 }, 35, { from: 45 });
    expect(fitOf(together(single, many))).toEqual(fitOf(many));
    expect(fitOf(many)!.coefficients).toHaveProperty('spread');
  });

  it('corrects each station by its own bias, closer to the common one the fewer its days', () => {
    const past = together(
      makePast({ ...newYork, biasF: 5, stationId: 'KLAX' }, 40),
      makePast({ ...newYork, biasF: 1 }, 40),
      makePast({ ...newYork, biasF: -3, stationId: 'KDEN' }, 3, { from: 37 }),
    );
    const fit = fitOf(past)!;
    expect(Math.abs(correctionOf(fit, 'KLAX') + 5)).toBeLessThan(1);
    expect(Math.abs(correctionOf(fit) + 1)).toBeLessThan(0.8);
    // With only three days of data, Denver's own bias is only partly applied.
    const [denver, unknown] = [correctionOf(fit, 'KDEN'), correctionOf(fit, 'KPHL')];
    expect(denver).toBeGreaterThan(unknown + 0.5);
    expect(denver).toBeLessThan(2.5);
    expect(unknown).toBeLessThan(correctionOf(fit));
  });

  it('keeps a fit while its training set is the same, and replaces it when anything in the set changes', () => {
    const past = makePast(newYork, 40);
    const day = new Date('2026-06-20T00:00:00Z');
    const { book } = learn(past, day);
    const again = learn(past, later, book);
    expect(again.added).toEqual([]);
    expect(again.book.fits).toEqual(book.fits);
    const corrected = past.reports.map((report, i) =>
      i === 20 ? { ...report, temperatureF: report.temperatureF + 1 } : report,
    );
    const changed = learn({ ...past, reports: corrected }, later, book);
    expect(changed.added.map(({ fit }) => fit.trainedAt)).toEqual([later]);
  });

  it('records its training data', () => {
    const past = makePast(newYork, 40);
    const [{ fit, cases } = { fit: undefined, cases: [] }] = learn(past, later).added;
    expect(cases).toHaveLength(40);
    expect(fit).toMatchObject({
      knownThrough: past.reports.at(-1)!.knownAt,
      trainedAt: later,
      lowestMeanF: Math.min(...past.runs.map(({ meanF }) => meanF)),
      highestMeanF: Math.max(...past.runs.map(({ meanF }) => meanF)),
    });
    expect(fit!.trainingCrps).toBeLessThan(fit!.rawCrps);
  });
});

/** Runs of one station with a seasonal bias over the days before `later`. */
function seasons(days: number, over: Partial<Truth> = {}): Past {
  const past = makePast({ ...newYork, errorF: 1, ...over }, days, { from: lastDay - days });
  return {
    ...past,
    runs: past.runs.map((run) => ({ ...run, meanF: run.meanF + 4 * seasonOf(run.date) })),
  };
}
const lastDay = (Date.parse('2026-12-25') - Date.parse(first)) / 86_400_000;
const seasonOf = (date: string) => Math.cos((2 * Math.PI * Date.parse(date)) / 86_400_000 / 365.25);
const ofNewYork = { kind: 'daily_maximum' as const, station: findStation('KNYC')! };
const learnSeasons = (past: Past, previous = noFits, at = later) =>
  allAtOnce(trainStationInSteps(KnownHistory.at(at, past), ofNewYork, { previous, newId: () => 'a fit' }));

describe("a station's own fit", () => {
  it('learns the seasons from at least a year and a half of data', () => {
    expect(learnSeasons(seasons(547))).toEqual({ fits: [], added: [], missing: [] });
    const { fits, added } = learnSeasons(seasons(700));
    expect(fits).toMatchObject([{ stationId: 'KNYC', leadHours: 24, n: 700 }]);
    expect(added).toHaveLength(1);
    for (const date of ['2026-01-15', '2026-04-15', '2026-07-15', '2026-10-15']) {
      const row = { group: 'KNYC', day: Date.parse(date) / 86_400_000, mean: 75, variance: 1 };
      const { mean } = predictAhead(fits[0]!.coefficients, row);
      expect(Math.abs(mean - 75 + 4 * seasonOf(date))).toBeLessThan(0.6);
    }
  });

  it('joins the pooled fit in the book and stays for days', () => {
    const past = seasons(700);
    const pooled = learn(past, later).book;
    const made = learnSeasons(past);
    const book = withStation(pooled, ofNewYork, made);
    expect(book.fits.map(({ stationId }) => stationId)).toEqual([null, 'KNYC']);
    // Retraining the pooled fit leaves the seasonal fit in place, because recent days contain no information about
    // seasons.
    expect(learn(past, later, book).book.fits).toEqual(book.fits);
    const inDays = (days: number) => new Date(later.getTime() + days * 86_400_000);
    expect(learnSeasons(seasons(702), book, inDays(4)).added).toEqual([]);
    expect(learnSeasons(past, book, inDays(6)).fits).toEqual(made.fits);
    const more = together(past, makePast(newYork, 2, { from: lastDay }));
    expect(learnSeasons(more, book, inDays(6)).added).toHaveLength(1);
    expect(learn(past, inDays(8), book).book.fits.some(({ stationId }) => stationId !== null)).toBe(false);
  });

  it('is rejected when wrong, with a reason', () => {
    const made = learnSeasons(seasons(700, { biasF: 9 }));
    expect(made.fits).toEqual([]);
    expect(made.missing).toMatchObject([
      {
        stationId: 'KNYC',
        reason: expect.stringMatching(/^a fit of this station with the seasons is not used: it corrects by/),
      },
    ]);
  });
});

describe('bounds on a fit', () => {
  const cases = Array.from({ length: 40 }, (_, i) => ({
    group: 'KNYC',
    day: 20_000 + i,
    mean: 60 + i / 2,
    variance: 2,
    observed: 60 + i / 2,
  }));
  // The centre of the means is 69.75.
  const made = (line: Partial<Parameters<typeof lineCoefficients>[0]>, over: object = {}) => ({
    coefficients: lineCoefficients({ a: 0, b: 1, c: 0.5, ...line }),
    trainingCrps: 1,
    hasConverged: true,
    ...over,
  });
  it.each([
    ['a good fit', made({}), undefined],
    ['a fit that has not converged', made({}, { hasConverged: false }), /converged/],
    ['too flat a slope', made({ a: 41, b: 0.4 }), /slope of 0.40/],
    ['too steep a slope', made({ a: -41, b: 1.6 }), /slope/],
    ['a slope that is not a number', made({ b: Number.NaN }), /slope/],
    ['a correction beyond any bias', made({ a: 8.1 }), /8.1 °F/],
    ['a slope within bounds', made({ a: 35.5, b: 0.5 }), undefined],
    ['too small a deviation', made({ c: Math.log(0.32) }), /deviation of 0.32/],
    ['too large a deviation', made({ c: Math.log(16) }), /deviation of 16/],
    ['a fit no better than raw', made({}, { trainingCrps: 1.5 }), /no better/],
  ])('judge %s', (_what, fit, problem) => {
    const found = problemOf(fit, 1.5, cases);
    if (problem) expect(found).toMatch(problem);
    else expect(found).toBeUndefined();
  });

  it('check every season of a seasonal fit', () => {
    const { coefficients, ...fit } = made({});
    const summer = { ...coefficients, sin: 5, cos: -7 };
    expect(problemOf({ ...fit, coefficients: summer }, 1.5, cases)).toBeUndefined();
    expect(problemOf({ ...fit, coefficients: { ...summer, cos: -8.2 } }, 1.5, cases)).toMatch(/8\.2 °F/);
    expect(problemOf({ ...fit, coefficients: { ...coefficients, 'slope cos': 0.6 } }, 1.5, cases)).toMatch(
      /slope/,
    );
  });
});
