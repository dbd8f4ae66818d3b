import type { WorkContext } from '../../core/http/context.js';
import { createLease } from '../../core/db/jobs.js';
import { shareRun } from '../../core/steps.js';
import { MINUTE_MS, SECOND_MS } from '../../core/time.js';
import type { ShadowPlace } from '../ledger/orders-table.js';
import { emptyBook, sidePrice, type OrderBook } from '../market/book.js';
import { sumCounts } from '../market/contracts.js';
import type { Micros } from '../market/money.js';
import type { MarketSource } from '../market/source.js';
import type { LiveTrading } from '../live/live.js';
import { withoutTaken } from '../orders/paper-book.js';
import { advanceQueue, aheadInAll, bidOf, type KnownPrints, type ShownBook } from '../orders/queue.js';
import { createPrintReader, rememberBook } from '../orders/resting.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { insertPlaces, listShadowedResting, type QueuedLive } from './queries.js';

/** Each costs a request for its prints. */
const MARKETS_AT_ONCE = 40;
const MAX_ORDERS = 500;
/** Slightly under a minute, so that a run a minute later finds the market due. */
const DUE_MS = 55 * SECOND_MS;
/** Trades within this time share one read, and the venue has time to update its numbers. */
const GATHER_MS = SECOND_MS;
/** One read of prints spans the time since the last row. */
const WRITTEN_EVERY_MS = 15 * MINUTE_MS;
const LEASE_SECONDS = 90;

interface QueueWatchDeps {
  live: Pick<LiveTrading, 'listQueuePositions' | 'followTrades'>;
  markets: Pick<MarketSource, 'readPrints'>;
  snapshots: SnapshotStore;
  /** Defaults to one second. */
  gatherMs?: number | undefined;
}

/** In the venue's queue, and in the queue of paper trading. */
export function createQueueWatch(
  context: WorkContext,
  { live, markets, snapshots, gatherMs = GATHER_MS }: QueueWatchDeps,
) {
  const { db, clock, log } = context;
  const stopping = new AbortController();
  const lease = createLease(context, 'queue-positions', { lengthSeconds: LEASE_SECONDS });
  const readPrints = createPrintReader(context, markets, stopping.signal);
  /** As of the last read. The venue has since listed all earlier prints. */
  const shown = new Map<string, ShownBook>();
  const readAt = new Map<string, number>();
  let prices = new Map<string, Set<Micros>>();
  let timer: NodeJS.Timeout | undefined;

  function follow(orders: readonly QueuedLive[]): void {
    prices = new Map();
    for (const order of orders) {
      const { side, price } = bidOf(order);
      prices.set(order.ticker, (prices.get(order.ticker) ?? new Set()).add(sidePrice(side, price)));
    }
    for (const ticker of readAt.keys())
      if (!prices.has(ticker)) for (const known of [readAt, shown]) known.delete(ticker);
    live.followTrades([...prices.keys()], noteTrade);
  }

  function noteTrade(ticker: string, yesPrice: Micros): void {
    if (!prices.get(ticker)?.has(yesPrice)) return;
    readAt.delete(ticker);
    timer ??= setTimeout(() => {
      timer = undefined;
      reading.run().catch((error: unknown) => {
        if (!stopping.signal.aborted)
          log.warn({ err: error }, 'the places of live orders could not be read after a trade');
      });
    }, gatherMs);
  }

  async function readDue(): Promise<void> {
    if (stopping.signal.aborted || !(await lease.hold())) return;
    const orders = await listShadowedResting(db.orm, MAX_ORDERS);
    follow(orders);
    const nowMs = clock.now();
    const tickers = [...prices.keys()]
      .filter((ticker) => nowMs - (readAt.get(ticker) ?? 0) >= DUE_MS)
      .slice(0, MARKETS_AT_ONCE);
    if (tickers.length === 0) return;
    const venueAhead = await live.listQueuePositions(tickers, stopping.signal);
    for (const ticker of tickers) {
      readAt.set(ticker, nowMs);
      const own = orders.filter((order) => order.ticker === ticker);
      const since = new Date(Math.min(...own.map(({ seen }) => Date.parse(seen.at))));
      const known = await readPrints(ticker, since);
      const book = snapshots.current?.data.books.get(ticker) ?? emptyBook;
      if (known)
        await insertPlaces(
          db.orm,
          placeOrders(own, { venueAhead, known, book, shown: shown.get(ticker), at: new Date(clock.now()) }),
        );
      rememberBook(shown, snapshots, ticker, clock.now());
    }
  }

  const reading = shareRun(readDue);
  return {
    /** Markets last read at least a minute ago, or before a trade at an order's price. */
    read: reading.run,
    async stop(): Promise<void> {
      stopping.abort();
      clearTimeout(timer);
      await reading.running?.catch(() => undefined);
      await lease.release();
    },
  };
}

interface MarketView {
  venueAhead: ReadonlyMap<string, number>;
  known: KnownPrints;
  book: OrderBook;
  /** At the last read. */
  shown: ShownBook | undefined;
  at: Date;
}

/** Positions that need a new row. @param orders all in one market, oldest first */
function placeOrders(orders: readonly QueuedLive[], { venueAhead, known, book, shown, at }: MarketView) {
  return orders.flatMap((order, i) => {
    const seen = advanceShadow(order, orders.slice(i), known, shown);
    const paperAhead = aheadInAll(book, bidOf(order), seen.atPrice);
    // The venue stops listing an order before we record its end.
    const venue = venueAhead.get(order.venueOrderId ?? '') ?? order.venueAhead;
    const isSame = venue === order.venueAhead && paperAhead === order.paperAhead;
    const isFresh = Date.parse(seen.at) - Date.parse(order.seen.at) < WRITTEN_EVERY_MS;
    if (isSame && isFresh) return [];
    const { orgId, id: orderId } = order;
    return [{ orgId, orderId, at, venueAhead: venue, paperAhead, printsSeen: seen }];
  });
}

/**
 * Each order individually, because the account's earlier orders are already part of the book's queue.
 * @param behind this order and the account's later ones in the market
 */
function advanceShadow(
  order: QueuedLive,
  behind: readonly QueuedLive[],
  known: KnownPrints,
  shown: ShownBook | undefined,
): ShadowPlace {
  const bid = bidOf(order);
  const own = behind.filter((one) => bidOf(one).side === bid.side && bidOf(one).price === bid.price);
  const remaining = sumCounts(own.map((one) => one.remaining));
  const book = shown && withoutTaken(shown.book, [[bid.side, String(bid.price), remaining]]);
  const queued = { ...order, bid, queueAhead: order.seen.atPrice ?? Infinity, endsAt: null };
  const { places } = advanceQueue([queued], known, shown && book && { ...shown, book });
  const { queueAhead, seen } = places.get(order.id)!;
  return { ...seen, atPrice: queueAhead === Infinity ? null : queueAhead };
}
