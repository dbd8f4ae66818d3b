import type { Clock } from '../../core/clock.js';

/** What is known of one service. */
export interface Polled<T> {
  /** The last good answer; undefined until there is one. */
  value: T | undefined;
  /** Why the last question failed; undefined if it did not. */
  problem: unknown;
}

const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 15 * 60_000;

/**
 * Asks a service at its own pace, however often it is called: every `everyMs`, and after failures with growing pauses.
 * In between the last answer stands. Never rejects.
 */
export function createPoll<T>(
  clock: Clock,
  everyMs: number,
  ask: (signal: AbortSignal) => Promise<T>,
): (signal: AbortSignal) => Promise<Polled<T>> {
  let last: Polled<T> = { value: undefined, problem: undefined };
  let failures = 0;
  let nextMs = -Infinity;
  return async (signal) => {
    if (clock.now() < nextMs) return last;
    try {
      last = { value: await ask(signal), problem: undefined };
      failures = 0;
      nextMs = clock.now() + everyMs;
    } catch (error) {
      last = { ...last, problem: error };
      nextMs = clock.now() + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures++);
    }
    return last;
  };
}
