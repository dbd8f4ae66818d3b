import { compareDecimals, subtractDecimals } from '../core/decimal.js';
import { toAddress } from '../core/pages/address.js';
import { formatShare } from '../core/pages/format.js';
import { monthRange } from '../usage/answer.js';
import type { GrantRow } from './page-queries.js';

/** In effect or not, and how: what an entitlement is at a moment. */
type GrantState = 'live' | 'read_only' | 'upcoming' | 'ended';

/** A month's balance in one mode. */
interface ModeBalance {
  used: string;
  /** Undefined where there is no cap. */
  remaining: string | undefined;
  excess: string | undefined;
  isOver: boolean;
  /** For the meter alone. */
  share: number | undefined;
  percent: string | undefined;
}

/** Entitlements as their page shows them. `period` is the first day of the month that the balances belong to. */
export function toGrantsView(grants: GrantRow[], period: string, now: Date) {
  const { start, end } = monthRange(period);
  return {
    periodStart: new Date(start),
    periodEnd: new Date(end),
    grants: grants.map((grant) => ({
      ...grant,
      startsAt: new Date(grant.startsAt),
      endsAt: grant.endsAt === null ? null : new Date(grant.endsAt),
      state: stateOf(grant, now),
      live: toModeBalance(grant.liveUsed, grant.unitCap),
      test: toModeBalance(grant.testUsed, grant.unitCap),
      usageHref: toAddress('/dashboard/usage', { product: grant.productSlug }),
    })),
  };
}

function stateOf({ kind, startsAt, endsAt }: GrantRow, now: Date): GrantState {
  if (endsAt !== null && new Date(endsAt) <= now) return 'ended';
  return new Date(startsAt) > now ? 'upcoming' : kind;
}

function toModeBalance(used: string, unitCap: string | null): ModeBalance {
  if (unitCap === null)
    return {
      used,
      remaining: undefined,
      excess: undefined,
      isOver: false,
      share: undefined,
      percent: undefined,
    };
  const isOver = compareDecimals(used, unitCap) > 0;
  const cap = Number(unitCap);
  return {
    used,
    remaining: subtractDecimals(unitCap, used),
    excess: subtractDecimals(used, unitCap),
    isOver,
    share: cap > 0 ? Number(used) / cap : Number(isOver),
    percent: formatShare(used, unitCap),
  };
}
