import { describe, expect, it } from 'vitest';
import { blockBootstrap } from '../../../src/markets/scores/bootstrap.js';
import { gateErrorRates, gateRule, judgeGates } from '../../../src/markets/scores/gates.js';
import { gateAt, type Gate } from '../../../src/markets/signals/signal.js';
import { costOf } from '../support/scores-page.js';
import {
  breakingEven,
  costless,
  endOf,
  makeAdvantages,
  makeSeasons,
  randomOf,
  rivals,
  seasonStations,
  sharpened,
  tooSure,
  type Season,
} from '../support/gate-seasons.js';
import type { JudgedRecord } from '../../../src/markets/scores/queries.js';

/**
 * Number of simulated years with 28 gates each, judged twice a month. Full tables:
 * docs/decisions/030-gates-that-cannot-be-lucky.md.
 */
const simulations = Number(process.env.GATE_YEARS ?? 1);
const YEAR = 365;
const LOOK_DAYS = 15;

/**
 * Returns the mean number of gates per run that ever open, and the days on which gates first opened, in ascending
 * order.
 */
function judgeSimulated(days: number, runs: readonly (readonly JudgedRecord[])[], lookDays = LOOK_DAYS) {
  const openedAfter: number[] = [];
  for (const records of runs) {
    const opened = new Set<string>();
    for (let day = lookDays; day <= days; day += lookDays) {
      const at = endOf(day);
      const settled = records.filter(({ settledAt }) => settledAt!.getTime() <= at.getTime());
      for (const { isOpen, stationId, leadHours, kind } of judgeGates(settled, at).gates) {
        const key = `${kind} ${stationId} ${leadHours}`;
        if (!isOpen || opened.has(key)) continue;
        opened.add(key);
        openedAfter.push(day);
      }
    }
  }
  return { ever: openedAfter.length / runs.length, openedAfter: openedAfter.sort((a, b) => a - b) };
}

const simulated = <T>(make: (seed: number) => T): T[] =>
  Array.from({ length: simulations }, (_, seed) => make(seed));

const meanOf = <T>(all: readonly (readonly T[])[], valueOf: (one: T) => number): number =>
  all.flat().reduce((sum, one) => sum + valueOf(one), 0) / all.flat().length;

function simulate(season: Season, cost = costOf) {
  const years = simulated((seed) => makeSeasons(YEAR, season, seed, cost));
  return {
    ...judgeSimulated(YEAR, years),
    difference: meanOf(years, ({ modelLogScore, marketLogScore }) => modelLogScore - marketLogScore!),
    advantage: meanOf(years, ({ advantage }) => advantage!),
  };
}

const newYork = { kind: 'daily_maximum' as const, station: 'KNYC', leadHours: 24 };
const ofNewYork = (records: readonly JudgedRecord[], at: Date): Gate =>
  judgeGates(records, at).gates.find(
    (gate) => gate.kind === 'daily_maximum' && gate.stationId === 'KNYC' && gate.leadHours === 24,
  )!;

/** Records with the same advantage every day and a possible loss of 1. */
const steady = (days: number, advantage: number, over: Partial<JudgedRecord> = {}): JudgedRecord[] =>
  Array.from({ length: days }, (_, day) => ({
    ...newYork,
    date: endOf(day).toISOString().slice(0, 10),
    method: 'emos' as const,
    advantage,
    worstAdvantage: -1,
    settledAt: endOf(day + 1),
    ...over,
  }));

/** Closed e-BH by definition, over all sets of gates. Slow. */
function openByAllSets(evidence: readonly number[]): boolean[] {
  const members = evidence.map((_, i) => i);
  const sets = Array.from({ length: 2 ** evidence.length - 1 }, (_, set) =>
    members.filter((i) => (set + 1) & (1 << i)),
  );
  const best = members
    .filter((i) => evidence[i]! >= 1 / gateRule.falseShare)
    .sort((a, b) => evidence[b]! - evidence[a]!);
  for (let size = best.length; size > 0; size--) {
    const open = new Set(best.slice(0, size));
    const isProven = sets.every((set) => {
      const mean = set.reduce((sum, i) => sum + evidence[i]!, 0) / set.length;
      return mean >= set.filter((i) => open.has(i)).length / (size * gateRule.falseShare);
    });
    if (isProven) return members.map((i) => open.has(i));
  }
  return members.map(() => false);
}

