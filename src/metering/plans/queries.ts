import { and, asc, eq, getTableColumns, gt, inArray, ne, sql, type SQL } from 'drizzle-orm';
import { lockOrganizationIds, organizations } from '../../accounts/organizations/table.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectFromAll, type ReportedDatabase } from '../../core/db/shards.js';
import { storeRows, textArray, firstRow, queryRows, matches } from '../../core/db/sql.js';
import { BATCH } from '../../core/db/walk.js';
import type { Range } from '../../core/http/page.js';
import { organizationPlans, plans, planVersions } from './table.js';
import { type Definition } from './schema.js';

export type Plan = typeof plans.$inferSelect & { definition: Definition };
export type OrganizationPlan = typeof organizationPlans.$inferSelect;

const selectPlans = (orm: Orm, version: number | typeof plans.version = plans.version) =>
  orm
    .select({
      ...getTableColumns(plans),
      version: planVersions.version,
      definition: planVersions.definition,
    })
    .from(plans)
    .innerJoin(planVersions, matches(planVersions, { plan: plans.slug, version }));

/** @param version default: the newest */
export const findPlan = (orm: Orm, slug: string, version?: number): Promise<Plan | undefined> =>
  firstRow(selectPlans(orm, version).where(eq(plans.slug, slug)));

export const listPlans = (orm: Orm, { after, limit }: Range): Promise<Plan[]> =>
  selectPlans(orm)
    .where(after === undefined ? undefined : gt(plans.slug, after))
    .orderBy(asc(plans.slug))
    .limit(limit + 1);

export const listPlanNames = (orm: Orm, slugs: readonly string[]) =>
  orm
    .select({ slug: plans.slug, name: plans.name })
    .from(plans)
    .where(inArray(plans.slug, [...slugs]));

/** Locks the plan's row. A new plan gets a row with version 0 first. */
export async function lockPlan(tx: Tx, slug: string, name: string, at: Date) {
  await tx
    .insert(plans)
    .values({ slug, name, version: 0, createdAt: at, updatedAt: at })
    .onConflictDoNothing();
  const [plan] = await tx.select().from(plans).where(eq(plans.slug, slug)).for('no key update');
  return plan!;
}

export async function storePlan(tx: Tx, plan: Plan, isNewVersion: boolean): Promise<void> {
  const { slug, name, version, definition, updatedAt } = plan;
  if (isNewVersion)
    await tx.insert(planVersions).values({ plan: slug, version, definition, createdAt: updatedAt });
  await tx.update(plans).set({ name, version, updatedAt }).where(eq(plans.slug, slug));
}

/** The newest of each plan, and those with Organizations, newest first. Archived ones do not count if `isCurrent`. */
export async function listVersions(orm: Orm, slugs: readonly string[], isCurrent = false) {
  const counts = await queryRows(orm)<{ plan: string; version: number; organizations: number }>`
    select plan, version, count(*)::int as organizations from organization_plans
    where plan = any (${textArray(slugs)}::text[]) and ended_at is null
      and (not ${isCurrent}::bool or (select archived_at is null from organizations where id = org_id)) group by 1, 2`;
  const rows = await queryRows(orm)<{ plan: string; version: number; at: string }>`
    select v.plan, v.version, v.created_at as at from plan_versions v join plans p on p.slug = v.plan
    where v.plan = any (${textArray(slugs)}::text[]) and (v.version = p.version or (v.plan, v.version) in (
      select * from unnest(${textArray(counts.map(({ plan }) => plan))}::text[], ${textArray(counts.map(({ version }) => String(version)))}::int[])
    )) order by v.plan, v.version desc`;
  return rows.map(({ plan, version, at }) => ({
    plan,
    version,
    createdAt: new Date(at),
    organizations: counts.find((one) => one.plan === plan && one.version === version)?.organizations ?? 0,
  }));
}

export const findOrganizationPlan = (orm: Orm, orgId: string): Promise<OrganizationPlan | undefined> =>
  firstRow(
    orm
      .select()
      .from(organizationPlans)
      .where(matches(organizationPlans, { orgId, endedAt: null })),
  );

/** When the Organization last came from another plan. */
export async function findMovedAt(orm: Orm, orgId: string): Promise<Date | undefined> {
  const [row] = await queryRows(orm)<{ at: string }>`
    select at from audit_log where org_id = ${orgId}::uuid and action = 'plan.changed' and details #> '{before,plan}' is not null
    order by id desc limit 1`;
  return row && new Date(row.at);
}

/** The plans of which the Organization has had a trial, or is on now. */
export async function listTried(orm: Orm, orgId: string): Promise<string[]> {
  const [row] = await orm.select().from(organizationPlans).where(eq(organizationPlans.orgId, orgId));
  return row ? [...row.tried, ...(row.endedAt === null ? [row.plan] : [])] : [];
}

