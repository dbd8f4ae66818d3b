import { describe, expect, it } from 'vitest';
import type { Fit, FitBook } from '../../../src/markets/learning/fits.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { lineCoefficients } from '../support/forecast-past.js';
import { rawEnsemble } from './raw-ensemble.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';
import { makeEvent } from '../support/events.js';

// New York's climate day ends at 05:00Z on the next date, 17 hours after the run.
const date = '2026-07-04';
const at = new Date('2026-07-04T18:00:00Z');
const event = makeEvent({ date, lowest: 68 });
// Mean 71, sample variance 20/9.
const members = [69, 70, 71, 72, 73, 69, 70, 71, 72, 73];
const ensemble: DayEnsemble = {
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  modelRunAt: new Date('2026-07-04T12:00:00Z'),
  fetchedAt: new Date('2026-07-04T17:00:00Z'),
  membersF: members,
};
const daysAgo = (days: number) => new Date(at.getTime() - days * 86_400_000);
const fit = (over: Partial<Fit> = {}): Fit => ({
  id: 'a fit',
  kind: 'daily_maximum',
  stationId: 'KNYC',
  leadHours: 24,
  coefficients: lineCoefficients({ a: 1, b: 0.95, c: Math.log(2) }),
  n: 60,
  firstDate: '2026-05-01',
  lastDate: '2026-06-30',
  lowestMeanF: 60,
  highestMeanF: 80,
  trainingCrps: 1,
  rawCrps: 2,
  knownThrough: daysAgo(3),
  trainedAt: daysAgo(2),
  ...over,
});
const pooled = (over: Partial<Fit> = {}) =>
  fit({
    stationId: null,
    coefficients: lineCoefficients({ a: 0, b: 1, c: Math.log(2) }, { KNYC: 1.5, KDEN: -3 }),
    n: 400,
    ...over,
  });
const book = (...fits: Fit[]): FitBook => ({
  madeAt: daysAgo(1),
  fits,
  missing: [
    {
      kind: 'daily_maximum',
      stationId: null,
      leadHours: 24,
      reason: 'only 26 of 30 days are known over all stations at this lead',
    },
  ],
});

function dayOf(fits: FitBook, over: Partial<DayEnsemble> = {}, observed: ObservedExtreme[] = [], now = at) {
  const weather = { fetchedAt: now, ensembles: [{ ...ensemble, ...over }], observed };
  return calibratedModel({ source: 'test', weather, events: [event], fits, at: now }).get('KNYC')!.days[0]!;
}
const shifted = (degrees: number) => ({ membersF: members.map((f) => f + degrees) });

/** CDF of the logistic distribution with standard deviation 1. */
const cdf = (z: number) => 1 / (1 + Math.exp((-z * Math.PI) / Math.sqrt(3)));

/** Highest possible probability while there are observations but no report. */
const MOST_SURE = 1 - 1e-7;

