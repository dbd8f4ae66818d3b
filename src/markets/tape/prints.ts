import type { Logger } from 'pino';
import { type Clock, MINUTE_MS } from '../../core/time.js';
import { LISTING_LAG_MS, PRINTS_SPAN_MS, type MarketSource, type PrintsRead } from '../market/source.js';

/** Prints and readings that wait for a record. What is more is left out: nothing is known of its time then. */
const MAX_WAITING = 20_000;
/** Prints that are known to stand on the tape; it may have those before them twice. */
const MAX_TAPED = 50_000;

/** What was printed, on its way to a tape. The same is read again and again, and taped once. */
export function createPrintsToTape() {
  let waiting: PrintsRead[] = [];
  let size = 0;
  const taped = new Set<string>();

  return {
    add(read: PrintsRead): void {
      if (size + 1 + read.prints.length > MAX_WAITING) return;
      size += 1 + read.prints.length;
      waiting.push(read);
    },
    /** @param isWhole whether it must make sense without the records before */
    take({ isWhole }: { isWhole: boolean }): PrintsRead[] {
      if (isWhole || taped.size > MAX_TAPED) taped.clear();
      const reads = waiting.map((read) => ({ ...read, prints: read.prints.filter(isNew) }));
      waiting = [];
      size = 0;
      return reads;
    },
  };

  function isNew({ id }: PrintsRead['prints'][number]): boolean {
    if (taped.has(id)) return false;
    taped.add(id);
    return true;
  }
}

/** The prints of a source, which a tape hears as well. */
export function tapedPrints(
  source: Pick<MarketSource, 'readPrints'>,
  tape: { addPrints(read: PrintsRead): void } | undefined,
  clock: Clock,
): Pick<MarketSource, 'readPrints'> {
  if (!tape || !source.readPrints) return source;
  return {
    async readPrints(tickers, since, signal) {
      // What comes in while it is asked may be missing in the answer.
      const until = new Date(Math.min(clock.now(), since.getTime() + PRINTS_SPAN_MS));
      const prints = await source.readPrints!(tickers, since, signal);
      tape.addPrints({ tickers: [...tickers], since, until, prints });
      return prints;
    },
  };
}

/** Each costs a call. */
const MARKETS_AT_ONCE = 40;
/** Longer than what a fill is looked back at, and the pause between two readings. */
const FOLLOWED_MS = 3 * MINUTE_MS;

/** Reads what is printed in markets that are worth trading in, so that it is taped whether or not something was ordered there. */
export interface PrintFollower {
  follow(): Promise<void>;
  stop(): void;
}

export function createPrintFollower({
  prints,
  tickers,
  clock,
  log,
}: {
  /** Taped. */
  prints: Pick<MarketSource, 'readPrints'>;
  /** That are worth trading in at present. */
  tickers: () => readonly string[];
  clock: Clock;
  log: Pick<Logger, 'warn'>;
}): PrintFollower {
  const stopping = new AbortController();
  /** By market: until when it is followed. */
  const followed = new Map<string, number>();
  let readMs = clock.now();

  return {
    async follow() {
      const nowMs = clock.now();
      for (const [ticker, untilMs] of followed) if (untilMs < nowMs) followed.delete(ticker);
      for (const ticker of tickers())
        if (followed.has(ticker) || followed.size < MARKETS_AT_ONCE)
          followed.set(ticker, nowMs + FOLLOWED_MS);
      // Not of long ago: what was missed is not known.
      const since = new Date(Math.max(readMs - LISTING_LAG_MS, nowMs - FOLLOWED_MS));
      if (stopping.signal.aborted) return;
      try {
        if (followed.size > 0) await prints.readPrints?.([...followed.keys()], since, stopping.signal);
        readMs = nowMs;
      } catch (error) {
        if (!stopping.signal.aborted)
          log.warn({ err: error }, 'what was printed could not be read: it is missing on the tape');
      }
    },
    stop: () => stopping.abort(),
  };
}
