import { describe, expect, it } from 'vitest';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { train } from '../../../src/markets/training/training.js';
import { lineOf, predictAhead } from '../../../src/markets/learning/day-ahead.js';
import { calibratedModel, noFits, type FitBook } from '../../../src/markets/learning/fits.js';
import { pitHistogram, type PitValue } from '../../../src/markets/learning/pit.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { dateAfter, first, makePast, together, type Past } from '../forecast-past.js';
import type { KnownRun } from '../../../src/markets/learning/queries.js';
import { pitOfMaximum } from '../learning/pit-of.js';

/** Members that are biased, and agree better than they are right: their mean is off by 2.5 °F, they deviate by 1.2 °F. */
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

describe('fits of a world whose truth is known', () => {
  const book = learned(past);
  const { coefficients } = book.fits.find(({ stationId }) => stationId === null)!;

  // A mean error of 60 days is known to 2.5 · 1.2 / √60 = 0.4 °F: three of those.
  it.each(planted)("find the station's bias of $biasF °F at $stationId", ({ stationId, biasF }) => {
    const { mean } = predictAhead(coefficients, { group: stationId, day: 0, mean: 75, variance: 1 });
    expect(Math.abs(mean - 75 + biasF)).toBeLessThan(1.2);
  });

  it('find that the members agree better than they are right', () => {
    // Where they deviate by 1.2 °F the error is of 2.5 °F, and a twelfth for the rounding of reports.
    const { c, d } = lineOf(coefficients, { group: '', day: 0 });
    expect(Math.exp(c + d * Math.log(1.2))).toBeGreaterThan(2.2);
    expect(Math.exp(c + d * Math.log(1.2))).toBeLessThan(2.9);
    // They also tell good days from bad ones.
    expect(d).toBeGreaterThan(0.25);
  });

  it('make forecasts whose PIT is flat by test on days that they have not seen; that of the members is not', () => {
    const next = together(...planted.map((truth) => makePast(truth, 60, { from: trainingDays + 1 })));
    const flatness = (model: typeof rawEnsemble) => pitHistogram(pits(model, book, next)).pFlat!;
    expect(flatness(calibratedModel)).toBeGreaterThan(0.01);
    expect(flatness(rawEnsemble)).toBeLessThan(1e-6);
  });
});

/** Where what came lies in what a model said of each day, made by the same fits. */
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
    // Each day is forecast when its run is there, by the fits of the beginning.
    const now = new Date(Math.max(run.fetchedAt.getTime(), at.getTime()));
    const usable = { ...fits, fits: fits.fits.map((fit) => ({ ...fit, trainedAt: now })) };
    const weather = { fetchedAt: now, ensembles: [ensemble], observed: [] };
    const [day] = model({ source: 'test', weather, events: [], fits: usable, at: now }).get(
      run.stationId,
    )!.days;
    return pitOfMaximum(day!.distribution, reported.get(`${run.stationId} ${run.date}`)!);
  });
}

/** Members with exactly this mean and sample variance. */
function membersOf({ stationId, date, meanF, varianceF }: KnownRun): number[] {
  const draws = Array.from({ length: 31 }, (_, i) => gaussian(stationId, date, 'member', i));
  const mean = draws.reduce((sum, x) => sum + x, 0) / draws.length;
  const variance = draws.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (draws.length - 1);
  return draws.map((x) => meanF + (x - mean) * Math.sqrt(varianceF / variance));
}
