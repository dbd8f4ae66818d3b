import { and, asc, eq, gt, gte, inArray, lt, ne, not, or, sql } from 'drizzle-orm';
import { auditLog } from '../../audit/table.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { containsText, firstRow, hasRow, hasChanged, firstValue, matches } from '../../../core/db/sql.js';
import type { Range } from '../../../core/http/page.js';
import { firstIdOf } from '../../../core/ids.js';
import { invitations, memberships, users, type Role } from '../../organizations/table.js';
import { hasFactor } from '../second-factor/queries.js';

export type Member = NonNullable<Awaited<ReturnType<typeof findMember>>>;

interface MemberRange extends Range {
  /** Case-insensitive; matches any part of the address or name. */
  search?: string | undefined;
}

const columns = {
  userId: users.id,
  email: users.email,
  name: users.name,
  role: memberships.role,
  createdAt: memberships.createdAt,
};

const selectMembers = (orm: Orm) =>
  orm.select(columns).from(memberships).innerJoin(users, eq(users.id, memberships.userId));

export const findMember = (orm: Orm, orgId: string, userId: string) =>
  firstRow(selectMembers(orm).where(matches(memberships, { orgId, userId })));

export const findMemberByEmail = (orm: Orm, orgId: string, email: string): Promise<Member | undefined> =>
  firstRow(selectMembers(orm).where(and(eq(memberships.orgId, orgId), eq(users.email, email))));

export async function listMembers(orm: Orm, orgId: string, { after, limit, search }: MemberRange) {
  return orm
    .select({ ...columns, memberCount: countMembers(orm, orgId) })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(
      and(
        eq(memberships.orgId, orgId),
        after === undefined ? undefined : gt(users.email, after),
        search === undefined ? undefined : containsText(search, users.email, users.name),
      ),
    )
    .orderBy(asc(users.email))
    .limit(limit + 1);
}

export const countMembers = (orm: Orm, orgId: string) =>
  orm.$count(memberships, eq(memberships.orgId, orgId));

export const countWithoutFactor = (orm: Orm, orgId: string) =>
  orm.$count(memberships, and(eq(memberships.orgId, orgId), not(hasFactor(memberships.userId))));

const selectOtherOwner = (orm: Orm, orgId: string, userId: string) =>
  orm
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(and(matches(memberships, { orgId, role: 'owner' }), ne(memberships.userId, userId)))
    .limit(1);

export const hasOtherOwner = (orm: Orm, orgId: string, userId: string): Promise<boolean> =>
  hasRow(selectOtherOwner(orm, orgId, userId));

/** Deleting a user does not take the Organization's lock. */
export const lockOtherOwner = (tx: Tx, orgId: string, userId: string): Promise<boolean> =>
  hasRow(selectOtherOwner(tx, orgId, userId).for('share'));

export const lockPerson = (tx: Tx, userId: string): Promise<boolean> =>
  hasRow(tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('key share'));

export async function insertMembership(
  tx: Tx,
  orgId: string,
  { userId, role, createdAt }: Pick<Member, 'userId' | 'role' | 'createdAt'>,
): Promise<void> {
  await tx.insert(memberships).values({ orgId, userId, role, createdAt });
}

export const updateRole = (tx: Tx, orgId: string, { userId, role }: Pick<Member, 'userId' | 'role'>) =>
  hasChanged(tx.update(memberships).set({ role }).where(matches(memberships, { orgId, userId })));

export const listMembershipsOf = (orm: Orm, userId: string) =>
  orm
    .select({
      orgId: memberships.orgId,
      userId: memberships.userId,
      role: memberships.role,
      createdAt: memberships.createdAt,
    })
    .from(memberships)
    .where(eq(memberships.userId, userId));

export const deleteMembership = (tx: Tx, orgId: string, userId: string): Promise<Role | undefined> =>
  firstValue(
    tx
      .delete(memberships)
      .where(matches(memberships, { orgId, userId }))
      .returning({ value: memberships.role }),
  );

/** `name` is user input. */
interface Origin {
  short: string;
  name: string | null;
  /** States whether the account already existed; null unless the person was invited. */
  account: string | null;
  invitedAt: Date | null;
}

const unknown: Origin = { short: 'Not recorded', name: null, account: null, invitedAt: null };

/** Uses the index on actions. */
export async function readOrigins(
  orm: Orm,
  orgId: string,
  members: readonly Pick<Member, 'userId' | 'email' | 'createdAt'>[],
): Promise<Map<string, Origin>> {
  if (members.length === 0) return new Map();
  const rows = await orm
    .select({
      target: auditLog.target,
      actor: auditLog.actor,
      details: auditLog.details,
      invitedAt: invitations.createdAt,
      action: auditLog.action,
      author: users.name,
    })
    .from(auditLog)
    .leftJoin(
      invitations,
      and(
        eq(invitations.orgId, auditLog.orgId),
        eq(invitations.id, sql`(${auditLog.details} ->> 'invitationId')::uuid`),
      ),
    )
    .leftJoin(
      users,
      eq(
        users.id,
        sql`coalesce(${invitations.createdBy}, case when ${auditLog.actor} ~ '^[0-9a-f-]{36}$' then ${auditLog.actor}::uuid end)`,
      ),
    )
    .where(
      and(
        eq(auditLog.orgId, orgId),
        inArray(auditLog.action, ['member.added', 'member.joined']),
        or(
          ...members.map(({ email, createdAt }) =>
            and(
              gte(auditLog.id, firstIdOf(createdAt.getTime())),
              lt(auditLog.id, firstIdOf(createdAt.getTime() + 1)),
              eq(auditLog.target, email),
            ),
          ),
        ),
      ),
    )
    .limit(members.length);
  const byEmail = new Map(rows.map((row) => [row.target, row]));
  return new Map(members.map(({ userId, email }) => [userId, toOrigin(byEmail.get(email))]));
}

type OriginRow = Pick<typeof auditLog.$inferSelect, 'action' | 'actor' | 'details'> &
  Pick<Origin, 'invitedAt'> & { author: string | null };

function toOrigin(row: OriginRow | undefined): Origin {
  if (row === undefined) return unknown;
  const { action, actor, details, invitedAt, author } = row;
  if (invitedAt !== null)
    return {
      short: 'Invited by',
      name: author ?? 'a former member',
      account:
        details.isNewAccount === true
          ? 'The account was created with the invitation.'
          : 'The account already existed.',
      invitedAt,
    };
  if (actor === 'operator' || actor.startsWith('operator:'))
    return { ...unknown, short: 'Added by the operator' };
  if (actor === 'single_sign_on') return { ...unknown, short: 'Added by single sign-on' };
  if (action === 'member.added' && author !== null) return { ...unknown, short: 'Added by', name: author };
  return actor === 'system' ? { ...unknown, short: 'Created with the demo' } : unknown;
}
