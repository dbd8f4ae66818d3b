import { isDeepStrictEqual } from 'node:util';
import { recordAudit } from '../../accounts/audit/audit.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../accounts/identity/organizations/organizations.js';
import { findDifference, type Put, type Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError, placeError } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import { removeGrant, setGrant } from '../entitlements/grants.js';
import { listGrantsOf, type Grant, type Product } from '../entitlements/queries.js';
import { findDue, grantsOf, makeGrants, voidGrants } from './grants.js';
import { readProducts } from './plans.js';
import {
  findOrganizationPlan,
  findPlan,
  lockMovable,
  lockOrganizationPlan,
  storeOrganizationPlan,
  type Movable,
  type OrganizationPlan,
} from './queries.js';
import type { planStates } from './schema.js';
import type { Definition, PlanGrant } from './table.js';

export interface OrganizationPlanInput {
  plan: string;
  startsAt?: Date | undefined;
  anchor?: Date | undefined;
  trial: boolean;
  voidGrants: boolean;
  /** Takes over entitlements that were set by hand. */
  replace: boolean;
}

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
  const current = await listGrantsOf(tx, [orgId], slugsOf(definition));
  const products = await readProducts(tx, [definition]);
  const old = before && (isSame ? definition : (await findPlan(tx, before.plan, before.version))!.definition);
  const change = { before, after, old, definition, current, products };
  const { row, amounts } = await applyPlan(tx, change, { ...input, startsAt: input.startsAt }, source);
  return { isNew: before === undefined, resource: row, amounts };
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

const slugsOf = ({ entitlements }: Definition) => entitlements.map(({ productSlug }) => productSlug);

interface PlanChange {
  before: OrganizationPlan | undefined;
  after: OrganizationPlan;
  /** The definition before the change. */
  old: Definition | undefined;
  definition: Definition;
  current: readonly Grant[];
  products: ReadonlyMap<string, Product>;
}

interface Ways {
  voidGrants?: boolean;
  replace?: boolean;
  /** The start of its entitlements. Default: now for new ones, unchanged for others. */
  startsAt?: Date | undefined;
  /** Leaves new grants to the job. */
  isMove?: boolean;
}

/** Credits come first: their accounts are locked before logs. */
async function applyPlan(tx: Tx, change: PlanChange, ways: Ways, source: Source) {
  const { before, after, old, definition } = change;
  const { orgId, plan, anchor } = after;
  const { at } = source;
  const grants = grantsOf(definition, after);
  const oldGrants = before && old ? grantsOf(old, before) : [];
  const isSameCredit =
    before !== undefined &&
    before.plan === plan &&
    before.anchor.getTime() === anchor.getTime() &&
    isDeepStrictEqual(oldGrants, grants);
  const missed = before && (await makeBegun(tx, before, oldGrants, source));
  if (before && (ways.voidGrants || !isSameCredit)) {
    const running = { anchor: before.anchor, grants: ways.voidGrants ? oldGrants : [] };
    const reason = before.plan === plan ? `The plan ${plan} changed` : `Changed to the plan ${plan}`;
    await voidGrants(tx, orgId, running, reason, source);
  }
  const from = new Date(Math.max(after.startsAt.getTime(), at.getTime()));
  const isUnchanged = isSameCredit && before.trialEndsAt?.getTime() === after.trialEndsAt?.getTime();
  const made =
    missed && isUnchanged && !ways.voidGrants
      ? missed
      : ways.isMove
        ? { grantedUntil: at, amounts: [], isFull: false }
        : await makeGrants(tx, orgId, after, grants, from, source, false);
  const row = { ...after, grantedUntil: made.grantedUntil };
  row.dueAt =
    ways.isMove && !isUnchanged && grants.length > 0 ? at : findDue(row, grants, { at, isFull: made.isFull });
  await applyEntitlements(tx, change, ways, source);
  const difference = before && findDifference(toFields(before), toFields(row));
  if (before && !difference) row.updatedAt = before.updatedAt;
  await storeOrganizationPlan(tx, row);
  if (!before || difference)
    await recordAudit(tx, orgId, {
      ...source,
      action: before ? 'plan.changed' : 'plan.started',
      target: plan,
      details: { ...(difference ?? { after: toFields(row) }) },
    });
  const amounts = made === missed ? made.amounts : [...(missed?.amounts ?? []), ...made.amounts];
  return { row, amounts };
}

/** Usually the job has made all that have begun. */
const makeBegun = (tx: Tx, row: OrganizationPlan, grants: readonly PlanGrant[], source: Source) =>
  row.grantedUntil >= source.at
    ? Promise.resolve({ grantedUntil: row.grantedUntil, amounts: [], isFull: false })
    : makeMissed(tx, row, grants, source);

