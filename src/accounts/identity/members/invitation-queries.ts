import { and, count, desc, eq, exists, gt, isNull, ne, not, or, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { firstRow, hasRow, hasChanged, firstValue, matches } from '../../../core/db/sql.js';
import { invitations, memberships, organizations, users } from '../../organizations/table.js';
import { operators } from '../table.js';

/** Possibly expired. At most one per address. */
const isUnclosed = and(isNull(invitations.acceptedAt), isNull(invitations.revokedAt));

const isByMember = matches(memberships, { orgId: invitations.orgId, userId: invitations.createdBy });

/** A removed or demoted sender's invitations are void. */
const isBacked = (orm: Orm) =>
  or(
    eq(memberships.role, 'owner'),
    and(eq(memberships.role, 'admin'), ne(invitations.role, 'owner')),
    isByOperator(orm),
  );

const isByOperator = (orm: Orm) =>
  exists(orm.select().from(operators).where(eq(operators.userId, invitations.createdBy)));

const isOpen = (orm: Orm, now: Date) => and(isUnclosed, gt(invitations.expiresAt, now), isBacked(orm))!;

const invitationColumns = (orm: Orm, now: Date) => ({
  id: invitations.id,
  email: invitations.email,
  role: invitations.role,
  createdAt: invitations.createdAt,
  expiresAt: invitations.expiresAt,
  acceptedAt: invitations.acceptedAt,
  acceptedBy: invitations.acceptedBy,
  creatorName: users.name,
  orgId: organizations.id,
  orgSlug: organizations.slug,
  orgName: organizations.name,
  isArchived: sql<boolean>`${organizations.archivedAt} is not null`,
  /** False if the inviter has seen the link and could use it in place of the invited person. */
  provesAddress: sql<boolean>`${invitations.mailed} or ${isByOperator(orm)}`,
  isOpen: sql<boolean>`coalesce(${isOpen(orm, now)}, false)`,
});

const selectInvitations = (orm: Orm, now: Date) =>
  orm
    .select(invitationColumns(orm, now))
    .from(invitations)
    .innerJoin(organizations, eq(organizations.id, invitations.orgId))
    .leftJoin(memberships, isByMember)
    .leftJoin(users, eq(users.id, invitations.createdBy));

export type Invitation = NonNullable<Awaited<ReturnType<typeof findInvitation>>>;

export function listOpenInvitations(orm: Orm, orgId: string, now: Date, limit: number) {
  return selectInvitations(orm, now)
    .where(and(eq(invitations.orgId, orgId), isOpen(orm, now)))
    .orderBy(desc(invitations.createdAt), desc(invitations.id))
    .limit(limit);
}

export async function countOpenInvitations(orm: Orm, orgId: string, now: Date): Promise<number> {
  const [row] = await orm
    .select({ open: count() })
    .from(invitations)
    .leftJoin(memberships, isByMember)
    .where(and(eq(invitations.orgId, orgId), isOpen(orm, now)));
  return row!.open;
}

/** Undefined if fewer were created after `since`. */
export const findNthInvitation = (orm: Orm, orgId: string, count: number, since: Date) =>
  firstValue(
    orm
      .select({ value: invitations.createdAt })
      .from(invitations)
      .where(and(eq(invitations.orgId, orgId), gt(invitations.createdAt, since)))
      .orderBy(desc(invitations.createdAt))
      .offset(count - 1)
      .limit(1),
  );

export const findInvitation = (
  orm: Orm,
  orgId: string,
  by: { id: string } | { hashedToken: string } | { email: string },
  now: Date,
) => firstRow(selectInvitations(orm, now).where(and(eq(invitations.orgId, orgId), isInvitation(by))));

function isInvitation(by: Parameters<typeof findInvitation>[2]) {
  if ('id' in by) return eq(invitations.id, by.id);
  if ('hashedToken' in by) return eq(invitations.hashedToken, by.hashedToken);
  return and(eq(invitations.email, by.email), isUnclosed);
}

/** No operator sent the invitation. */
export async function isByMemberAlone(
  orm: Orm,
  { orgId, userId, createdAt }: { orgId: string; userId: string; createdAt: Date },
): Promise<boolean> {
  const isAccepted = matches(invitations, { orgId, acceptedBy: userId, acceptedAt: createdAt });
  return hasRow(
    orm
      .select({ id: invitations.id })
      .from(invitations)
      .where(and(isAccepted, not(isByOperator(orm))))
      .limit(1),
  );
}

export const hasAccepted = (orm: Orm, orgId: string, userId: string): Promise<boolean> =>
  hasRow(
    orm
      .select({ id: invitations.id })
      .from(invitations)
      .where(matches(invitations, { orgId, acceptedBy: userId }))
      .limit(1),
  );

export async function insertInvitation(tx: Tx, row: typeof invitations.$inferInsert): Promise<void> {
  await tx.insert(invitations).values(row);
}

/** Returns true for only one of two concurrent calls. */
export const closeInvitation = (
  tx: Tx,
  orgId: string,
  id: string,
  values: { revokedAt: Date } | { acceptedAt: Date; acceptedBy: string },
): Promise<boolean> =>
  hasChanged(
    tx
      .update(invitations)
      .set(values)
      .where(and(matches(invitations, { orgId, id }), isUnclosed)),
  );
