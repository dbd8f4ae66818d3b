import { MINUTE_MS } from '../../core/time.js';

interface Waiter {
  tokens: number;
  go: () => void;
}

/** Minimum rate of a slowed bucket, as a share of its normal rate. */
const LEAST_SHARE = 1 / 8;
/** A slowed bucket doubles its rate after this long without a refusal. */
const RECOVERY_MS = 10_000;
/** Refusals within this time count as one, because requests in flight at the same time are refused together. */
const ONE_REFUSAL_MS = 1_000;

/** Resolves when it is the caller's turn; an abort removes the caller from the queue and rejects. */
function waitIn(
  queue: Waiter[],
  { tokens, signal, onGiveUp }: { tokens: number; signal: AbortSignal; onGiveUp: () => void },
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const giveUp = () => {
      queue.splice(queue.indexOf(waiter), 1);
      reject(signal.reason as Error);
      onGiveUp();
    };
    const waiter = {
      tokens,
      go: () => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      },
    };
    signal.addEventListener('abort', giveUp, { once: true });
    queue.push(waiter);
  });
}

function createTokenBucket(initial: BucketLimits) {
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
      // A request that needs more than the capacity is sent when the bucket is full.
      const missing = Math.min(next.tokens, limits.capacity) - tokens;
      if (missing > 1e-6) {
        const waitMs = (missing / (limits.refillPerSecond * share)) * 1000;
        // A timer of more than 24 days would fire at once.
        timer = setTimeout(serve, Math.ceil(Math.min(waitMs, MINUTE_MS)));
        return;
      }
      queue.shift();
      tokens -= next.tokens;
      next.go();
    }
  }

  function serveNow(): void {
    clearTimeout(timer);
    serve();
  }

  return {
    /** Waits for tokens and takes them: urgent callers first, then in order of arrival. */
    take(wanted: number, signal: AbortSignal, isUrgent = false): Promise<void> {
      const taken = waitIn(isUrgent ? urgent : ordinary, { tokens: wanted, signal, onGiveUp: serveNow });
      if (isUrgent || timer === undefined) serveNow();
      return taken;
    },
    /** Called when the venue refused a request, because the venue's bucket then has fewer tokens than this one. */
    slowDown(): void {
      count();
      tokens = Math.min(tokens, 0);
      const now = performance.now();
      if (share < 1 && now - changedAt < ONE_REFUSAL_MS) return;
      share = Math.max(LEAST_SHARE, share / 2);
      changedAt = now;
    },
    setLimits(given: BucketLimits): void {
      count();
      limits = given;
      tokens = Math.min(tokens, limits.capacity);
      serveNow();
    },
  };
}

interface BucketLimits {
  refillPerSecond: number;
  capacity: number;
}

interface VenueLimits {
  read: BucketLimits;
  write: BucketLimits;
  defaultCost: number;
  /** Endpoints whose cost differs from the default; `path` excludes the API prefix and has `{…}` for variable parts. */
  costs: readonly { method: string; path: string; cost: number }[];
}

/** The venue's lowest tier ("rate limits", October 2026), which also applies without a key. */
export const basicLimits: VenueLimits = {
  read: { refillPerSecond: 200, capacity: 600 },
  write: { refillPerSecond: 100, capacity: 100 },
  defaultCost: 10,
  costs: [],
};

/** Share of the limits to use, because clocks differ and the operator's other programs may use the same key. */
const SHARE = 0.9;

/** The venue may lower an account's limits at any time, so limits that are not read again expire. */
const LIMITS_LAST_MS = 5 * MINUTE_MS;

export type VenueBudget = ReturnType<typeof createVenueBudget>;

/** @param initial apply until the account's limits are read, and again once those have expired */
export function createVenueBudget(initial: VenueLimits = basicLimits) {
  const read = createTokenBucket(sharedPart(initial.read));
  const write = createTokenBucket(sharedPart(initial.write));
  let costOf = createCosts(initial);
  let expiresAt = Infinity;
  const bucketOf = (method: string) => (method === 'GET' ? read : write);
  function apply(limits: VenueLimits, untilMs: number): void {
    expiresAt = untilMs;
    read.setLimits(sharedPart(limits.read));
    write.setLimits(sharedPart(limits.write));
    costOf = createCosts(limits);
  }
  return {
    /** Waits for a request's tokens. Urgent requests (orders, account) are served first. */
    take(method: string, path: string, signal: AbortSignal, isUrgent?: boolean): Promise<void> {
      if (performance.now() >= expiresAt) apply(initial, Infinity);
      return bucketOf(method).take(costOf(method, path), signal, isUrgent);
    },
    /** Slows down after a 429, because the response does not say how long to wait. */
    refused: (method: string): void => bucketOf(method).slowDown(),
    setLimits: (limits: VenueLimits): void => apply(limits, performance.now() + LIMITS_LAST_MS),
  };
}

const sharedPart = ({ refillPerSecond, capacity }: BucketLimits): BucketLimits => ({
  refillPerSecond: refillPerSecond * SHARE,
  capacity: capacity * SHARE,
});

function createCosts({ costs, defaultCost }: VenueLimits): (method: string, path: string) => number {
  const templates = costs.map(({ method, path, cost }) => ({
    method,
    pattern: new RegExp(
      `^${path
        .replace(/^\/trade-api\/v2/, '')
        .split(/\{[^}]*\}|:[a-z_]+/i)
        .map((text) => text.replace(/[^\w/-]/g, '\\$&'))
        .join('[^/]+')}$`,
    ),
    cost,
  }));
  return (method, path) =>
    templates.find((one) => one.method === method && one.pattern.test(path))?.cost ?? defaultCost;
}
