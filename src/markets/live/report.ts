import type { z } from 'zod';
import { AppError } from '../../core/errors.js';
import { MINUTE_MS } from '../../core/time.js';
import { formatDollars, type Micros } from '../market/money.js';
import type { AccountComparison } from './reconcile.js';
import type { differenceSchema } from './schema.js';
import type { ShardBalance } from './venue.js';

export const reportJson = ({ foreign, otherShards, ...report }: LiveReport) => ({
  ...report,
  otherShards: otherShards.map(({ exchangeIndex, balance }) => ({
    exchangeIndex,
    balance: formatDollars(balance),
  })),
  foreign: {
    ...foreign,
    fills: foreign.fills.map((fill) => ({ ...fill, yesPrice: formatDollars(fill.yesPrice) })),
  },
});

/** An Organization that does not trade live. */
export const offJson = (organization: string) => ({
  organization,
  state: 'off' as const,
  reason: null,
  comparedAt: null,
  agreedAt: null,
  differences: [],
  pendingOrders: 0,
  restingOrders: 0,
  settling: [],
  otherShards: [],
  foreign: { orders: [], fills: [], positions: [] },
});

/** Something on which the venue and this service do not agree. Texts, because it may be a count, money or a state. */
export type LiveDifference = z.infer<typeof differenceSchema>;

/** An order at the venue that this service did not place. */
interface ForeignOrder {
  venueOrderId: string;
  clientOrderId: string;
  ticker: string;
  status: 'resting' | 'canceled' | 'executed';
  filled: string;
  initial: string;
  createdAt: Date | null;
}

interface ForeignFill {
  venueFillId: string;
  venueOrderId: string;
  ticker: string;
  contracts: string;
  /** Of YES. */
  yesPrice: Micros;
  filledAt: Date | null;
}

/** Contracts at the venue beyond ours: positive for YES, negative for NO. */
export interface ForeignPosition {
  ticker: string;
  contracts: string;
}

export interface LiveReport {
  /** Slug of the Organization that trades live. */
  organization: string;
  state: 'open' | 'closed';
  /** Why trading is closed; null while it is open. */
  reason: string | null;
  /** Of the last complete comparison, and of the last one without a difference. */
  comparedAt: Date | null;
  agreedAt: Date | null;
  differences: readonly LiveDifference[];
  /** Orders whose outcome is not known yet. */
  pendingOrders: number;
  /** Orders that stand in the venue's book. */
  restingOrders: number;
  /** Markets that one of both has settled already, and the other has not yet. */
  settling: readonly string[];
  /** The account's money on other exchange shards: it is not in its cash, and cannot be spent here. */
  otherShards: readonly ShardBalance[];
  /** What others do with the same account: shown, never adopted. At most 100 of each, newest first. */
  foreign: {
    orders: readonly ForeignOrder[];
    fills: readonly ForeignFill[];
    positions: readonly ForeignPosition[];
  };
}

/** An agreement is believed for this long: three comparisons may fail. */
const MAX_AGREEMENT_AGE_MS = 3.5 * MINUTE_MS;
const RETRY_SECONDS = 60;

export type LiveStatus = ReturnType<typeof createLiveStatus>;

const NOT_YET = "orders, fills, positions and cash have not been compared with the venue's yet";
const SHOWN = 100;

/** What this instance knows about the account, and whether orders may be sent. Closed until both sides were seen to agree. */
export function createLiveStatus(organization: string, now: () => number) {
  let comparison: AccountComparison | undefined;
  let comparedAt: Date | null = null;
  let agreedAt: Date | null = null;
  let failure: { reason: string; isUnexpected: boolean } | undefined;
  let problem: string | null = null;
  let open = { pendingOrders: 0, restingOrders: 0 };

  function findReason(): string | null {
    if (problem !== null) return problem;
    if (failure?.isUnexpected) return failure.reason;
    const [first, ...more] = comparison?.differences ?? [];
    if (first) {
      const others = more.length === 0 ? '' : ` (and ${more.length} more)`;
      return `${first.kind} ${first.subject}: ${first.ours} here, ${first.venues} at the venue${others}`;
    }
    if (agreedAt === null) return failure?.reason ?? NOT_YET;
    if (now() - agreedAt.getTime() <= MAX_AGREEMENT_AGE_MS) return null;
    return failure?.reason ?? 'orders whose outcome is not known have kept the accounts from being compared';
  }

  return {
    /** @throws AppError unavailable, with the reason */
    assertOpen(): void {
      const reason = findReason();
      if (reason === null) return;
      const detail = `Live trading is closed: ${reason}.`;
      throw new AppError('unavailable', detail, { retryAfterSeconds: RETRY_SECONDS });
    },
    get report(): LiveReport {
      const reason = findReason();
      return {
        organization,
        state: reason === null ? 'open' : 'closed',
        reason,
        comparedAt,
        agreedAt,
        differences: (comparison?.differences ?? []).slice(0, SHOWN),
        ...open,
        settling: (comparison?.settling ?? []).slice(0, SHOWN),
        otherShards: comparison?.otherShards ?? [],
        foreign: comparison?.foreign ?? { orders: [], fills: [], positions: [] },
      };
    },
    get problem() {
      return problem;
    },
    compared(next: AccountComparison, at: Date): void {
      comparison = next;
      comparedAt = at;
      failure = undefined;
      if (next.differences.length === 0) agreedAt = at;
    },
    /** They could not be compared. `isUnexpected`: the venue said something that is not understood. */
    failed(reason: string, isUnexpected: boolean): void {
      failure = { reason, isUnexpected };
    },
    /** What the venue said that is not understood; null once that is accepted. */
    setProblem(next: string | null): void {
      problem = next;
    },
    setOpen(orders: Pick<LiveReport, 'pendingOrders' | 'restingOrders'>): void {
      open = orders;
    },
  };
}
