import { describe, expect, it } from 'vitest';
import { blockBootstrap } from '../../src/trading/scores/bootstrap.js';
import { gateErrorRates, gateRule } from '../../src/trading/scores/gate-rule.js';
import { gateAt, type Gate } from '../../src/trading/signals/gate.js';
import { judgeGates, type JudgedRecord } from '../../src/trading/scores/judge-gates.js';
import { endOf, makeSeasons, rivals, tooSure, seasonStations } from './gate-seasons.js';

/** Gates of many seasons, 28 at a time. */
const judge = (scoresOf: ReturnType<typeof rivals>, { days = 90, times = 12 } = {}): Gate[] =>
  Array.from({ length: times }, (_, seed) =>
    judgeGates(makeSeasons(days, scoresOf, seed), endOf(days)).gates.filter(isOfSeason),
  ).flat();

const isOfSeason = ({ kind, stationId }: Gate): boolean =>
  kind === 'daily_maximum' && seasonStations.some(({ id }) => id === stationId);

const openShare = (gates: readonly Gate[]): number =>
  gates.filter(({ isOpen }) => isOpen).length / gates.length;
const meanDifference = (gates: readonly Gate[]): number =>
  gates.reduce((sum, { difference }) => sum + difference!.mean, 0) / gates.length;

const newYork = { kind: 'daily_maximum' as const, station: 'KNYC', leadHours: 24 };
const ofNewYork = (records: readonly JudgedRecord[], at: Date): Gate =>
  judgeGates(records, at).gates.find(
    (gate) => gate.kind === 'daily_maximum' && gate.stationId === 'KNYC' && gate.leadHours === 24,
  )!;

/** The same difference each day. */
const steady = (days: number, difference: number, over: Partial<JudgedRecord> = {}): JudgedRecord[] =>
  Array.from({ length: days }, (_, day) => ({
    ...newYork,
    date: endOf(day).toISOString().slice(0, 10),
    method: 'emos' as const,
    modelLogScore: 1 + difference,
    marketLogScore: 1,
    settledAt: endOf(day + 1),
    ...over,
  }));

describe('over many seasons of days that depend on each other, a gate', () => {
  it.each([
    ['errors that are half gone in a day', { market: 2.5, model: 2.5 }],
    ['errors that last', { market: 2.5, model: 2.5, memory: 0.6 }],
    ['a bias of its own that each keeps for a week', { market: 2.5, model: 2.5, drift: 1 }],
    ['nearly the same errors', { market: 2.5, model: 2.5, alike: 0.95 }],
  ])('stays shut at a model that is as good as the market, with %s', (_what, both) => {
    const gates = judge(rivals(both));
    expect(Math.abs(meanDifference(gates))).toBeLessThan(0.02);
    expect(openShare(gates)).toBeLessThanOrEqual(gateErrorRates.equal);
    const early = judge(rivals(both), { days: gateRule.minimumDays, times: 6 });
    expect(openShare(early)).toBeLessThanOrEqual(gateErrorRates.equal);
  });

  it('seldom opens there even once, however often it is looked at', () => {
    let seasons = 0;
    let opened = 0;
    for (let seed = 0; seed < 4; seed++) {
      const records = makeSeasons(120, rivals({ market: 2.5, model: 2.5 }), seed);
      const ever = new Set<string>();
      for (let day = 30; day <= 120; day += 5)
        for (const { isOpen, stationId, leadHours } of judgeGates(records, endOf(day)).gates)
          if (isOpen) ever.add(`${stationId} ${leadHours}`);
      seasons += 28;
      opened += ever.size;
    }
    expect(opened / seasons).toBeLessThanOrEqual(gateErrorRates.equalEver);
  });

  it.each([
    ['that errs a tenth more', rivals({ market: 2.5, model: 2.75 }), 0.05],
    ['that is too sure of itself', rivals({ market: 2.5, model: 2.5, claimed: 1.6 }), 0.1],
    ['that is surer than a market which is right, and pays for it one day in 20', tooSure(0.95), 0.1],
    ['that pays for it one day in 50, so that most seasons do not show it', tooSure(0.98), 0.05],
  ])('stays shut at a model %s', (_what, scoresOf, atLeast) => {
    const gates = judge(scoresOf);
    expect(meanDifference(gates)).toBeGreaterThan(atLeast);
    expect(openShare(gates)).toBeLessThanOrEqual(gateErrorRates.worse);
  });

  it('would open at such luck if it went by the interval alone', () => {
    const gates = judge(tooSure(0.98), { days: 30, times: 2 });
    expect(gates.filter(({ difference }) => difference!.high < 0).length / gates.length).toBeGreaterThan(0.4);
    expect(openShare(gates)).toBe(0);
  });

  it('opens at a model that is clearly better', () => {
    const gates = judge(rivals({ market: 2.5, model: 1.7 }));
    expect(-meanDifference(gates)).toBeLessThan(gateErrorRates.betterBy);
    expect(openShare(gates)).toBeGreaterThanOrEqual(gateErrorRates.better);
  });
});

