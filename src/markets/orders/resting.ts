import { createLease, type Lease } from '../../core/db/jobs.js';
import { AppError } from '../../core/errors.js';
import { shareRun } from '../../core/steps.js';
import { MINUTE_MS } from '../../core/time.js';
import type { WorkContext } from '../../core/http/context.js';
import { findPosition, lockAccount } from '../ledger/queries.js';
import { PRINTS_SPAN_MS, type MarketSource } from '../market/source.js';
import { readKnownFacts } from '../risk/gate.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { advanceOrders } from './advance.js';
import { findBarrier, findCause } from './cancel-causes.js';
import {
  feeRuleOfOrder,
  toTrade,
  type LiveExecutor,
  type RestingOrder,
  type Trade,
  type VenueOutcome,
} from './order.js';
import {
  findTrade,
  listResting,
  listRestingLive,
  listRestingMarkets,
  writeExecution,
  type OrderRow,
  type RestingMarket,
} from './queries.js';
import type { KnownPrints, ShownBook } from './queue.js';
import { recordOutcome } from './record-outcome.js';
import { attempt, requireFresh } from './tradable.js';

export type RestingOrders = ReturnType<typeof createResting>;

interface RestingDeps {
  markets: Pick<MarketSource, 'readPrints'>;
  snapshots: SnapshotStore;
  live: LiveExecutor | undefined;
}

/** Longer than the pause between two passes. If the lease expires, another instance takes over. */
const LEASE_SECONDS = 60;
const MARKETS_AT_ONCE = 200;
const MAX_LIVE = 500;
const READ_TIMEOUT_MS = 5_000;
const STARTING_MS = 2 * MINUTE_MS;
const first: Pick<RestingMarket, 'ticker' | 'orgId'> = {
  ticker: '',
  orgId: '00000000-0000-0000-0000-000000000000',
};

export function createResting(context: WorkContext, { markets, snapshots, live }: RestingDeps) {
  const { db, clock, log } = context;
  const stopping = new AbortController();
  const lease = createLease(context, 'resting-orders', { lengthSeconds: LEASE_SECONDS });
  /** Books as of the last pass. The venue has since listed all prints from before that pass. */
  const shown = new Map<string, ShownBook>();
  const readPrints = createPrintReader(context, markets, stopping.signal);
  const mayWork = createWorkGuard(context, snapshots, lease);

  async function advanceMarket(
    { orgId, ticker }: Omit<RestingMarket, 'since'>,
    known: KnownPrints | undefined,
    isChecking: boolean,
  ): Promise<void> {
    const news = { snapshots, known, shown: shown.get(ticker), isChecking, at: new Date(clock.now()) };
    await db.transaction((tx) => advanceOrders(tx, orgId, ticker, news));
  }

  /** A failing account does not hold up the others. */
  async function advanceAll(page: readonly RestingMarket[]): Promise<void> {
    for (const ticker of new Set(page.map((one) => one.ticker))) {
      const accounts = page.filter((one) => one.ticker === ticker);
      const since = new Date(Math.min(...accounts.map((one) => one.since.getTime())));
      const known = await readPrints(ticker, since);
      for (const account of accounts) {
        stopping.signal.throwIfAborted();
        await advanceMarket(account, known, true).catch((error: unknown) =>
          log.error({ err: error, ...account }, 'resting orders could not be updated; the job tries again'),
        );
      }
      rememberBook(shown, snapshots, ticker, clock.now());
    }
  }

  async function once(): Promise<void> {
    if (stopping.signal.aborted || !(await mayWork())) return;
    try {
      for (let after = first, page; ; after = page.at(-1)!) {
        page = await listRestingMarkets(db.orm, after, MARKETS_AT_ONCE);
        await advanceAll(page);
        if (page.length < MARKETS_AT_ONCE) break;
        if (!(await lease.hold())) return;
      }
      if (live) await cancelLiveOrders(context, { snapshots, live }, stopping.signal);
    } catch (error) {
      if (!stopping.signal.aborted) throw error;
    }
  }

  const passes = shareRun(once);
  return {
    /** Fills paper orders from new prints and cancels those that must leave the book, if it gets the lease. */
    pass: passes.run,
    /** Advances an account's paper orders in one market up to now, without checking their cancel conditions. */
    async advance(orgId: string, ticker: string): Promise<void> {
      const orders = await listResting(db.orm, { orgId, mode: 'paper' }, ticker);
      if (orders.length === 0) return;
      const since = Math.min(
        ...orders.map(({ printsSeen, createdAt }) => Date.parse(printsSeen?.at ?? createdAt.toISOString())),
      );
      await advanceMarket({ orgId, ticker }, await readPrints(ticker, new Date(since)), false);
    },
    async stop(): Promise<void> {
      stopping.abort();
      await passes.running?.catch(() => undefined);
      await lease.release();
    },
  };
}

export function rememberBook(
  shown: Map<string, ShownBook>,
  { current }: SnapshotStore,
  ticker: string,
  nowMs: number,
): void {
  const data = current?.data;
  const book = data?.doubts?.has(ticker) ? undefined : data?.books.get(ticker);
  if (book) shown.set(ticker, { at: new Date(nowMs), book, isShallow: data?.shallow?.has(ticker) ?? false });
  else shown.delete(ticker);
}

