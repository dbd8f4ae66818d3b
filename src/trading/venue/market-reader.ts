import type { OrderBook } from '../market/book.js';
import { readMarket, toTopOfBook } from './kalshi-market.js';
import type { ListedMarket } from '../market/market.js';
import { createNoteBook, type NoteBook, type VenueNote } from '../market/notes.js';

interface Known {
  text: string;
  market: ListedMarket | undefined;
  top: OrderBook | undefined;
  notes: readonly VenueNote[];
}

/**
 * Reads listed markets, and remembers them: most are the same from one listing to the next. Who gets the same object again
 * need not make anew what was made of it, and reading it again would cost ten times as much.
 */
export interface MarketReader {
  read(value: unknown, notes: Pick<NoteBook, 'add'>): ListedMarket | undefined;
  /** The best prices as last listed. */
  topOf(ticker: string): OrderBook | undefined;
  /** Forgets all markets but these. */
  keep(tickers: Iterable<string>): void;
}

export function createMarketReader(): MarketReader {
  let known = new Map<string, Known>();

  function readAnew(value: unknown, text: string): Known {
    const own = createNoteBook();
    const market = readMarket(value, own);
    return { text, market, top: market && toTopOfBook(value), notes: own.list() };
  }

  return {
    read(value, notes) {
      const { ticker } = (value ?? {}) as { ticker?: unknown };
      if (typeof ticker !== 'string') return readMarket(value, notes);
      const text = JSON.stringify(value);
      const before = known.get(ticker);
      const found = before?.text === text ? before : readAnew(value, text);
      known.set(ticker, found);
      for (const { kind, name, example } of found.notes) notes.add(kind, name, example);
      return found.market;
    },
    topOf: (ticker) => known.get(ticker)?.top,
    keep(tickers) {
      known = new Map(
        [...tickers].flatMap((ticker) => {
          const found = known.get(ticker);
          return found ? [[ticker, found] as const] : [];
        }),
      );
    },
  };
}
