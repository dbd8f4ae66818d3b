import type { Clock } from '../../core/time.js';
import { inChunks } from '../../core/steps.js';
import { emptyBook, isSameBook, type OrderBook } from '../market/book.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketData, NoteBook } from '../market/source.js';
import { UnexpectedAnswerError, type KalshiClient, type KalshiDeps, type Query } from './kalshi-client.js';
import { toOrderBook } from './kalshi-market.js';
import type { KalshiChanges } from './socket/changes.js';
import {
  type KalshiOrderBook,
  kalshiListedBookSchema,
  kalshiOrderBookSchema,
  kalshiOrderBooksSchema,
} from './kalshi-schema.js';
import { readRows } from './rows.js';

/** How long a full book is used; after that, the listing's best prices are more accurate. */
const WHOLE_BOOK_MS = 30_000;

type Books = Pick<MarketData, 'books' | 'bookTimes' | 'shallow'>;

export interface Listing extends Pick<MarketData, 'markets' | 'results'> {
  /** Markets shown as they were last read, with the time of that read. */
  unsure: ReadonlyMap<string, Date>;
}

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

interface BookReaderOptions extends Pick<KalshiDeps, 'client' | 'clock'> {
  interest: () => ReadonlySet<string>;
  topOf: (ticker: string) => OrderBook | undefined;
  changes: KalshiChanges | undefined;
  notes: () => Pick<NoteBook, 'add'>;
}

type ReadMarkets = Books & Pick<MarketData, 'markets' | 'results' | 'doubts'>;

/**
 * Reads the books of open markets around a listing of all markets.
 *
 * With a key, a few calls after the listing fetch all books. Without a key, each book costs a call, and a refresh has
 * time for about 250 of 1,500: most are read before the listing, so that the listing is the newest data, and the other
 * markets use its best prices. A full book is used for 30 s, and only while it agrees with the listing.
 */
export function createBookReader(options: BookReaderOptions) {
  const { client, clock, interest, topOf, changes, notes } = options;
  const rotation = createBookRotation(interest);
  const onFailure = (ticker: string, error: unknown) =>
    notes().add('not_read', 'orderbook', `${ticker}: ${(error as Error).message}`);
  let active: readonly string[] = [];
  let last: ReadonlyMap<string, OrderBook> = new Map();

  const openOf = (markets: readonly ListedMarket[]) => markets.filter(({ status }) => status === 'active');
  const namesOf = (markets: readonly ListedMarket[]) => openOf(markets).map(({ ticker }) => ticker);

  async function readInBulk(list: () => Promise<Listing>, signal: AbortSignal): Promise<ReadMarkets> {
    const { unsure, ...listing } = await list();
    active = namesOf(listing.markets);
    const beganAt = clock.now();
    last = reuseBooks(last, await readKalshiBooks(client, active, onFailure, signal));
    const doubts = doubtsOf(active, last, unsure, beganAt);
    const readAgain = (tickers: string[], until: AbortSignal) =>
      readKalshiBooks(client, tickers, () => undefined, until);
    changes?.noteRead({ beganAt, active, books: last, unsure: doubts, readAgain });
    return { ...listing, books: withEmptyBooks(listing.markets, last), doubts };
  }

  async function readInTurn(list: () => Promise<Listing>, signal: AbortSignal): Promise<ReadMarkets> {
    const startedAt = performance.now();
    const readSome = (tickers: readonly string[], ms: number) =>
      readBooksUntil(client, rotation.order(tickers), { endsAt: startedAt + ms, clock, onFailure }, signal);
    const first = await readSome(active, BOOKS_FIRST_MS);
    rotation.take(first);
    const listedAt = clock.now();
    const { unsure, ...listing } = await list();
    active = namesOf(listing.markets);
    rotation.take(
      await readSome(
        active.filter((ticker) => !first.has(ticker)),
        READ_MS,
      ),
    );
    const now = clock.now();
    const { books, ...rest } = rotation.booksOf(openOf(listing.markets), topOf, { listedAt, now });
    const doubts = doubtsOf(active, books, unsure, now);
    return { ...listing, ...rest, books: withEmptyBooks(listing.markets, books), doubts };
  }

  return (list: () => Promise<Listing>, signal: AbortSignal): Promise<ReadMarkets> =>
    client.isSigned ? readInBulk(list, signal) : readInTurn(list, signal);
}

