import { setTimeout } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { hashSecret } from '../../accounts/api-keys/bearer-key.js';
import { CALLS_KEPT_MS, recordUse, toUseValues } from '../../accounts/api-keys/key-use-queries.js';
import { apiKeys } from '../../accounts/api-keys/table.js';
import { groupBy } from '../../core/collections.js';
import { matches } from '../../core/db/sql.js';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { createMetrics } from '../../core/metrics.js';
import { createMarketMetrics } from '../metrics.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { OrderInput } from '../ledger/order-input.js';
import { tradingOrders } from '../ledger/orders-table.js';
import type { Orders } from '../orders/order.js';
import { calibratedModel } from '../learning/calibrated.js';
import type { FitBook } from '../learning/fits.js';
import { groupEvents } from '../market/event.js';
import { dailyKinds } from '../market/market.js';
import { CENT } from '../market/money.js';
import { stations } from '../market/stations.js';
import { TRADED_DAYS, pastParts, type PastDay } from '../past/past.js';
import { judgeGates } from '../scores/gates.js';
import { scoreBrackets } from '../scores/score.js';
import { forecasterIn } from '../services/sources.js';
import { createTradingServices, type TradingServices } from '../services/services.js';
import type { Settlement } from '../settlement/settlement.js';
import type { Signal } from '../signals/signal.js';
import { PRICE_STEP_MS, recordPrices } from '../snapshot/price-history.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { readMarketsOf } from '../venue/simulated.js';
import { createPace } from '../venue/simulation/random.js';
import { createWorld } from '../venue/simulation/weather.js';
import { subjectsAround, type SimulatedSubject } from '../venue/simulation/world.js';
import { readWeatherOf } from '../weather/simulated.js';
import type { DemoKeys } from '../../demo/demo.js';
import type { JudgedRecord } from '../scores/queries.js';

/** One attempt per second, longer than the lease lasts. */
const LEASE_TRIES = 90;
const RECENT_DAYS = 5;
/** At each step, markets settle and values are recorded. */
const STEP_MS = { latest: HOUR_MS, recent: 6 * HOUR_MS, earlier: 12 * HOUR_MS };
/** UTC. */
const ORDER_HOUR = 18;
/** Orders per step that places any. */
const ORDERS_AT_ONCE = 5;
/** Few enough to stay within the daily limits. */
const MAX_CONTRACTS = 15;
/** Simulated prints have only one or two contracts. */
const MAX_RESTING = 5;
const RESTING_MS = 15 * MINUTE_MS;
const PRICED_MS = 12 * HOUR_MS;
const MAX_REFRESH_MS = 5 * MINUTE_MS;

/** Unix milliseconds. */
export function findFirstStep(nowMs: number): number {
  const orderMs = ORDER_HOUR * HOUR_MS;
  return Math.ceil((nowMs - TRADED_DAYS * DAY_MS - orderMs) / STEP_MS.earlier) * STEP_MS.earlier + orderMs;
}

