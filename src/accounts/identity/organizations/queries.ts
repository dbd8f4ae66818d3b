import { and, asc, eq, gt, inArray, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { firstRow, hasChanged, matches } from '../../../core/db/sql.js';
import type { Range } from '../../../core/http/page.js';
import { alertRoles, lockOrganizationId, memberships, organizations } from '../../organizations/table.js';
import { updateSession } from '../session/queries.js';

export type Organization = typeof organizations.$inferSelect;

const isOrganization = (by: { id: string } | { slug: string }) =>
  'id' in by ? eq(organizations.id, by.id) : eq(organizations.slug, by.slug);

export const findOrganization = (orm: Orm, by: { id: string } | { slug: string }) =>
  firstRow(orm.select().from(organizations).where(isOrganization(by)));

/** Serializes changes to members, invitations, entitlements and API keys. */
export async function lockOrganization(tx: Tx, by: { id: string } | { slug: string }) {
  const id = 'id' in by ? by.id : (await findOrganization(tx, by))?.id;
  if (id === undefined) return undefined;
  await lockOrganizationId(tx, id);
  return findOrganization(tx, { id });
}

export async function listOrganizations(orm: Orm, { after, limit }: Range): Promise<Organization[]> {
  return orm
    .select()
    .from(organizations)
    .where(after === undefined ? undefined : gt(organizations.slug, after))
    .orderBy(asc(organizations.slug))
    .limit(limit + 1);
}

export async function insertOrganization(tx: Tx, organization: Organization): Promise<void> {
  await tx.insert(organizations).values(organization);
}

export async function updateOrganization(
  tx: Tx,
  { id, createdAt: _createdAt, slug: _slug, ...fields }: Organization,
): Promise<void> {
  await tx.update(organizations).set(fields).where(eq(organizations.id, id));
}

/**
 * The caller must hold the Organization's lock, which key creation also takes. Raw SQL, because the API keys module
 * depends on this one. Locks keys in the same order as `recordUse`.
 */
export async function copyToKeys(tx: Tx, { id, archivedAt }: Organization): Promise<void> {
  const at = archivedAt?.toISOString() ?? null;
  await tx.execute(sql`
    with own as materialized (select id from api_keys where org_id = ${id} order by id for no key update)
    update api_keys set archived_at = ${at}::timestamptz from own where org_id = ${id} and api_keys.id = own.id`);
}

const selectMemberships = (orm: Orm, userId: string, slug?: string) =>
  orm
    .select({
      id: organizations.id,
      slug: organizations.slug,
      name: organizations.name,
      role: memberships.role,
      mailNotices: memberships.mailNotices,
    })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.orgId))
    .where(
      and(eq(memberships.userId, userId), slug === undefined ? undefined : eq(organizations.slug, slug)),
    );

export const listOrganizationsOf = (orm: Orm, userId: string, limit: number) =>
  selectMemberships(orm, userId).orderBy(asc(organizations.name), asc(organizations.slug)).limit(limit);

export const findMembershipOf = (orm: Orm, userId: string, slug: string) =>
  firstRow(selectMemberships(orm, userId, slug));

/** Affects only the display: each request and change reads the membership again. */
export async function chooseOrganization(tx: Tx, sessionId: string, userId: string, slug: string) {
  const organization = await findMembershipOf(tx, userId, slug);
  if (!organization) return undefined;
  await updateSession(tx, sessionId, { currentOrgId: organization.id });
  return organization;
}

export function updateMailNotices(tx: Tx, orgId: string, userId: string, mailNotices: boolean) {
  const isTheirs = matches(memberships, { orgId, userId });
  const mayChoose = inArray(memberships.role, [...alertRoles]);
  return hasChanged(tx.update(memberships).set({ mailNotices }).where(and(isTheirs, mayChoose)));
}
