import { describe, expect, it } from 'vitest';
import { problemOf } from '../../src/trading/archive/make-fit.js';
import { findFit } from '../../src/trading/forecast/fits.js';
import { dateAfter, first, learn, makePast, together, type Past } from './forecast-past.js';

const newYork = { stationId: 'KNYC', biasF: 0, errorF: 2, spreadF: 1 };
const later = new Date('2026-12-31T00:00:00Z');
const fitOf = (past: Past, stationId: string | null, lead = 24, at = later) =>
  findFit(learn(past, at).book, { kind: 'daily_maximum', stationId, leadHours: lead }, at);
const whyNot = (past: Past, stationId: string | null, lead = 24) =>
  learn(past, later).book.missing!.find(
    (each) => each.kind === 'daily_maximum' && each.stationId === stationId && each.leadHours === lead,
  )?.reason;

describe('training', () => {
  it('gives a station a fit of its own from 30 days on, and says what is missing before', () => {
    expect(fitOf(makePast(newYork, 29), 'KNYC')).toBeUndefined();
    expect(whyNot(makePast(newYork, 29), 'KNYC')).toBe(
      'only 29 of 30 days are known for this station at this lead',
    );
    expect(fitOf(makePast(newYork, 30), 'KNYC')).toMatchObject({
      n: 30,
      firstDate: first,
      lastDate: dateAfter(first, 29),
    });
    expect(whyNot(makePast(newYork, 30), 'KDEN')).toBe(
      'only 0 of 30 days are known for this station at this lead',
    );
  });

  it('takes all stations together from 40 days on', () => {
    const two = (days: number) =>
      together(makePast(newYork, days), makePast({ ...newYork, stationId: 'KMIA' }, days));
    expect(fitOf(two(19), null)).toBeUndefined();
    expect(whyNot(two(19), null)).toBe('only 38 of 40 days are known over all stations at this lead');
    expect(fitOf(two(20), null)).toMatchObject({ n: 40 });
  });

  it('learns from the 60 latest days that have data, wherever days are missing', () => {
    const past = makePast(newYork, 80);
    const gap = past.reports.filter((_, i) => i < 70 || i > 74);
    // Of the 80 days five are missing, so the 60 latest begin 65 days before the end.
    expect(fitOf({ ...past, reports: gap }, 'KNYC')).toMatchObject({
      n: 60,
      firstDate: dateAfter(first, 15),
      lastDate: dateAfter(first, 79),
    });
  });

  it('learns each lead for itself, and of several runs of one the one that had the longest way to go', () => {
    const at24 = makePast(newYork, 40);
    const at18 = makePast({ ...newYork, errorF: 0.1 }, 40, { leadHours: 18 });
    const at48 = makePast({ ...newYork, errorF: 5 }, 40, { leadHours: 48 });
    const past = { runs: [...at18.runs, ...at24.runs, ...at48.runs], reports: at24.reports };
    expect(fitOf(past, 'KNYC')).toEqual(fitOf(at24, 'KNYC'));
    expect(fitOf(past, 'KNYC', 48)).toEqual(fitOf(at48, 'KNYC', 48));
    expect(fitOf(past, 'KNYC', 12)).toBeUndefined();
  });

  it('learns nothing of runs that were started after the day or more than three days before its end', () => {
    for (const leadHours of [0, -6, 73])
      expect(
        learn(makePast(newYork, 40, { leadHours }), later).book.missing!.every(({ reason }) =>
          reason.startsWith('only 0 of'),
        ),
      ).toBe(true);
  });

  it('lets single runs teach the bias but not what the spread is worth', () => {
    const single = makePast({ ...newYork, biasF: 3, members: 1 }, 45);
    const fit = fitOf(single, 'KNYC')!;
    expect(fit.coefficients.d).toBe(0);
    expect(fit.coefficients.a + (fit.coefficients.b - 1) * 78).toBeCloseTo(-3, 0);
    // A week of real ensembles is too short to learn a spread from: all teach, and none by its spread.
    const few = makePast(newYork, 7, { from: 45 });
    expect(fitOf(together(single, few), 'KNYC')).toMatchObject({ n: 52, coefficients: { d: 0 } });
    // Enough of them teach alone.
    const many = makePast({ ...newYork, biasF: -1 }, 35, { from: 45 });
    expect(fitOf(together(single, many), 'KNYC')).toEqual(fitOf(many, 'KNYC'));
  });

  it("takes a station's bias off before all are fitted together, shrunk towards what all have in common", () => {
    const without = { ...newYork, errorF: 0 };
    const past = together(
      makePast({ ...without, biasF: 5, stationId: 'KLAX' }, 30),
      makePast({ ...without, biasF: 1 }, 10),
    );
    // Errors are those of rounding only. In common: (30 · 5 + 10 · 1) / 40 = 4; Los Angeles 4 + 30/40 · 1, New York 4 − 10/20 · 3.
    const { stationBiasF } = learn(
      together(past, makePast({ ...newYork, stationId: 'KDEN', biasF: 4, errorF: 0 }, 1)),
      later,
    ).book.fits.find(({ stationId }) => stationId === null)!;
    expect(stationBiasF!.KLAX).toBeCloseTo(4.75, 0);
    expect(stationBiasF!.KNYC).toBeCloseTo(2.5, 0);
    expect(stationBiasF!.KPHL).toBeCloseTo(4, 0);
    expect(Object.keys(stationBiasF!)).toHaveLength(24);
  });

  it('leaves a fit as it is while its training set is the same, and makes another when anything in it changes', () => {
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
    expect(changed.added.map(({ fit }) => fit.trainedAt)).toEqual([later, later]);
  });

  it('says what it was learned from', () => {
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

describe('bounds on a fit', () => {
  const cases = Array.from({ length: 40 }, (_, i) => ({
    mean: 60 + i / 2,
    variance: 2,
    observed: 60 + i / 2,
  }));
  const good = { coefficients: { a: 0, b: 1, c: 2, d: 0.5 }, trainingCrps: 1, hasConverged: true };
  it.each([
    ['one that is good', good, undefined],
    ['one that has not converged', { ...good, hasConverged: false }, /converged/],
    ['a slope that is too flat', { ...good, coefficients: { a: 41, b: 0.4, c: 2, d: 0 } }, /slope of 0.40/],
    ['a slope that is too steep', { ...good, coefficients: { a: -41, b: 1.6, c: 2, d: 0 } }, /slope/],
    ['a slope that is no number', { ...good, coefficients: { a: 0, b: Number.NaN, c: 2, d: 0 } }, /slope/],
    ['a correction beyond any bias', { ...good, coefficients: { a: 8.1, b: 1, c: 2, d: 0 } }, /8.1 °F/],
    // 35.5 − 0.5 · 60 = 5.5 at one end, −4.25 at the other: fine. With 7 at the centre 12.1 at the end is not.
    ['a slope within bounds', { ...good, coefficients: { a: 35.5, b: 0.5, c: 2, d: 0 } }, undefined],
    ['a correction at an end', { ...good, coefficients: { a: 42.1, b: 0.5, c: 2, d: 0 } }, /12.1 °F/],
    ['a deviation of nothing', { ...good, coefficients: { a: 0, b: 1, c: 0.1, d: 0 } }, /deviation of 0.32/],
    ['a deviation without end', { ...good, coefficients: { a: 0, b: 1, c: 1, d: 200 } }, /deviation of 20/],
    ['one that is no better than raw', { ...good, trainingCrps: 1.5 }, /no better/],
  ])('judge %s', (_what, fit, problem) => {
    const found = problemOf(fit, 1.5, cases);
    if (problem) expect(found).toMatch(problem);
    else expect(found).toBeUndefined();
  });

  it('keep a fit out of the book, and the book says why', () => {
    const broken = makePast({ ...newYork, biasF: 20 }, 40);
    expect(fitOf(broken, 'KNYC')).toBeUndefined();
    expect(whyNot(broken, 'KNYC')).toMatch(
      /^a fit of this station is not used: it corrects by (19|20|21)\.\d °F, more than 8$/,
    );
  });
});
