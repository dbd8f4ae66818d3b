import { asc, eq, gt } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { organizations } from '../../../organizations/table.js';
import type { Range } from '../../../core/http/page.js';

export type Organization = typeof organizations.$inferSelect;

export async function findOrganization(orm: Orm, slug: string): Promise<Organization | undefined> {
  const [organization] = await orm.select().from(organizations).where(eq(organizations.slug, slug));
  return organization;
}

/**
 * Finds the Organization and lets the operator's changes inside it happen one after another until the transaction
 * ends. Rows that refer to it (audit rows, keys) are not held up.
 */
export async function lockOrganization(tx: Tx, slug: string): Promise<Organization | undefined> {
  const [organization] = await tx
    .select()
    .from(organizations)
    .where(eq(organizations.slug, slug))
    .for('no key update');
  return organization;
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
  { id, name, requireSecondFactor }: Organization,
): Promise<void> {
  await tx.update(organizations).set({ name, requireSecondFactor }).where(eq(organizations.id, id));
}