describe('with 28 gates over a year of dependent days and cities,', () => {
  it.each([
    ['errors that halve within a day', { market: 2.5, model: 2.5 }],
    ['errors that last', { market: 2.5, model: 2.5, memory: 0.6 }],
    ['separate biases that last a week', { market: 2.5, model: 2.5, drift: 1 }],
    ['nearly the same errors', { market: 2.5, model: 2.5, alike: 0.95 }],
  ])(
    'almost no gate ever opens for models as good as mid prices after spread and fees, with %s',
    (_what, both) => {
      const { ever, difference, advantage } = simulate(rivals(both));
      expect(Math.abs(difference)).toBeLessThan(0.03);
      expect(-advantage).toBeGreaterThan(gateErrorRates.costs - 0.03);
      expect(ever).toBeLessThanOrEqual(gateErrorRates.equal);
    },
  );

  it('some gates open for models as good as mid prices that trade at no cost, which the rule does not exclude', () => {
    const { ever, advantage } = simulate(rivals({ market: 2.5, model: 2.5 }), costless);
    expect(Math.abs(advantage)).toBeLessThan(0.03);
    expect(ever).toBeGreaterThan(gateErrorRates.equal);
  });

  it('almost no gate ever opens if each day’s expected advantage over the prices paid is zero, with real brackets', () => {
    const { ever, advantage } = simulate(breakingEven({ market: 2.5, model: 2 }));
    expect(Math.abs(advantage)).toBeLessThan(0.02);
    expect(ever).toBeLessThanOrEqual(gateErrorRates.boundary);
  });

  it.each([0.3, 0.8])(
    'almost no gate ever opens if each day’s expected advantage is zero and cities share %f of its variance',
    (common) => {
      const years = simulated((seed) => makeAdvantages(YEAR, { mean: 0, deviation: 0.42, common }, seed));
      expect(judgeSimulated(YEAR, years).ever).toBeLessThanOrEqual(gateErrorRates.boundary);
    },
  );

  it.each([0, 0.3])(
    'most gates open within two years for a small advantage over the prices paid if cities share %f of its variance',
    (common) => {
      const edge = { mean: gateErrorRates.smallBy, deviation: 0.42, common };
      const years = simulated((seed) => makeAdvantages(2 * YEAR, edge, seed + 2));
      // Looking half as often can only open fewer gates.
      expect(judgeSimulated(2 * YEAR, years, 2 * LOOK_DAYS).ever).toBeGreaterThanOrEqual(
        gateErrorRates.small,
      );
    },
  );

  it.each([
    ['with errors a tenth larger', rivals({ market: 2.5, model: 2.75 }), 0.05],
    ['that are overconfident', rivals({ market: 2.5, model: 2.5, claimed: 1.6 }), 0.1],
    ['that are more certain than a calibrated market and pay for it one day in 20', tooSure(0.95), 0.1],
    ['that pay for it one day in 50', tooSure(0.98), 0.05],
  ])('no gate ever opens for models %s', (_what, season, atLeast) => {
    const { ever, difference } = simulate(season);
    expect(difference).toBeGreaterThan(atLeast);
    expect(ever).toBe(0);
  });

  it('no gate ever opens for sharpened market prices, although they score better than mid prices', () => {
    const { ever, difference } = simulate(sharpened(1.3));
    expect(difference).toBeLessThan(-0.015);
    expect(ever).toBe(0);
  });

  it('nearly all gates open for clearly better models, half of them within months', () => {
    const { ever, difference, openedAfter } = simulate(rivals({ market: 2.5, model: 1.74 }));
    expect(-difference).toBeLessThan(gateErrorRates.betterBy + 0.01);
    expect(ever).toBeGreaterThanOrEqual(gateErrorRates.better);
    expect(openedAfter[13 * simulations]).toBeLessThanOrEqual(gateErrorRates.betterAfterDays + LOOK_DAYS);
  });
});

