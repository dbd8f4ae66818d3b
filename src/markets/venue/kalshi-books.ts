import type { Clock } from '../../core/time.js';
import { inChunks } from '../../core/steps.js';
import { isSameBook, type OrderBook } from '../market/book.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketData } from '../market/source.js';
import { UnexpectedAnswerError, type KalshiClient } from './kalshi-client.js';
import { toOrderBook } from './kalshi-market.js';
import type { KalshiChanges } from './socket/changes.js';
import { type KalshiOrderBook, kalshiOrderBookSchema, kalshiOrderBooksSchema } from './kalshi-schema.js';

/** How long a full book is used; after that, the listing's best prices are more accurate. */
const WHOLE_BOOK_MS = 30_000;

type Books = Pick<MarketData, 'books' | 'bookTimes' | 'shallow'>;

/**
 * Chooses which books to read if each costs a call and there are too many to read all.
 * @param interest markets with positions or signals, which are read first
 */
export function createBookRotation(interest: () => ReadonlySet<string>) {
  let whole = new Map<string, ReadBook>();
  return {
    /** Returns the reading order: markets of interest first, then the books unread for the longest time. */
    order(active: readonly string[]): string[] {
      const matters = interest();
      const rank = (ticker: string): number =>
        (whole.get(ticker)?.readAt.getTime() ?? 0) - (matters.has(ticker) ? Number.MAX_SAFE_INTEGER : 0);
      return active.toSorted((a, b) => rank(a) - rank(b));
    },
    take(read: ReadonlyMap<string, ReadBook>): void {
      for (const [ticker, one] of read) {
        const known = whole.get(ticker);
        const isSame = known !== undefined && isSameBook(known.book, one.book);
        whole.set(ticker, isSame ? { ...one, book: known.book } : one);
      }
    },
    /**
     * Returns the books of listed markets: the full book if it was read since the listing began, or if it was read
     * recently and still agrees with the listing; otherwise the listing's best prices.
     * @param topOf best prices from the listing
     */
    booksOf(
      markets: readonly ListedMarket[],
      topOf: (ticker: string) => OrderBook | undefined,
      { listedAt, now }: { listedAt: number; now: number },
    ): Books {
      const books = new Map<string, OrderBook>();
      const bookTimes = new Map<string, Date>();
      const shallow = new Map<string, true>();
      for (const { ticker } of markets) {
        const top = topOf(ticker);
        const known = whole.get(ticker);
        const isRecent = known !== undefined && now - known.readAt.getTime() <= WHOLE_BOOK_MS;
        const isNewer = known !== undefined && known.readAt.getTime() >= listedAt;
        if (isRecent && (isNewer || top === undefined || isSameTop(known.book, top))) {
          books.set(ticker, known.book);
          bookTimes.set(ticker, known.readAt);
        } else if (top) {
          books.set(ticker, top);
          shallow.set(ticker, true);
        }
      }
      const listed = new Set(markets.map(({ ticker }) => ticker));
      whole = new Map([...whole].filter(([ticker]) => listed.has(ticker)));
      return { books, bookTimes, shallow };
    },
  };
}

const isSameTop = (a: OrderBook, b: OrderBook): boolean =>
  isSameBook(
    { yes: a.yes.slice(0, 1), no: a.no.slice(0, 1) },
    { yes: b.yes.slice(0, 1), no: b.no.slice(0, 1) },
  );

/** Without a key: time limit for reading books before the listing, and deadline for the rest after it. */
const BOOKS_FIRST_MS = 8_000;
const READ_MS = 16_000;

interface BookReaderOptions {
  client: KalshiClient;
  clock: Clock;
  /** Returns the markets to read first if not all books can be read. */
  interest: () => ReadonlySet<string>;
  topOf: (ticker: string) => OrderBook | undefined;
  changes: KalshiChanges | undefined;
}

type ReadMarkets = Books & { markets: ListedMarket[] };

/**
 * Reads the books of open markets around a listing of all markets.
 *
 * With a key, a few calls after the listing fetch all books. Without a key, each book costs a call, and a refresh has
 * time for about 250 of 1,500: most are read before the listing, so that the listing is the newest data, and the other
 * markets use its best prices. A full book is used for 30 s, and only while it agrees with the listing.
 */
