import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../../core/time.js';
import { isSameBook, type OrderBook } from '../../market/book.js';
import type { ListedMarket, MarketStatus } from '../../market/market.js';
import { DOLLAR, type Micros } from '../../market/money.js';
import type { MarketData } from '../../market/source.js';
import type { LifecycleFrame } from './frames.js';
import type { KeptBooks } from './kept-books.js';

type ReadBooks = (tickers: string[], signal: AbortSignal) => Promise<ReadonlyMap<string, OrderBook>>;

/** One venue call returns as many. The other books are compared after the next refresh. */
const MAX_SUSPECTS = 100;

/**
 * Compares books that were read with books maintained from the stream. Both change, so a difference is only a
 * suspicion. It is confirmed if a second read matches none of the stream's versions from shortly before that read until
 * shortly after it.
 * @returns the tickers of books proven wrong
 */
export async function compareBooks(
  kept: KeptBooks,
  read: ReadonlyMap<string, OrderBook>,
  readAgain: ReadBooks,
  signal: AbortSignal,
  settleMs = 1_000,
): Promise<string[]> {
  const seen = new Map<string, OrderBook[]>();
  for (const [ticker, book] of read) {
    const mine = kept.book(ticker);
    if (mine && !isSameBook(mine, book)) seen.set(ticker, [mine]);
    if (seen.size === MAX_SUSPECTS) break;
  }
  if (seen.size === 0) return [];
  const unwatch = kept.watch((ticker) => {
    const book = kept.book(ticker);
    // A book that came into doubt in the meantime is already being repaired.
    if (book === undefined) seen.delete(ticker);
    else seen.get(ticker)?.push(book);
  });
  try {
    await sleep(settleMs, undefined, { signal });
    if (seen.size === 0) return [];
    const secondRead = await readAgain([...seen.keys()], signal);
    await sleep(settleMs, undefined, { signal });
    const refuted = [...seen].flatMap(([ticker, books]) => {
      const found = secondRead.get(ticker);
      return found && !books.some((book) => isSameBook(book, found)) ? [ticker] : [];
    });
    if (refuted.length > 0) kept.refute(refuted);
    return refuted;
  } finally {
    unwatch();
  }
}

/** The markets to follow and their books. */
interface CompleteRead {
  /** By our clock. The read resolves doubts from before this time. */
  beganAt: number;
  active: readonly string[];
  books: ReadonlyMap<string, OrderBook>;
  /** Markets that could not be read, with the time of their last data. They stay in doubt until the next read. */
  unsure: ReadonlyMap<string, Date>;
  readAgain: ReadBooks;
}

export type KalshiChanges = ReturnType<typeof createKalshiChanges>;

interface Life {
  status?: MarketStatus;
  closeTime?: Date;
  /** True if the market's price steps or text changed; the next listing has the new values. */
  isUnsure?: true;
  receivedAt: number;
}

/**
 * Merges the stream's books into market data and marks books in doubt.
 * @param keepBooks called once, after the first read, so that creating a source does not open a connection
 */
export function createKalshiChanges({ keepBooks, clock }: { keepBooks: () => KeptBooks; clock: Clock }) {
  const doubts = new Map<string, number>();
  const lives = new Map<string, Life>();
  const listeners = new Set<(tickers: ReadonlySet<string>) => void>();
  const stopping = new AbortController();
  let followed: ReadonlySet<string> = new Set();
  let notRead: ReadonlyMap<string, Date> = new Map();
  let comparing: Promise<unknown> | undefined;
  let kept: KeptBooks | undefined;

  function open(): KeptBooks {
    const opened = keepBooks();
    opened.subscribe((tickers, frames) => {
      for (const frame of frames) noteLife(lives, frame, clock.now());
      for (const ticker of tickers) noteTrust(ticker);
      for (const listener of listeners) listener(tickers);
    });
    return opened;
  }

  function noteTrust(ticker: string): void {
    const isUnsure = kept?.book(ticker) === undefined || lives.get(ticker)?.isUnsure || notRead.has(ticker);
    if (!isUnsure) doubts.delete(ticker);
    else if (followed.has(ticker)) {
      const since = kept?.lateSince ?? clock.now();
      if ((doubts.get(ticker) ?? Infinity) > since) doubts.set(ticker, since);
    }
  }

  return {
    subscribe(listener: (tickers: ReadonlySet<string>) => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },

    apply(data: MarketData, tickers?: ReadonlySet<string>): MarketData {
      const isRead = (ticker: string) => kept?.book(ticker) === undefined;
      return withChanges(data, findChanged(data, tickers, kept, lives), doubts, isRead);
    },

    noteRead({ beganAt, active, books, unsure, readAgain }: CompleteRead): void {
      if (stopping.signal.aborted) return;
      kept ??= open();
      followed = new Set(active);
      for (const [ticker, since] of doubts)
        if (since < beganAt || !followed.has(ticker)) doubts.delete(ticker);
      notRead = unsure;
      for (const [ticker, since] of unsure) doubts.set(ticker, since.getTime());
      // Until the stream is current again, nothing would tell that a book has changed since it was read.
      if (kept.lateSince !== undefined) for (const ticker of active) doubts.set(ticker, kept.lateSince);
      for (const [ticker, { receivedAt }] of lives) if (receivedAt < beganAt) lives.delete(ticker);
      kept.follow(active);
      comparing ??= compareBooks(kept, books, readAgain, stopping.signal)
        // A failed read proves nothing about the books, and the source monitors its own reads.
        .catch(() => undefined)
        .finally(() => (comparing = undefined));
    },

    stop(): void {
      stopping.abort();
      kept?.stop();
    },
  };
}

