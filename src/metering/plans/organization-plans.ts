import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { recordAudit, recordAudits } from '../../accounts/audit/audit.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../accounts/identity/organizations/organizations.js';
import { findDifference, type Put, type Source } from '../../accounts/identity/source.js';
import { groupBy } from '../../core/collections.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError, found, placeError } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import { removeGrants, setGrants } from '../entitlements/grants.js';
import { listGrantsOf } from '../entitlements/queries.js';
import { findDue, grantsOf, listRunningKeys, makeGrants, voidGrants, type Made } from './grants.js';
import { readProducts } from './plans.js';
import {
  findOrganizationPlan,
  findPlan,
  listPlanNames,
  lockMovable,
  lockOrganizationPlan,
  storeOrganizationPlans,
  type Movable,
  type OrganizationPlan,
} from './queries.js';
import type { Definition, PlanGrant, organizationPlanSchema, planStates } from './schema.js';

export type OrganizationPlanInput = Omit<z.output<typeof organizationPlanSchema>, 'startsAt' | 'anchor'> & {
  startsAt?: Date | undefined;
  anchor?: Date | undefined;
  /** Takes over entitlements that were set by hand. */
  replace: boolean;
};

/** With the amounts of the credits that it granted. */
export type PutPlan = Put<OrganizationPlan> & { amounts: string[] };

/** Everything changes in one transaction. Usage stays, and so do credits unless `voidGrants`. */
export async function putOrganizationPlan(
  tx: Tx,
  slug: string,
  input: OrganizationPlanInput,
  source: Source,
): Promise<PutPlan> {
  const { at } = source;
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const newest = await findPlan(tx, input.plan);
  if (!newest) throw placeError('unknown_plan', '/plan', `There is no plan "${input.plan}".`);
  const earlier = await lockOrganizationPlan(tx, orgId);
  const before = earlier?.endedAt === null ? earlier : undefined;
  const isSame = before?.plan === input.plan;
  const { version, definition } = isSame ? (await findPlan(tx, input.plan, before.version))! : newest;
  const startsAt = input.startsAt ?? before?.startsAt ?? at;
  if (before && startsAt.getTime() !== before.startsAt.getTime())
    throw fieldError('startsAt', `cannot change while the Organization is on the plan "${before.plan}"`);
  const inTrial = isSame && before.trialEndsAt !== null;
  const after: OrganizationPlan = {
    orgId,
    plan: input.plan,
    version,
    startsAt,
    anchor: input.anchor ?? before?.anchor ?? startsAt,
    trialEndsAt: !input.trial
      ? null
      : inTrial
        ? before.trialEndsAt
        : beginTrial(definition, startsAt, input.plan, { tried: earlier?.tried ?? [], isConfirmed: isSame }),
    isTrialOver: input.trial && inTrial && before.isTrialOver,
    tried: input.trial ? [...new Set([...(earlier?.tried ?? []), input.plan])] : (earlier?.tried ?? []),
    grantedUntil: at,
    dueAt: null,
    endedAt: null,
    createdAt: earlier?.createdAt ?? at,
    updatedAt: at,
  };
  const [applied] = await applyPlan(tx, definition, [{ before, after }], input, source);
  return { isNew: before === undefined, resource: applied!.row, amounts: applied!.amounts };
}

function beginTrial(
  { trial }: Definition,
  startsAt: Date,
  plan: string,
  { tried, isConfirmed }: { tried: string[]; isConfirmed: boolean },
): Date {
  if (!trial) throw fieldError('trial', `is not offered by the plan "${plan}"`);
  if (isConfirmed || tried.includes(plan))
    throw placeError(
      'trial_used',
      '/trial',
      `The Organization has had a trial of the plan "${plan}", or is on it without one.`,
    );
  return new Date(startsAt.getTime() + trial.days * DAY_MS);
}

const readDefinitionOf = async (orm: Orm, { plan, version }: OrganizationPlan): Promise<Definition> =>
  (await findPlan(orm, plan, version))!.definition;

const slugsOf = ({ entitlements }: Definition) => entitlements.map(({ productSlug }) => productSlug);

/** One Organization's. */
interface PlanChange {
  before: OrganizationPlan | undefined;
  after: OrganizationPlan;
}

type Ways = Partial<Pick<OrganizationPlanInput, 'voidGrants' | 'replace' | 'startsAt'>> & {
  /** Leaves new grants to the job. */
  isMove?: boolean;
};

