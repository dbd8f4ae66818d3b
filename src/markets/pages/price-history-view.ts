import { toPaths } from '../../core/charts/line-chart.js';
import { bracketLabel } from '../market/brackets.js';
import type { MarketEvent } from '../market/event.js';
import type { Market } from '../market/market.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import { bestPrices, PRICE_STEP_MS, type PriceHistory, type PricePoint } from '../snapshot/price-history.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { BestPrices } from '../snapshot/table.js';
import type { PriceScale } from './addresses.js';
import { isTradable } from './choice.js';

/** SVG user units. The chart stretches with its container. */
const WIDTH = 300;
const HEIGHT = 60;
/** In cents, so that a one-cent step does not look like a crash. */
const MIN_CENTS = 4;

/** With gaps for missing records. Null before anything is recorded. */
export function toPriceHistoryView(
  { points: recorded, stepMs }: PriceHistory,
  event: MarketEvent,
  { asOf, now, scale }: Pick<Snapshot, 'asOf'> & { now: Date; scale: PriceScale },
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
    charts: event.markets.map((market) => {
      const own = drawn.map((point) => ({
        ask: priceOf(point, market, 'ask'),
        bid: priceOf(point, market, 'bid'),
      }));
      const { low, high } =
        scale === 'full'
          ? wholeDollar
          : centsAround(own.flatMap(({ ask, bid }) => [ask ?? [], bid ?? []].flat()));
      const toY = (price: number) => HEIGHT * (1 - (price - low) / (high - low));
      return {
        label: bracketLabel(market.bracket),
        low: BigInt(low),
        high: BigInt(high),
        lines: (['ask', 'bid'] as const).map((name) => ({
          name,
          paths: toPaths(
            own.map((prices) => prices[name]),
            toX,
            toY,
          ),
        })),
        asks: toRange(points.flatMap((point) => priceOf(point, market, 'ask') ?? [])),
      };
    }),
    /** Newest first. Prices are in the order of the charts. */
    rows: points.toReversed().map((point) => ({
      at: point.at,
      prices: event.markets.map((market) => ({
        bid: toMicros(priceOf(point, market, 'bid')),
        ask: toMicros(priceOf(point, market, 'ask')),
      })),
    })),
  };
}

const wholeDollar = { low: 0, high: Number(DOLLAR) };

/** Whole cents, clamped to 0 and 100. */
function centsAround(prices: readonly number[]): { low: number; high: number } {
  const cent = Number(CENT);
  if (prices.length === 0) return wholeDollar;
  const lowest = Math.floor(Math.min(...prices) / cent);
  const highest = Math.ceil(Math.max(...prices) / cent);
  const missing = Math.max(0, MIN_CENTS - (highest - lowest));
  const low = Math.max(
    0,
    Math.min(lowest - Math.floor(missing / 2), 100 - Math.max(MIN_CENTS, highest - lowest)),
  );
  const high = Math.max(highest, low + MIN_CENTS);
  return { low: low * cent, high: high * cent };
}

/** The current prices arrive slightly later than the step they belong to. */
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
