import type { Clock } from '../../core/clock.js';
import type { OrderBook } from '../market/book.js';
import { inChunks } from '../market/chunks.js';
import { UnexpectedAnswerError, type KalshiClient } from './kalshi-client.js';
import { toOrderBook } from './kalshi-market.js';
import { kalshiOrderBookSchema, kalshiOrderBooksSchema, type KalshiOrderBook } from './kalshi-schema.js';

const BOOKS_PER_CALL = 100;
/** Books that are asked for at once where each is asked for alone; the budget keeps the pace. */
const BOOKS_AT_ONCE = 8;

/**
 * Many books in each call: only whoever has a key may ask so.
 * @throws UnexpectedAnswerError if one of them is missing
 */
export async function readKalshiBooks(
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

export interface ReadBook {
  book: OrderBook;
  readAt: Date;
}

/** One book in each call, in the order of the tickers, until the time is over. A market that is gone has none. */
export async function readBooksUntil(
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
    // One that cannot be read spoils the whole answer: the others are not waited for.
    failed.abort();
  }
  return books;
}

const readBook = ({ yes_dollars: yes, no_dollars: no }: KalshiOrderBook): OrderBook =>
  toOrderBook({ yes: yes ?? [], no: no ?? [] });