describe('the evidence', () => {
  it('matches a daily bet of one dollar worked out by hand', () => {
    // All 40 days, with an advantage of 0.5 nats and a possible loss of 1, lie after the start of each of the last four
    // quarters.
    const of = (stake: number) => (1 + stake / 2) ** 40;
    const { evidence, n } = ofNewYork(steady(40, 0.5), endOf(40));
    expect(n).toBe(40);
    expect(evidence).toBeCloseTo((of(0.1) + of(0.2) + of(0.4) + of(0.7)) / 4, 6);
  });

  it('falls by the full loss, and stakes less if more can be lost', () => {
    const days = steady(1, -4, { worstAdvantage: -4 });
    // The largest stake is 0.9 / 4 = 0.225, which caps 0.4 and 0.7 but not 0.1 and 0.2.
    expect(ofNewYork(days, endOf(1)).evidence).toBeCloseTo((0.6 + 0.2 + 0.1 + 0.1) / 4, 12);
  });

  it('caps each day at four nats', () => {
    const once = (advantage: number) => ofNewYork(steady(1, advantage), endOf(1)).evidence;
    expect(once(9)).toBe(once(4));
    expect(once(4)).toBeGreaterThan(once(3.9));
  });

  it('is 1 without days, and for days on which forecast and prices were equally good', () => {
    expect(ofNewYork([], endOf(0)).evidence).toBe(1);
    expect(ofNewYork(steady(90, 0), endOf(90)).evidence).toBe(1);
  });

  it('is split into two bets for forecasts made before the previous day has ended', () => {
    const alternating = steady(60, 0, { leadHours: 36 }).map((record, day) => ({
      ...record,
      advantage: day % 2 === 0 ? 0.5 : -0.5,
    }));
    const { evidence } = judgeGates(alternating, endOf(60)).gates.find(({ n }) => n === 60)!;
    const of = (stake: number) => ((1 + stake / 2) ** 30 + (1 - stake / 2) ** 30) / 2;
    expect(evidence).toBeCloseTo((of(0.1) + of(0.2) + of(0.4) + of(0.7)) / 4, 6);
  });

  it('starts over with each quarter, so that an improved forecast need not make up for a year', () => {
    // The forecast is behind from 1 January to 31 March and ahead from then on.
    const records = steady(181, 0).map((record, day) => ({ ...record, advantage: day < 90 ? -0.5 : 0.5 }));
    const { evidence } = ofNewYork(records, endOf(181));
    const after = (stake: number) => (1 + stake / 2) ** 91;
    expect(evidence).toBeGreaterThan((0.99 * (after(0.1) + after(0.2) + after(0.4) + after(0.7))) / 4 / 4);
  });
});

