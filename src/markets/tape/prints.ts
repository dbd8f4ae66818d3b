import type { Logger } from 'pino';
import { inParallel } from '../../core/steps.js';
import { type Clock, MINUTE_MS } from '../../core/time.js';
import { LISTING_LAG_MS, PRINTS_SPAN_MS, type MarketSource, type PrintsRead } from '../market/source.js';

/** Until the next record. More are dropped, and their period then counts as unread. */
const MAX_WAITING = 20_000;
/** Older prints may appear twice on the tape. */
const MAX_TAPED = 50_000;

/** A print that is read repeatedly is taped once. */
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
    /** @param isWhole the record must be complete without earlier ones */
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

export function tapedPrints(
  source: Pick<MarketSource, 'readPrints'>,
  tape: { addPrints(read: PrintsRead): void } | undefined,
  clock: Clock,
): Pick<MarketSource, 'readPrints'> {
  if (!tape || !source.readPrints) return source;
  return {
    async readPrints(tickers, since, signal) {
      // Prints that arrive during the request may be missing from the response.
      const until = new Date(Math.min(clock.now(), since.getTime() + PRINTS_SPAN_MS));
      const prints = await source.readPrints!(tickers, since, signal);
      tape.addPrints({ tickers: [...tickers], since, until, prints });
      return prints;
    },
  };
}

/** Reading each market costs one API call. */
const MARKETS_AT_ONCE = 40;
const READS_AT_ONCE = 4;
/** How long a market is followed: longer than both a fill's observation period and the pause between two reads. */
const FOLLOWED_MS = 3 * MINUTE_MS;

interface FollowerDeps {
  prints: Pick<MarketSource, 'readPrints'>;
  tickers: () => readonly string[];
  clock: Clock;
  log: Pick<Logger, 'warn'>;
}

/** Markets that may be traded are taped whether or not an order is placed. */
export function createPrintFollower({ prints, tickers, clock, log }: FollowerDeps) {
  const stopping = new AbortController();
  /** Until when each market is followed, and when it was last read, in milliseconds. */
  const followed = new Map<string, { untilMs: number; readMs: number }>();
  let followedMs = clock.now();

  async function read(ticker: string, nowMs: number): Promise<void> {
    const one = followed.get(ticker)!;
    // The lookback is limited, so prints missed before then are never read.
    const since = new Date(Math.max(one.readMs - LISTING_LAG_MS, nowMs - FOLLOWED_MS));
    try {
      await prints.readPrints?.([ticker], since, stopping.signal);
      one.readMs = nowMs;
    } catch (error) {
      stopping.signal.throwIfAborted();
      log.warn({ err: error, ticker }, "a market's prints could not be read; they are missing from the tape");
    }
  }

  return {
    async follow(): Promise<void> {
      const nowMs = clock.now();
      for (const [ticker, { untilMs }] of followed) if (untilMs < nowMs) followed.delete(ticker);
      for (const ticker of tickers())
        if (followed.has(ticker) || followed.size < MARKETS_AT_ONCE)
          followed.set(ticker, { readMs: followedMs, ...followed.get(ticker), untilMs: nowMs + FOLLOWED_MS });
      followedMs = nowMs;
      if (stopping.signal.aborted) return;
      const asked = { width: READS_AT_ONCE, signal: stopping.signal };
      await inParallel([...followed.keys()], asked, (ticker) => read(ticker, nowMs)).catch(
        (error: unknown) => {
          if (!stopping.signal.aborted) throw error;
        },
      );
    },
    stop: () => stopping.abort(),
  };
}
