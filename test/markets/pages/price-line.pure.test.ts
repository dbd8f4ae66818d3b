import { expect, it } from 'vitest';
import type { DayForecast } from '../../../src/markets/learning/forecast.js';
import type { Market } from '../../../src/markets/market/market.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { toPriceLine } from '../../../src/markets/pages/price-line.js';
import type { ListedOrder } from '../../../src/markets/portfolio/order-queries.js';
import { PRICE_STEP_MS, type PricePoint } from '../../../src/markets/snapshot/price-history.js';

const NOON = Date.parse('2026-07-15T17:00:00Z');
const at = (step: number) => new Date(NOON + step * PRICE_STEP_MS);
const market = {
  ticker: 'A',
  status: 'active',
  settlementValue: null,
  kind: 'daily_maximum',
  station: findStation('KNYC')!,
  date: '2026-07-15',
  bracket: { kind: 'between', floor: 84, cap: 85 },
  yesBid: 500_000n,
  yesAsk: 520_000n,
} as unknown as Market;
const point = (step: number, ...prices: PricePoint['prices'][string]): PricePoint => ({
  at: at(step),
  prices: { A: prices },
});
const day = { isCalibrated: true, probabilities: new Map([['A', 0.6]]) } as unknown as DayForecast;
const view = (points: PricePoint[], orders: ListedOrder[] = [], asOf = at(1)) =>
  toPriceLine({ points, stepMs: PRICE_STEP_MS }, market, { day, orders, asOf })!;

it('without records nothing is drawn', () => {
  expect(view([])).toBe(null);
});

it('shows the price between bid and ask, the forecast and fills, and ends at the current price', () => {
  const order = {
    ticker: 'A',
    side: 'yes',
    action: 'buy',
    filledContracts: 5,
    value: 2_100_000n,
    createdAt: at(0),
  };
  const { rows, price } = view([point(-1, 400_000, 440_000), point(0, 410_000, null, 550_000)], [
    order,
    { ...order, ticker: 'B' },
  ] as unknown as ListedOrder[]);
  expect(rows).toMatchObject([
    { at: at(1), bid: 50, ask: 52, price: 51, forecast: 60 },
    { at: at(0), bid: 41, ask: null, price: 41, forecast: 55 },
    { at: at(-1), bid: 40, ask: 44, price: 42, forecast: null },
  ]);
  expect(price.marks).toHaveLength(1);
  expect(price.marks[0]).toMatchObject({ name: 'buy', x: '50%' });
  expect(price.hits[1]!.label).toBe(
    '12:00 local standard time: price 41¢, forecast 55%, bought 5 YES at 42¢',
  );
});

it('the ends of a longer time name their days', () => {
  const { price } = view([point(-300, 400_000, 440_000), point(0, 410_000, 450_000)]);
  const [first, ...others] = price.axis.map(({ label }) => label);
  expect(first).toBe('14 Jul, 12:00');
  expect(others).not.toContain(first);
  expect(others.at(-1)).toMatch(/^15 Jul/);
});

it('the axis of a short time has minutes', () => {
  const { price } = view([point(-1, 400_000, 440_000), point(0, 410_000, 450_000)]);
  expect(price.axis.map(({ label }) => label)).toEqual(['11:55', '12:00', '12:05']);
});

it('prices that hardly move have whole cents on the axis', () => {
  const { price } = view([point(-1, 500_000, 520_000), point(0, 500_000, 530_000)]);
  for (const { label } of price.ticks) expect(label).toMatch(/^\d+¢$/);
});

it('draws no line without two points', () => {
  const { price } = view([point(-1, 400_000, 440_000), point(0, 410_000, null)]);
  expect(price.lines.map(({ name }) => name)).toEqual(['market']);
});

it('of an ended market runs to its payout', () => {
  const ended = { ...market, status: 'finalized', settlementValue: 1_000_000n, closeTime: at(90) };
  const shown = { day, orders: [], asOf: at(200) };
  const { rows } = toPriceLine(
    { points: [point(0, 410_000, 430_000)], stepMs: PRICE_STEP_MS },
    ended as Market,
    shown,
  )!;
  expect(rows.map((row) => [row.at, row.price])).toEqual([
    [at(90), 100],
    [at(0), 42],
  ]);
});

it('leaves a gap as long as the time without recorded prices', () => {
  const { price } = view([point(-9, 400_000, 440_000), point(0, 410_000, 430_000)]);
  expect(price.lines[0]!.paths).toEqual(['M0.0 95.3h0', expect.stringMatching(/^M900\.0 .*L1000\.0 /)]);
});

it('leaves out a forecast that is not calibrated', () => {
  const points = [point(0, 410_000, 430_000, 550_000)];
  const shown = { day: { ...day, isCalibrated: false }, orders: [], asOf: at(1) };
  const { rows } = toPriceLine({ points, stepMs: PRICE_STEP_MS }, market, shown)!;
  expect(rows.map(({ forecast }) => forecast)).toEqual([null, 55]);
});