describe('the calibrated model', () => {
  it("corrects by the pooled fit, including the station's own bias", () => {
    const day = dayOf(book(pooled()));
    expect(day).toMatchObject({ method: 'emos_pooled', isCalibrated: true, fallback: null, leadHours: 17 });
    expect(day).toMatchObject({ shape: 'logistic', distribution: { shape: 'logistic', atLeast: null } });
    expect(day.fit!.stationId).toBeNull();
    expect(day.seasonalFit).toBeUndefined();
    expect(day.meanF).toBeCloseTo(69.5, 12);
    expect(day.deviationF).toBeCloseTo(2, 12);
    expect(day.rawMeanF).toBe(71);
    expect(day.rawDeviationF).toBeCloseTo(Math.sqrt(20 / 9), 12);
    // The lowest bracket covers reports of 67 or less, which means temperatures up to 67.5.
    expect([...day.probabilities.values()][0]).toBeCloseTo(cdf((67.5 - 69.5) / 2), 12);
    expect([...day.probabilities.values()].reduce((sum, p) => sum + p)).toBeCloseTo(1, 12);
    for (const { probability, temperatureF } of day.quantiles)
      expect(cdf((temperatureF - 69.5) / 2)).toBeCloseTo(probability, 12);
  });

  it("averages in the station's own fit if its history is long", () => {
    const day = dayOf(book(fit(), pooled()));
    expect(day).toMatchObject({ method: 'emos', isCalibrated: true, fallback: null, shape: 'logistic' });
    expect(day.fit!.stationId).toBeNull();
    expect(day.seasonalFit!.stationId).toBe('KNYC');
    // The average of 1 + 0.95 · 71 = 68.45 and 69.5.
    expect(day.meanF).toBeCloseTo((68.45 + 69.5) / 2, 12);
    expect(dayOf(book(fit()))).toMatchObject({
      method: 'emos',
      meanF: 68.45,
      fallback: "only 26 of 30 days are known over all stations at this lead; the station's own fit alone",
    });
  });

  it("uses the members' spread where they have one", () => {
    const coefficients = lineCoefficients({ a: 0, b: 1, c: Math.log(2), d: 0.5 });
    const { deviationF } = dayOf(book(pooled({ coefficients })));
    expect(deviationF).toBeCloseTo(2 * (20 / 9) ** 0.25, 12);
  });

  it('begins near 1.5 times a stated deviation, and shrinks to the learned one', () => {
    const after = (n: number) => dayOf(book(pooled({ n })), { spreadF: 4 }).deviationF;
    expect(after(0)).toBeCloseTo(6, 12);
    expect(after(60)).toBeCloseTo(Math.sqrt(6 * 2), 12);
    expect(after(60_000)).toBeCloseTo(2, 1);
    expect(dayOf(book(pooled({ n: 0 }))).deviationF).toBeCloseTo(2, 12);
  });

  it('does not correct a run whose window may miss the extreme, and says why', () => {
    const day = dayOf(book(pooled()), { isNearMidnight: true });
    expect(day).toMatchObject({ isCalibrated: false });
    expect(day.fallback).toContain('near midnight');
  });

  it('falls back to the raw members and says why', () => {
    const [day] = rawEnsemble({
      source: 'test',
      weather: { fetchedAt: at, ensembles: [ensemble], observed: [] },
      events: [event],
      fits: book(),
      at,
    }).get('KNYC')!.days;
    expect(dayOf(book())).toEqual({
      ...day,
      fallback: 'only 26 of 30 days are known over all stations at this lead; not corrected',
    });
    expect(day!.distribution.shape).toBe('normal');
    expect(dayOf({ madeAt: null, fits: [] }).fallback).toBe('no fit exists yet; not corrected');
  });

  it('rejects an impossible correction for one station, and fits of earlier versions', () => {
    const far = pooled({ coefficients: lineCoefficients({ a: 0, b: 1, c: 0 }, { KNYC: 12.1 }) });
    expect(dayOf(book(far))).toMatchObject({
      method: 'raw_ensemble',
      fallback: 'the fit of all stations corrects by -12.1 °F here, more than 12; not corrected',
    });
    expect(dayOf(book(pooled({ coefficients: { a: 1, b: 0.9, c: 2, d: 1 } })))).toMatchObject({
      method: 'raw_ensemble',
      fallback: 'the fit of all stations is of an earlier version; not corrected',
    });
  });

  it('ignores a fit made later', () => {
    const tomorrow = fit({ trainedAt: daysAgo(-1) });
    expect(dayOf(book(tomorrow)).method).toBe('raw_ensemble');
    expect(dayOf({ ...book(tomorrow), madeAt: daysAgo(-1) }).fallback).toBe(
      'no fit exists yet; not corrected',
    );
  });

  it('uses a fit for a week, then reports its age', () => {
    expect(dayOf(book(pooled({ trainedAt: daysAgo(7) }))).method).toBe('emos_pooled');
    const old = dayOf(book(fit({ trainedAt: daysAgo(7.01) }), pooled()));
    expect(old).toMatchObject({
      method: 'emos_pooled',
      fallback: "the station's own fit is of 2026-06-27, more than 7 days ago",
    });
  });

  it('uses only fits for the same lead', () => {
    expect(dayOf(book(fit({ leadHours: 12 }), fit({ leadHours: 36 }))).method).toBe('raw_ensemble');
    const early = new Date('2026-07-02T04:00:00Z');
    expect(dayOf(book(fit({ leadHours: 72 })), { modelRunAt: early })).toMatchObject({
      method: 'raw_ensemble',
      fallback: "nothing is learned from runs more than 72 hours before a day's end",
    });
  });

  it('extrapolates with the correction at the edge of the training range, but not far beyond it', () => {
    // The correction at 80 is 1 + 0.95 · 80 − 80 = −3.
    expect(dayOf(book(fit()), shifted(10)).meanF).toBeCloseTo(81 - 3, 12);
    expect(dayOf(book(fit()), shifted(19)).meanF).toBeCloseTo(90 - 3, 12);
    // The correction at 60 is −2.
    expect(dayOf(book(fit()), shifted(-20)).meanF).toBeCloseTo(51 - 2, 12);
    expect(dayOf(book(pooled()), shifted(20))).toMatchObject({
      method: 'raw_ensemble',
      fallback:
        "the members' mean of 91.0 °F is outside the range of the fit of all stations, 60.0 to 80.0 °F; not corrected",
    });
  });

  it('keeps the deviation between half a degree and fifteen', () => {
    const sure = (c: number) =>
      dayOf(book(fit({ coefficients: lineCoefficients({ a: 0, b: 1, c }) }))).deviationF;
    expect(sure(-9)).toBe(0.5);
    expect(sure(9)).toBe(15);
  });

  it('is bounded by observations, almost certain once they cover the day, and certain with the report', () => {
    const observed = {
      kind: 'daily_maximum' as const,
      stationId: 'KNYC',
      date,
      extremeF: 71.06,
      observedAt: new Date('2026-07-04T17:51:00Z'),
      fetchedAt: new Date('2026-07-04T17:55:00Z'),
    };
    const day = dayOf(book(fit()), {}, [observed]);
    expect(day).toMatchObject({ distribution: { atLeast: 71 }, meanF: 68.45, method: 'emos' });
    // All mass at or below 71 moves to 71.
    const stays = cdf((71.5 - 68.45) / 2);
    const [less, cool, warm, warmer] = day.probabilities.values();
    expect([less, cool]).toEqual([0, 0]);
    expect(warm).toBeCloseTo(stays, 10);
    expect(warmer).toBeCloseTo(cdf((73.5 - 68.45) / 2) - stays, 10);
    expect(day.running).toMatchObject({
      hour: null,
      fit: null,
      fallback: 'no hour of the day has been reported yet',
    });
    expect(day.running!.stays).toBeCloseTo(stays, 10);

    const over = new Date('2026-07-05T05:00:00Z');
    const last = { ...observed, observedAt: new Date('2026-07-05T04:51:00Z'), fetchedAt: over };
    expect([...dayOf(book(fit()), {}, [last], over).probabilities.values()]).toEqual([
      0,
      0,
      MOST_SURE,
      0,
      0,
      0,
    ]);
    const report = { ...last, extremeF: 72, isFinal: true as const };
    const whole = dayOf(book(fit()), {}, [last, report], over);
    expect([...whole.probabilities.values()]).toEqual([0, 0, 0, 1, 0, 0]);
    expect(whole).toMatchObject({ running: null, observed: { extremeF: 72 } });
  });
});