/** At the original times in the simulated world, with the fits and open gates of those times. */
export async function seedDemoTrading(
  context: Pick<Context, 'config' | 'db' | 'clock' | 'log' | 'lifecycle'>,
  demo: { keys: Pick<DemoKeys, 'trading'> },
  useFits: (fits: FitBook) => void,
  signal = new AbortController().signal,
): Promise<void> {
  const { db, clock, config } = context;
  const [key] = await db.orm
    .select({ orgId: apiKeys.orgId, id: apiKeys.id })
    .from(apiKeys)
    .where(eq(apiKeys.hashedSecret, hashSecret(demo.keys.trading)));
  if (!key || config.trading.marketSource !== 'simulated') return;
  const nowMs = clock.now();
  const first = findFirstStep(nowMs);
  const past = { ms: 0, now: () => past.ms };
  // Replayed events are not logged at info level, not counted in the service's metrics and not recorded on the tape.
  const log = context.log.child({}, { level: 'warn' });
  const metrics = createMetrics([createMarketMetrics], { ofProcess: false });
  // One part of the past is enough and keeps the first start short.
  const [part] = pastParts;
  const trading = createTradingServices(
    {
      ...context,
      config: { ...config, trading: { ...config.trading, tapeFile: undefined } },
      clock: past,
      log,
      metrics,
    },
    {
      selection: part!,
      // Simulated orders have no latency, because nothing changes in the meantime.
      onTheWay: () => Promise.resolve(),
      // The result must not depend on how busy the machine is.
      refreshTimes: { timeOutMs: MAX_REFRESH_MS, forecastWaitMs: MAX_REFRESH_MS },
    },
  );
  try {
    const reconstructed = trading.local?.past;
    if (!reconstructed) return;
    past.ms = nowMs;
    const training = await reconstructed.learn(part!, signal);
    useFits(await training.fitsAt(new Date(nowMs)));
    // In memory; another job stores the same records once the service is ready.
    const records: JudgedRecord[] = [];
    for await (const recalled of reconstructed.recall(part!, training, signal))
      records.push(...recalled.map(toJudged));
    const { latest, recent, earlier } = STEP_MS;
    for (let stepMs = 0, ms = first; ms < nowMs - HOUR_MS; ms += stepMs) {
      signal.throwIfAborted();
      past.ms = ms;
      const agoMs = nowMs - ms;
      stepMs = agoMs > RECENT_DAYS * DAY_MS ? earlier : agoMs > DAY_MS + recent ? recent : latest;
      // Some positions stay open.
      const isLast = ms + stepMs >= nowMs - HOUR_MS;
      const isOrdering = isLast || new Date(ms).getUTCHours() === ORDER_HOUR;
      trading.calibration.replace({ fits: await training.fitsAt(new Date(past.ms)) });
      if (isOrdering) trading.calibration.replace({ gates: judgeGates(records, new Date(past.ms)) });
      await trading.refresher.refresh();
      if (ms === first) await awaitLease(trading.settlement, signal);
      await trading.settlement.settle();
      if (isOrdering) {
        await followSignals(trading.orders, trading.snapshots.current!, key, new Date(past.ms + RESTING_MS));
        await lookAfterOrders(trading, past);
      }
      await trading.settlement.recordHistory();
    }
    await recordCalls(context, demo.keys.trading, key, nowMs);
    await recordEarlierPrices(context, await training.fitsAt(new Date(nowMs)), signal);
  } finally {
    await trading.stop();
  }
}

/** In the daily markets, with forecasts where there are fits, so that charts do not begin at the first start. */
async function recordEarlierPrices(
  { db, clock, config }: Pick<Context, 'db' | 'clock' | 'config'>,
  fits: FitBook,
  signal: AbortSignal,
): Promise<void> {
  const { marketSource, forecastSource: source } = config.trading;
  const world = createWorld();
  const traded = { ...world, forecast: forecasterIn(world, () => fits) };
  const pace = createPace();
  const lastMs = Math.floor(clock.now() / PRICE_STEP_MS) * PRICE_STEP_MS;
  for (let ms = lastMs - PRICED_MS; ms <= lastMs; ms += PRICE_STEP_MS) {
    signal.throwIfAborted();
    const at = new Date(ms);
    const subjects = subjectsAround(at, { stations, kinds: dailyKinds });
    const data = readMarketsOf(traded, subjects, at);
    const events = groupEvents(data.markets);
    const weather = readWeatherOf(world, subjects.filter(isLearned), at);
    const forecasts = calibratedModel({ source, weather, events, fits, at });
    await recordPrices(db.orm, { marketSource, data, forecasts }, at);
    await pace();
  }
}

const isLearned = ({ kind, station }: SimulatedSubject): boolean =>
  pastParts[0]!.kinds.includes(kind) && pastParts[0]!.stations.some(({ id }) => id === station.id);

