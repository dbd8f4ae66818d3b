import { sureDegree, sureMinimum } from '../../../src/markets/market/distribution.js';
import { describe, expect, it } from 'vitest';
import type { DayForecast } from '../../../src/markets/learning/forecast.js';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT } from '../../../src/markets/market/money.js';
import { toDistribution } from '../../../src/markets/pages/distribution.js';
import {
  degreesOf,
  expectedOf,
  impliedProbabilities,
  isPassed,
} from '../../../src/markets/pages/probabilities.js';
import type { Bracket } from '../../../src/markets/market/brackets.js';

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
    kind: 'daily_maximum',
    markets: brackets.map((bracket, i) => ({
      ticker: `E-${i}`,
      bracket,
      status: 'active',
      yesBid: quotes[i]?.[0] == null ? null : BigInt(quotes[i][0]) * CENT,
      yesAsk: quotes[i]?.[1] == null ? null : BigInt(quotes[i][1]) * CENT,
    })) as unknown as Market[],
  }) as unknown as MarketEvent;

/** Bracket probabilities of N(71.3, 2.4), before and after a running maximum of 71. */
const before = [0.056673, 0.169955, 0.306579, 0.287135, 0.1396, 0.040059];
const after = [0, 0, 0.259715, 0.455365, 0.22139, 0.06353];
const day = (
  probabilities: number[],
  extremeF: number | null = null,
  kind: 'daily_maximum' | 'daily_minimum' = 'daily_maximum',
): DayForecast =>
  ({
    meanF: 71.3,
    deviationF: 2.4,
    distribution: {
      mean: 71.3,
      deviation: 2.4,
      atLeast: kind === 'daily_maximum' && extremeF !== null ? sureDegree(extremeF) : null,
      atMost: kind === 'daily_minimum' && extremeF !== null ? sureMinimum(extremeF) : null,
    },
    membersF: [69, 71.3, 74],
    observed: extremeF === null ? null : { extremeF, observedAt: new Date(0) },
    probabilities: new Map(probabilities.map((p, i) => [`E-${i}`, p])),
  }) as unknown as DayForecast;

it.each([
  { when: 'before any observation', forecast: day(before), probabilities: before },
  { when: 'after an observation', forecast: day(after, 71.2), probabilities: after },
])('the degrees of each bracket sum to its probability $when', ({ forecast, probabilities }) => {
  const degrees = degreesOf(forecast, event());
  const temperatures = degrees.map(({ temperature }) => temperature);
  expect(temperatures).toEqual(temperatures.map((_, i) => temperatures[0]! + i));
  for (const [i, probability] of probabilities.entries()) {
    const sum = degrees.filter(({ ticker }) => ticker === `E-${i}`).reduce((a, b) => a + b.probability, 0);
    expect(sum).toBeCloseTo(probability, 9);
  }
});

it('degrees below the observed maximum are impossible', () => {
  const degrees = degreesOf(day(after, 71.2), event());
  expect(
    degrees.filter(({ temperature }) => temperature < 71).every(({ probability }) => probability === 0),
  ).toBe(true);
  // The whole probability of 70 to 71 now belongs to 71.
  expect(degrees.find(({ temperature }) => temperature === 71)!.probability).toBeCloseTo(0.259715, 9);
  const observed = { extremeF: 69.6 };
  expect(brackets.map((bracket) => isPassed(bracket, observed, 'daily_maximum'))).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(brackets.some((bracket) => isPassed(bracket, null, 'daily_maximum'))).toBe(false);
  // 69.4 is reported as 69, so its bracket can still win.
  expect(isPassed(brackets[1]!, { extremeF: 69.4 }, 'daily_maximum')).toBe(false);
});

it('an observed maximum far beyond the distribution sets the chart', () => {
  const far = degreesOf(day([0, 0, 0, 0, 0, 1], 95), event());
  const certain = far.filter(({ probability }) => probability > 0);
  expect(certain[0]).toMatchObject({ ticker: 'E-5', temperature: 95 });
  expect(certain.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9);
});

