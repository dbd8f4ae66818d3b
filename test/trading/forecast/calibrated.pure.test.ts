import { describe, expect, it } from 'vitest';
import { calibratedModel, type Fit, type FitBook } from '../../../src/trading/forecast/fits.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/trading/forecast/forecast.js';
import { normalCdf } from '../../../src/core/statistics/normal.js';
import { rawEnsemble } from './raw-ensemble.js';
import { makeEvent } from '../../fixtures/events.js';

// The climate day of New York on this date ends on the next one at 05:00Z: 17 hours after the run.
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
  coefficients: { a: 1, b: 0.95, c: 2, d: 0.9 },
  stationBiasF: null,
  hourBiasF: null,
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
    coefficients: { a: 0, b: 1, c: 4, d: 0 },
    stationBiasF: { KNYC: 1.5, KDEN: -3 },
    n: 400,
    ...over,
  });
const book = (...fits: Fit[]): FitBook => ({
  madeAt: daysAgo(1),
  fits,
  missing: [
    {
      kind: 'daily_maximum',
      stationId: 'KNYC',
      leadHours: 24,
      reason: 'only 12 of 30 days are known for this station at this lead',
    },
    {
      kind: 'daily_maximum',
      stationId: null,
      leadHours: 24,
      reason: 'only 36 of 40 days are known over all stations at this lead',
    },
  ],
});

function dayOf(fits: FitBook, over: Partial<DayEnsemble> = {}, observed: ObservedExtreme[] = [], now = at) {
  const weather = { fetchedAt: now, ensembles: [{ ...ensemble, ...over }], observed };
  return calibratedModel({ source: 'test', weather, events: [event], fits, at: now }).get('KNYC')!.days[0]!;
}
const shifted = (degrees: number) => ({ membersF: members.map((f) => f + degrees) });

/** No observation is the report. */
const MOST_SURE = 1 - 1e-7;

describe('the calibrated model', () => {
  it("corrects by the station's own fit", () => {
    const day = dayOf(book(fit(), pooled()));
    expect(day).toMatchObject({ method: 'emos', isCalibrated: true, fallback: null, leadHours: 17 });
    expect(day.fit!.stationId).toBe('KNYC');
    // 1 + 0.95 · 71, and the root of 2 + 0.9 · 20/9.
    expect(day.meanF).toBeCloseTo(68.45, 12);
    expect(day.deviationF).toBeCloseTo(2, 12);
    expect(day.rawMeanF).toBe(71);
    expect(day.rawDeviationF).toBeCloseTo(Math.sqrt(20 / 9), 12);
    // Below 68 the report says 67 or less: up to 67.5.
    expect([...day.probabilities.values()][0]).toBeCloseTo(normalCdf((67.5 - 68.45) / 2), 12);
    expect([...day.probabilities.values()].reduce((sum, p) => sum + p)).toBeCloseTo(1, 12);
  });

  it("falls back to all stations, with the station's bias taken off, and says why", () => {
    expect(dayOf(book(pooled()))).toMatchObject({
      method: 'emos_pooled',
      isCalibrated: true,
      fallback: 'only 12 of 30 days are known for this station at this lead; all stations together',
      meanF: 69.5,
      deviationF: 2,
    });
  });

  it('falls back to the members as they are, and says why', () => {
    const [day] = rawEnsemble({
      source: 'test',
      weather: { fetchedAt: at, ensembles: [ensemble], observed: [] },
      events: [event],
      fits: book(),
      at,
    }).get('KNYC')!.days;
    expect(dayOf(book())).toEqual({
      ...day,
      fallback:
        'only 12 of 30 days are known for this station at this lead; only 36 of 40 days are known over all stations at this lead; not corrected',
    });
    expect(dayOf({ madeAt: null, fits: [] }).fallback).toBe('nothing has been learned yet; not corrected');
  });

  it('does not use a fit that was made later', () => {
    const tomorrow = fit({ trainedAt: daysAgo(-1) });
    expect(dayOf(book(tomorrow)).method).toBe('raw_ensemble');
    expect(dayOf({ ...book(tomorrow), madeAt: daysAgo(-1) }).fallback).toBe(
      'nothing has been learned yet; not corrected',
    );
  });

  it('uses a fit for a week, and then says how old it is', () => {
    expect(dayOf(book(fit({ trainedAt: daysAgo(7) }))).method).toBe('emos');
    const old = dayOf(book(fit({ trainedAt: daysAgo(7.01) }), pooled()));
    expect(old).toMatchObject({
      method: 'emos_pooled',
      fallback: "the station's fit is of 2026-06-27, more than 7 days ago; all stations together",
    });
  });

  it('uses only what was learned at the same lead', () => {
    expect(dayOf(book(fit({ leadHours: 12 }), fit({ leadHours: 36 }))).method).toBe('raw_ensemble');
    const early = new Date('2026-07-02T04:00:00Z');
    expect(dayOf(book(fit({ leadHours: 72 })), { modelRunAt: early })).toMatchObject({
      method: 'raw_ensemble',
      fallback: "nothing is learned of runs more than 72 hours before a day's end",
    });
  });

  it('corrects beyond what was seen by as much as at its end, and not at all far beyond it', () => {
    // At 80: 1 + 0.95 · 80 − 80 = −3.
    expect(dayOf(book(fit()), shifted(10)).meanF).toBeCloseTo(81 - 3, 12);
    expect(dayOf(book(fit()), shifted(19)).meanF).toBeCloseTo(90 - 3, 12);
    // At 60: −2.
    expect(dayOf(book(fit()), shifted(-20)).meanF).toBeCloseTo(51 - 2, 12);
    expect(dayOf(book(fit()), shifted(20))).toMatchObject({
      method: 'raw_ensemble',
      fallback: expect.stringMatching(
        /^the members' mean of 91.0 °F is far from what the station's fit has seen, 60.0 to 80.0 °F; only 36/,
      ),
    });
  });

  it('is never surer than half a degree, and never less sure than fifteen', () => {
    expect(dayOf(book(fit({ coefficients: { a: 0, b: 1, c: 0, d: 0 } }))).deviationF).toBe(0.5);
    expect(dayOf(book(fit({ coefficients: { a: 0, b: 1, c: 0, d: 1e6 } }))).deviationF).toBe(15);
  });

  it('stays at what was observed, or goes on from there; it is almost certain once the whole day was, and certain by its report', () => {
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
    // All that would be 71 or less is 71.
    const stays = normalCdf((71.5 - 68.45) / 2);
    const [less, cool, warm, warmer] = day.probabilities.values();
    expect([less, cool]).toEqual([0, 0]);
    expect(warm).toBeCloseTo(stays, 10);
    expect(warmer).toBeCloseTo(normalCdf((73.5 - 68.45) / 2) - stays, 10);
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
