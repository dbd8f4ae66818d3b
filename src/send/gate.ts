import { setTimeout } from 'node:timers/promises';

const MAX_PAUSE_MS = 60 * 60 * 1000;

/** What all senders pass before a request: when the service asks one of them to wait, they all wait. */
export interface Gate {
  /** Closes the gate for a time; a longer pause that runs already stays. */
  pause(ms: number): void;
  /** Resolves when the gate is open. Rejects when `signal` aborts. */
  pass(signal: AbortSignal): Promise<void>;
}

export function createGate(): Gate {
  let openAt = 0;
  return {
    pause(ms) {
      openAt = Math.max(openAt, performance.now() + Math.min(ms, MAX_PAUSE_MS));
    },
    async pass(signal) {
      signal.throwIfAborted();
      // A timer may fire a fraction early, and the pause may have grown meanwhile.
      for (let ms = openAt - performance.now(); ms > 0; ms = openAt - performance.now())
        await setTimeout(Math.ceil(ms), undefined, { signal });
    },
  };
}

/** `Retry-After` in ms: seconds or a date (RFC 9110). Undefined where it says nothing usable. */
export function readRetryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null) return undefined;
  if (/^\s*\d+\s*$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
