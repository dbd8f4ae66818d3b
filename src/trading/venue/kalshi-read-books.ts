import type { Clock } from '../../core/clock.js';
import { isSameBook, type OrderBook } from '../market/book.js';
import { createBookRotation } from './book-rotation.js';
import { readBooksUntil, readKalshiBooks } from './kalshi-books.js';
import type { KalshiClient } from './kalshi-client.js';
import type { ListedMarket } from '../market/market.js';
import type { KalshiChanges } from './socket/changes.js';
import type { MarketData } from '../market/source.js';

/** Where each book costs a call: how long books are read before the listing, and until when with those after it. */
const BOOKS_FIRST_MS = 8_000;
const READ_MS = 16_000;

export interface BookReaderOptions {
  client: KalshiClient;
  clock: Clock;
  /** Markets whose books are read first where not all can be. */
  interest: () => ReadonlySet<string>;
  /** The best prices as last listed. */
  topOf: (ticker: string) => OrderBook | undefined;
  changes: KalshiChanges | undefined;
}

type ReadMarkets = Pick<MarketData, 'books' | 'bookTimes' | 'shallow'> & { markets: ListedMarket[] };

/**
 * Reads the books of open markets around a listing of all markets.
 *
 * With a key they come in some calls after it. Without one each costs a call, and a refresh has time for some 250 of 1,500:
 * most of them are read before the listing, which is then the newest of all, and the others have the best prices that it
 * says. A whole book is used for 30 s, and only while the listing agrees with it.
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

/** The books as they were before, where they are still the same: what was made of them need not be made again. */
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
