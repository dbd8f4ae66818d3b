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
  /** The dimensions as JSON, and the first day of the month; undefined without dimensions, except an operator's month. */
  dimensions: string | undefined;
  month: string | undefined;
  /**
   * For a batch with several pairs, the batch's number, negated if the batch is lenient. 0 for a pair that batches may
   * share.
   */
  group: number;
  /** The largest quantity among the pair's events, an exact decimal. */
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
  /** Encoded values; an empty string for an event without dimensions. */
  dimensions: string;
  /** The product's dimensions. */
  keys: readonly string[];
  /** Whether the pair's combination of dimensions is beyond the limit and has no sums of its own. */
  isOther: boolean;
  /** Whether the pair's product has a price. */
  isPriced: boolean;
  /**
   * The product's overdraft, an exact decimal; null without a price, or if the statement did not change the account.
   */
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
  /** One per pair of the batch; undefined if there was nothing to report. */
  verdicts: (PairVerdict | undefined)[];
  /** Indexes of events that turned out to be repeats. */
  repeats: number[];
  /** Repeats that differ from the first event with the same key. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** Exceeded limits whose current window contains an event of the batch. */
  overLimit: OverLimit[];
  /** Products whose credits are overdrawn. Overdrafts are exact decimals. */
  overdrawn: { slug: string; overdraft: string }[];
  aboveCeiling: ReadonlyMap<number, string>;
}

export interface FlushPlan {
  pairs: FlushPair[];
  /** For each batch, the index in `pairs` of each of its pairs. */
  pairNumbers: number[][];
  /** Columns with one value per recordable event. */
  eventPairs: number[];
  keys: string[];
  quantities: string[];
  times: string[];
  subjects: string[];
  hasSubjects: boolean;
  hasDimensions: boolean;
  /** Whether the batches are operators'. Those of keys are in other flushes. */
  isByOperator: boolean;
  sources: Source[];
}