describe('a gate', () => {
  it('exists for every station and lead, and is closed before anything settles', () => {
    const book = judgeGates([], endOf(0));
    expect(book.madeAt).toEqual(endOf(0));
    // 24 stations with maxima and minima, and 4 areas with hours, each at 4 leads.
    expect(book.gates).toHaveLength((2 * 24 + 4) * 4);
    for (const gate of book.gates)
      expect(gate).toMatchObject({ isOpen: false, n: 0, dropped: 0, evidence: 1, difference: null });
  });

  it('needs 30 days', () => {
    expect(ofNewYork(steady(29, 1), endOf(29))).toMatchObject({
      isOpen: false,
      n: 29,
      reason: '29 days have settled that had a calibrated forecast and prices; at least 30 are needed.',
    });
    expect(ofNewYork(steady(30, 1), endOf(30))).toMatchObject({ isOpen: true, n: 30 });
  });

  it('gives numbers for why it is open or closed', () => {
    // A gate needs evidence of only ten to one if no other gate has records.
    expect(ofNewYork(steady(40, 0.5), endOf(40)).reason).toBe(
      'Proven over 40 days: odds of 41,000 to 1 (10 to 1 are needed).',
    );
    expect(ofNewYork(steady(40, -0.25), endOf(40)).reason).toBe(
      'No better than the prices over the last 90 days. After 40 days: odds of under 1 to 1 (10 to 1 are needed).',
    );
    expect(ofNewYork(steady(40, 0.01), endOf(40)).reason).toMatch(
      /^Not proven after 40 days: odds of [\d.]+ to 1/,
    );
  });

  const others = (count: number, advantage: number) =>
    seasonStations.slice(1, 1 + count).flatMap(({ id }) => steady(60, advantage, { station: id }));

  it('needs more evidence with more gates, and less if those have evidence too (closed e-BH)', () => {
    const own = steady(60, 0.12);
    const alone = ofNewYork(own, endOf(60));
    expect(alone).toMatchObject({ isOpen: true, needed: 10 });
    // The mean of the six must be ten, and the other five are at one each.
    const among = ofNewYork([...own, ...others(5, 0)], endOf(60));
    expect(among).toMatchObject({ isOpen: false, needed: 55, evidence: alone.evidence });
    const withGood = ofNewYork([...own, ...others(5, 1)], endOf(60));
    expect(withGood).toMatchObject({ isOpen: true, evidence: alone.evidence });
    expect(withGood.needed).toBeCloseTo(10, 9);
  });

  it('opens together with others, helped by the evidence of gates that stay closed', () => {
    // Three gates with evidence of 15 each, where plain e-BH would require 20, and three with 7.
    const gateOf = (records: JudgedRecord[]) => ofNewYork(records, endOf(60));
    const three = [...steady(60, 0.095), ...others(2, 0.095)];
    const rest = (advantage: number) =>
      seasonStations.slice(3, 6).flatMap(({ id }) => steady(60, advantage, { station: id }));
    expect(gateOf([...three, ...rest(0.07)]).isOpen).toBe(true);
    expect(gateOf([...three, ...rest(0)]).isOpen).toBe(false);
  });

  it('never opens below ten to one, however much evidence the others have', () => {
    const weak = ofNewYork([...steady(60, 0.07), ...others(6, 1)], endOf(60));
    expect(weak.evidence).toBeLessThan(10);
    expect(weak).toMatchObject({ isOpen: false, needed: 10 });
  });

  it('opens exactly when a search over all sets of gates says so', () => {
    const random = randomOf(5);
    for (let round = 0; round < 20; round++) {
      const records = seasonStations.flatMap(({ id }) => steady(60, 0.05 + 0.15 * random(), { station: id }));
      const gates = judgeGates(records, endOf(60)).gates.filter(({ n }) => n > 0);
      expect(gates.map(({ isOpen }) => isOpen)).toEqual(openByAllSets(gates.map(({ evidence }) => evidence)));
      for (const { isOpen, evidence, needed } of gates) expect(evidence >= needed).toBe(isOpen);
    }
  });

  it('is closed while the forecast is behind over the last 90 days, whatever happened earlier', () => {
    const records = steady(270, 0).map((record, day) => ({ ...record, advantage: day < 180 ? 1 : -0.1 }));
    expect(ofNewYork(records, endOf(180))).toMatchObject({ isOpen: true });
    const later = ofNewYork(records, endOf(270));
    expect(later).toMatchObject({ isOpen: false });
    expect(later.evidence).toBeGreaterThan(later.needed);
  });

  it.each<[string, Partial<JudgedRecord>]>([
    ['not calibrated', { method: 'raw_ensemble' }],
    ['without a price', { advantage: null, worstAdvantage: null }],
    ['of a day that has not settled', { settledAt: null }],
    ['at another lead', { leadHours: 12 }],
    ['of another station', { station: 'KMIA' }],
  ])('does not count a forecast %s', (_what, over) => {
    const better = steady(60, 1);
    const worse = steady(60, -5, { worstAdvantage: -5, ...over });
    const { needed: _needed, reason: _reason, ...gate } = ofNewYork([...worse, ...better], endOf(60));
    expect(ofNewYork(better, endOf(60))).toMatchObject(gate);
  });

  it('counts dropped days: those without a record, a price or a calibrated forecast', () => {
    const records = steady(60, 1).flatMap((record, day) => {
      if (day === 10) return [];
      if (day === 20) return [{ ...record, advantage: null, worstAdvantage: null }];
      return day === 30 ? [{ ...record, method: 'raw_ensemble' as const }] : [record];
    });
    expect(ofNewYork(records, endOf(60))).toMatchObject({ n: 57, dropped: 3 });
  });

  it('counts pooled fits like station fits', () => {
    expect(ofNewYork(steady(30, 1, { method: 'emos_pooled' }), endOf(30))).toMatchObject({ isOpen: true });
  });

  it('ignores everything that settled later', () => {
    const records = makeSeasons(120, rivals({ market: 2.5, model: 1.7 }), 7);
    for (const day of [29, 30, 45, 90, 119]) {
      const settled = records.filter(({ settledAt }) => settledAt! <= endOf(day));
      const changed = records.map((record) =>
        record.settledAt! <= endOf(day) ? record : { ...record, advantage: 4, worstAdvantage: -9 },
      );
      expect(judgeGates(changed, endOf(day))).toEqual(judgeGates(settled, endOf(day)));
    }
    // Records count from the exact millisecond at which they settled, not by date.
    const late = steady(30, 1).map((record) => ({ ...record, settledAt: endOf(40) }));
    expect(ofNewYork(late, new Date(endOf(40).getTime() - 1)).n).toBe(0);
    expect(ofNewYork(late, endOf(40)).n).toBe(30);
  });

  it('forgets records from a year ago', () => {
    const records = steady(500, 1).map((record, i) => ({ ...record, advantage: i < 181 ? -4 : 1 }));
    // On 15 May of the second year, the oldest of the last four quarters began on 1 July of the first.
    expect(ofNewYork(records, endOf(499))).toMatchObject({ isOpen: true, n: 318, dropped: 0 });
  });

  it('does not depend on the order of the records', () => {
    const records = makeSeasons(60, rivals({ market: 2.5, model: 2 }), 3);
    expect(judgeGates(records.toReversed(), endOf(60))).toEqual(judgeGates(records, endOf(60)));
  });
});