/** @param isRead whether a book comes from a read, not from the stream */
function withChanges(
  data: MarketData,
  { markets, books }: ReturnType<typeof findChanged>,
  doubts: ReadonlyMap<string, number>,
  isRead: (ticker: string) => boolean,
): MarketData {
  const isSameDoubt =
    doubts.size === (data.doubts?.size ?? 0) &&
    [...doubts].every(([ticker, since]) => data.doubts?.get(ticker)?.getTime() === since);
  if (markets.size === 0 && books.size === 0 && isSameDoubt) return data;
  const times = [...filterKeys(data.bookTimes ?? new Map<string, Date>(), isRead), ...toDates(doubts)];
  return {
    ...data,
    markets: data.markets.map((market) => markets.get(market.ticker) ?? market),
    books: new Map([...data.books, ...books]),
    // A book in doubt is as old as its last certain state.
    ...((data.bookTimes ?? times.length > 0) && { bookTimes: new Map(times) }),
    ...(data.shallow && { shallow: filterKeys(data.shallow, isRead) }),
    doubts: isSameDoubt && data.doubts ? data.doubts : new Map(toDates(doubts)),
  };
}

function noteLife(lives: Map<string, Life>, frame: LifecycleFrame, receivedAt: number): void {
  const { ticker, event, closeSeconds } = frame;
  const known = lives.get(ticker);
  if (event === 'deactivated') lives.set(ticker, { ...known, status: 'inactive', receivedAt });
  else if (event === 'activated') lives.set(ticker, { ...known, status: 'active', receivedAt });
  // The next listing has the payout.
  else if (event === 'determined' || event === 'settled')
    lives.set(ticker, { ...known, status: 'closed', receivedAt });
  else if (event === 'close_date_updated' && closeSeconds !== undefined)
    lives.set(ticker, { ...known, closeTime: new Date(closeSeconds * 1000), receivedAt });
  else if (['close_date_updated', 'price_level_structure_updated', 'metadata_updated'].includes(event))
    lives.set(ticker, { ...known, isUnsure: true, receivedAt });
}

function findChanged(
  data: MarketData,
  tickers: ReadonlySet<string> | undefined,
  kept: KeptBooks | undefined,
  lives: ReadonlyMap<string, Life>,
) {
  const markets = new Map<string, ListedMarket>();
  const books = new Map<string, OrderBook>();
  for (const market of data.markets) {
    const { ticker } = market;
    if (tickers && !tickers.has(ticker)) continue;
    const book = kept?.book(ticker);
    if (book && book !== data.books.get(ticker)) books.set(ticker, book);
    const now = withLife(book ? withPrices(market, book) : market, lives.get(ticker));
    if (now !== market) markets.set(ticker, now);
  }
  return { markets, books };
}

function withPrices(market: ListedMarket, { yes, no }: OrderBook): ListedMarket {
  const [yesBid, noBid] = [yes[0]?.price ?? null, no[0]?.price ?? null];
  if (yesBid === market.yesBid && noBid === market.noBid) return market;
  return { ...market, yesBid, noBid, yesAsk: oppositeOf(noBid), noAsk: oppositeOf(yesBid) };
}

const oppositeOf = (price: Micros | null): Micros | null => (price === null ? null : DOLLAR - price);

function withLife(market: ListedMarket, life: Life | undefined): ListedMarket {
  if (!life) return market;
  // A lifecycle update cannot reopen a market that the venue has decided.
  const isOpenOrPaused = ['active', 'inactive', 'initialized'].includes(market.status);
  const status = isOpenOrPaused ? (life.status ?? market.status) : market.status;
  const closeTime = life.closeTime ?? market.closeTime;
  return status === market.status && closeTime.getTime() === market.closeTime.getTime()
    ? market
    : { ...market, status, closeTime };
}

const filterKeys = <V>(map: ReadonlyMap<string, V>, isLeft: (key: string) => boolean): Map<string, V> =>
  new Map([...map].filter(([key]) => isLeft(key)));

const toDates = (doubts: ReadonlyMap<string, number>): [string, Date][] =>
  [...doubts].map(([ticker, since]) => [ticker, new Date(since)]);