describe('a gate', () => {
  it('is judged for every station and lead, and shut where nothing has settled', () => {
    const book = judgeGates([], endOf(0));
    expect(book.madeAt).toEqual(endOf(0));
    // 24 stations with maxima and minima, and 4 areas with hours, at 4 leads.
    expect(book.gates).toHaveLength((2 * 24 + 4) * 4);
    for (const gate of book.gates) expect(gate).toMatchObject({ isOpen: false, n: 0, difference: null });
  });

  it('needs 30 days', () => {
    expect(ofNewYork(steady(29, -1), endOf(29))).toEqual({
      kind: 'daily_maximum',
      stationId: 'KNYC',
      leadHours: 24,
      isOpen: false,
      n: 29,
      difference: null,
      reason:
        '29 days have settled that had a calibrated forecast and a market price; at least 30 are needed.',
    });
    expect(ofNewYork(steady(30, -1), endOf(30))).toMatchObject({ isOpen: true, n: 30 });
  });

  it('says in numbers why it is open or shut', () => {
    expect(ofNewYork(steady(30, -0.5), endOf(30)).reason).toBe(
      "Over 30 settled days the forecast's log score was better by 0.500 than the market's (95 % interval of the difference: −0.500 to −0.500).",
    );
    expect(ofNewYork(steady(30, 0.25), endOf(30)).reason).toBe(
      "Over 30 settled days the forecast's log score was worse by 0.250 than the market's (95 % interval of the difference: 0.250 to 0.250).",
    );
    // exp(30 × 0.125) = 42.5.
    expect(ofNewYork(steady(30, -0.125), endOf(30)).reason).toContain('42.5 times as likely');
    const mixed = steady(60, 0).map((record, i) => ({ ...record, modelLogScore: i % 2 === 0 ? 2 : -0.1 }));
    expect(ofNewYork(mixed, endOf(60)).reason).toContain(
      "better by 0.050 than the market's, which may be chance",
    );
  });

  it('stays shut where both say the same', () => {
    expect(ofNewYork(steady(90, 0), endOf(90))).toMatchObject({
      isOpen: false,
      difference: { mean: 0, low: 0, high: 0 },
    });
  });

  it.each<[string, Partial<JudgedRecord>]>([
    ['not calibrated', { method: 'raw_ensemble' }],
    ['without a market price', { marketLogScore: null }],
    ['of a day that has not settled', { settledAt: null }],
    ['at another lead', { leadHours: 12 }],
    ['of another station', { station: 'KMIA' }],
  ])('does not count a forecast %s', (_what, over) => {
    const better = steady(60, -1);
    const worse = steady(60, 5, over);
    expect(ofNewYork([...worse, ...better], endOf(60))).toEqual(ofNewYork(better, endOf(60)));
  });

  it('counts pooled fits as it does own ones', () => {
    expect(ofNewYork(steady(30, -1, { method: 'emos_pooled' }), endOf(30))).toMatchObject({ isOpen: true });
  });

  it('knows nothing that settled later, whatever it was', () => {
    const records = makeSeasons(120, rivals({ market: 2.5, model: 1.7 }), 7);
    for (const day of [29, 30, 45, 90, 119]) {
      const settled = records.filter(({ settledAt }) => settledAt! <= endOf(day));
      const changed = records.map((record) =>
        record.settledAt! <= endOf(day) ? record : { ...record, modelLogScore: 9, marketLogScore: 0 },
      );
      expect(judgeGates(changed, endOf(day))).toEqual(judgeGates(settled, endOf(day)));
    }
    // It is the time of settling that counts, to the millisecond, and not the day.
    const late = steady(30, -1).map((record) => ({ ...record, settledAt: endOf(40) }));
    expect(ofNewYork(late, new Date(endOf(40).getTime() - 1)).n).toBe(0);
    expect(ofNewYork(late, endOf(40)).n).toBe(30);
  });

  it('forgets what is more than 90 days ago', () => {
    const records = steady(200, -1).map((record, i) => ({ ...record, modelLogScore: i < 109 ? 9 : 0 }));
    expect(ofNewYork(records, endOf(199))).toMatchObject({ isOpen: true, n: 90 });
  });

  it('is the same whatever order the records come in', () => {
    const records = makeSeasons(60, rivals({ market: 2.5, model: 2 }), 3);
    expect(judgeGates(records.toReversed(), endOf(60))).toEqual(judgeGates(records, endOf(60)));
  });
});