it('the expected maximum is the mean of the whole degrees', () => {
  expect(expectedOf(day(before), event())).toBeCloseTo(71.3, 1);
  expect(expectedOf(day([]), event())).toBe(null);
});

describe('for a minimum', () => {
  const minimum = { ...event(), kind: 'daily_minimum' as const };
  /** N(71.3, 2.4) given a running minimum of 71: nothing above 71 is possible. */
  const below = [0.1063, 0.3187, 0.575, 0, 0, 0];

  it('degrees above the observation are ruled out, and those below are not', () => {
    const degrees = degreesOf(day(below, 71.2, 'daily_minimum'), minimum);
    expect(degrees.filter(({ temperature }) => temperature > 71).every((d) => d.probability === 0)).toBe(
      true,
    );
    expect(degrees.find(({ temperature }) => temperature === 70)!.probability).toBeGreaterThan(0);
    const passed = brackets.map((bracket) => isPassed(bracket, { extremeF: 71.2 }, 'daily_minimum'));
    expect(passed).toEqual([false, false, false, true, true, true]);
    // 71.5 may be reported as 72.
    expect(isPassed(brackets[3]!, { extremeF: 71.5 }, 'daily_minimum')).toBe(false);
  });

  it('an observed minimum far below the distribution sets the chart', () => {
    const far = degreesOf(day([1, 0, 0, 0, 0, 0], 45, 'daily_minimum'), minimum).filter(
      ({ probability }) => probability > 0,
    );
    expect(far.at(-1)).toMatchObject({ ticker: 'E-0', temperature: 45 });
    expect(far.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9);
  });

  it('the chart names it and shades the warm side', () => {
    const chart = toDistribution(day(below, 71.2, 'daily_minimum'), minimum)!;
    expect(chart.summary).toContain('The likeliest low is 71°');
    const { x, width } = chart.passed!;
    expect(Number.parseFloat(x) + Number.parseFloat(width)).toBeCloseTo(100, 1);
    expect(chart.labels.value).toBe('Low');
  });
});

describe('for an hour', () => {
  const thresholds = [69.99, 71.99, 73.99];
  const hour = (quotes: [number, number][] = []): MarketEvent =>
    ({
      eventTicker: 'H',
      kind: 'hourly',
      hour: 12,
      markets: thresholds.map((floor, i) => ({
        ticker: `H-${i}`,
        bracket: { kind: 'greater', floor, cap: null, step: 0.01 },
        status: 'active',
        yesBid: quotes[i] ? BigInt(quotes[i][0]) * CENT : null,
        yesAsk: quotes[i] ? BigInt(quotes[i][1]) * CENT : null,
      })),
    }) as unknown as MarketEvent;
  /** P(N(71.3, 2.4) ≥ 70, 72, 74): each threshold includes everything above it. */
  const exceeding = [0.706, 0.385, 0.13];
  const ofHour = {
    ...day([]),
    probabilities: new Map(exceeding.map((p, i) => [`H-${i}`, p])),
  } as DayForecast;

  it('degrees between two thresholds share the difference of their probabilities', () => {
    const degrees = degreesOf(ofHour, hour());
    const sumOf = (ticker: string | null) =>
      degrees.filter((degree) => degree.ticker === ticker).reduce((sum, d) => sum + d.probability, 0);
    expect(sumOf(null)).toBeCloseTo(1 - 0.706, 9);
    expect(sumOf('H-0')).toBeCloseTo(0.706 - 0.385, 9);
    expect(sumOf('H-2')).toBeCloseTo(0.13, 9);
    // 70.00 to 71.99 spans two whole degrees.
    expect(degrees.filter(({ ticker }) => ticker === 'H-0').map(({ temperature }) => temperature)).toEqual([
      70, 71,
    ]);
    expect(expectedOf(ofHour, hour())).toBe(71.3);
  });

  it('implied probabilities of thresholds are not normalised to sum to one', () => {
    const implied = impliedProbabilities(
      hour([
        [70, 74],
        [38, 42],
        [10, 14],
      ]),
    );
    expect([...implied.values()]).toEqual([0.72, 0.4, 0.12]);
    // With a low bid of its own, a threshold is still at least as likely as the next one.
    const wide = impliedProbabilities(
      hour([
        [80, 99],
        [98, 99],
        [10, 14],
      ]),
    );
    expect([...wide.values()]).toEqual([0.985, 0.985, 0.12]);
  });

  it('bars start at their degree, and name the threshold that each passes', () => {
    const chart = toDistribution(ofHour, hour())!;
    expect(chart.rows.find(({ degree }) => degree.startsWith('72°'))).toMatchObject({
      degree: '72° to 72.99°',
      bracket: '72° or above',
    });
    expect(chart.rows[0]).toMatchObject({ bracket: 'none' });
    expect(chart.passed).toBe(null);
    expect(chart.borders).toHaveLength(3);
  });

  it('thresholds within a degree are not drawn in whole degrees', () => {
    const parted = hour();
    (parted.markets[1]!.bracket as { floor: number }).floor = 71.49;
    expect(degreesOf(ofHour, parted)).toEqual([]);
    expect(toDistribution(ofHour, parted)).toBe(null);
  });
});

