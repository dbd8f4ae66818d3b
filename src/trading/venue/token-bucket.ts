import type { BucketLimits } from './venue-budget.js';

/** Tokens that come back at a steady rate, up to a capacity; requests wait until theirs are there. */
export interface TokenBucket {
  /** Waits for so many tokens and takes them: urgent callers first, others in the order they came. */
  take(tokens: number, signal: AbortSignal, isUrgent?: boolean): Promise<void>;
  /** The venue refused for lack of tokens: its bucket is emptier than this one. */
  slowDown(): void;
  setLimits(limits: BucketLimits): void;
}

interface Waiter {
  tokens: number;
  go: () => void;
}

/** The least share of its rate that a bucket is slowed down to. */
const LEAST_SHARE = 1 / 8;
/** A slowed bucket doubles its rate after so long without another refusal. */
const RECOVERY_MS = 10_000;
/** Requests that were under way together are refused together: that is one refusal. */
const ONE_REFUSAL_MS = 1_000;

export function createTokenBucket(initial: BucketLimits): TokenBucket {
  let limits = initial;
  let tokens = initial.capacity;
  let countedAt = performance.now();
  let share = 1;
  let changedAt = 0;
  const urgent: Waiter[] = [];
  const ordinary: Waiter[] = [];
  let timer: NodeJS.Timeout | undefined;

  function count(): void {
    const now = performance.now();
    if (share < 1 && now - changedAt >= RECOVERY_MS) {
      share = Math.min(1, share * 2);
      changedAt = now;
    }
    const gained = ((now - countedAt) / 1000) * limits.refillPerSecond * share;
    tokens = Math.min(limits.capacity, tokens + gained);
    countedAt = now;
  }

  function serve(): void {
    timer = undefined;
    count();
    for (;;) {
      const queue = urgent.length > 0 ? urgent : ordinary;
      const [next] = queue;
      if (!next) return;
      // What costs more than there can ever be goes when the bucket is full.
      const missing = Math.min(next.tokens, limits.capacity) - tokens;
      if (missing > 1e-6) {
        const waitMs = (missing / (limits.refillPerSecond * share)) * 1000;
        timer = setTimeout(serve, Math.ceil(waitMs));
        return;
      }
      queue.shift();
      tokens -= next.tokens;
      next.go();
    }
  }

  function serveAnew(): void {
    clearTimeout(timer);
    serve();
  }

  return {
    take(wanted, signal, isUrgent = false) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason as Error);
        const queue = isUrgent ? urgent : ordinary;
        const giveUp = () => {
          queue.splice(queue.indexOf(waiter), 1);
          reject(signal.reason as Error);
          serveAnew();
        };
        const waiter = {
          tokens: wanted,
          go: () => {
            signal.removeEventListener('abort', giveUp);
            resolve();
          },
        };
        signal.addEventListener('abort', giveUp, { once: true });
        queue.push(waiter);
        if (isUrgent || timer === undefined) serveAnew();
      });
    },
    slowDown() {
      count();
      tokens = Math.min(tokens, 0);
      const now = performance.now();
      if (share < 1 && now - changedAt < ONE_REFUSAL_MS) return;
      share = Math.max(LEAST_SHARE, share / 2);
      changedAt = now;
    },
    setLimits(given) {
      count();
      limits = given;
      tokens = Math.min(tokens, limits.capacity);
      serveAnew();
    },
  };
}
