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
  /** The dimensions as JSON. This and the month are undefined without dimensions. */
  dimensions: string | undefined;
  month: string | undefined;
  /** The batch number for a batch with several pairs, negative if the batch is lenient; 0 for a pair shared by batches. */
  group: number;
  /** The largest quantity among its events, an exact decimal. */
  largest: string;
}

export interface PairVerdict {
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  isLive: boolean;
  usageMetric: string | null;
  maxQuantity: string | null;
  /** Set if the entitlement has limits and events are recorded for it. */
  limited: Pick<Limited, 'declared' | 'total'> | undefined;
  /** Encoded; '' for none. */
  dimensions: string;
  /** The product's dimensions. */
  keys: readonly string[];
  /** Whether its dimensions are beyond the bound of combinations. */
  isOther: boolean;
  /** Whether its product has a price. */
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
  /** Per pair of the batch; undefined if there was nothing to report. */
  verdicts: (PairVerdict | undefined)[];
  /** Indexes of submitted events that turned out to be repeats. */
  repeats: number[];
  /** Repeats that differ from the first event with their key. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** Exceeded limits whose current window contains an event of the batch. */
  overLimit: OverLimit[];
  /** The products whose credits are overdrawn. Exact decimals. */
  overdrawn: { slug: string; overdraft: string }[];
  aboveCeiling: ReadonlyMap<number, string>;
}

export interface FlushPlan {
  pairs: FlushPair[];
  /** Per batch and pair of the batch: the index in `pairs`. */
  pairNumbers: number[][];
  /** Per recordable event. */
  eventPairs: number[];
  keys: string[];
  quantities: string[];
  times: string[];
  subjects: string[];
  hasSubjects: boolean;
  hasDimensions: boolean;
  sources: Source[];
}