describe('the interval', () => {
  const options = { blockLength: 7, resamples: 1_000, confidence: 0.95, seed: 1 };

  it('is the same for the same values, and widens with the confidence', () => {
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

  it('sees that days which come in runs say less', () => {
    const alone = Array.from({ length: 84 }, (_, i) => (i % 2 === 0 ? 1 : -1));
    const runs = Array.from({ length: 84 }, (_, i) => (Math.floor(i / 6) % 2 === 0 ? 1 : -1));
    const widthOf = (values: number[]) => {
      const { low, high } = blockBootstrap(values, options);
      return high - low;
    };
    expect(widthOf(runs)).toBeGreaterThan(3 * widthOf(alone));
  });
});

describe('the gates of kinds', () => {
  const hours = (days: number, differenceOf: (hour: number) => number): JudgedRecord[] =>
    Array.from({ length: 24 }, (_, hour) =>
      steady(days, differenceOf(hour), { kind: 'hourly', station: 'INDEX-NYC', leadHours: 6 }),
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

  it('are judged each by its own records', () => {
    const records = [...steady(60, -1), ...steady(60, 1, { kind: 'daily_minimum' })];
    expect(gateOf(records, 'daily_maximum', 'KNYC', 24)).toMatchObject({ isOpen: true, n: 60 });
    expect(gateOf(records, 'daily_minimum', 'KNYC', 24)).toMatchObject({ isOpen: false, n: 60 });
  });

  it('count the hours of a day as one day, by their mean', () => {
    const gate = gateOf(
      hours(60, (hour) => (hour === 0 ? -2.4 : 0)),
      'hourly',
      'INDEX-NYC',
      6,
    );
    expect(gate).toMatchObject({ n: 60, difference: { mean: expect.closeTo(-0.1, 12) } });
    // 24 hours of one day tell nothing of another one.
    expect(
      gateOf(
        hours(2, () => -1),
        'hourly',
        'INDEX-NYC',
        6,
      ),
    ).toMatchObject({ isOpen: false, n: 2 });
  });

  it('are at the hours before the hour, and nowhere else', () => {
    const book = judgeGates(
      hours(60, () => -1),
      endOf(60),
    );
    const at = endOf(60);
    const openAt = (hoursToEnd: number) =>
      gateAt(book, { kind: 'hourly', stationId: 'INDEX-NYC' }, { hoursToEnd, at });
    expect(openAt(8)).toMatchObject({ isOpen: true, leadHours: 6 });
    expect(openAt(5)).toMatchObject({ isOpen: false, leadHours: 3 });
    expect(openAt(0.5).reason).toBe('Within 1 hour of the hour forecasts are not scored.');
    expect(openAt(18.1).reason).toBe('More than 18 hours before the hour forecasts are not scored.');
  });
});