it('implied probabilities sum to one unless part of the ladder has no price', () => {
  const quotes: [number | null, number | null][] = [
    [4, 6],
    [14, 18],
    [30, 34],
    [28, 32],
    [12, 16],
    [null, 4],
  ];
  const whole = impliedProbabilities(event(quotes));
  // The mid prices are 5, 16, 32, 30, 14 and 2, which add up to 99.
  expect(whole.get('E-2')).toBeCloseTo(32 / 99, 12);
  expect([...whole.values()].reduce<number>((a, b) => a + b!, 0)).toBeCloseTo(1, 12);
  quotes[5] = [null, null];
  const partly = impliedProbabilities(event(quotes));
  expect(partly.get('E-2')).toBeCloseTo(0.32, 12);
  expect(partly.get('E-5')).toBe(null);
});

it('the chart has a text description and all its numbers in a table', () => {
  const chart = toDistribution(day(after, 71.2), event())!;
  expect(chart.summary).toContain('The likeliest high is 71° with 26.0');
  expect(chart.borders).toHaveLength(5);
  expect(chart.observed?.label).toBe('71.2° so far');
  expect(chart.passed).toMatchObject({ x: '0%' });
  expect(chart.rows).toHaveLength(chart.bars.length);
  expect(chart.rows.find(({ degree }) => degree === '71°')).toEqual({
    degree: '71°',
    probability: '26.0%',
    market: expect.stringMatching(/%$|no price/),
    bracket: '70° to 71°',
  });
});

it('what is held stands above all bars and prices, neighbours in two rows', () => {
  const held = { side: 'yes', contracts: 12, cost: 1n } as const;
  const holdings = new Map([1, 2, 3].map((i) => [`E-${i}`, held]));
  const quotes = brackets.map((): [number, number] => [16, 18]);
  const { pins, bars, height } = toDistribution(day(before), event(quotes), holdings)!;
  expect(pins.map(({ label }) => label)).toEqual(['12 YES', '12 YES', '12 YES']);
  expect(new Set(pins.map(({ y }) => y)).size).toBe(2);
  for (const [i, { y }] of pins.entries()) expect(y).not.toBe(pins[i + 1]?.y);
  const lowest = Math.max(...pins.map(({ y }) => y));
  for (const { y } of bars) expect(Number(y)).toBeGreaterThan(lowest);
  for (const { y, height: tall } of bars) expect(Number(y) + Number(tall)).toBeCloseTo(height, 1);
});