export function createPrintReader(
  { clock, log }: Pick<WorkContext, 'clock' | 'log'>,
  markets: RestingDeps['markets'],
  stopping: AbortSignal,
) {
  return async (ticker: string, since: Date): Promise<KnownPrints | undefined> => {
    const through = new Date(Math.min(clock.now(), since.getTime() + PRINTS_SPAN_MS));
    if (!markets.readPrints) return { prints: [], through };
    try {
      const signal = AbortSignal.any([stopping, AbortSignal.timeout(READ_TIMEOUT_MS)]);
      return { prints: await markets.readPrints([ticker], since, signal), through };
    } catch (error) {
      stopping.throwIfAborted();
      log.warn({ err: error, ticker }, "a market's trades could not be read; its resting orders wait");
      return undefined;
    }
  };
}

/** Without fresh data, offers the lease to the other instances and works only if none of them took it. */
function createWorkGuard({ clock }: Pick<WorkContext, 'clock'>, snapshots: SnapshotStore, lease: Lease) {
  const startedAt = clock.now();
  let lackedData = false;

  return async (): Promise<boolean> => {
    const lacksData = attempt(() => requireFresh(snapshots, clock.now())) instanceof AppError;
    const isNew = lacksData && !lackedData;
    lackedData = lacksData;
    if (isNew) {
      await lease.release();
      return false;
    }
    // Market data is still loading just after the start.
    if (!snapshots.current && clock.now() - startedAt < STARTING_MS) return false;
    return lease.hold();
  };
}

async function cancelLiveOrders(
  context: WorkContext,
  { snapshots, live }: { snapshots: SnapshotStore; live: LiveExecutor },
  stopping: AbortSignal,
): Promise<void> {
  const { db, log } = context;
  const orders = await listRestingLive(db.orm, MAX_LIVE);
  let marked = 0;
  let barred = 0;
  for (const order of orders) {
    stopping.throwIfAborted();
    const mark = await markLive(context, snapshots, order).catch((error: unknown) => {
      log.error({ err: error, orderId: order.id }, 'a live order could not be checked; the job tries again');
      return undefined;
    });
    if (mark) marked++;
    if (mark?.isBarred) barred++;
  }
  if (marked === 0) return;
  // If every order must be cancelled, a single request is faster than many that wait for their turns.
  if (barred > 1 && barred === orders.length) await live.cancelAll(orders[0]!.orgId);
  for (const order of await listRestingLive(db.orm, MAX_LIVE)) {
    stopping.throwIfAborted();
    if (order.cancelRequestedAt)
      await askVenue(context, order, (one) => live.cancel(one)).catch((error: unknown) =>
        log.error({ err: error, orderId: order.id }, 'the outcome of a live order could not be booked'),
      );
  }
}

/**
 * Marks an order as cancelled before the request is sent to the venue. Resolves to undefined if the order may stay.
 * `isBarred` is true if a switch or the market access forbids the order.
 */
const markLive = ({ db, clock }: WorkContext, snapshots: SnapshotStore, { orgId, id }: OrderRow) =>
  db.transaction(async (tx) => {
    await lockAccount(tx, { orgId, mode: 'live' });
    const order = (await findTrade(tx, orgId, { id }))?.order;
    if (order?.status !== 'resting') return undefined;
    if (order.cancelRequestedAt) return { isBarred: false };
    const at = new Date(clock.now());
    const facts = await readKnownFacts(tx, { orgId, mode: 'live', at });
    const barrier = findBarrier(order, facts, await findPosition(tx, order, order.ticker));
    const reason = barrier ?? findCause(order, { snapshots, nowMs: at.getTime() });
    if (reason === undefined) return undefined;
    await markCancelled(tx, order, { at, reason });
    return { isBarred: barrier !== undefined };
  });

export async function askVenue(
  { db, clock, log }: Pick<WorkContext, 'db' | 'clock' | 'log'>,
  row: OrderRow,
  ask: (order: RestingOrder) => Promise<VenueOutcome>,
): Promise<Trade> {
  const outcome = await ask({ ...toTrade(row, []), feeRule: feeRuleOfOrder(row) }).catch(
    (error: unknown): VenueOutcome => {
      log.error(
        { err: error, orderId: row.id },
        'a change of a live order was sent, but its outcome is unknown',
      );
      return { kind: 'unknown', reason: 'The venue has not confirmed the change yet.' };
    },
  );
  return recordOutcome(db.orm, row.orgId, row.id, outcome, new Date(clock.now()), { isOfChange: true });
}

export async function markCancelled(
  tx: Parameters<typeof writeExecution>[0],
  order: OrderRow,
  { at, reason }: { at: Date; reason: string },
): Promise<OrderRow> {
  const isAtVenue = order.mode === 'live' && order.status === 'resting';
  const marked: OrderRow = {
    ...order,
    cancelRequestedAt: at,
    cancelReason: reason,
    unknownSince: isAtVenue ? at : order.unknownSince,
  };
  await writeExecution(tx, { order: marked, isNew: false, at });
  return marked;
}
