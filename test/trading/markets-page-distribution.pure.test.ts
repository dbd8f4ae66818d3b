import { expect, it } from 'vitest';
import type { DayForecast } from '../../src/trading/forecast/forecast.js';
import type { MarketEvent } from '../../src/trading/markets/event.js';
import type { Market } from '../../src/trading/markets/market.js';
import { CENT } from '../../src/trading/money.js';
import { toDistribution } from '../../src/trading/pages/distribution.js';
import {
  degreesOf,
  expectedMaximum,
  impliedProbabilities,
  isPassed,
} from '../../src/trading/pages/probabilities.js';
import type { Bracket } from '../../src/trading/settlement/brackets.js';

/** ≤67 | 68-69 | 70-71 | 72-73 | 74-75 | ≥76 */
const brackets: Bracket[] = [
  { kind: 'less', floor: null, cap: 68 },
  { kind: 'between', floor: 68, cap: 69 },
  { kind: 'between', floor: 70, cap: 71 },
  { kind: 'between', floor: 72, cap: 73 },
  { kind: 'between', floor: 74, cap: 75 },
  { kind: 'greater', floor: 75, cap: null },
];
const event = (quotes: [number | null, number | null][] = []): MarketEvent =>
  ({
    eventTicker: 'E',
    markets: brackets.map((bracket, i) => ({
      ticker: `E-${i}`,
      bracket,
      status: 'active',
      yesBid: quotes[i]?.[0] == null ? null : BigInt(quotes[i][0]) * CENT,
      yesAsk: quotes[i]?.[1] == null ? null : BigInt(quotes[i][1]) * CENT,
    })) as unknown as Market[],
  }) as unknown as MarketEvent;

/** The vectors of N(71.3, 2.4), before and after a running maximum of 71. */
const before = [0.056673, 0.169955, 0.306579, 0.287135, 0.1396, 0.040059];
const after = [0, 0, 0.259715, 0.455365, 0.22139, 0.06353];
const day = (probabilities: number[], extremeF: number | null = null): DayForecast =>
  ({
    meanF: 71.3,
    deviationF: 2.4,
    membersF: [69, 71.3, 74],
    observed: extremeF === null ? null : { extremeF, observedAt: new Date(0) },
    probabilities: new Map(probabilities.map((p, i) => [`E-${i}`, p])),
  }) as unknown as DayForecast;

it.each([
  { when: 'before anything was observed', forecast: day(before), probabilities: before },
  { when: 'with what was observed', forecast: day(after, 71.2), probabilities: after },
])('the degrees of each bracket sum to its probability $when', ({ forecast, probabilities }) => {
  const degrees = degreesOf(forecast, event());
  const temperatures = degrees.map(({ temperature }) => temperature);
  expect(temperatures).toEqual(temperatures.map((_, i) => temperatures[0]! + i));
  for (const [i, probability] of probabilities.entries()) {
    const sum = degrees.filter(({ ticker }) => ticker === `E-${i}`).reduce((a, b) => a + b.probability, 0);
    expect(sum).toBeCloseTo(probability, 9);
  }
});

it('nothing below what was observed is held possible', () => {
  const degrees = degreesOf(day(after, 71.2), event());
  expect(
    degrees.filter(({ temperature }) => temperature < 71).every(({ probability }) => probability === 0),
  ).toBe(true);
  // All of 70 to 71 is 71.
  expect(degrees.find(({ temperature }) => temperature === 71)!.probability).toBeCloseTo(0.259715, 9);
  const observed = { extremeF: 69.6 };
  expect(brackets.map((bracket) => isPassed(bracket, observed))).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(brackets.some((bracket) => isPassed(bracket, null))).toBe(false);
  // 69.4 is 69 in the report: its bracket can still win.
  expect(isPassed(brackets[1]!, { extremeF: 69.4 })).toBe(false);
});

it('a maximum far beyond the distribution is where the day stands', () => {
  const far = degreesOf(day([0, 0, 0, 0, 0, 1], 95), event());
  const certain = far.filter(({ probability }) => probability > 0);
  expect(certain[0]).toMatchObject({ ticker: 'E-5', temperature: 95 });
  expect(certain.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9);
});

it('the expected maximum is the mean of the whole degrees', () => {
  expect(expectedMaximum(degreesOf(day(before), event()))).toBeCloseTo(71.3, 1);
  expect(expectedMaximum([])).toBe(null);
});

it('what the market implies sums to one, unless a part of the ladder has no price', () => {
  const quotes: [number | null, number | null][] = [
    [4, 6],
    [14, 18],
    [30, 34],
    [28, 32],
    [12, 16],
    [null, 4],
  ];
  const whole = impliedProbabilities(event(quotes));
  // The middles are 5, 16, 32, 30, 14 and 2: together 99.
  expect(whole.get('E-2')).toBeCloseTo(32 / 99, 12);
  expect([...whole.values()].reduce<number>((a, b) => a + b!, 0)).toBeCloseTo(1, 12);
  quotes[5] = [null, null];
  const partly = impliedProbabilities(event(quotes));
  expect(partly.get('E-2')).toBeCloseTo(0.32, 12);
  expect(partly.get('E-5')).toBe(null);
});

it('the drawing says in words what it shows, and has all its numbers in a table', () => {
  const chart = toDistribution(day(after, 71.2), event())!;
  expect(chart.summary).toContain('The likeliest maximum is 71° with 26.0');
  expect(chart.borders).toHaveLength(5);
  expect(chart.observed?.label).toBe('71.2° so far');
  expect(chart.passedWidth).not.toBe(null);
  expect(chart.rows).toHaveLength(chart.bars.length);
  expect(chart.rows.find(({ degree }) => degree === '71°')).toEqual({
    degree: '71°',
    probability: '26.0\u00a0%',
    bracket: '70° to 71°',
  });
});
