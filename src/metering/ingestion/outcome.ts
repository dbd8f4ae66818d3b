import type { LimitState } from '../entitlements/limits.js';
import type { Limited } from './headroom.js';

interface Source {
  batch: number;
  event: number;
}

export interface FlushPair {
  hashedSecret: string;
  slug: string;
  metric: string;
  /** JSON. Both are undefined without dimensions. */
  dimensions: string | undefined;
  month: string | undefined;
  /** The batch's number if it has several pairs, negated if it is lenient. 0 for a pair that batches may share. */
  group: number;
  /** Among the pair's events. */
  largest: string;
}

export interface PairVerdict {
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  isLive: boolean;
  usageMetric: string | null;
  maxQuantity: string | null;
  /** Set if the entitlement has limits and the pair's events are recorded. */
  limited: Pick<Limited, 'declared' | 'total'> | undefined;
  /** Encoded; empty without dimensions. */
  dimensions: string;
  /** The product's dimensions. */
  keys: readonly string[];
  /** The combination of dimensions is beyond the limit and has no sums of its own. */
  isOther: boolean;
  isPriced: boolean;
  /** Null without a price, or if the statement did not change the account. */
  overdraft: string | null;
}

export interface OverCap {
  slug: string;
  metric: string;
  /** Exact decimals. */
  unitCap: string;
  used: string;
  /** First day of the month. */
  period: string;
}

export interface OverLimit {
  slug: string;
  metric: string;
  state: LimitState;
}

export interface BatchOutcome {
  /** One per pair; undefined if there was nothing to report. */
  verdicts: (PairVerdict | undefined)[];
  repeats: number[];
  /** Differ from the first event with the same key. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** The limit's current window contains an event of the batch. */
  overLimit: OverLimit[];
  overdrawn: { slug: string; overdraft: string }[];
  aboveCeiling: ReadonlyMap<number, string>;
}

export interface FlushPlan {
  pairs: FlushPair[];
  /** For each batch, indexes in `pairs`. */
  pairNumbers: number[][];
  /** One value per recordable event. */
  eventPairs: number[];
  keys: string[];
  quantities: string[];
  times: string[];
  subjects: string[];
  hasSubjects: boolean;
  hasDimensions: boolean;
  sources: Source[];
}
