import { describe, expect, it } from 'vitest';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { train } from '../../../src/markets/training/training.js';
import { lineOf, predictAhead } from '../../../src/markets/learning/day-ahead.js';
import { noFits, type FitBook } from '../../../src/markets/learning/fits.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { dateAfter, first, makePast, together, type Past } from '../support/forecast-past.js';
import type { KnownRun } from '../../../src/markets/learning/queries.js';
import { pitHistogram, pitOfMaximum, type PitValue } from '../learning/pit-of.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';

/** Biased, overconfident members: their mean is off by 2.5 °F, but they deviate by only 1.2 °F. */
const planted = leadingStations.map(({ id }, i) => ({
  stationId: id,
  biasF: [0.4, 1.2, -2.1, 0.8, -1.5, 3.5, -0.6][i]!,
  errorF: 2.5,
  spreadF: 1.2,
}));
const trainingDays = 60;
const past = together(...planted.map((truth) => makePast(truth, trainingDays)));
const at = new Date(`${dateAfter(first, trainingDays + 1)}T00:00:00Z`);
const learned = (known: Past) =>
  train(KnownHistory.at(at, known), { previous: noFits, newId: () => 'a fit' }).book;

describe('fits in a world with a known truth', () => {
  const book = learned(past);
  const { coefficients } = book.fits.find(({ stationId }) => stationId === null)!;

  // The standard error of the mean of 60 daily errors is 2.5 · 1.2 / √60 = 0.4 °F; the tolerance is three times that.
  it.each(planted)('recover the bias of $biasF °F at $stationId', ({ stationId, biasF }) => {
    const { mean } = predictAhead(coefficients, { group: stationId, day: 0, mean: 75, variance: 1 });
    expect(Math.abs(mean - 75 + biasF)).toBeLessThan(1.2);
  });

  it('learn that the members are overconfident', () => {
    // Where members deviate by 1.2 °F, the error is 2.5 °F, plus a variance of 1/12 from rounding in reports.
    const { c, d } = lineOf(coefficients, { group: '', day: 0 });
    expect(Math.exp(c + d * Math.log(1.2))).toBeGreaterThan(2.2);
    expect(Math.exp(c + d * Math.log(1.2))).toBeLessThan(2.9);
    // The spread also distinguishes good days from bad ones.
    expect(d).toBeGreaterThan(0.25);
  });

  it('make forecasts whose PIT passes the flatness test on unseen days, while that of the members fails', () => {
    const next = together(...planted.map((truth) => makePast(truth, 60, { from: trainingDays + 1 })));
    const flatness = (model: typeof rawEnsemble) => pitHistogram(pits(model, book, next)).pFlat!;
    expect(flatness(calibratedModel)).toBeGreaterThan(0.01);
    expect(flatness(rawEnsemble)).toBeLessThan(1e-6);
  });
});

/** Returns the PIT value of each day for one model's forecasts, all from the same fits. */
function pits(model: typeof rawEnsemble, fits: FitBook, { runs, reports }: Past): PitValue[] {
  const reported = new Map(
    reports.map((report) => [`${report.stationId} ${report.date}`, report.temperatureF]),
  );
  return runs.map((run) => {
    const ensemble = {
      ...run,
      kind: 'daily_maximum' as const,
      fetchedAt: at,
      modelRunAt: run.modelRunAt,
      membersF: membersOf(run),
    };
    // Each day is forecast when its run arrives, but with the fits from the beginning.
    const now = new Date(Math.max(run.fetchedAt.getTime(), at.getTime()));
    const usable = { ...fits, fits: fits.fits.map((fit) => ({ ...fit, trainedAt: now })) };
    const weather = { fetchedAt: now, ensembles: [ensemble], observed: [] };
    const [day] = model({ source: 'test', weather, events: [], fits: usable, at: now }).get(
      run.stationId,
    )!.days;
    return pitOfMaximum(day!.distribution, reported.get(`${run.stationId} ${run.date}`)!);
  });
}

/** Returns members with exactly this mean and sample variance. */
function membersOf({ stationId, date, meanF, varianceF }: KnownRun): number[] {
  const draws = Array.from({ length: 31 }, (_, i) => gaussian(stationId, date, 'member', i));
  const mean = draws.reduce((sum, x) => sum + x, 0) / draws.length;
  const variance = draws.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (draws.length - 1);
  return draws.map((x) => meanF + (x - mean) * Math.sqrt(varianceF / variance));
}
