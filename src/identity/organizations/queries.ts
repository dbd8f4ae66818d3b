import { and, asc, eq } from 'drizzle-orm';
import { updateSession } from '../session/queries.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { memberships, organizations } from '../../organizations/table.js';

/** The Organizations a person belongs to, by name, with their role in each; `limit` of them at most. */
export function listOrganizationsOf(orm: Orm, userId: string, limit: number) {
  return orm
    .select({
      id: organizations.id,
      slug: organizations.slug,
      name: organizations.name,
      role: memberships.role,
    })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.orgId))
    .where(eq(memberships.userId, userId))
    .orderBy(asc(organizations.name), asc(organizations.slug))
    .limit(limit);
}

/**
 * Makes a session look at another Organization, if the session's person belongs to it. That is only where they look:
 * each request and each change reads the membership again.
 * @returns the Organization, or undefined if there is none of that name for this person
 */
export async function chooseOrganization(tx: Tx, sessionId: string, userId: string, slug: string) {
  const [organization] = await tx
    .select({
      id: organizations.id,
      slug: organizations.slug,
      name: organizations.name,
      role: memberships.role,
    })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.orgId))
    .where(and(eq(memberships.userId, userId), eq(organizations.slug, slug)));
  if (!organization) return undefined;
  await updateSession(tx, sessionId, { currentOrgId: organization.id });
  return organization;
}
