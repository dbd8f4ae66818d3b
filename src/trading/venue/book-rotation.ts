import { isSameBook, type OrderBook } from '../market/book.js';
import type { ReadBook } from './kalshi-books.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketData } from '../market/source.js';

/** A whole book counts for this long; after that the listing's best prices are nearer to the truth. */
const WHOLE_BOOK_MS = 30_000;

type Books = Pick<MarketData, 'books' | 'bookTimes' | 'shallow'>;

/** Which books are read where each costs a call and there are more than calls. */
export interface BookRotation {
  /** In the order in which they should be read: those that matter most, then those that were not read for longest. */
  order(active: readonly string[]): string[];
  take(read: ReadonlyMap<string, ReadBook>): void;
  /**
   * The books of listed markets: whole ones that were read since the listing began, or lately and agree with it; of the
   * others the best prices as listed.
   * @param topOf what the listing says of the best prices
   */
  booksOf(
    markets: readonly ListedMarket[],
    topOf: (ticker: string) => OrderBook | undefined,
    times: { listedAt: number; now: number },
  ): Books;
}

/** @param interest markets in which somebody holds something, or something is worth doing */
export function createBookRotation(interest: () => ReadonlySet<string>): BookRotation {
  let whole = new Map<string, ReadBook>();
  return {
    order(active) {
      const matters = interest();
      const rank = (ticker: string): number =>
        (whole.get(ticker)?.readAt.getTime() ?? 0) - (matters.has(ticker) ? Number.MAX_SAFE_INTEGER : 0);
      return active.toSorted((a, b) => rank(a) - rank(b));
    },
    take(read) {
      for (const [ticker, one] of read) {
        const known = whole.get(ticker);
        const isSame = known !== undefined && isSameBook(known.book, one.book);
        whole.set(ticker, isSame ? { ...one, book: known.book } : one);
      }
    },
    booksOf(markets, topOf, { listedAt, now }) {
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
