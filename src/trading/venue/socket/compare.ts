import { setTimeout as sleep } from 'node:timers/promises';
import { isSameBook, type OrderBook } from '../../market/book.js';
import type { KeptBooks } from './kept-books.js';

type ReadBooks = (tickers: string[], signal: AbortSignal) => Promise<ReadonlyMap<string, OrderBook>>;

/** Books that are read once more at a time: one call of the venue. The others are compared after the next refresh. */
const MAX_SUSPECTS = 100;

/**
 * Compares books that were read with those that are kept. Both move: a difference is a suspicion. It is confirmed by a
 * second read which is like none of the books that were kept from some time before it until some time after it.
 * @returns those that are refuted
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
    // A book that was in doubt in the meantime is mended already.
    if (book === undefined) seen.delete(ticker);
    else seen.get(ticker)?.push(book);
  });
  try {
    await sleep(settleMs, undefined, { signal });
    if (seen.size === 0) return [];
    const again = await readAgain([...seen.keys()], signal);
    await sleep(settleMs, undefined, { signal });
    const refuted = [...seen].flatMap(([ticker, books]) => {
      const found = again.get(ticker);
      return found && !books.some((book) => isSameBook(book, found)) ? [ticker] : [];
    });
    if (refuted.length > 0) kept.refute(refuted);
    return refuted;
  } finally {
    unwatch();
  }
}
