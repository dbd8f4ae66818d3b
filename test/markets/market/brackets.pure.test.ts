import { describe, expect, it } from 'vitest';
import {
  areOutcomesKnown,
  areThresholds,
  type Bracket,
  bracketOf,
  bracketPays,
  bracketRange,
  isSameBracket,
  isWholeLadder,
  outcomeAt,
  outcomeProbabilities,
  outcomesOf,
  parseBracket,
} from '../../../src/markets/market/brackets.js';
import { climateDayOf, dateFrom, daysBetween } from '../../../src/markets/market/climate-day.js';

const between = { ticker: 'KXHIGHNY-26SEP23-B69.5', strikeType: 'between', floorStrike: 69, capStrike: 70 };
const less = { ticker: 'KXHIGHNY-26SEP23-T64', strikeType: 'less', capStrike: 64, label: '63° or below' };
const greater = {
  ticker: 'KXHIGHNY-26SEP23-T71',
  strikeType: 'greater',
  floorStrike: 71,
  label: '72° or above',
};
const hourly = {
  ticker: 'KXTEMPMIAH-26SEP1312-T89.99',
  strikeType: 'greater',
  floorStrike: 89.99,
  label: '90° or above',
  step: 0.01,
} as const;

describe('the bracket of a market', () => {
  it.each([
    [{ ...between, label: '69° to 70°' }, bracketOf(69, 70)],
    [less, bracketOf(null, 64)],
    [greater, bracketOf(71, null)],
    [hourly, bracketOf(89.99, null, 0.01)],
    // A one-degree bracket, and a bracket below zero.
    [
      { ticker: 'X-B69', strikeType: 'between', floorStrike: 69, capStrike: 69, label: '69° to 69°' },
      bracketOf(69, 69),
    ],
    [
      { ticker: 'X-B-1.5', strikeType: 'between', floorStrike: -2, capStrike: -1, label: '-2° to -1°' },
      bracketOf(-2, -1),
    ],
    // Either the strikes or the label is enough if it agrees with the ticker.
    [{ ...between, label: '' }, bracketOf(69, 70)],
    [{ ticker: between.ticker, label: '69° to 70°' }, bracketOf(69, 70)],
    [{ ticker: less.ticker, label: less.label }, bracketOf(null, 64)],
    [{ ticker: hourly.ticker, label: hourly.label, step: 0.01 as const }, bracketOf(89.99, null, 0.01)],
  ])('is parsed if its sources agree: %j', (fields, bracket) => {
    expect(parseBracket(fields)).toEqual(bracket);
  });

  it.each([
    ['only the ticker is given', { ticker: between.ticker, label: '' }],
    ['the label differs', { ...between, label: '70° to 71°' }],
    ['the label has a different kind', { ...greater, label: '71° or below' }],
    ['the ticker has a different midpoint', { ...between, ticker: 'X-B68.5', label: '69° to 70°' }],
    ['the ticker names a tail', { ...between, ticker: 'X-T69.5', label: '69° to 70°' }],
    ['the ticker of a tail has its floor', { ...between, ticker: 'X-T69', label: '69° to 70°' }],
    ['the ticker names a bracket with two ends', { ...greater, ticker: 'X-B71' }],
    ['the ticker has a different strike', { ...greater, ticker: 'X-T72' }],
    ['the ticker continues after its strike', { ...greater, ticker: 'X-T71-EARLY' }],
    ['the ticker has no strike', { ...greater, ticker: 'X' }],
    ['a strike is not a whole degree', { ...between, ticker: 'X-B69.45', floorStrike: 68.9, label: '' }],
    ['a strike is not in hundredths', { ...hourly, ticker: 'X-T89.995', floorStrike: 89.995, label: '' }],
    ['the strikes are reversed', { ...between, floorStrike: 70, capStrike: 69, label: '' }],
    ['the label is reversed', { ticker: between.ticker, label: '70° to 69°' }],
    ['a strike is missing', { ...between, capStrike: undefined, label: '' }],
  ])('is unknown if %s', (_case, fields) => {
    expect(parseBracket(fields)).toBeUndefined();
  });

  it('equals only a bracket of the same kind with the same ends', () => {
    const all = [
      bracketOf(69, 70),
      bracketOf(69, 71),
      bracketOf(68, 70),
      bracketOf(69, null),
      bracketOf(null, 70),
    ];
    for (const [i, a] of all.entries())
      for (const [j, b] of all.entries()) expect(isSameBracket(a, b)).toBe(i === j);
  });

  it('pays at its ends if it has two, and beyond its strike if it is a tail', () => {
    expect([68, 69, 70, 71].map((value) => bracketPays(bracketOf(69, 70), value))).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect([63, 64].map((value) => bracketPays(bracketOf(null, 64), value))).toEqual([true, false]);
    expect([71, 72].map((value) => bracketPays(bracketOf(71, null), value))).toEqual([false, true]);
    expect(bracketRange(bracketOf(89.99, null, 0.01))).toEqual({ lowest: 90, highest: null });
  });
});

