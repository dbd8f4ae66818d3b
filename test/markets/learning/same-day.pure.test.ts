import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sigmoid } from '../../../src/core/statistics/distributions.js';
import { crpsOfCensored } from '../../../src/markets/learning/linear-fit.js';
import {
  fitSameDay,
  MIN_SAME_DAY_CASES,
  predictSameDay,
  probabilityAtMost,
  type SameDayCase,
} from '../../../src/markets/learning/same-day.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';

describe('the CRPS of a censored logistic distribution', () => {
  const score = (error: number, bound: number, scale: number): Float64Array => {
    const out = new Float64Array(3);
    crpsOfCensored(error, bound, scale, out);
    return out;
  };

  it.each([
    [1, -2, 1.5],
    [0, 0, 1],
    [3, 3, 0.4],
    [5, 2, 2],
    [-1, -4, 3],
  ])('is the integral of its squares: error %d, bound %d, scale %d', (error, bound, scale) => {
    const step = 1e-3;
    let integral = 0;
    for (let x = bound + step / 2; x < 60; x += step)
      integral += (sigmoid(x / scale) - Number(x >= error)) ** 2 * step;
    expect(score(error, bound, scale)[0]).toBeCloseTo(integral, 4);
  });

  it('has the stated derivatives by location and scale', () => {
    const number = fc.double({ min: -20, max: 20, noNaN: true });
    fc.assert(
      fc.property(
        number,
        fc.double({ min: 0.001, max: 20, noNaN: true }),
        fc.double({ min: 0.2, max: 8, noNaN: true }),
        (bound, rise, scale) => {
          const [, byLocation, byScale] = score(bound + rise, bound, scale);
          const h = 1e-5;
          const moved = (d: number) => score(bound + rise - d, bound - d, scale)[0]!;
          const wider = (d: number) => score(bound + rise, bound, scale + d)[0]!;
          expect(byLocation).toBeCloseTo((moved(h) - moved(-h)) / (2 * h), 5);
          expect(byScale).toBeCloseTo((wider(h) - wider(-h)) / (2 * h), 5);
        },
      ),
    );
  });

  it('stays finite however far away the bound is', () => {
    for (const bound of [-1e4, 1e4])
      for (const x of score(bound + 1, bound, 0.15)) expect(x).toSatisfy(isFinite);
  });
});

/** A day that warms until 15:00. Its forecast has a persistent error and a station bias. */
function day(
  i: number,
  hour: number,
  { sign = 1, biasF = 0, nightFurtherF = 0, stationId = 'KNYC' } = {},
): SameDayCase {
  const error = 2.5 * gaussian('day', 'error', i);
  const size = 12 + 3 * gaussian('day', 'size', i);
  const curve = Array.from({ length: 24 }, (_, h) => 60 + size * Math.cos(((h - 15) * Math.PI) / 12));
  const observed = curve.map((f, h) => f + error * Math.min(1, h / 8) + 0.4 * gaussian('day', i, h));
  const soFar = observed.slice(0, hour + 1);
  return {
    stationId,
    hour,
    reachedF: Math.max(...soFar.map((t) => sign * t)),
    recentF: soFar.slice(-3).map((t) => sign * t),
    curveF: curve.map((f, h) => sign * (f + biasF + (h < 8 ? nightFurtherF : 0))),
    observedF: Math.max(...observed.map((t) => sign * t)),
  };
}

const days = (count: number, hour: number, options = {}): SameDayCase[] =>
  Array.from({ length: count }, (_, i) => day(i, hour, options));

const crpsOf = (fit: NonNullable<ReturnType<typeof fitSameDay>>, cases: readonly SameDayCase[]): number =>
  cases.reduce((sum, each) => {
    const { location, scale } = predictSameDay(fit, each);
    const out = new Float64Array(3);
    crpsOfCensored(each.observedF - location, each.reachedF - location, scale, out);
    return sum + out[0]!;
  }, 0) / cases.length;

