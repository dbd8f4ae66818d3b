import { asc, eq, gt } from 'drizzle-orm';
import { apiKeys } from '../../api-keys/table.js';
import { deleteChallengesOf } from '../second-factor/challenge-queries.js';
import { sessions } from '../table.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { memberships, users } from '../../organizations/table.js';
import type { Range } from '../../core/http/page.js';

export type User = typeof users.$inferSelect;

export async function findUser(orm: Orm, email: string): Promise<User | undefined> {
  const [user] = await orm.select().from(users).where(eq(users.email, email));
  return user;
}

/** Finds the user and keeps others from changing it until the transaction ends. */
export async function lockUser(tx: Tx, email: string): Promise<User | undefined> {
  const [user] = await tx.select().from(users).where(eq(users.email, email)).for('no key update');
  return user;
}

export async function listUsers(orm: Orm, { after, limit }: Range): Promise<User[]> {
  return orm
    .select()
    .from(users)
    .where(after === undefined ? undefined : gt(users.email, after))
    .orderBy(asc(users.email))
    .limit(limit + 1);
}

export async function insertUser(tx: Tx, user: User): Promise<void> {
  await tx.insert(users).values(user);
}

export async function updateUser(tx: Tx, { id, name, passwordHash }: User): Promise<void> {
  await tx.update(users).set({ name, passwordHash }).where(eq(users.id, id));
}

/** Takes the user's sessions along; keys and memberships must be gone from it before. True if it was there. */
export async function deleteUserRow(tx: Tx, userId: string): Promise<boolean> {
  return (await tx.delete(users).where(eq(users.id, userId)).returning({ id: users.id })).length > 0;
}

/** Ends the user's sessions, and sign-ins that wait for a code; says how many sessions there were. */
export async function deleteSessions(tx: Tx, userId: string): Promise<number> {
  await deleteChallengesOf(tx, userId);
  const gone = await tx
    .delete(sessions)
    .where(eq(sessions.userId, userId))
    .returning({ of: sessions.userId });
  return gone.length;
}

/** Ends every membership of the user and says what they were. */
export async function deleteMembershipsOf(tx: Tx, userId: string) {
  return tx
    .delete(memberships)
    .where(eq(memberships.userId, userId))
    .returning({ orgId: memberships.orgId, role: memberships.role });
}

/** The keys that the user made stay as they are; they only lose the name of their maker. */
export async function forgetKeyCreator(tx: Tx, userId: string): Promise<void> {
  await tx.update(apiKeys).set({ createdBy: null }).where(eq(apiKeys.createdBy, userId));
}