describe('the brackets of an event', () => {
  const ladder: Bracket[] = [bracketOf(66, 67), bracketOf(null, 64), bracketOf(67, null), bracketOf(64, 65)];

  it('form a whole ladder if they cover every degree once, in any order', () => {
    expect(isWholeLadder(ladder)).toBe(true);
    expect(areOutcomesKnown(ladder)).toBe(true);
    expect(areThresholds(ladder)).toBe(false);
    expect(isWholeLadder([bracketOf(null, 64), bracketOf(63, null)])).toBe(true);
  });

  it.each<[string, Bracket[]]>([
    ['the list is empty', []],
    ['one is missing', [bracketOf(null, 64), bracketOf(66, 67), bracketOf(67, null)]],
    ['two overlap', [bracketOf(null, 64), bracketOf(63, 65), bracketOf(65, null)]],
    ['the low tail is missing', [bracketOf(64, 65), bracketOf(65, null)]],
    ['the high tail is missing', [bracketOf(null, 64), bracketOf(64, 65)]],
    ['there are two high tails', [bracketOf(null, 64), bracketOf(63, null), bracketOf(64, null)]],
    // A check that only compares neighbours would accept this: 66 to 65 starts one above 65, and the next bracket
    // starts one above its end.
    ['one is reversed', [bracketOf(null, 64), bracketOf(64, 65), bracketOf(66, 65), bracketOf(65, null)]],
    ['they are rounded differently', [bracketOf(null, 64), bracketOf(63.99, null, 0.01)]],
  ])('form no ladder if %s', (_case, brackets) => {
    expect(isWholeLadder(brackets)).toBe(false);
    expect(areOutcomesKnown(brackets)).toBe(false);
  });

  it('are thresholds if each has a different floor', () => {
    const thresholds = [bracketOf(70.99, null, 0.01), bracketOf(71.99, null, 0.01)];
    expect(areThresholds(thresholds)).toBe(true);
    expect(areOutcomesKnown(thresholds)).toBe(true);
    expect(areThresholds([])).toBe(false);
    expect(areThresholds([thresholds[0]!, thresholds[0]!])).toBe(false);
    expect(areThresholds([thresholds[0]!, bracketOf(null, 71.99, 0.01)])).toBe(false);
  });

  it('are the outcomes of a ladder, each with its own probability', () => {
    const outcomes = outcomesOf(ladder);
    expect(outcomes.ranges).toEqual(ladder.map(bracketRange));
    expect(outcomes.pays).toEqual(ladder.map((_, i) => ({ from: i, to: i })));
    expect(outcomes.step).toBe(1);
    expect(outcomeProbabilities(outcomes, [0.4, 0.1, 0.2, 0.3])).toEqual([0.4, 0.1, 0.2, 0.3]);
    expect([60, 64, 67, 68].map((temperatureF) => outcomeAt(ladder, temperatureF))).toEqual([1, 3, 0, 2]);
    expect(outcomeAt(ladder.slice(0, 2), 70)).toBe(-1);
  });
});

describe('a date', () => {
  it.each([
    ['2026', 2, '28', '2026-02-28'],
    ['2026', 11, '5', '2026-11-05'],
    ['2028', 2, '29', '2028-02-29'],
    ['2026', 2, '29', undefined],
    ['2026', 4, '31', undefined],
    ['2026', 13, '01', undefined],
    ['2026', 10, '99', undefined],
  ])('from %s, %i, %s is %s', (year, month, day, date) => {
    expect(dateFrom(year, month, day)).toBe(date);
  });

  it('range includes both ends, and is empty if it ends before it begins', () => {
    expect(daysBetween('2026-02-27', '2026-03-01')).toEqual(['2026-02-27', '2026-02-28', '2026-03-01']);
    expect(daysBetween('2026-02-27', '2026-02-27')).toEqual(['2026-02-27']);
    expect(daysBetween('2026-02-27', '2026-02-26')).toEqual([]);
    expect(daysBetween('2026-02-27', '2026-02-20')).toEqual([]);
  });

  it.each(['2026-2-01', '26-02-01', '2026-02-01T00', 'today', '2026-13-01'])(
    'of a climate day is rejected in any other format: %s',
    (text) => {
      expect(() => climateDayOf({ standardOffsetHours: -5 }, text)).toThrow(RangeError);
    },
  );
});
