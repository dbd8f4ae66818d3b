import { and, asc, eq, gt, gte, inArray, isNull, like, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { memberships, users } from '../../organizations/table.js';
import type { Range } from '../../../core/http/page.js';
import { deleteOpenLinks } from '../second-factor/queries.js';
import { failedSignIns, oneTimeLinks } from '../table.js';

export type User = typeof users.$inferSelect;

type UserName = { id: string } | { email: string };

const isUser = (by: UserName) => ('id' in by ? eq(users.id, by.id) : eq(users.email, by.email));

export async function findUser(orm: Orm, by: UserName): Promise<User | undefined> {
  const [user] = await orm.select().from(users).where(isUser(by));
  return user;
}

/** Finds the user and keeps others from changing it, and sign-ins from being finished, until the transaction ends. */
export async function lockUser(tx: Tx, by: UserName): Promise<User | undefined> {
  const [user] = await tx.select().from(users).where(isUser(by)).for('no key update');
  return user;
}

interface UserFilter {
  /** Of their addresses, as `like` takes it. */
  pattern?: string | undefined;
  /** Only people of whom a sign-in has failed since that hour. */
  failedSince?: Date | undefined;
}

export async function listUsers(
  orm: Orm,
  { after, limit }: Range,
  { pattern, failedSince }: UserFilter = {},
): Promise<User[]> {
  const failed = orm
    .select({ id: failedSignIns.userId })
    .from(failedSignIns)
    .where(failedSince && gte(failedSignIns.hour, failedSince));
  return orm
    .select()
    .from(users)
    .where(
      and(
        after === undefined ? undefined : gt(users.email, after),
        pattern === undefined ? undefined : like(users.email, pattern),
        failedSince && inArray(users.id, failed),
      ),
    )
    .orderBy(asc(users.email))
    .limit(limit + 1);
}

export async function insertUser(tx: Tx, user: User): Promise<void> {
  await tx.insert(users).values(user);
}

/** Another password ends the links with which one could be chosen. */
export async function updateUser(
  tx: Tx,
  id: string,
  values: { name?: string; passwordHash?: string },
): Promise<void> {
  await tx.update(users).set(values).where(eq(users.id, id));
  if (values.passwordHash !== undefined) await deleteOpenLinks(tx, id, 'password_reset');
}

/**
 * Takes the user's sessions along, and the links that they made or that were made for them; keys and memberships must be gone
 * from it before. True if it was there.
 */
export async function deleteUserRow(tx: Tx, { id, email }: Pick<User, 'id' | 'email'>): Promise<boolean> {
  const isDeleted = (await tx.delete(users).where(eq(users.id, id)).returning({ id: users.id })).length > 0;
  // An operator's invitation names no account, only an address.
  const isInvitation = and(eq(oneTimeLinks.kind, 'operator_invitation'), eq(oneTimeLinks.email, email));
  await tx.delete(oneTimeLinks).where(and(isInvitation, isNull(oneTimeLinks.usedAt)));
  return isDeleted;
}

export async function deleteMembershipsOf(tx: Tx, userId: string) {
  return tx
    .delete(memberships)
    .where(eq(memberships.userId, userId))
    .returning({ orgId: memberships.orgId, role: memberships.role });
}

/** The keys that the user made stay as they are; they only lose the name of their maker. Keys stand above users, so by name. */
export async function forgetKeyCreator(tx: Tx, userId: string): Promise<void> {
  await tx.execute(sql`update api_keys set created_by = null where created_by = ${userId}`);
}
