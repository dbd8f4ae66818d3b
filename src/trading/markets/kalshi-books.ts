import type { OrderBook } from './book.js';
import { inChunks } from './chunks.js';
import { UnexpectedAnswerError, type KalshiClient } from './kalshi-client.js';
import { toOrderBook } from './kalshi-market.js';
import { kalshiOrderBookSchema, kalshiOrderBooksSchema, type KalshiOrderBook } from './kalshi-schema.js';

const BOOKS_PER_CALL = 100;
/** Books that are asked for at once where each is asked for alone; the client keeps the pace. */
const BOOKS_AT_ONCE = 8;

/** All at once where the venue knows who asks; whoever has no key is answered one by one. */
export const readKalshiBooks = (
  client: KalshiClient,
  tickers: string[],
  signal: AbortSignal,
): Promise<Map<string, OrderBook>> =>
  client.isSigned ? readInBulk(client, tickers, signal) : readOneByOne(client, tickers, signal);

async function readInBulk(
  client: KalshiClient,
  tickers: string[],
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

async function readOneByOne(
  client: KalshiClient,
  tickers: string[],
  signal: AbortSignal,
): Promise<Map<string, OrderBook>> {
  const books = new Map<string, OrderBook>();
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const waiting = [...tickers];
  async function work(): Promise<void> {
    for (let ticker = waiting.shift(); ticker !== undefined; ticker = waiting.shift()) {
      const path = `/markets/${encodeURIComponent(ticker)}/orderbook`;
      const { orderbook_fp: book } = await client.get(path, [], kalshiOrderBookSchema, either);
      books.set(ticker, readBook(book));
    }
  }
  try {
    await Promise.all(Array.from({ length: BOOKS_AT_ONCE }, work));
  } finally {
    // One that is missing spoils the whole answer: nobody waits for the others.
    failed.abort();
  }
  return books;
}

const readBook = ({ yes_dollars: yes, no_dollars: no }: KalshiOrderBook): OrderBook =>
  toOrderBook({ yes: yes ?? [], no: no ?? [] });
