import { groupBy } from '../../core/collections.js';
import { MINUTE_MS, SECOND_MS } from '../../core/time.js';

/** The venue publishes a minute's readings 2 min 15 s to 2 min 40 s after it. */
const LATEST_MS = 162 * SECOND_MS;
/** Minutes learned from. The last of them may have been an exception. */
const REMEMBERED = 15;
/** From the receipt of a batch to the answers that contain it. */
const FIRST_MARGIN_MS = 2 * SECOND_MS;
const LONGEST_MARGIN_MS = 30 * SECOND_MS;
/** Each minute, of what was added: a second within an hour. */
const FORGOTTEN_MS = SECOND_MS / 60;
/** Later receipts belong to other minutes. */
const LONGEST_DELAY_MS = 5 * MINUTE_MS;
/** Between two requests, so that a late one does not skip a minute and the first one has no close successor. */
const LEAST_PAUSE_MS = 30 * SECOND_MS;

export interface Receipt {
  minuteMs: number;
  receivedMs: number;
}

/** Learns how long after a minute its readings appear, so that one request a minute finds them soon. */
export function createPublication() {
  const delays = new Map<number, number>();
  let marginMs = FIRST_MARGIN_MS;
  const delayMs = (): number => {
    const longestFirst = [...delays.values()].sort((a, b) => b - a);
    const usual = longestFirst[1] ?? longestFirst[0];
    return usual === undefined ? LATEST_MS : usual + marginMs;
  };

  return {
    /** A minute that was not there yet, although it should have been, makes later requests wait longer. */
    learn(receipts: readonly Receipt[], nowMs: number): void {
      const newest = Math.max(...receipts.map(({ minuteMs }) => minuteMs));
      const missing = Math.floor((nowMs - delayMs() - newest) / MINUTE_MS);
      // With more minutes missing, the feed has stopped.
      if (delays.size > 0 && missing === 1) marginMs = Math.min(LONGEST_MARGIN_MS, marginMs + SECOND_MS);
      if (missing === 0) marginMs = Math.max(FIRST_MARGIN_MS, marginMs - FORGOTTEN_MS);
      for (const [minuteMs, all] of groupBy(receipts, (each) => each.minuteMs)) {
        const received = all.map(({ receivedMs }) => receivedMs).sort((a, b) => a - b);
        const delay = received[received.length >> 1]! - minuteMs;
        if (delay >= 0 && delay <= LONGEST_DELAY_MS) delays.set(minuteMs, delay);
      }
      const oldestFirst = [...delays.keys()].sort((a, b) => a - b);
      for (const minuteMs of oldestFirst.slice(0, -REMEMBERED)) delays.delete(minuteMs);
    },
    /** When the next minute's readings should be there. */
    nextAfter(nowMs: number): number {
      const intoMinute = delayMs() % MINUTE_MS;
      return Math.ceil((nowMs + LEAST_PAUSE_MS - intoMinute) / MINUTE_MS) * MINUTE_MS + intoMinute;
    },
  };
}
