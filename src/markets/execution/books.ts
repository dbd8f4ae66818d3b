import { type Clock, MINUTE_MS } from '../../core/time.js';
import { isSameBook, type OrderBook } from '../market/book.js';
import type { MarketData } from '../market/source.js';
import type { Snapshot, SnapshotStore } from '../snapshot/snapshot.js';

/** Longer than the time from a fill to its mark. */
const KEPT_MS = 3 * MINUTE_MS;
const MAX_KEPT = 500;

interface KnownBook {
  atMs: number;
  /** Undefined if the book was in doubt. */
  book: OrderBook | undefined;
  /** The previous book was valid until the venue streamed this change. */
  isTold: boolean;
}

export type BookLog = ReturnType<typeof createBookLog>;

/** With the times at which they became known. */
export function createBookLog() {
  let known = new Map<string, KnownBook[]>();
  return {
    /** @param isTold the venue streamed the changes; otherwise every book was read again */
    add(data: Pick<MarketData, 'books' | 'bookTimes' | 'doubts' | 'fetchedAt'>, now: Date, isTold: boolean) {
      const nowMs = now.getTime();
      const next = isTold ? known : new Map<string, KnownBook[]>();
      for (const [ticker, shown] of data.books) {
        const list = known.get(ticker) ?? [];
        next.set(ticker, list);
        const book = data.doubts?.has(ticker) ? undefined : shown;
        const atMs = isTold ? nowMs : (data.bookTimes?.get(ticker) ?? data.fetchedAt).getTime();
        const last = list.at(-1);
        if (last === undefined || (last.atMs <= atMs && (last.book !== book || !isTold)))
          list.push({ atMs, book, isTold });
        while (list.length > MAX_KEPT || (list[1]?.atMs ?? nowMs) < nowMs - KEPT_MS) list.shift();
      }
      known = next;
    },
    /** If data later than `since` confirms the book. */
    bookAt: (ticker: string, since: Date, at: Date): OrderBook | undefined => {
      const list = known.get(ticker) ?? [];
      const i = list.findLastIndex(({ atMs }) => atMs <= at.getTime());
      const [found, later] = [list[i], list[i + 1]];
      if (!found?.book || found.atMs > since.getTime()) return found?.book;
      const isAsBefore = later?.isTold || (later?.book && isSameBook(found.book, later.book));
      return isAsBefore ? found.book : undefined;
    },
  };
}

export type BookMemory = ReturnType<typeof createBookMemory>;

export function createBookMemory({ store, clock }: { store: SnapshotStore; clock: Clock }) {
  const log = createBookLog();
  const stop = store.subscribe(({ data, refreshed }: Snapshot) =>
    log.add(data, new Date(clock.now()), refreshed !== undefined),
  );
  return { bookAt: log.bookAt, stop };
}