/** In a few statements, however many Organizations change. Credits come first: their accounts are locked before logs. */
async function applyPlan(
  tx: Tx,
  definition: Definition,
  changes: readonly PlanChange[],
  ways: Ways,
  source: Source,
) {
  const credits = await applyCredits(tx, definition, changes, ways, source);
  const rows = changes.map(({ after }) => after);
  await applyEntitlements(tx, definition, rows, ways, source);
  const applied = changes.map(({ before }, i) => {
    const { row, amounts } = credits[i]!;
    const difference = before && findDifference(toFields(before), toFields(row));
    const isSame = before !== undefined && !difference;
    const details = { ...(difference ?? { after: toFields(row) }) };
    const action = before ? 'plan.changed' : 'plan.started';
    return {
      row: isSame ? { ...row, updatedAt: before.updatedAt } : row,
      amounts,
      entries: isSame ? [] : [{ ...source, orgId: row.orgId, action, target: row.plan, details }],
    };
  });
  const stored = applied.map(({ row }) => row);
  await storeOrganizationPlans(tx, stored);
  const entries = applied.flatMap(({ entries: own }) => own);
  await recordAudits(tx, entries);
  return applied;
}

async function applyCredits(
  tx: Tx,
  definition: Definition,
  changes: readonly PlanChange[],
  ways: Ways,
  source: Source,
): Promise<{ row: OrganizationPlan; amounts: string[] }[]> {
  const { at } = source;
  const parts = [];
  const olds = new Map<string, Definition>();
  for (const { before, after } of changes) {
    const grants = grantsOf(definition, after);
    const name = `${before?.plan} ${before?.version}`;
    if (before && !olds.has(name)) olds.set(name, await readDefinitionOf(tx, before));
    const oldGrants = before ? grantsOf(olds.get(name)!, before) : [];
    const isSame =
      before?.plan === after.plan &&
      before.anchor.getTime() === after.anchor.getTime() &&
      isDeepStrictEqual(oldGrants, grants);
    const missed = before && (await makeBegun(tx, before, oldGrants, source));
    parts.push({ before, after, grants, oldGrants, isSame, missed });
  }
  const stale = parts.flatMap(({ before, oldGrants, isSame }) =>
    before && (ways.voidGrants || !isSame) ? [{ ...before, oldGrants }] : [],
  );
  const plan = changes[0]?.after.plan;
  const [named] = stale.length > 0 ? await listPlanNames(tx, [plan!]) : [];
  await voidGrants(
    tx,
    stale.map(({ orgId }) => orgId),
    ways.voidGrants ? stale.flatMap(({ oldGrants, anchor }) => listRunningKeys(oldGrants, anchor, at)) : [],
    stale[0]?.plan === plan ? `The plan ${named?.name} changed` : `Changed to the plan ${named?.name}`,
    source,
  );
  const results = [];
  for (const { after, grants, isSame, missed = madeUntil(at) } of parts) {
    const from = new Date(Math.max(after.startsAt.getTime(), at.getTime()));
    const isLeft = ways.isMove && !isSame && grants.length > 0;
    const made = ways.isMove
      ? madeUntil(isSame ? missed.grantedUntil : at)
      : await makeGrants(tx, after.orgId, after, grants, from, source, isSame);
    const row = { ...after, grantedUntil: made.grantedUntil };
    row.dueAt = isLeft ? at : findDue(row, grants, { at, isFull: made.isFull || missed.isFull });
    results.push({ row, amounts: [...missed.amounts, ...made.amounts] });
  }
  return results;
}

const madeUntil = (grantedUntil: Date): Made => ({ grantedUntil, amounts: [], isFull: false });

/** Those that have begun. Usually the job has made them. */
const makeBegun = async (tx: Tx, row: OrganizationPlan, grants: readonly PlanGrant[], source: Source) =>
  row.grantedUntil < source.at ? makeMissed(tx, row, grants, source) : madeUntil(row.grantedUntil);

/** Those that no instance has made so far. */
const makeMissed = (tx: Tx, row: OrganizationPlan, grants: readonly PlanGrant[], source: Source) =>
  makeGrants(tx, row.orgId, row, grants, row.grantedUntil, source, true);