describe('a fit of an hour', () => {
  it('needs enough days', () => {
    expect(fitSameDay(days(MIN_SAME_DAY_CASES - 1, 12))).toBeUndefined();
    expect(fitSameDay(days(MIN_SAME_DAY_CASES, 12))).toMatchObject({ n: MIN_SAME_DAY_CASES });
  });

  it('is more certain later in the day', () => {
    const scores = [6, 10, 14, 18].map((hour) =>
      crpsOf(fitSameDay(days(300, hour))!, days(400, hour).slice(300)),
    );
    for (const [i, score] of scores.entries()) if (i > 0) expect(score).toBeLessThan(scores[i - 1]!);
    expect(scores.at(-1)).toBeLessThan(0.05);
  });

  it("removes a station's warm bias from the curve", () => {
    const plain = fitSameDay(days(300, 10))!;
    const biased = fitSameDay(days(300, 10, { biasF: 6 }))!;
    expect(biased.stationBiasF['KNYC']! - plain.stationBiasF['KNYC']!).toBeCloseTo(6, 6);
    expect(crpsOf(biased, days(400, 10, { biasF: 6 }).slice(300))).toBeCloseTo(
      crpsOf(plain, days(400, 10).slice(300)),
      6,
    );
  });

  it("distinguishes the afternoon's bias from the night's", () => {
    const biases = { KNYC: { biasF: 3.5, nightFurtherF: -5.5 }, KMIA: { biasF: -2, nightFurtherF: 3.2 } };
    const cases = Object.entries(biases).map(([stationId, bias]) => days(400, 5, { ...bias, stationId }));
    const fit = fitSameDay(cases.flatMap((each) => each.slice(0, 300)))!;
    const plain = fitSameDay(days(300, 5))!;
    for (const each of cases)
      expect(crpsOf(fit, each.slice(300))).toBeLessThan(1.1 * crpsOf(plain, days(400, 5).slice(300)));
    expect(fit.stationExtremeBiasF['KNYC']! - fit.stationBiasF['KNYC']!).toBeCloseTo(5.5, 0);
  });

  it('does the same for minima, with reversed signs', () => {
    const fit = fitSameDay(days(300, 3, { sign: -1 }))!;
    const [late] = days(301, 3, { sign: -1 }).slice(300);
    const { boundF, hasPeaked } = predictSameDay(fit, late!);
    expect(boundF).toBe(late!.reachedF);
    expect(hasPeaked).toBeGreaterThan(0);
    expect(hasPeaked).toBeLessThan(1);
  });

  it('has a hurdle if most days rise no further, and then says that they have peaked', () => {
    expect(fitSameDay(days(300, 9))!.hurdle).toBeNull();
    const fit = fitSameDay(days(300, 19))!;
    expect(fit.hurdle).not.toBeNull();
    const test = days(400, 19).slice(300);
    const predicted = test.reduce((sum, each) => sum + predictSameDay(fit, each).hasPeaked, 0) / test.length;
    const peaked = test.filter(({ observedF, reachedF }) => observedF === reachedF).length / test.length;
    expect(Math.abs(predicted - peaked)).toBeLessThan(0.05);
  });

  it('is the same when started near an earlier one', () => {
    const near = fitSameDay(days(280, 12))!;
    const [a, b] = [fitSameDay(days(300, 12))!, fitSameDay(days(300, 12), near)!];
    for (const [name, value] of Object.entries(a.coefficients))
      expect(b.coefficients[name]).toBeCloseTo(value, 2);
    expect(b.trainingCrps).toBeCloseTo(a.trainingCrps, 6);
  });

  it('tolerates a variable that is constant', () => {
    const same = days(100, 12).map((each) => ({
      ...each,
      recentF: [each.reachedF],
      curveF: Array(24).fill(70),
    }));
    for (const value of Object.values(fitSameDay(same)!.coefficients)) expect(value).toSatisfy(isFinite);
  });
});

describe('a distribution', () => {
  it('puts no mass below the maximum reached, never decreases, and ends at one', () => {
    fc.assert(
      fc.property(
        fc.double({ min: -30, max: 110, noNaN: true }),
        fc.double({ min: -40, max: 40, noNaN: true }),
        fc.double({ min: 0.15, max: 11, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (reachedF, ahead, scale, hasPeaked) => {
          const distribution = { boundF: reachedF, location: reachedF + ahead, scale, hasPeaked };
          expect(probabilityAtMost(distribution, reachedF - 1e-9 * 200)).toBe(0);
          expect(probabilityAtMost(distribution, reachedF)).toBeCloseTo(hasPeaked, 12);
          expect(probabilityAtMost(distribution, Infinity)).toBe(1);
          let before = 0;
          for (let t = reachedF; t < reachedF + 60; t += 0.5) {
            const atMost = probabilityAtMost(distribution, t);
            expect(atMost).toBeGreaterThanOrEqual(before);
            before = atMost;
          }
        },
      ),
    );
  });
});
