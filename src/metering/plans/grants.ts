import { AppError } from '../../core/errors.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Tx } from '../../core/db/client.js';
import type { Metrics } from '../../core/metrics.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { forfeitGrants, putGrant } from '../credit-grants/grants.js';
import { periodAt, startOfPeriod } from './periods.js';
import { listKnownKeys, listPlanNames, listVoidable, type OrganizationPlan } from './queries.js';
import type { Definition, PlanGrant } from './schema.js';

/** Grants are made this long before their period, so an instance may be down for that long. */
export const LEAD_MS = 2 * DAY_MS;

const keyOf = ({ key }: PlanGrant, start: Date): string => `plan:${key}:${start.toISOString()}`;

type Counted = Pick<OrganizationPlan, 'plan' | 'startsAt' | 'anchor' | 'trialEndsAt'>;

type Granting = Pick<Definition, 'grants' | 'trial'>;

export const grantsOf = ({ grants, trial }: Granting, { trialEndsAt }: Pick<Counted, 'trialEndsAt'>) =>
  (trialEndsAt && trial?.grants) || grants;

/** Periods of each grant. */
const REFILLS = 12;

/** The next grants that have not been made, until the first of them is unknown. */
export function listRefills({
  definition,
  anchor,
  trialEndsAt,
  grantedUntil,
}: Pick<OrganizationPlan, 'anchor' | 'trialEndsAt' | 'grantedUntil'> & { definition: Granting }) {
  const refills = grantsOf(definition, { trialEndsAt }).flatMap((grant) => {
    const first = periodAt(grant.every, anchor, grantedUntil) + 1;
    return Array.from({ length: REFILLS }, (_, i) => ({
      ...grant,
      start: startOfPeriod(grant.every, anchor, first + i),
      end: startOfPeriod(grant.every, anchor, first + i + 1),
    }));
  });
  const lastEnds = refills.filter((_, i) => (i + 1) % REFILLS === 0).map(({ end }) => end.getTime());
  return {
    untilMs: Math.min(...lastEnds),
    grants: refills
      .filter(({ start }) => !trialEndsAt || start < trialEndsAt)
      .map(({ amount, productSlugs, expires, start, end }) => ({
        status: 'scheduled' as const,
        remaining: amount,
        startsAt: start.toISOString(),
        expiresAt: expires === null ? null : end.toISOString(),
        rolloverDays: null,
        productSlugs: productSlugs ?? null,
      })),
  };
}

/** A period that begins after a trial is granted only once the trial is confirmed. */
const lastStart = ({ trialEndsAt }: Counted, until: Date): Date =>
  trialEndsAt && trialEndsAt <= until ? new Date(trialEndsAt.getTime() - 1) : until;

export interface Made {
  /** Until when all have been made. */
  grantedUntil: Date;
  amounts: string[];
  isFull: boolean;
}

/**
 * Makes the grants of all periods from the one that contains `from` to those that begin within `LEAD_MS`, each once.
 * @param mayStop a full account stops the grants instead of refusing the change
 */
export async function makeGrants(
  tx: Tx,
  orgId: string,
  row: Counted,
  grants: readonly PlanGrant[],
  from: Date,
  source: Source,
  mayStop: boolean,
): Promise<Made> {
  const { anchor } = row;
  const until = lastStart(row, new Date(Math.max(source.at.getTime(), row.startsAt.getTime()) + LEAD_MS));
  const due = grants
    .flatMap((grant) => {
      const periods = [];
      for (let n = periodAt(grant.every, anchor, from); ; n++) {
        const start = startOfPeriod(grant.every, anchor, n);
        if (start > until) return periods;
        periods.push({ grant, n, start, key: keyOf(grant, start) });
      }
    })
    .toSorted((a, b) => a.start.getTime() - b.start.getTime());
  if (due.length === 0) return { grantedUntil: until, amounts: [], isFull: false };
  const keys = due.map(({ key }) => key);
  const known = await listKnownKeys(tx, orgId, keys);
  const [plan] = await listPlanNames(tx, [row.plan]);
  const amounts: string[] = [];
  for (const { grant, n, start, key } of due) {
    if (known.has(key)) continue;
    try {
      await grantPeriod(tx, orgId, { ...row, name: plan!.name }, grant, n, source);
      amounts.push(grant.amount);
    } catch (error) {
      // Nothing of this grant has been written yet.
      if (!mayStop || !(error instanceof AppError) || error.code !== 'too_many_grants') throw error;
      return { grantedUntil: new Date(Math.max(start.getTime() - 1, from.getTime())), amounts, isFull: true };
    }
  }
  return { grantedUntil: until, amounts, isFull: false };
}

/**
 * @param name of the plan
 * @param n the number of the period, counted from the anchor
 */
export async function grantPeriod(
  tx: Tx,
  orgId: string,
  { plan, name, anchor, startsAt }: Pick<Counted, 'plan' | 'anchor' | 'startsAt'> & { name: string },
  grant: PlanGrant,
  n: number,
  source: Source,
  author?: Source,
): Promise<void> {
  const { amount, priority, productSlugs, rollover, expires } = grant;
  const start = startOfPeriod(grant.every, anchor, n);
  const input = {
    amount,
    priority,
    productSlugs,
    rollover,
    startsAt: new Date(Math.max(start.getTime(), startsAt.getTime())).toISOString(),
    expiresAt: expires === null ? null : startOfPeriod(grant.every, anchor, n + 1).toISOString(),
    reason: `${name} plan: ${grant.key}`,
    plan,
  };
  await putGrant(tx, { orgId, livemode: true }, keyOf(grant, start), input, source, author);
}

/** The keys of the running periods. */
export const listRunningKeys = (grants: readonly PlanGrant[], anchor: Date, at: Date): string[] =>
  grants.map((grant) => keyOf(grant, startOfPeriod(grant.every, anchor, periodAt(grant.every, anchor, at))));

/** Voids grants of plans that have not begun, and those with the given keys. */
export async function voidGrants(
  tx: Tx,
  orgIds: readonly string[],
  keys: readonly string[],
  reason: string,
  source: Source,
): Promise<void> {
  if (orgIds.length === 0) return;
  await forfeitGrants(tx, true, await listVoidable(tx, orgIds, keys, source.at), reason, source);
}

/** Call this after the commit. */
export function countAmounts({ creditsGranted }: Metrics, amounts: readonly string[]): void {
  for (const amount of amounts) creditsGranted.inc({ mode: 'live' }, Number(amount));
}

/** When the job next has something to do. */
export function findDue(
  row: Counted & Pick<OrganizationPlan, 'isTrialOver' | 'grantedUntil'>,
  grants: readonly PlanGrant[],
  { at, isFull }: { at: Date; isFull: boolean },
): Date | null {
  const starts = grants.flatMap(({ every }) => {
    const next = startOfPeriod(every, row.anchor, periodAt(every, row.anchor, row.grantedUntil) + 1);
    return row.trialEndsAt && next >= row.trialEndsAt ? [] : [next.getTime() - LEAD_MS];
  });
  const ends = row.trialEndsAt && !row.isTrialOver ? [row.trialEndsAt.getTime()] : [];
  const times = [...(isFull ? [at.getTime() + HOUR_MS] : starts), ...ends];
  return times.length === 0 ? null : new Date(Math.min(...times));
}
