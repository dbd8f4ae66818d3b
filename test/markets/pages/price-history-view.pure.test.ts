import { expect, it } from 'vitest';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import type { PriceScale } from '../../../src/markets/pages/addresses.js';
import { toPriceHistoryView } from '../../../src/markets/pages/price-history-view.js';
import { PRICE_STEP_MS, type PricePoint } from '../../../src/markets/snapshot/price-history.js';

const NOON = Date.parse('2026-07-15T12:00:00Z');
const at = (step: number) => new Date(NOON + step * PRICE_STEP_MS);
const point = (step: number, bid: number | null, ask: number | null): PricePoint => ({
  at: at(step),
  prices: { A: [bid, ask] },
});
const event = (status: string) =>
  ({
    markets: [
      {
        ticker: 'A',
        status,
        closeTime: at(1_000),
        bracket: { kind: 'between', floor: 84, cap: 85 },
        yesBid: 500_000n,
        yesAsk: 520_000n,
      },
    ],
  }) as unknown as MarketEvent;
const now = at(50);
const view = (points: PricePoint[], status = 'closed', scale: PriceScale = 'full') =>
  toPriceHistoryView({ points, stepMs: PRICE_STEP_MS }, event(status), { asOf: now, now, scale });

it('without records nothing is drawn', () => {
  expect(view([], 'active')).toBe(null);
});

it('a line has a gap where nothing was recorded', () => {
  const { lines } = view([
    point(0, 100_000, 200_000),
    point(1, 100_000, 200_000),
    point(4, 100_000, 400_000),
    point(5, 100_000, 400_000),
  ])!.charts[0]!;
  expect(lines.map(({ name, paths }) => [name, paths])).toEqual([
    ['ask', ['M0.0 48.0L60.0 48.0', 'M240.0 36.0L300.0 36.0']],
    ['bid', ['M0.0 54.0L60.0 54.0', 'M240.0 54.0L300.0 54.0']],
  ]);
});

it('a line has a gap where a bid or ask was missing', () => {
  const shown = view([point(0, null, 200_000), point(1, null, null), point(2, null, 300_000)])!;
  expect(shown.charts[0]!.lines.map(({ paths }) => paths)).toEqual([['M0.0 48.0h0', 'M300.0 42.0h0'], []]);
  expect(shown.charts[0]!.asks).toEqual({
    first: 200_000n,
    last: 300_000n,
    lowest: 200_000n,
    highest: 300_000n,
  });
  expect(view([point(0, 100_000, null)])!.charts[0]!.asks).toBe(null);
  // The table lists every plotted number, newest first.
  expect(shown.rows.map(({ prices }) => prices[0]!.ask)).toEqual([300_000n, null, 200_000n]);
});

it('the current price is the last point, for open markets only', () => {
  const recorded = [point(48, 400_000, 420_000), point(49, 400_000, 420_000)];
  expect(view(recorded, 'active')!.charts[0]!.asks!.last).toBe(520_000n);
  expect(view(recorded, 'active')!.charts[0]!.lines[0]!.paths).toHaveLength(1);
  expect(view(recorded)!.to).toEqual(at(49));
  // A gap in the recording shows as a gap before the current price.
  expect(view([point(0, 400_000, 420_000)], 'active')!.charts[0]!.lines[0]!.paths).toHaveLength(2);
});

it.each([
  ['a wide range', [200_000, 400_000], [20, 40]],
  ['at least four cents', [500_000, 510_000], [49, 53]],
  ['never below zero', [10_000, 20_000], [0, 4]],
  ['never above a dollar', [980_000, 990_000], [96, 100]],
  ['whole cents around finer prices', [205_000, 395_000], [20, 40]],
])('a chart covers its own range: %s', (_name, [bid, ask], cents) => {
  const { low, high } = view([point(0, bid!, ask!)], 'closed', 'range')!.charts[0]!;
  expect([low, high]).toEqual(cents.map((cent) => BigInt(cent) * 10_000n));
});
