import { and, desc, eq, getTableColumns, gt, isNull, lte, or, sql, type SQL } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { hasChanged, firstRow, matches } from '../../core/db/sql.js';
import { memberships, organizations, users } from '../organizations/table.js';
import { operators } from '../identity/table.js';
import { serviceKeys } from '../service-keys/table.js';
import { portalSessions } from './table.js';

/** Ends with its Organization, its service key and its operator. */
const isAlive = (now: Date) =>
  and(
    gt(portalSessions.expiresAt, now),
    isNull(organizations.archivedAt),
    or(
      isNull(portalSessions.operatorId),
      sql`exists (select from ${operators} where ${operators.userId} = ${portalSessions.operatorId})`,
    ),
    or(
      isNull(portalSessions.serviceKeyId),
      and(isNull(serviceKeys.revokedAt), or(isNull(serviceKeys.expiresAt), gt(serviceKeys.expiresAt, now))),
    ),
  );

const isOfMember = matches(memberships, {
  orgId: portalSessions.organizationId,
  userId: portalSessions.memberId,
});

export type PortalSession = Awaited<ReturnType<typeof selectSessions>>[number];

/** Newest first. The member has no role after losing the membership. */
const selectSessions = (orm: Orm, which: SQL, now: Date, limit: number) =>
  orm
    .select({
      ...getTableColumns(portalSessions),
      organization: organizations,
      serviceKeyName: serviceKeys.name,
      member: { userId: users.id, email: users.email, userName: users.name, role: memberships.role },
    })
    .from(portalSessions)
    .innerJoin(organizations, eq(organizations.id, portalSessions.organizationId))
    .leftJoin(serviceKeys, eq(serviceKeys.id, portalSessions.serviceKeyId))
    .leftJoin(memberships, isOfMember)
    .leftJoin(users, eq(users.id, portalSessions.memberId))
    .where(and(which, isAlive(now)))
    .orderBy(desc(portalSessions.id))
    .limit(limit);

export const findSession = async (orm: Orm, hashedToken: string, now: Date) =>
  (await selectSessions(orm, eq(portalSessions.hashedToken, hashedToken), now, 1))[0];

export const listSessions = (orm: Orm, organizationId: string, now: Date, limit: number) =>
  selectSessions(orm, eq(portalSessions.organizationId, organizationId), now, limit);

export const insertSession = (tx: Tx, row: typeof portalSessions.$inferInsert): Promise<unknown> =>
  tx.insert(portalSessions).values(row);

/** False if the link was opened before, or was created before `since`. */
export function openSession(
  orm: Orm,
  hashedLink: string,
  { hashedToken, since, now }: { hashedToken: string; since: Date; now: Date },
): Promise<boolean> {
  const isUnopened = and(
    matches(portalSessions, { hashedLink, hashedToken: null }),
    gt(portalSessions.createdAt, since),
    gt(portalSessions.expiresAt, now),
  );
  return hasChanged(orm.update(portalSessions).set({ hashedToken }).where(isUnopened));
}

export async function deleteSessions(tx: Tx, organizationId: string, now: Date): Promise<number> {
  const deleted = await tx
    .delete(portalSessions)
    .where(eq(portalSessions.organizationId, organizationId))
    .returning({ expiresAt: portalSessions.expiresAt });
  return deleted.filter(({ expiresAt }) => expiresAt > now).length;
}

export const deleteSession = (orm: Orm, id: string): Promise<unknown> =>
  orm.delete(portalSessions).where(eq(portalSessions.id, id));

export const deleteExpiredPortalSessions = (orm: Orm, now: Date): Promise<unknown> =>
  orm.delete(portalSessions).where(lte(portalSessions.expiresAt, now));

/** Locks the session and the membership, so that neither ends before the commit. */
export const lockMember = (tx: Orm, hashedToken: string, now: Date) =>
  firstRow(
    tx
      .select({ role: memberships.role, organization: organizations })
      .from(portalSessions)
      .innerJoin(memberships, isOfMember)
      .innerJoin(organizations, eq(organizations.id, portalSessions.organizationId))
      .leftJoin(serviceKeys, eq(serviceKeys.id, portalSessions.serviceKeyId))
      .where(and(eq(portalSessions.hashedToken, hashedToken), isAlive(now)))
      .for('share', { of: [portalSessions, memberships] }),
  );
