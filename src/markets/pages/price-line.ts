import { toLineChart } from '../../core/charts/line-chart.js';
import { formatCount, formatPrice, formatProbability, utc } from '../../core/pages/format.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { clockAt } from '../market/climate-day.js';
import type { DayForecast } from '../learning/forecast.js';
import { expectedPayout, labelOf, type ListedMarket } from '../market/market.js';
import { perContract } from '../market/contracts.js';
import { CENT } from '../market/money.js';
import type { ListedOrder } from '../portfolio/order-queries.js';
import { bestPrices, PRICE_STEP_MS, type PriceHistory, type PricePoint } from '../snapshot/price-history.js';
import type { Snapshot } from '../snapshot/snapshot.js';

const clock = utc({ hour: '2-digit', minute: '2-digit' });
const dayAndClock = utc({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

interface Shown {
  at: Date;
  bid: number | null;
  ask: number | null;
  /** Cents, as the price. */
  price: number | null;
  forecast: number | null;
  fills: ListedOrder[];
}

export const CHART_HEIGHT = 110;

/** A market's price, forecast and fills over the recorded time. Null before anything is recorded. */
export function toPriceLine(
  { points: recorded, stepMs }: PriceHistory,
  market: ListedMarket,
  {
    day,
    orders,
    asOf,
  }: Pick<Snapshot, 'asOf'> & { day: DayForecast | undefined; orders: readonly ListedOrder[] },
) {
  const last = recorded.at(-1);
  if (!last) return null;
  const isNewer = market.status === 'active' && asOf > last.at;
  const now = { at: asOf, prices: bestPrices({ markets: [market] }, day) };
  const priced = (isNewer ? [...recorded, now] : recorded).map((point): Shown => ({
    ...toPrices(point, market),
    at: point.at,
    fills: [],
  }));
  const payout = expectedPayout(market);
  if (payout !== null && market.closeTime > last.at) {
    const price = Number(payout) / Number(CENT);
    priced.push({ at: market.closeTime, bid: price, ask: price, price, forecast: null, fills: [] });
  }
  const points = withGaps(priced, stepMs);
  for (const order of orders)
    if (order.ticker === market.ticker && order.filledContracts > 0 && order.createdAt >= points[0]!.at)
      nearest(points, order.createdAt).fills.push(order);
  const zone = zoneOf(market, asOf);
  const lengthMs = points.at(-1)!.at.getTime() - points[0]!.at.getTime();
  const clockOf = ({ at }: Shown, step = 1) =>
    (lengthMs > DAY_MS - HOUR_MS ? dayAndClock : clock).format(
      Math.floor((at.getTime() + zone.offsetMs) / step) * step,
    );
  const labels = points.map((point) => describe(point, `${clockOf(point)} ${zone.name}`));
  return {
    label: labelOf(market),
    zone: zone.name,
    price: toLineChart({
      height: CHART_HEIGHT,
      summary: `YES of ${labelOf(market)} in cents: its price and the forecast’s probability. ${labels.at(-1)}. The numbers are in the table below.`,
      labels,
      axis: points.map((point) => clockOf(point, lengthMs < 3 * HOUR_MS ? 1 : HOUR_MS)),
      lines: [
        { name: 'market', values: points.map(({ price }) => price) },
        { name: 'model', values: points.map(({ forecast }) => forecast) },
      ].filter(({ values }) => values.filter((value) => value !== null).length > 1),
      marks: points.flatMap(({ fills }, index) =>
        fills.map((order) => ({ index, name: order.action, value: centsOf(order) })),
      ),
      hasZero: false,
      isWhole: true,
      formatTick: (cents) => `${cents}¢`,
    }),
    /** Newest first. */
    rows: points.filter(({ price, forecast }) => price !== null || forecast !== null).toReversed(),
  };
}

/** The zone in which the venue counts the market's day or hour. */
function zoneOf({ station, kind }: ListedMarket, at: Date) {
  if (!station) return { name: 'UTC', offsetMs: 0 };
  if (kind !== 'hourly')
    return { name: 'local standard time', offsetMs: station.standardOffsetHours * HOUR_MS };
  const ahead = ((clockAt(station, at).hour - at.getUTCHours() + 36) % 24) - 12;
  return { name: 'local time', offsetMs: ahead * HOUR_MS };
}

const centsOf = ({ value, filledContracts, side }: ListedOrder): number => {
  const paid = Number(perContract(value, filledContracts)) / Number(CENT);
  return side === 'yes' ? paid : 100 - paid;
};

function toPrices({ prices }: PricePoint, { ticker }: ListedMarket) {
  const [bid, ask, forecast] = (prices[ticker] ?? [null, null]).map((value) =>
    value == null ? null : value / Number(CENT),
  ) as [number | null, number | null, number | null | undefined];
  const known = [bid, ask].filter((price) => price !== null);
  const price = known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0) / known.length;
  return { bid, ask, price, forecast: forecast ?? null };
}

const nearest = (points: readonly Shown[], at: Date): Shown =>
  points.reduce((a, b) =>
    Math.abs(b.at.getTime() - at.getTime()) < Math.abs(a.at.getTime() - at.getTime()) ? b : a,
  );

/** Fills in missing steps, so that the axis is linear. The current prices arrive slightly later than their step. */
const withGaps = (points: readonly Shown[], stepMs: number): Shown[] =>
  points.flatMap((point, i) => {
    const sinceMs = point.at.getTime() - (points[i - 1]?.at ?? point.at).getTime();
    const missing = Math.max(0, Math.floor((sinceMs - PRICE_STEP_MS) / stepMs));
    const empty = { bid: null, ask: null, price: null, forecast: null };
    const gap = Array.from({ length: missing }, (_, k): Shown => {
      const at = new Date(point.at.getTime() - sinceMs + (k + 1) * stepMs);
      return { ...empty, at, fills: [] };
    });
    return [...gap, point];
  });

function describe({ price, forecast, fills }: Shown, clockText: string): string {
  return [
    `${clockText}: ${price === null ? 'no price' : `price ${Number(price.toFixed(1))}¢`}`,
    ...(forecast === null ? [] : [`forecast ${formatProbability(forecast / 100)}`]),
    ...fills.map(
      ({ action, filledContracts, side, value }) =>
        `${action === 'buy' ? 'bought' : 'sold'} ${formatCount(filledContracts, side.toUpperCase(), side.toUpperCase())} at ${formatPrice(perContract(value, filledContracts))}`,
    ),
  ].join(', ');
}
