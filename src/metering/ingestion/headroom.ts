import { createRecentMap } from '../../core/collections.js';
import type { Names, Run } from '../../core/db/client.js';
import { addDecimals, compareDecimals, subtractDecimals } from '../../core/decimal.js';
import { MINUTE_MS, monthOf } from '../../core/time.js';
import { readLimits, type Subject } from '../entitlements/limit-queries.js';
import { startOfWindow, type LimitState } from '../entitlements/limits.js';
import type { UsageLimit } from '../entitlements/table.js';

export interface LimitedPair extends Subject {
  /** JSON. */
  declared: string;
  /**
   * This month, the two before and the one after, plus everything that corrections have subtracted: never decreases,
   * and covers every window and every event recorded or corrected in one.
   */
  total: string;
}

/** Usage of a subject with limits; the function receives its exceeded limits. */
export interface LimitedUse {
  limited: LimitedPair;
  atMs: number;
  report: (state: LimitState) => void;
}

/** For a row with org_id, product_id, livemode and metric, in a query with a `raised` CTE. */
export const totalAround = (t: Names, subject: string, now: string): string => `(
    select trim_scale(coalesce(sum(quantity), 0))::text from (
      select quantity + lowered as quantity from raised
      where org_id = ${subject}.org_id and product_id = ${subject}.product_id and livemode = ${subject}.livemode and metric = ${subject}.metric
      union all
      select before.quantity from (values (-2), (-1), (0), (1)) as month (n)
      cross join lateral (
        select period, quantity + lowered as quantity from ${t('usage_totals')}
        where org_id = ${subject}.org_id and livemode = ${subject}.livemode and product_id = ${subject}.product_id
          and metric = ${subject}.metric
          and period = (date_trunc('month', ${now} at time zone 'UTC') + make_interval(months => month.n))::date
        limit 1
      ) before
      where not exists (
        select from raised r
        where r.org_id = ${subject}.org_id and r.product_id = ${subject}.product_id and r.livemode = ${subject}.livemode
          and r.metric = ${subject}.metric and r.period = before.period
      )
    ) part)`;

interface Known {
  declared: string;
  month: string;
  atMs: number;
  /** No limit is exceeded until the total rises above it. */
  upTo: string;
}

export type Headroom = ReturnType<typeof createHeadroom>;

const MAX_KNOWN = 10_000;
/** A total decreases only when a repair corrects it; the cache notices after this time. */
const KEPT_MS = MINUTE_MS;

/**
 * Reading windows costs as much as recording an event, so this caches the room left at the last reading: only events
 * and corrections raise a window's usage, and the total must grow by that much, through any instance, before a limit
 * can be exceeded. Reductions are added back to the total; otherwise they would hide an equal amount of later usage.
 * The growth of a product's total also bounds that of each subject.
 */
export function createHeadroom() {
  const known = createRecentMap<string, Known>(MAX_KNOWN);

  function mayBeExceeded(subject: LimitedPair, nowMs: number): boolean {
    const before = known.get(subjectKey(subject));
    return !(
      before !== undefined &&
      before.declared === subject.declared &&
      before.month === monthOf(nowMs) &&
      nowMs >= before.atMs &&
      nowMs < before.atMs + KEPT_MS &&
      compareDecimals(subject.total, before.upTo) <= 0
    );
  }

  function keep(subject: LimitedPair, states: LimitState[], nowMs: number): void {
    const name = subjectKey(subject);
    known.delete(name);
    const taken = states.map((state) => ({ ...state, taken: addDecimals(state.used, state.ahead) }));
    if (taken.some((state) => compareDecimals(state.taken, state.quantity) > 0)) return;
    const [least] = taken
      .map((state) => subtractDecimals(state.quantity, state.taken))
      .toSorted(compareDecimals);
    if (least === undefined) return;
    const upTo = addDecimals(subject.total, least);
    known.set(name, { declared: subject.declared, month: monthOf(nowMs), atMs: nowMs, upTo });
  }

  return {
    /** Reads only limits that may be exceeded. */
    async reportExceeded(run: Run, uses: readonly LimitedUse[], nowMs: number): Promise<void> {
      const bySubject = new Map<string, { limited: LimitedPair; uses: LimitedUse[] }>();
      for (const use of uses) {
        const name = subjectKey(use.limited);
        const known = bySubject.get(name);
        if (known) {
          known.uses.push(use);
          // The largest total is from the most recent reading.
          if (compareDecimals(use.limited.total, known.limited.total) > 0) known.limited = use.limited;
        } else bySubject.set(name, { limited: use.limited, uses: [use] });
      }
      const exceedable = [...bySubject.values()].filter(({ limited }) => mayBeExceeded(limited, nowMs));
      if (exceedable.length === 0) return;
      const subjects = exceedable.map(({ limited }) => limited);
      for (const [i, states] of (await readLimits(run, subjects, nowMs)).entries()) {
        keep(subjects[i]!, states, nowMs);
        for (const state of states) {
          if (compareDecimals(state.used, state.quantity) <= 0) continue;
          const startMs = startOfWindow(state.window, nowMs);
          for (const { atMs, report } of exceedable[i]!.uses) if (atMs >= startMs) report(state);
        }
      }
    },
  };
}

const subjectKey = ({ orgId, productId, livemode, metric, subject }: Subject): string =>
  `${orgId} ${productId} ${livemode} ${metric}${subject === undefined ? '' : `\n${subject}`}`;

/** A limit applies to the whole Organization or to each subject. */
export function limitKinds(declared: string): { isWhole: boolean; isPerSubject: boolean } {
  const limits = JSON.parse(declared) as UsageLimit[];
  return {
    isWhole: limits.some(({ per }) => per === undefined),
    isPerSubject: limits.some(({ per }) => per !== undefined),
  };
}