const doubtsOf = (
  active: readonly string[],
  books: ReadonlyMap<string, OrderBook>,
  unsure: ReadonlyMap<string, Date>,
  now: number,
): ReadonlyMap<string, Date> =>
  new Map([
    ...active.flatMap((ticker): [string, Date][] => (books.has(ticker) ? [] : [[ticker, new Date(now)]])),
    ...unsure,
  ]);

const withEmptyBooks = (markets: readonly ListedMarket[], books: ReadonlyMap<string, OrderBook>) =>
  new Map([
    ...markets.flatMap(({ ticker, status }): [string, OrderBook][] =>
      status === 'active' ? [] : [[ticker, emptyBook]],
    ),
    ...books,
  ]);

/** Reuses unchanged book objects, so that values derived from them stay cached. */
function reuseBooks(before: ReadonlyMap<string, OrderBook>, now: ReadonlyMap<string, OrderBook>) {
  return new Map(
    [...now].map(([ticker, book]) => {
      const known = before.get(ticker);
      return [ticker, known && isSameBook(known, book) ? known : book];
    }),
  );
}

const BOOKS_PER_CALL = 100;
const BOOKS_PATH = '/markets/orderbooks';

/** Called for each book that cannot be read. If none can be read, the whole read fails. */
type OnFailure = (ticker: string, error: unknown) => void;
/** Maximum number of parallel single-book calls; the budget limits their rate. */
const BOOKS_AT_ONCE = 8;

/**
 * Reads many books per call, which requires a key.
 * @throws UnexpectedAnswerError if a book is missing from the response
 */
async function readKalshiBooks(
  client: KalshiClient,
  tickers: readonly string[],
  onFailure: OnFailure,
  signal: AbortSignal,
): Promise<Map<string, OrderBook>> {
  const books = new Map<string, OrderBook>();
  const failures: unknown[] = [];
  const fail = (ticker: string, error: unknown) => {
    failures.push(error);
    onFailure(ticker, error);
  };
  for (const asked of inChunks(tickers, BOOKS_PER_CALL))
    try {
      const query: Query = asked.map((ticker) => ['tickers', ticker]);
      const { orderbooks } = await client.get(BOOKS_PATH, query, kalshiOrderBooksSchema, signal);
      const { rows, unreadable } = readRows(kalshiListedBookSchema, orderbooks);
      for (const row of rows) books.set(row.ticker, readBook(row.orderbook_fp));
      for (const ticker of asked.filter((one) => !books.has(one))) {
        const { field, message } = unreadable.find(({ fields }) => fields.ticker === ticker) ?? {};
        const why = field === undefined ? `no book of ${ticker}` : `${field}: ${message}`;
        fail(ticker, new UnexpectedAnswerError(BOOKS_PATH, why));
      }
    } catch (error) {
      signal.throwIfAborted();
      for (const ticker of asked) fail(ticker, error);
    }
  if (books.size === 0 && failures.length > 0) throw failures[0];
  return books;
}

interface ReadBook {
  book: OrderBook;
  readAt: Date;
}

/** Reads until the deadline. A market that no longer exists or that cannot be read gets no book. */
async function readBooksUntil(
  client: KalshiClient,
  tickers: readonly string[],
  { endsAt, clock, onFailure }: { endsAt: number; clock: Clock; onFailure: OnFailure },
  signal: AbortSignal,
): Promise<Map<string, ReadBook>> {
  const books = new Map<string, ReadBook>();
  const failures: unknown[] = [];
  const waiting = [...tickers];
  async function work(): Promise<void> {
    while (performance.now() < endsAt) {
      const ticker = waiting.shift();
      if (ticker === undefined) return;
      const path = `/markets/${encodeURIComponent(ticker)}/orderbook`;
      try {
        const { orderbook_fp: book } = await client.get(path, [], kalshiOrderBookSchema, signal);
        books.set(ticker, { book: readBook(book), readAt: new Date(clock.now()) });
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof UnexpectedAnswerError && error.httpStatus === 404) continue;
        failures.push(error);
        onFailure(ticker, error);
      }
    }
  }
  await Promise.all(Array.from({ length: BOOKS_AT_ONCE }, work));
  if (books.size === 0 && failures.length > 0) throw failures[0];
  return books;
}

const readBook = ({ yes_dollars: yes, no_dollars: no }: KalshiOrderBook): OrderBook =>
  toOrderBook({ yes: yes ?? [], no: no ?? [] });