/** Those that no instance has made so far. */
const makeMissed = (tx: Tx, row: OrganizationPlan, grants: readonly PlanGrant[], source: Source) =>
  makeGrants(tx, row.orgId, row, grants, row.grantedUntil, source, true);

async function applyEntitlements(
  tx: Tx,
  { after, definition, current, products }: PlanChange,
  { replace = false, startsAt }: Ways,
  source: Source,
): Promise<void> {
  const { orgId, plan, trialEndsAt, isTrialOver } = after;
  const bySlug = new Map(current.map((grant) => [grant.productSlug, grant]));
  for (const { productSlug, ...terms } of definition.entitlements) {
    const own = bySlug.get(productSlug);
    if (own?.plan === null && !replace) continue;
    const place = { orgId, product: products.get(productSlug)!, current: own };
    const input = {
      ...terms,
      ...(isTrialOver ? { kind: 'read_only' as const } : {}),
      startsAt: startsAt ?? (after.startsAt > source.at ? after.startsAt : undefined),
      endsAt: isTrialOver ? null : trialEndsAt,
      unitCap: terms.unitCap,
      plan,
    };
    await setGrant(tx, place, input, source);
  }
  const kept = new Set(slugsOf(definition));
  for (const grant of current)
    if (grant.plan !== null && !kept.has(grant.productSlug)) await removeGrant(tx, orgId, grant, source);
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
  if (!before || before.endedAt) throw onNoPlan(slug);
  const { plan } = before;
  const { definition } = (await findPlan(tx, plan, before.version))!;
  await makeBegun(tx, before, grantsOf(definition, before), source);
  await voidGrants(tx, orgId, { anchor: before.anchor, grants: [] }, `The plan ${plan} ended`, source);
  for (const grant of await listGrantsOf(tx, [orgId], []))
    if (grant.plan !== null) await removeGrant(tx, orgId, grant, source);
  await storeOrganizationPlan(tx, { ...before, dueAt: null, endedAt: at, updatedAt: at });
  const details = { before: toFields(before) };
  await recordAudit(tx, orgId, { ...source, action: 'plan.ended', target: plan, details });
}

const onNoPlan = (slug: string) => new AppError('not_found', `The Organization "${slug}" is on no plan.`);

export async function getOrganizationPlan(orm: Orm, slug: string): Promise<OrganizationPlan> {
  const { id } = await getOrganization(orm, slug);
  const row = await findOrganizationPlan(orm, id);
  if (!row) throw onNoPlan(slug);
  return row;
}

/** Products of the plan whose entitlement was set by hand. */
export async function listSetByHand(orm: Orm, { orgId, plan, version }: OrganizationPlan): Promise<string[]> {
  const { definition } = (await findPlan(orm, plan, version))!;
  return (await listGrantsOf(orm, [orgId], slugsOf(definition)))
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
  const { plan, version } = movable;
  const rows = await lockMovable(tx, movable);
  const grants = await listGrantsOf(
    tx,
    rows.map(({ orgId }) => orgId),
    slugsOf(definition),
  );
  const products = await readProducts(tx, [definition]);
  const olds = new Map<number, Definition>();
  for (const before of rows) {
    const { orgId } = before;
    if (!olds.has(before.version))
      olds.set(before.version, (await findPlan(tx, plan, before.version))!.definition);
    const current = grants.filter((grant) => grant.orgId === orgId);
    const after = { ...before, version, updatedAt: source.at };
    const change = { before, after, old: olds.get(before.version), definition, current, products };
    await applyPlan(tx, change, { isMove: true }, source);
  }
  return rows.length;
}

/** Makes missing grants, and ends a trial. Returns the amounts granted. */
export async function continuePlan(tx: Tx, orgId: string, source: Source): Promise<string[]> {
  const { at } = source;
  const before = await lockOrganizationPlan(tx, orgId);
  if (!before || before.endedAt || !before.dueAt || before.dueAt > at) return [];
  const { definition } = (await findPlan(tx, before.plan, before.version))!;
  const isTrialOver = before.trialEndsAt !== null && before.trialEndsAt <= at;
  const grants = grantsOf(definition, before);
  const made = await makeMissed(tx, before, grants, source);
  const row = { ...before, isTrialOver, grantedUntil: made.grantedUntil };
  if (isTrialOver && !before.isTrialOver) {
    const current = await listGrantsOf(tx, [orgId], slugsOf(definition));
    const products = await readProducts(tx, [definition]);
    const change = { before, after: row, old: definition, definition, current, products };
    await applyEntitlements(tx, change, {}, source);
    row.updatedAt = at;
  }
  await storeOrganizationPlan(tx, { ...row, dueAt: findDue(row, grants, { at, isFull: made.isFull }) });
  return made.amounts;
}