/** Also one that has ended. The Organization must be locked. */
export const lockOrganizationPlan = (tx: Tx, orgId: string): Promise<OrganizationPlan | undefined> =>
  firstRow(tx.select().from(organizationPlans).where(eq(organizationPlans.orgId, orgId)).for('update'));

export const storeOrganizationPlans = (tx: Tx, rows: readonly OrganizationPlan[]): Promise<void> =>
  storeRows(tx, organizationPlans, [organizationPlans.orgId], rows);

/** By slug. */
export const listOrganizationsOn = (orm: Orm, plan: string, { after, limit }: Range) =>
  orm
    .select({
      organization: organizations.slug,
      name: organizations.name,
      archivedAt: organizations.archivedAt,
      row: organizationPlans,
    })
    .from(organizationPlans)
    .innerJoin(organizations, eq(organizations.id, organizationPlans.orgId))
    .where(
      and(
        matches(organizationPlans, { plan, endedAt: null }),
        after === undefined ? undefined : gt(organizations.slug, after),
      ),
    )
    .orderBy(asc(organizations.slug))
    .limit(limit + 1);

/** By slug. */
export async function findOrganizationIds(orm: Orm, slugs: readonly string[]): Promise<Map<string, string>> {
  const rows = await orm
    .select({ slug: organizations.slug, id: organizations.id })
    .from(organizations)
    .where(inArray(organizations.slug, [...slugs]));
  return new Map(rows.map(({ slug, id }) => [slug, id]));
}

export interface Movable {
  plan: string;
  /** The newest. */
  version: number;
  from?: number | undefined;
  orgIds?: readonly string[] | undefined;
}

const isMovable = ({ plan, version, from, orgIds }: Movable) =>
  and(
    matches(organizationPlans, { plan, endedAt: null }),
    from === undefined ? ne(organizationPlans.version, version) : eq(organizationPlans.version, from),
    orgIds && inArray(organizationPlans.orgId, [...orgIds]),
  );

export async function listMovable(orm: Orm, movable: Movable, after: string, limit: number) {
  const rows = await orm
    .select({ orgId: organizationPlans.orgId })
    .from(organizationPlans)
    .where(and(isMovable(movable), gt(organizationPlans.orgId, after)))
    .orderBy(asc(organizationPlans.orgId))
    .limit(limit);
  return rows.map(({ orgId }) => orgId);
}

export const countMovable = (orm: Orm, movable: Movable): Promise<number> =>
  orm.$count(organizationPlans, isMovable(movable));

/** Each change of a plan locks the Organization. A sharded database could not lock rows of several groups. */
export async function lockMovable(tx: Tx, movable: Movable & { orgIds: readonly string[] }) {
  await lockOrganizationIds(tx, movable.orgIds);
  return tx.select().from(organizationPlans).where(isMovable(movable)).orderBy(asc(organizationPlans.orgId));
}

/** By id, from `after` on. */
export const listDue = (db: ReportedDatabase, after: string, now: Date): Promise<{ orgId: string }[]> =>
  selectFromAll<{ orgId: string }>(
    db,
    (t) => sql`select org_id as "orgId" from ${t('organization_plans')}
      where due_at <= ${now.toISOString()}::timestamptz and org_id > ${after}::uuid order by org_id limit ${BATCH}`,
    ({ orgId }) => [orgId],
    BATCH,
  );

const listGrants = (orm: Orm, orgIds: readonly string[], more: SQL) =>
  queryRows(orm)<{ orgId: string; id: string; grantKey: string }>`
    select org_id::text as "orgId", id::text, grant_key as "grantKey" from credit_grants g
    where g.org_id = any (${textArray(orgIds)}::uuid[]) and g.livemode
      and g.grant_key >= 'plan:' and g.grant_key < 'plan;' and ${more} order by g.org_id, g.grant_key`;

export const listKnownKeys = async (orm: Orm, orgId: string, keys: readonly string[]) => {
  const rows = await listGrants(orm, [orgId], sql`g.grant_key = any (${textArray(keys)}::text[])`);
  return new Set(rows.map(({ grantKey }) => grantKey));
};

/** Grants of plans that have not begun, or have one of the keys. */
export const listVoidable = (orm: Orm, orgIds: readonly string[], keys: readonly string[], now: Date) =>
  listGrants(
    orm,
    orgIds,
    sql`g.voided_at is null and g.request ? 'plan'
      and (g.starts_at > ${now.toISOString()}::timestamptz or g.grant_key = any (${textArray(keys)}::text[]))`,
  );
