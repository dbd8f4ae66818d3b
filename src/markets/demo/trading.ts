import { setTimeout } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { hashSecret } from '../../accounts/api-keys/bearer-key.js';
import { apiKeys } from '../../accounts/api-keys/table.js';
import type { TradingContext } from '../config.js';
import { AppError } from '../../core/errors.js';
import { createMetrics } from '../../core/metrics.js';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { OrderInput } from '../ledger/order-input.js';
import type { Orders } from '../orders/order.js';
import { CENT } from '../market/money.js';
import { pastParts, type Recalled } from '../past/past.js';
import { judgeGates, type JudgedRecord } from '../scores/gates.js';
import { scoreBrackets } from '../scores/score.js';
import { createTradingServices, type TradingServices } from '../services/services.js';
import type { Settlement } from '../settlement/settlement.js';
import type { Signal } from '../signals/signal.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { DemoData } from '../../demo/demo.js';

/** Seconds; longer than the lease of the settlement. */
const LEASE_TRIES = 90;
const DAYS = 5;
/** As often as that the past is looked at: markets settle, values are noted. */
const STEP_MS = 6 * HOUR_MS;
/** The signals of an event that are followed at each step that orders are placed at. */
const ORDERS_A_DAY = 3;
/** Contracts of one order: small against the account, so that the limits of every day hold. */
const MAX_CONTRACTS = 25;
/** Of one that waits, and how long: prints there are of a contract or two. */
const MAX_RESTING = 5;
const RESTING_MS = 15 * MINUTE_MS;

/**
 * Trades on paper what the signals of the last days said, by the same code as everything else, at the times of the
 * invented world in which they said it: by what had been learned then, and only where the gates were open then. What was
 * made or lost by that is what the demo shows.
 */
export async function seedDemoTrading(
  context: TradingContext,
  demo: DemoData,
  signal = new AbortController().signal,
): Promise<void> {
  const { db, clock, config } = context;
  const [key] = await db.orm
    .select({ orgId: apiKeys.orgId, id: apiKeys.id })
    .from(apiKeys)
    .where(eq(apiKeys.hashedSecret, hashSecret(demo.keys.trading)));
  if (!key || config.trading.marketSource !== 'simulated') return;
  const nowMs = clock.now();
  const past = { ms: 0, now: () => past.ms };
  // What happens in the past is not news, not counted and not taped.
  const log = context.log.child({}, { level: 'warn' });
  const metrics = createMetrics({ ofProcess: false });
  // What comes first of the past is enough for it, and who starts it the first time waits for no more.
  const [part] = pastParts;
  const trading = createTradingServices(
    {
      ...context,
      config: { ...config, trading: { ...config.trading, tapeFile: undefined } },
      clock: past,
      log,
      metrics,
    },
    // Nothing changes there while an order is on its way.
    { selection: part!, onTheWay: () => Promise.resolve() },
  );
  try {
    if (!trading.past) return;
    past.ms = nowMs;
    const training = await trading.past.learn(part!, signal);
    // They are recorded once the service is ready.
    const records: JudgedRecord[] = [];
    for await (const recalled of trading.past.recall(part!, training, signal))
      records.push(...recalled.map(toJudged));
    const first = Math.ceil((nowMs - DAYS * 24 * HOUR_MS) / STEP_MS) * STEP_MS;
    for (past.ms = first; past.ms < nowMs - HOUR_MS; past.ms += STEP_MS) {
      signal.throwIfAborted();
      // Once a day, and at last, so that something is open.
      const isLast = past.ms + STEP_MS >= nowMs - HOUR_MS;
      const isOrdering = isLast || new Date(past.ms).getUTCHours() === 12;
      trading.calibration.replace({ fits: await training.fitsAt(new Date(past.ms)) });
      if (isOrdering) trading.calibration.replace({ gates: judgeGates(records, new Date(past.ms)) });
      await trading.refresher.refresh();
      if (past.ms === first) await awaitLease(trading.settlement, signal);
      await trading.settlement.settle();
      if (isOrdering) {
        await followSignals(trading.orders, trading.snapshots.current!, key, new Date(past.ms + RESTING_MS));
        await lookAfterOrders(trading, past);
      }
      await trading.settlement.recordHistory();
    }
  } finally {
    await trading.stop();
  }
}

/** That of a process that was killed in the middle of this ends by itself. Beside another instance there is no waiting for it. */
async function awaitLease(settlement: Settlement, signal: AbortSignal): Promise<void> {
  for (let tries = 0; tries < LEASE_TRIES && !(await settlement.settle()); tries++)
    await setTimeout(1_000, undefined, { signal });
}

/** As far as gates are judged by it. */
const toJudged = ({ record, report }: Recalled): JudgedRecord => ({
  ...record,
  ...(report ? scoreBrackets(record, report.temperatureF) : { advantage: null, worstAdvantage: null }),
  settledAt: report?.knownAt ?? null,
});

/** What the service does by itself after orders were placed: for a minute as often as it reads markets, and when the last has ended. */
async function lookAfterOrders(
  { refresher, resting, marker }: TradingServices,
  past: { ms: number },
): Promise<void> {
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

/** What is best is taken, and the very best is bid for as well where waiting is worth something. */
async function followSignals(
  orders: Orders,
  { signals }: Snapshot,
  key: { orgId: string; id: string },
  expiresAt: Date,
): Promise<void> {
  const best = signals.events
    .flatMap((event) => event.signals)
    // Long shots are hardly ever bid for: what they are worth could not be seen.
    .filter(({ price }) => price >= 15n * CENT && price <= 85n * CENT)
    .toSorted((a, b) => b.edge - a.edge)
    .slice(0, ORDERS_A_DAY);
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
      // A limit that stands against it is what a limit is for.
      if (!(error instanceof AppError)) throw error;
    }
  };
  for (const signal of best) {
    const { market, side, limitPrice, rest } = signal;
    const idempotencyKey = `demo-${market.ticker}-${side}`;
    const contracts = Math.min(signal.contracts, MAX_CONTRACTS);
    await place(signal, { idempotencyKey, contracts, limitPrice, timeInForce: 'immediate_or_cancel' });
    if (signal !== best[0] || !rest || rest.edge <= 0) continue;
    await place(signal, {
      idempotencyKey: `${idempotencyKey}-rest`,
      contracts: Math.min(contracts, MAX_RESTING),
      limitPrice: rest.price,
      timeInForce: 'good_till_time',
      // A report within that time is no reason to give up: what comes of waiting is to be seen.
      rest: { expiresAt, postOnly: true, cancelOn: ['stale', 'gate_closed'] },
    });
  }
}
