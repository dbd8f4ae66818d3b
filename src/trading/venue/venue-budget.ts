import { createTokenBucket, type TokenBucket } from './token-bucket.js';

export interface BucketLimits {
  refillPerSecond: number;
  capacity: number;
}

export interface VenueLimits {
  read: BucketLimits;
  write: BucketLimits;
  /** Of an address that is not named in `costs`. */
  defaultCost: number;
  /** Addresses that cost more or less; `path` without the API's prefix, with `{…}` for a part that varies. */
  costs: readonly { method: string; path: string; cost: number }[];
}

/** The venue's smallest tier ("rate limits", October 2026): what a caller without a key has, too. */
export const basicLimits: VenueLimits = {
  read: { refillPerSecond: 200, capacity: 600 },
  write: { refillPerSecond: 100, capacity: 100 },
  defaultCost: 10,
  costs: [],
};

/** What is used of the limits: clocks differ, and other programs of the operator may use the same key. */
const SHARE = 0.9;

/** The tokens that everything which asks the venue with one key has together. */
export interface VenueBudget {
  /** Waits for the tokens of a request. Urgent ones, those of orders and of the account, are served first. */
  take(method: string, path: string, signal: AbortSignal, isUrgent?: boolean): Promise<void>;
  /** The venue answered 429, which comes without a time to wait: less is asked for a while. */
  refused(method: string): void;
  setLimits(limits: VenueLimits): void;
}

export function createVenueBudget(initial: VenueLimits = basicLimits): VenueBudget {
  const read = createTokenBucket(sharedPart(initial.read));
  const write = createTokenBucket(sharedPart(initial.write));
  let costOf = createCosts(initial);
  const bucketOf = (method: string): TokenBucket => (method === 'GET' ? read : write);
  return {
    take: (method, path, signal, isUrgent) => bucketOf(method).take(costOf(method, path), signal, isUrgent),
    refused: (method) => bucketOf(method).slowDown(),
    setLimits(limits) {
      read.setLimits(sharedPart(limits.read));
      write.setLimits(sharedPart(limits.write));
      costOf = createCosts(limits);
    },
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