async function applyEntitlements(
  tx: Tx,
  definition: Definition,
  rows: readonly OrganizationPlan[],
  { replace = false, startsAt }: Ways,
  source: Source,
): Promise<void> {
  const slugs = slugsOf(definition);
  const products = await readProducts(tx, slugs);
  const orgIds = rows.map(({ orgId }) => orgId);
  const current = await listGrantsOf(tx, orgIds, slugs);
  const byOrganization = groupBy(current, ({ orgId }) => orgId);
  const settings = rows.flatMap((after) => {
    const { orgId, plan, trialEndsAt, isTrialOver } = after;
    const bySlug = new Map(byOrganization.get(orgId)?.map((grant) => [grant.productSlug, grant]));
    return definition.entitlements
      .map(({ productSlug, ...terms }) => ({
        orgId,
        product: products.get(productSlug)!,
        current: bySlug.get(productSlug),
        input: {
          ...terms,
          ...(isTrialOver ? { kind: 'read_only' as const } : {}),
          startsAt: startsAt ?? (after.startsAt > source.at ? after.startsAt : undefined),
          endsAt: isTrialOver ? null : trialEndsAt,
          unitCap: terms.unitCap,
          plan,
        },
      }))
      .filter((setting) => replace || setting.current?.plan !== null);
  });
  await setGrants(tx, settings, source);
  const left = current.filter(({ plan, productSlug }) => plan !== null && !slugs.includes(productSlug));
  await removeGrants(tx, left, source);
}

const toFields = ({ plan, version, startsAt, anchor, trialEndsAt, isTrialOver }: OrganizationPlan) => ({
  plan,
  version: String(version),
  startsAt: startsAt.toISOString(),
  anchor: anchor.toISOString(),
  trialEndsAt: trialEndsAt?.toISOString() ?? null,
  trialOver: isTrialOver ? 'yes' : undefined,
});

/** Withdraws its entitlements, and voids its credits that have not begun. */
export async function endOrganizationPlan(tx: Tx, slug: string, source: Source): Promise<void> {
  const { at } = source;
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const before = await lockOrganizationPlan(tx, orgId);
  if (!before || before.endedAt) throw new AppError('not_found', onNoPlan(slug));
  const { plan } = before;
  await makeBegun(tx, before, grantsOf(await readDefinitionOf(tx, before), before), source);
  await voidGrants(tx, [orgId], [], `The plan ${plan} ended`, source);
  await removeGrants(tx, await listGrantsOf(tx, [orgId], []), source);
  await storeOrganizationPlans(tx, [{ ...before, dueAt: null, endedAt: at, updatedAt: at }]);
  const details = { before: toFields(before) };
  await recordAudit(tx, orgId, { ...source, action: 'plan.ended', target: plan, details });
}

const onNoPlan = (slug: string): string => `The Organization "${slug}" is on no plan.`;

export async function getOrganizationPlan(orm: Orm, slug: string): Promise<OrganizationPlan> {
  const { id } = await getOrganization(orm, slug);
  return found(await findOrganizationPlan(orm, id), onNoPlan(slug));
}

/** Products of the plan whose entitlement was set by hand. */
export async function listSetByHand(orm: Orm, row: OrganizationPlan): Promise<string[]> {
  return (await listGrantsOf(orm, [row.orgId], slugsOf(await readDefinitionOf(orm, row))))
    .filter((grant) => grant.plan === null)
    .map(({ productSlug }) => productSlug)
    .toSorted();
}

export function stateOf({ startsAt, trialEndsAt }: OrganizationPlan, now: Date): (typeof planStates)[number] {
  if (trialEndsAt && trialEndsAt <= now) return 'trial_over';
  if (startsAt > now) return 'scheduled';
  return trialEndsAt ? 'trial' : 'active';
}

/** Returns how many were moved. Those that have been moved already are left alone, so it can be repeated. */
export async function moveOrganizations(
  tx: Tx,
  movable: Movable & { orgIds: readonly string[] },
  definition: Definition,
  source: Source,
): Promise<number> {
  const { version } = movable;
  const rows = await lockMovable(tx, movable);
  const moved = { version, updatedAt: source.at };
  const changes = rows.map((before) => ({ before, after: { ...before, ...moved } }));
  await applyPlan(tx, definition, changes, { isMove: true }, source);
  return rows.length;
}

/** Makes missing grants, and ends a trial. Returns the amounts granted. */
export async function continuePlan(tx: Tx, orgId: string, source: Source): Promise<string[]> {
  const { at } = source;
  const before = await lockOrganizationPlan(tx, orgId);
  if (!before || before.endedAt || !before.dueAt || before.dueAt > at) return [];
  const definition = await readDefinitionOf(tx, before);
  const isTrialOver = before.trialEndsAt !== null && before.trialEndsAt <= at;
  const grants = grantsOf(definition, before);
  const made = await makeMissed(tx, before, grants, source);
  const row = { ...before, isTrialOver, grantedUntil: made.grantedUntil };
  if (isTrialOver && !before.isTrialOver) {
    await applyEntitlements(tx, definition, [row], {}, source);
    row.updatedAt = at;
  }
  await storeOrganizationPlans(tx, [{ ...row, dueAt: findDue(row, grants, { at, isFull: made.isFull }) }]);
  return made.amounts;
}
