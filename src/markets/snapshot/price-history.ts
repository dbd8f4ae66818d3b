import { groupBy } from '../../core/collections.js';
import { type Clock, DAY_MS, MINUTE_MS } from '../../core/time.js';
import type { Database, Orm } from '../../core/db/client.js';
import { insertRows, queryRows } from '../../core/db/sql.js';
import { forecastOf, type DayForecast } from '../learning/forecast.js';
import { isPlaced, type ListedMarket } from '../market/market.js';
import type { Micros } from '../market/money.js';
import { TIME_TO_LIVE_MS } from '../market/source.js';
import { ageOf, type Snapshot, type SnapshotStore } from './snapshot.js';
import { priceHistory, type BestPrices } from './table.js';

export const PRICE_STEP_MS = 5 * MINUTE_MS;
const KEPT_MS = 3 * DAY_MS;
const DELETED_AT_ONCE = 5_000;
/** In a small chart. */
const MOST_POINTS = 48;

interface RecorderDeps {
  db: Pick<Database, 'orm'>;
  store: SnapshotStore;
  clock: Clock;
}

export function createPriceRecorder({ db: { orm }, store, clock }: RecorderDeps) {
  let lastMs = 0;
  return {
    /** From current snapshots only. A time without prices leaves a gap. */
    async record(): Promise<void> {
      const snapshot = store.current;
      const now = clock.now();
      const stepMs = Math.floor(now / PRICE_STEP_MS) * PRICE_STEP_MS;
      if (!snapshot || stepMs === lastMs || ageOf(snapshot, now) > TIME_TO_LIVE_MS) return;
      await recordPrices(orm, snapshot, new Date(stepMs));
      lastMs = stepMs;
    },
    async cleanUp(): Promise<void> {
      const before = new Date(clock.now() - KEPT_MS).toISOString();
      for (;;) {
        const deleted = await queryRows(orm)`
          delete from price_history where ctid = any(array(
            select ctid from price_history where at < ${before}::timestamptz order by at limit ${DELETED_AT_ONCE}
          ))
          returning 1 as n`;
        if (deleted.length < DELETED_AT_ONCE) return;
      }
    },
  };
}

/** Another instance may have recorded the same five minutes. */
export async function recordPrices(
  orm: Orm,
  snapshot: Pick<Snapshot, 'marketSource' | 'forecasts'> & { data: Pick<Snapshot['data'], 'markets'> },
  at: Date,
): Promise<void> {
  const { marketSource, data, forecasts } = snapshot;
  const rows = [...groupBy(data.markets, (market) => market.eventTicker)].flatMap(
    ([eventTicker, markets]) => {
      const open = markets.find(({ status }) => status === 'active');
      const day = open && isPlaced(open) ? forecastOf(forecasts, open) : undefined;
      return open ? [{ marketSource, eventTicker, at, prices: bestPrices({ markets }, day) }] : [];
    },
  );
  if (rows.length === 0) return;
  await insertRows(orm, priceHistory, rows);
}

/** An uncalibrated forecast is left out, because it can be far from the one that follows it. */
export const bestPrices = (
  { markets }: { markets: readonly Pick<ListedMarket, 'ticker' | 'yesBid' | 'yesAsk'>[] },
  day: Pick<DayForecast, 'probabilities' | 'isCalibrated'> | undefined,
): Record<string, BestPrices> =>
  Object.fromEntries(
    markets.map(({ ticker, yesBid, yesAsk }) => {
      const probability = day?.isCalibrated ? day.probabilities.get(ticker) : undefined;
      const forecast = probability === undefined ? null : Math.round(probability * 1e6);
      return [ticker, [toNumber(yesBid), toNumber(yesAsk), forecast]];
    }),
  );

/** A price is at most a million millionths of a dollar. */
const toNumber = (price: Micros | null): number | null => (price === null ? null : Number(price));

export type PriceHistory = Awaited<ReturnType<typeof readPriceHistory>>;
export type PricePoint = PriceHistory['points'][number];

/** Thinned evenly, but always including the newest. */
export async function readPriceHistory(orm: Orm, event: { marketSource: string; eventTicker: string }) {
  const { marketSource, eventTicker } = event;
  const rows = await queryRows(orm)<{ ms: number; prices: Record<string, BestPrices>; stride: number }>`
    select (extract(epoch from at) * 1000)::float8 as ms, prices, stride
    from (
      select at, prices, row_number() over (order by at desc) as n,
        ceil(count(*) over () / ${MOST_POINTS}::float8)::int as stride
      from price_history
      where market_source = ${marketSource} and event_ticker = ${eventTicker}
    ) recorded
    where (n - 1) % stride = 0
    order by at`;
  return {
    points: rows.map(({ ms, prices }) => ({ at: new Date(ms), prices })),
    /** If no point is missing. */
    stepMs: (rows[0]?.stride ?? 1) * PRICE_STEP_MS,
  };
}
