import { and, asc, eq, gt } from 'drizzle-orm';
import type { Orm } from '../../db/client.js';
import { memberships, users, type Role } from '../../organizations/table.js';
import type { Range } from '../page.js';

export interface Member {
  userId: string;
  email: string;
  name: string;
  role: Role;
  createdAt: Date;
}

const columns = {
  userId: users.id,
  email: users.email,
  name: users.name,
  role: memberships.role,
  createdAt: memberships.createdAt,
};

export async function findMember(orm: Orm, orgId: string, userId: string): Promise<Member | undefined> {
  const [member] = await orm
    .select(columns)
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)));
  return member;
}

export async function listMembers(orm: Orm, orgId: string, { after, limit }: Range): Promise<Member[]> {
  return orm
    .select(columns)
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), after === undefined ? undefined : gt(users.email, after)))
    .orderBy(asc(users.email))
    .limit(limit + 1);
}

export async function insertMembership(
  tx: Orm,
  orgId: string,
  { userId, role, createdAt }: Member,
): Promise<void> {
  await tx.insert(memberships).values({ orgId, userId, role, createdAt });
}

/** True if the membership was still there. */
export async function updateRole(tx: Orm, orgId: string, { userId, role }: Member): Promise<boolean> {
  const updated = await tx
    .update(memberships)
    .set({ role })
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
    .returning({ userId: memberships.userId });
  return updated.length > 0;
}

/** The role that the membership had, or undefined if there was none. */
export async function deleteMembership(tx: Orm, orgId: string, userId: string): Promise<Role | undefined> {
  const [gone] = await tx
    .delete(memberships)
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
    .returning({ role: memberships.role });
  return gone?.role;
}
