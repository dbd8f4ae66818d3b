import { describe, expect, it } from 'vitest';
import { groupKnownWeather, type ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { daySoFarOf, forecastRunning, type HourFit } from '../../../src/markets/learning/running-day.js';
import { probabilityWithin } from '../../../src/markets/market/distribution.js';

const at = new Date('2026-07-04T20:10:00Z');
const hours = (known: Record<number, number>) => Array.from({ length: 24 }, (_, hour) => known[hour] ?? null);
const curveF = Array.from({ length: 24 }, (_, hour) => 60 + hour);
const fit = (over: Partial<HourFit> = {}): HourFit => ({
  id: '019b8d9a-6400-7000-8000-000000000902',
  kind: 'daily_maximum',
  hour: 14,
  // The rest of the day follows the curve to within about 2 °F.
  coefficients: Object.fromEntries(
    ['a', 'b', 'c', 'd', 'e', 'broad', 'below', 'shift', 'g0', 'g1', 'g2', 'g3', 'g4'].map((name) => [
      name,
      { b: 1, g0: 0.2 }[name] ?? 0,
    ]),
  ),
  hurdle: null,
  stationBiasF: { KNYC: 0 },
  stationExtremeBiasF: { KNYC: 0 },
  n: 900,
  firstDate: '2026-05-05',
  lastDate: '2026-07-02',
  trainingCrps: 0.3,
  rawCrps: 0.5,
  knownThrough: new Date('2026-07-03T12:00:00Z'),
  trainedAt: new Date('2026-07-03T13:00:00Z'),
  ...over,
});
const input = {
  kind: 'daily_maximum' as const,
  stationId: 'KNYC',
  extremeF: 78.62,
  hoursF: hours({ 12: 76, 13: 77, 14: 78.08 }),
  curveF,
  meanF: 80,
  deviationF: 2,
  shape: 'normal' as const,
  isMixed: false,
};

describe('a day in progress', () => {
  it('is described at its latest hour, with the known hours just before it up to the first gap', () => {
    expect(daySoFarOf(input)).toMatchObject({
      hour: 14,
      reachedF: 78.62,
      // 78.62 is reported as 79, so only a temperature above 79.5 changes the report.
      boundF: 79.5,
      recentF: [76, 77, 78.08],
    });
    expect(daySoFarOf({ ...input, hoursF: hours({ 12: 76, 14: 78.08 }) })!.recentF).toEqual([78.08]);
    // No forecast hours remain after hour 22.
    expect(daySoFarOf({ ...input, hoursF: hours({ 21: 70, 22: 69, 23: 68 }) })).toMatchObject({
      hour: 22,
      recentF: [70, 69],
    });
    expect(daySoFarOf({ ...input, hoursF: hours({}) })).toBeUndefined();
    expect(daySoFarOf({ ...input, kind: 'daily_minimum', extremeF: 61.4 })).toMatchObject({
      reachedF: -61.4,
      boundF: -60.5,
      recentF: [-76, -77, -78.08],
    });
  });

  it('continues with the fit of its kind and hour, which gives the probability that it has peaked', () => {
    const other = [fit({ kind: 'daily_minimum' }), fit({ hour: 13 })];
    const { distribution, running } = forecastRunning(input, { fits: [...other, fit()], missing: [] }, at);
    // The curve's remaining peak is 83.
    expect(distribution).toMatchObject({ atLeast: 79, mean: 83, shape: 'logistic' });
    expect(running).toEqual({
      hour: 14,
      stays: distribution.stays,
      fit: fit(),
      fallback: null,
      dayAheadShare: 0,
    });
    const scale = 1.1 * Math.exp(0.2);
    expect(running.stays).toBeCloseTo(1 / (1 + Math.exp((83 - 79.5) / scale)), 12);
    const upTo = (highest: number) => probabilityWithin(distribution, { lowest: null, highest, step: 1 });
    expect(upTo(78)).toBe(0);
    expect(upTo(79)).toBeCloseTo(running.stays, 12);
    expect(upTo(83)).toBeCloseTo(1 / (1 + Math.exp(-0.5 / scale)), 12);
  });

  it('gives the forecast of several models the share that their errors suggest', () => {
    // For a logistic deviation of 1.2 °F, the expected CRPS is 0.66 °F.
    const mixed = { ...input, meanF: 84, deviationF: 1.2, shape: 'logistic' as const, isMixed: true };
    const forecast = (over: Partial<typeof mixed>, trainingCrps = 0.8) =>
      forecastRunning({ ...mixed, ...over }, { fits: [fit({ trainingCrps })], missing: [] }, at);
    const { distribution, running } = forecast({});
    expect(running).toMatchObject({ hour: 14, fallback: null, fit: { trainingCrps: 0.8 } });
    expect(running.dayAheadShare).toBeCloseTo(0.684, 3);
    expect(distribution).toMatchObject({ atLeast: 79, shape: 'logistic' });
    expect(distribution.mean).toBeCloseTo(83.684, 3);
    // The running-day fit alone has a deviation of 2.44 °F.
    expect(distribution.deviation).toBeCloseTo(1.378, 3);
    expect(forecast({ isMixed: false }).running.dayAheadShare).toBe(0);
    expect(forecast({}, 0.3).running.dayAheadShare).toBe(0);
    expect(forecast({}, 1.5).running.dayAheadShare).toBeGreaterThan(0.95);
    // The maximum so far shows that the day-ahead forecast was too low.
    const surpassed = forecast({ meanF: 76 });
    expect(surpassed.running.dayAheadShare).toBeLessThan(0.01);
    expect(surpassed.distribution.mean).toBeCloseTo(83, 0);
  });

  it('works the same for a minimum, with later values from below', () => {
    const low = {
      ...input,
      kind: 'daily_minimum' as const,
      extremeF: 61.4,
      curveF: curveF.map((f, i) => (i > 20 ? 58 : f)),
    };
    const { distribution } = forecastRunning(
      low,
      { fits: [fit({ kind: 'daily_minimum' })], missing: [] },
      at,
    );
    expect(distribution).toMatchObject({ atLeast: null, atMost: 61, mean: 58 });
    expect(probabilityWithin(distribution, { lowest: 62, highest: null, step: 1 })).toBe(0);
    expect(probabilityWithin(distribution, { lowest: 61, highest: 61, step: 1 })).toBeCloseTo(
      distribution.stays,
      12,
    );
  });

  it.each([
    ['no hour', { hoursF: undefined }, [fit()], 'no hour of the day has been reported yet'],
    ['no curve', { curveF: undefined }, [fit()], "the forecast has only the day's extreme, not its hours"],
    ['no fit', {}, [], 'only 20 of 60 days are known hour by hour'],
    [
      'an old fit',
      {},
      [fit({ trainedAt: new Date('2026-06-20T13:00:00Z') })],
      'the fit for days at this hour is of 2026-06-20, more than 7 days ago',
    ],
  ])(
    'with %s keeps the day-ahead forecast, censored at the maximum reached',
    (_what, over, fits, fallback) => {
      const reason = 'only 20 of 60 days are known hour by hour';
      const missing = [{ kind: 'daily_maximum' as const, hour: 14, reason }];
      const { distribution, running } = forecastRunning({ ...input, ...over }, { fits, missing }, at);
      expect(running).toMatchObject({ fit: null, fallback });
      expect(distribution).toMatchObject({ atLeast: 79, mean: 80, deviation: 2 });
      // Φ((79.5 − 80) / 2)
      expect(running.stays).toBeCloseTo(0.4012936743, 9);
      const logistic = forecastRunning({ ...input, ...over, shape: 'logistic' }, { fits, missing }, at);
      expect(logistic.distribution).toMatchObject({ mean: 80, deviation: 2, shape: 'logistic' });
      // 1 / (1 + exp(0.25 π / √3))
      expect(logistic.running.stays).toBeCloseTo(1 / (1 + Math.exp((0.25 * Math.PI) / Math.sqrt(3))), 12);
    },
  );
});

describe('without a fit, in the evening', () => {
  const evening = (kind: 'daily_maximum' | 'daily_minimum') => {
    const sign = kind === 'daily_maximum' ? 1 : -1;
    // The curve peaks at 15:00 and is 12 °F below its peak at 22:00.
    const curve = Array.from({ length: 24 }, (_, hour) => sign * (80 - 2 * Math.max(Math.abs(hour - 15), 1)));
    const known = curve.map((f, hour) => (hour <= 20 ? f : null));
    const day = { ...input, kind, extremeF: sign * 78, meanF: sign * 80, curveF: curve, hoursF: known };
    return forecastRunning(day, { fits: [], missing: [] }, at);
  };

  it.each(['daily_maximum', 'daily_minimum'] as const)(
    'expects no new %s from hours whose curve lies far inside the day’s range',
    (kind) => {
      const { running, distribution } = evening(kind);
      expect(running).toMatchObject({ hour: 20, fit: null });
      // The highest hour to come is 68, ten degrees below the curve's peak.
      expect(Math.abs(distribution.mean)).toBe(70);
      expect(running.stays).toBeGreaterThan(0.9999);
    },
  );
});

describe('reports of one day from two services', () => {
  const report = (over: Partial<ObservedExtreme>): ObservedExtreme => ({
    kind: 'daily_maximum',
    stationId: 'KNYC',
    date: '2026-07-04',
    extremeF: 78.62,
    observedAt: new Date('2026-07-04T18:51:00Z'),
    fetchedAt: new Date('2026-07-04T18:55:00Z'),
    ...over,
  });
  const evening = report({
    extremeF: 81,
    observedAt: new Date('2026-07-04T20:00:00Z'),
    fetchedAt: new Date('2026-07-04T20:05:00Z'),
  });
  const known = (observed: ObservedExtreme[], time = at) =>
    [...groupKnownWeather({ fetchedAt: time, ensembles: [], observed }, time).observed.values()][0];

  it('are merged: the more extreme value, the newer time, and the hours', () => {
    const hoursF = hours({ 14: 78 });
    for (const both of [
      [report({ hoursF }), evening],
      [evening, report({ hoursF })],
    ])
      expect(known(both)).toEqual({ ...evening, hoursF });
    const cooler = { ...evening, extremeF: 77 };
    expect(known([report({ hoursF }), cooler])).toMatchObject({
      extremeF: 78.62,
      observedAt: evening.observedAt,
    });
    const minimum = (each: ObservedExtreme) => ({ ...each, kind: 'daily_minimum' as const });
    expect(known([minimum(report({})), minimum(cooler)])).toMatchObject({ extremeF: 77 });
  });

  it('end with the first final report', () => {
    const final = report({
      extremeF: 80,
      isFinal: true,
      observedAt: new Date('2026-07-05T08:24:00Z'),
      fetchedAt: new Date('2026-07-05T08:30:00Z'),
    });
    const later = new Date('2026-07-05T12:00:00Z');
    expect(known([evening, final], later)).toEqual(final);
    expect(known([final, evening], later)).toEqual(final);
    // The final report is not used before it arrives.
    expect(known([evening, final])).toEqual(evening);
    expect(known([evening, final], new Date('2026-07-05T08:29:00Z'))).toEqual(evening);
  });

  it('stay unknown until issued and received', () => {
    const early = new Date('2026-07-04T20:04:00Z');
    expect(known([report({}), evening], early)).toEqual(report({}));
    expect(
      known([report({}), { ...evening, fetchedAt: new Date('2026-07-04T20:01:00Z') }], early),
    ).toMatchObject({ extremeF: 81 });
  });
});
