import { AppError } from '../../core/errors.js';
import type { WorkContext } from '../../core/http/context.js';
import { MINUTE_MS } from '../../core/time.js';
import { formatDollars } from '../market/money.js';
import type { AccountComparison } from './compare.js';

export const reportJson = ({ foreign, otherShards, ...report }: LiveReport) => ({
  ...report,
  otherShards: otherShards.map((shard) => ({ ...shard, balance: formatDollars(shard.balance) })),
  foreign: {
    ...foreign,
    fills: foreign.fills.map((fill) => ({ ...fill, yesPrice: formatDollars(fill.yesPrice) })),
  },
});

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

/** Three comparisons may fail before an agreement expires. */
const MAX_AGREEMENT_AGE_MS = 3.5 * MINUTE_MS;
const RETRY_SECONDS = 60;

export type LiveStatus = ReturnType<typeof createLiveStatus>;
export type LiveReport = LiveStatus['report'];

const NOT_YET = "orders, fills, positions and cash have not been compared with the venue's yet";
const SHOWN = 100;

/** Closed until a comparison finds both sides in agreement. */
export function createLiveStatus(
  organization: string,
  { clock, lifecycle }: Pick<WorkContext, 'clock' | 'lifecycle'>,
) {
  let comparison: AccountComparison | undefined;
  let comparedAt: Date | null = null;
  let agreedAt: Date | null = null;
  let failure: { reason: string; isUnexpected: boolean } | undefined;
  let problem: string | null = null;
  let open = { pendingOrders: 0, restingOrders: 0 };

  function findReason(): string | null {
    if (lifecycle.refusal) return 'the version or the clock of this instance is wrong';
    if (problem !== null) return problem;
    if (failure?.isUnexpected) return failure.reason;
    const [first, ...more] = comparison?.differences ?? [];
    if (first) {
      const others = more.length === 0 ? '' : ` (and ${more.length} more)`;
      const what = first.kind === 'cash' ? 'cash' : `${first.kind} ${first.subject}`;
      return `${what}: ${first.ours} here, ${first.venues} at the venue${others}`;
    }
    if (agreedAt === null) return failure?.reason ?? NOT_YET;
    if (clock.now() - agreedAt.getTime() <= MAX_AGREEMENT_AGE_MS) return null;
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
    get report() {
      const reason = findReason();
      return {
        organization,
        state: reason === null ? ('open' as const) : ('closed' as const),
        reason,
        comparedAt,
        agreedAt,
        differences: (comparison?.differences ?? []).slice(0, SHOWN),
        ...open,
        /** Only one side has settled these so far. */
        settling: (comparison?.settling ?? []).slice(0, SHOWN),
        /** Not included in the cash and not spendable here. */
        otherShards: comparison?.otherShards ?? [],
        /** Others' activity on the same account, never adopted. At most 100 entries each, newest first. */
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
    /** `isUnexpected`: the venue's answer could not be understood. */
    failed(reason: string, isUnexpected: boolean): void {
      failure = { reason, isUnexpected };
    },
    /** Null once a person has accepted the problem. */
    setProblem(next: string | null): void {
      problem = next;
    },
    setOpen(orders: typeof open): void {
      open = orders;
    },
  };
}
