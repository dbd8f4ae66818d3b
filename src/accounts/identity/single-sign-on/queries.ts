import { desc, eq, lte } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { firstRow, hasChanged, firstValue, matches } from '../../../core/db/sql.js';
import { users } from '../../organizations/table.js';
import { identities, singleSignOns } from '../table.js';
import type { User } from '../users/queries.js';

export const findIdentityOwner = (
  orm: Orm,
  { issuer, subject }: Pick<typeof identities.$inferSelect, 'issuer' | 'subject'>,
): Promise<User | undefined> =>
  firstValue(
    orm
      .select({ value: users })
      .from(identities)
      .innerJoin(users, eq(users.id, identities.userId))
      .where(matches(identities, { issuer, subject })),
  );

export const findIdentity = (orm: Orm, userId: string, issuer: string) =>
  firstRow(orm.select().from(identities).where(matches(identities, { userId, issuer })));

export const findLinkTime = (orm: Orm, userId: string): Promise<Date | undefined> =>
  firstValue(
    orm
      .select({ value: identities.createdAt })
      .from(identities)
      .where(eq(identities.userId, userId))
      .orderBy(desc(identities.createdAt))
      .limit(1),
  );

export const insertIdentity = (tx: Tx, identity: typeof identities.$inferInsert): Promise<unknown> =>
  tx.insert(identities).values(identity);

export const deleteIdentities = (tx: Tx, userId: string): Promise<boolean> =>
  hasChanged(tx.delete(identities).where(eq(identities.userId, userId)));

export const insertSingleSignOn = (orm: Orm, row: typeof singleSignOns.$inferInsert): Promise<unknown> =>
  orm.insert(singleSignOns).values(row);

/** A single statement, so that only one of two concurrent uses gets the row, which may have expired. */
export const spendSingleSignOn = (
  orm: Orm,
  { hashedState, hashedBrowser }: { hashedState: string; hashedBrowser: string },
) =>
  firstRow(
    orm.delete(singleSignOns).where(matches(singleSignOns, { hashedState, hashedBrowser })).returning(),
  );

export const deleteExpiredSingleSignOns = ({ orm }: { orm: Orm }, now: Date): Promise<unknown> =>
  orm.delete(singleSignOns).where(lte(singleSignOns.expiresAt, now));