/** One call for each order. */
async function recordCalls(
  { db }: Pick<Context, 'db'>,
  secret: string,
  { orgId, id }: { orgId: string; id: string },
  nowMs: number,
): Promise<void> {
  const placed = await db.orm
    .select({ at: tradingOrders.createdAt })
    .from(tradingOrders)
    .where(matches(tradingOrders, { orgId, apiKeyId: id }));
  if (placed.length === 0) return;
  const times = placed.map(({ at }) => at.getTime());
  const byMinute = groupBy(times, (ms) => ms - (ms % MINUTE_MS));
  const minutes = [...byMinute]
    .filter(([minuteMs]) => minuteMs > nowMs - CALLS_KEPT_MS)
    .map(([minuteMs, { length: calls }]) => ({ minuteMs, calls, ended: 0, unscoped: 0, limited: 0 }));
  const atMs = Math.max(...times);
  const scopes = new Map([['trading:write' as const, { calls: times.length, atMs }]]);
  const hashedSecret = hashSecret(secret);
  const { run } = await db.shards.locate(hashedSecret);
  // The key's id is also the receipt's, so that repeating the statement counts nothing twice.
  await run(recordUse, toUseValues(id, nowMs, [[hashedSecret, { atMs, minutes, scopes }]]));
}

/** A killed process may hold the lease. Gives up if another instance holds it. */
async function awaitLease(settlement: Settlement, signal: AbortSignal): Promise<void> {
  for (let tries = 0; tries < LEASE_TRIES && !(await settlement.settle()); tries++)
    await setTimeout(1_000, undefined, { signal });
}

/** Gates need neither prices nor members. */
function toJudged({ record, report }: PastDay): JudgedRecord {
  const { kind, station, date, leadHours, method } = record;
  const { advantage, worstAdvantage } = report
    ? scoreBrackets(record, report.temperatureF)
    : { advantage: null, worstAdvantage: null };
  const settledAt = report?.knownAt ?? null;
  return { kind, station, date, leadHours, method, advantage, worstAdvantage, settledAt };
}

/** At the times at which the running service would. */
async function lookAfterOrders({ refresher, resting, marker }: TradingServices, past: { ms: number }) {
  const startMs = past.ms;
  const pass = async (laterMs: number) => {
    past.ms = startMs + laterMs;
    await refresher.refresh();
    await resting.pass();
  };
  await pass(MINUTE_MS / 2);
  await pass(MINUTE_MS);
  past.ms = startMs + 1.5 * MINUTE_MS;
  await marker.mark();
  await pass(RESTING_MS + 2 * MINUTE_MS);
  await marker.mark();
  past.ms = startMs;
}

/** Rests a bid for the best signal if resting has an edge. */
async function followSignals(
  orders: Orders,
  { signals }: Snapshot,
  key: { orgId: string; id: string },
  expiresAt: Date,
): Promise<void> {
  const best = signals.events
    .flatMap((event) => event.signals)
    // Bids on long shots hardly ever fill.
    .filter(({ price }) => price >= 10n * CENT && price <= 90n * CENT)
    .toSorted((a, b) => b.edge - a.edge)
    .slice(0, ORDERS_AT_ONCE);
  const place = async (
    { market, side }: Signal,
    terms: Pick<OrderInput, 'idempotencyKey' | 'contracts' | 'limitPrice' | 'timeInForce' | 'rest'>,
  ) => {
    try {
      await orders.place({
        orgId: key.orgId,
        mode: 'paper',
        by: keyAuthority(key.orgId, key.id, 'trading:write'),
        ticker: market.ticker,
        side,
        action: 'buy',
        ...terms,
      });
    } catch (error) {
      // Hitting a risk limit is expected.
      if (!(error instanceof AppError)) throw error;
    }
  };
  for (const signal of best) {
    const { market, side, limitPrice, rest } = signal;
    const idempotencyKey = `demo-${market.ticker}-${side}-${expiresAt.getTime()}`;
    const contracts = Math.min(signal.contracts, MAX_CONTRACTS);
    await place(signal, { idempotencyKey, contracts, limitPrice, timeInForce: 'immediate_or_cancel' });
    if (signal !== best[0] || !rest || rest.edge <= 0) continue;
    await place(signal, {
      idempotencyKey: `${idempotencyKey}-rest`,
      contracts: Math.min(contracts, MAX_RESTING),
      limitPrice: rest.price,
      timeInForce: 'good_till_time',
      // Without a cancel on observations, the demo shows what resting orders earn.
      rest: { expiresAt, postOnly: true, cancelOn: ['stale', 'gate_closed'] },
    });
  }
}
