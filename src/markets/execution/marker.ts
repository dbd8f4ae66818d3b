import type { Context } from '../../core/http/context.js';
import { createLease } from '../../core/db/jobs.js';
import { inParallel, shareRun } from '../../core/steps.js';
import { MINUTE_MS } from '../../core/time.js';
import { matchOrder, sidePrice, type OrderBook, type Side } from '../market/book.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { PRINTS_SPAN_MS, type MarketSource, type Print } from '../market/source.js';
import type { BookLog, BookMemory } from './books.js';
import {
  horizons,
  listDueFills,
  listDueShadows,
  writeMarks,
  type DueMark,
  type PriceMark,
} from './queries.js';

/** A minute, and a little longer because some prints are listed late. */
const LOOK_MS = MINUTE_MS;
export const WAIT_MS = LOOK_MS + 5_000;
/** One read of prints spans an hour. */
const MAX_AGE_MS = PRINTS_SPAN_MS - WAIT_MS;
const AT_ONCE = 500;
/** Per run; the prints of each cost one request. */
const MARKETS_AT_ONCE = 40;
const READS_AT_ONCE = 4;
const LEASE_SECONDS = 90;

interface MarkerDeps extends Pick<Context, 'db' | 'clock' | 'log' | 'lifecycle'> {
  markets: Pick<MarketSource, 'readPrints'>;
  books: BookMemory;
}

/** One instance marks the fills of all Organizations. */
export function createMarker(deps: MarkerDeps) {
  const { clock, log, markets, books } = deps;
  const { orm } = deps.db;
  const stopping = new AbortController();
  const lease = createLease(deps, 'execution-marks', { lengthSeconds: LEASE_SECONDS });

  async function listDue(nowMs: number): Promise<DueMark[]> {
    const span = { from: new Date(nowMs - MAX_AGE_MS), until: new Date(nowMs - WAIT_MS), limit: AT_ONCE };
    const due = [...(await listDueFills(orm, span)), ...(await listDueShadows(orm, span))];
    const tickers = new Set([...new Set(due.map(({ ticker }) => ticker))].slice(0, MARKETS_AT_ONCE));
    return due.filter(({ ticker }) => tickers.has(ticker));
  }

  /** Undefined without prints. An instance that can read no market releases the lease, so that another can try. */
  async function readPrints(tickers: readonly string[], since: Date) {
    const { signal } = stopping;
    let failure: unknown;
    const found = await inParallel(tickers, { width: READS_AT_ONCE, signal }, async (ticker, either) => {
      try {
        return [[ticker, await markets.readPrints?.([ticker], since, either)] as const];
      } catch (error) {
        either.throwIfAborted();
        log.warn({ err: error, ticker }, "a market's trades could not be read; its fills are marked later");
        failure = error;
        return [];
      }
    });
    const byTicker = new Map<string, readonly Print[] | undefined>(found.flat());
    if (byTicker.size > 0) return byTicker;
    await lease.release();
    throw failure;
  }

  async function markDue(): Promise<number> {
    if (stopping.signal.aborted || !(await lease.hold())) return 0;
    const nowMs = clock.now();
    const due = await listDue(nowMs);
    if (due.length === 0) return 0;
    const since = new Date(Math.min(...due.map(({ at }) => at.getTime())));
    const tickers = [...new Set(due.map(({ ticker }) => ticker))];
    const byTicker = await readPrints(tickers, since);
    const marks = due
      .filter(({ ticker }) => byTicker.has(ticker))
      .map((one) => ({ ...one, ...markFill(one, byTicker.get(one.ticker), books) }));
    await writeMarks(orm, marks, new Date(nowMs));
    return marks.length;
  }

  const marking = shareRun(markDue);
  return {
    /** Returns the number of marked fills. */
    mark: marking.run,
    async stop(): Promise<void> {
      stopping.abort();
      books.stop();
      await marking.running?.catch(() => undefined);
      await lease.release();
    },
  };
}

export type MarkableFill = Pick<
  DueMark,
  'ticker' | 'side' | 'action' | 'contracts' | 'price' | 'at' | 'hasTaken'
>;

/**
 * 15, 30 and 60 seconds later: the book's mid price if data from after the fill confirms the book, otherwise the last
 * print since the fill. The fill would have missed if no other taker on its side got its price or better and the first
 * later book has nothing left there.
 * @param prints of the fill's market, oldest first; undefined if the source has none
 */
export function markFill(
  fill: MarkableFill,
  prints: readonly Print[] | undefined,
  { bookAt }: Pick<BookLog, 'bookAt'>,
): PriceMark {
  const { ticker, side, action, price, contracts, at } = fill;
  const after = prints?.filter((print) => print.at > at && print.at.getTime() <= at.getTime() + LOOK_MS);
  const moments = horizons.map((seconds) => new Date(at.getTime() + seconds * 1000));
  const books = moments.map((moment) => bookAt(ticker, at, moment));
  const priceAt = (moment: Date, book: OrderBook | undefined): Micros | null => {
    const print = after?.findLast((one) => one.at <= moment);
    return (book && midOf(book, side)) ?? (print ? sidePrice(side, print.yesPrice) : null);
  };
  const takerSide = (side === 'yes') === (action === 'buy') ? 'yes' : 'no';
  const isReached = (print: Print): boolean => {
    const printed = sidePrice(side, print.yesPrice);
    return print.takerSide === takerSide && (action === 'buy' ? printed <= price : printed >= price);
  };
  const book = books.find((one) => one !== undefined);
  const order = { side, action, contracts, limitPrice: price, timeInForce: 'immediate_or_cancel' } as const;
  const isLeft = book && matchOrder(book, order).filledContracts > 0;
  const isSure = isLeft === true || (after?.some(isReached) ?? false);
  const isUnknown = after === undefined || isLeft === undefined;
  return {
    missed: !fill.hasTaken ? null : isSure ? false : isUnknown ? null : true,
    after: horizons.map((_, i) => priceAt(moments[i]!, books[i])),
  };
}

function midOf({ yes: [bid], no: [otherBid] }: OrderBook, side: Side): Micros | null {
  if (!bid || !otherBid) return null;
  const mid = (bid.price + DOLLAR - otherBid.price) / 2n;
  return sidePrice(side, mid);
}
