import { toPaths } from '../../core/charts/line-chart.js';
import { bracketLabel } from '../market/brackets.js';
import type { MarketEvent } from '../market/event.js';
import type { Market } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { bestPrices, PRICE_STEP_MS, type PriceHistory, type PricePoint } from '../snapshot/price-history.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { BestPrices } from '../snapshot/table.js';
import { isTradable } from './choice.js';

/** SVG user units: the drawing stretches with its container, and a dollar always has the same height. */
const WIDTH = 300;
const HEIGHT = 60;

/** Prices up to the current ones, with gaps for missing records, bids and asks. Null before anything is recorded. */
export function toPriceHistoryView(
  { points: recorded, stepMs }: PriceHistory,
  event: MarketEvent,
  { asOf }: Pick<Snapshot, 'asOf'>,
  now: Date,
) {
  const last = recorded.at(-1);
  if (!last) return null;
  const isNewer = isTradable(event, now) && asOf > last.at;
  const points = isNewer ? [...recorded, { at: asOf, prices: bestPrices(event) }] : recorded;
  const from = points[0]!.at;
  const to = points.at(-1)!.at;
  const drawn = withGaps(points, stepMs);
  const spanMs = Math.max(1, to.getTime() - from.getTime());
  const toX = (index: number) => (WIDTH * (drawn[index]!.at.getTime() - from.getTime())) / spanMs;
  return {
    width: WIDTH,
    height: HEIGHT,
    from,
    to,
    charts: event.markets.map((market) => ({
      label: bracketLabel(market.bracket),
      lines: (['ask', 'bid'] as const).map((name) => ({
        name,
        paths: toPaths(
          drawn.map((point) => priceOf(point, market, name)),
          toX,
          (price) => HEIGHT * (1 - price / Number(DOLLAR)),
        ),
      })),
      asks: toRange(points.flatMap((point) => priceOf(point, market, 'ask') ?? [])),
    })),
    /** Newest first; prices in the order of the charts. */
    rows: points.toReversed().map((point) => ({
      at: point.at,
      prices: event.markets.map((market) => ({
        bid: toMicros(priceOf(point, market, 'bid')),
        ask: toMicros(priceOf(point, market, 'ask')),
      })),
    })),
  };
}

/** Inserts a point without prices where one is missing. The current prices arrive slightly after the step they belong to. */
function withGaps(points: readonly PricePoint[], stepMs: number): PricePoint[] {
  return points.flatMap((point, i) => {
    const before = points[i - 1];
    const isMissing = before && point.at.getTime() - before.at.getTime() >= stepMs + PRICE_STEP_MS;
    return isMissing ? [{ at: before.at, prices: {} }, point] : [point];
  });
}

const none: BestPrices = [null, null];

const priceOf = ({ prices }: PricePoint, { ticker }: Market, name: 'ask' | 'bid'): number | null =>
  (prices[ticker] ?? none)[name === 'bid' ? 0 : 1];

const toMicros = (price: number | null): Micros | null => (price === null ? null : BigInt(price));

/** Null if nothing was ever offered. */
function toRange(asks: readonly number[]) {
  if (asks.length === 0) return null;
  const [first, last] = [asks[0]!, asks.at(-1)!];
  return {
    first: BigInt(first),
    last: BigInt(last),
    lowest: BigInt(Math.min(...asks)),
    highest: BigInt(Math.max(...asks)),
  };
}