describe('the interval', () => {
  const options = { blockLength: 7, resamples: 1_000, confidence: 0.95, seed: 1 };

  it('is deterministic, and widens with the confidence', () => {
    const values = Array.from({ length: 90 }, (_, i) => Math.sin(i * i));
    const interval = blockBootstrap(values, options);
    expect(blockBootstrap(values, options)).toEqual(interval);
    expect(interval.low).toBeLessThan(interval.mean);
    expect(interval.high).toBeGreaterThan(interval.mean);
    const wider = blockBootstrap(values, { ...options, confidence: 0.99 });
    expect(wider.low).toBeLessThan(interval.low);
    expect(wider.high).toBeGreaterThan(interval.high);
  });

  it('moves and stretches with the values', () => {
    const values = Array.from({ length: 60 }, (_, i) => Math.sin(i * i));
    const { mean, low, high } = blockBootstrap(values, options);
    const other = blockBootstrap(
      values.map((value) => 3 + 2 * value),
      options,
    );
    expect(other.mean).toBeCloseTo(3 + 2 * mean, 12);
    expect(other.low).toBeCloseTo(3 + 2 * low, 9);
    expect(other.high).toBeCloseTo(3 + 2 * high, 9);
  });

  it('is wider for days that come in runs', () => {
    const alone = Array.from({ length: 84 }, (_, i) => (i % 2 === 0 ? 1 : -1));
    const runs = Array.from({ length: 84 }, (_, i) => (Math.floor(i / 6) % 2 === 0 ? 1 : -1));
    const widthOf = (values: number[]) => {
      const { low, high } = blockBootstrap(values, options);
      return high - low;
    };
    expect(widthOf(runs)).toBeGreaterThan(3 * widthOf(alone));
  });
});

describe('gates of different kinds', () => {
  const hours = (days: number, advantageOf: (hour: number) => number): JudgedRecord[] =>
    Array.from({ length: 24 }, (_, hour) =>
      steady(days, advantageOf(hour), { kind: 'hourly', station: 'INDEX-NYC', leadHours: 6 }),
    ).flat();
  const gateOf = (
    records: readonly JudgedRecord[],
    kind: Gate['kind'],
    stationId: string,
    leadHours: number,
  ) =>
    judgeGates(records, endOf(60)).gates.find(
      (gate) => gate.kind === kind && gate.stationId === stationId && gate.leadHours === leadHours,
    );

  it('are each judged by their own records', () => {
    const records = [...steady(60, 1), ...steady(60, -1, { kind: 'daily_minimum' })];
    expect(gateOf(records, 'daily_maximum', 'KNYC', 24)).toMatchObject({ isOpen: true, n: 60 });
    expect(gateOf(records, 'daily_minimum', 'KNYC', 24)).toMatchObject({ isOpen: false, n: 60 });
  });

  it('count the hours of a day as one day, by their mean', () => {
    const gate = gateOf(
      hours(60, (hour) => (hour === 0 ? 2.4 : 0)),
      'hourly',
      'INDEX-NYC',
      6,
    );
    expect(gate).toMatchObject({ n: 60, difference: { mean: expect.closeTo(-0.1, 12) } });
    expect(
      gateOf(
        hours(2, () => 1),
        'hourly',
        'INDEX-NYC',
        6,
      ),
    ).toMatchObject({ isOpen: false, n: 2 });
  });

  it('exist only at the hourly leads', () => {
    const book = judgeGates(
      hours(60, () => 1),
      endOf(60),
    );
    const at = endOf(60);
    const openAt = (hoursToEnd: number) =>
      gateAt(book, { kind: 'hourly', stationId: 'INDEX-NYC' }, { hoursToEnd, at });
    expect(openAt(8)).toMatchObject({ isOpen: true, leadHours: 6 });
    expect(openAt(5)).toMatchObject({ isOpen: false, leadHours: 3 });
    expect(openAt(0.5).reason).toBe('Forecasts within 1 hour of the hour are not scored.');
    expect(openAt(18.1).reason).toBe('Forecasts more than 18 hours before the hour are not scored.');
  });
});