export function createBookReader({ client, clock, interest, topOf, changes }: BookReaderOptions) {
  const rotation = createBookRotation(interest);
  let active: readonly string[] = [];
  let last: ReadonlyMap<string, OrderBook> = new Map();

  const openOf = (markets: readonly ListedMarket[]) => markets.filter(({ status }) => status === 'active');
  const namesOf = (markets: readonly ListedMarket[]) => openOf(markets).map(({ ticker }) => ticker);

  async function readInBulk(list: () => Promise<ListedMarket[]>, signal: AbortSignal): Promise<ReadMarkets> {
    const markets = await list();
    active = namesOf(markets);
    const beganAt = clock.now();
    last = reuseBooks(last, await readKalshiBooks(client, active, signal));
    const readAgain = (tickers: string[], until: AbortSignal) => readKalshiBooks(client, tickers, until);
    changes?.noteRead({ beganAt, active, books: last, readAgain });
    return { markets, books: last };
  }

  async function readInTurn(list: () => Promise<ListedMarket[]>, signal: AbortSignal): Promise<ReadMarkets> {
    const startedAt = performance.now();
    const readSome = (tickers: readonly string[], ms: number) =>
      readBooksUntil(client, rotation.order(tickers), { endsAt: startedAt + ms, clock }, signal);
    const first = await readSome(active, BOOKS_FIRST_MS);
    rotation.take(first);
    const listedAt = clock.now();
    const markets = await list();
    active = namesOf(markets);
    rotation.take(
      await readSome(
        active.filter((ticker) => !first.has(ticker)),
        READ_MS,
      ),
    );
    return { markets, ...rotation.booksOf(openOf(markets), topOf, { listedAt, now: clock.now() }) };
  }

  return (list: () => Promise<ListedMarket[]>, signal: AbortSignal): Promise<ReadMarkets> =>
    client.isSigned ? readInBulk(list, signal) : readInTurn(list, signal);
}

/** Reuses unchanged book objects, so that values derived from them stay cached. */
function reuseBooks(
  before: ReadonlyMap<string, OrderBook>,
  now: ReadonlyMap<string, OrderBook>,
): ReadonlyMap<string, OrderBook> {
  return new Map(
    [...now].map(([ticker, book]) => {
      const known = before.get(ticker);
      return [ticker, known && isSameBook(known, book) ? known : book];
    }),
  );
}

const BOOKS_PER_CALL = 100;
/** Maximum number of parallel single-book calls; the budget limits their rate. */
const BOOKS_AT_ONCE = 8;

/**
 * Reads many books per call, which requires a key.
 * @throws UnexpectedAnswerError if a book is missing from the response
 */
async function readKalshiBooks(
  client: KalshiClient,
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, OrderBook>> {
  const books = new Map<string, OrderBook>();
  for (const asked of inChunks(tickers, BOOKS_PER_CALL)) {
    const { orderbooks } = await client.get(
      '/markets/orderbooks',
      asked.map((ticker) => ['tickers', ticker]),
      kalshiOrderBooksSchema,
      signal,
    );
    for (const { ticker, orderbook_fp: book } of orderbooks) books.set(ticker, readBook(book));
    const missing = asked.find((ticker) => !books.has(ticker));
    if (missing !== undefined)
      throw new UnexpectedAnswerError('/markets/orderbooks', `no book of ${missing}`);
  }
  return books;
}

interface ReadBook {
  book: OrderBook;
  readAt: Date;
}

/** Reads one book per call, in order, until the deadline. A market that no longer exists gets no book. */
async function readBooksUntil(
  client: KalshiClient,
  tickers: readonly string[],
  { endsAt, clock }: { endsAt: number; clock: Clock },
  signal: AbortSignal,
): Promise<Map<string, ReadBook>> {
  const books = new Map<string, ReadBook>();
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const waiting = [...tickers];
  async function work(): Promise<void> {
    while (performance.now() < endsAt) {
      const ticker = waiting.shift();
      if (ticker === undefined) return;
      const path = `/markets/${encodeURIComponent(ticker)}/orderbook`;
      try {
        const { orderbook_fp: book } = await client.get(path, [], kalshiOrderBookSchema, either);
        books.set(ticker, { book: readBook(book), readAt: new Date(clock.now()) });
      } catch (error) {
        if (!(error instanceof UnexpectedAnswerError && error.httpStatus === 404)) throw error;
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: BOOKS_AT_ONCE }, work));
  } finally {
    // One failure invalidates the whole result, so the other calls are canceled.
    failed.abort();
  }
  return books;
}

const readBook = ({ yes_dollars: yes, no_dollars: no }: KalshiOrderBook): OrderBook =>
  toOrderBook({ yes: yes ?? [], no: no ?? [] });
