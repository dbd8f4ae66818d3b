import type { LimitState } from '../entitlements/limits.js';
import type { LimitedPair } from './headroom.js';

export interface PairVerdict {
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  isLive: boolean;
  usageMetric: string | null;
  maxQuantity: string | null;
  /** Set if the entitlement has limits and the pair's events are recorded. */
  limited: Pick<LimitedPair, 'declared' | 'total'> | undefined;
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

/** With exact decimals and the first day of the month. */
export type OverCap = Record<'slug' | 'metric' | 'unitCap' | 'used' | 'period', string>;

export interface BatchOutcome {
  /** One per pair; undefined if there was nothing to report. */
  verdicts: (PairVerdict | undefined)[];
  repeats: number[];
  /** Differ from the first event with the same key. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** The limit's current window contains an event of the batch. */
  overLimit: { slug: string; metric: string; state: LimitState }[];
  overdrawn: { slug: string; overdraft: string }[];
  aboveCeiling: ReadonlyMap<number, string>;
}
