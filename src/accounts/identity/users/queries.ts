import { and, asc, eq, gt, gte, inArray, isNull, lte, max, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { containsText, firstRow, firstValue, queryRows, matches } from '../../../core/db/sql.js';
import { firstIdOf } from '../../../core/ids.js';
import { DAY_MS } from '../../../core/time.js';
import { operatorLog } from '../../audit/table.js';
import { memberships, users } from '../../organizations/table.js';
import type { Range } from '../../../core/http/page.js';
import { deleteOpenLinks, hasFactor } from '../second-factor/queries.js';
import { failedSignIns, oneTimeLinks, operators } from '../table.js';

export type User = typeof users.$inferSelect;

type UserName = { id: string } | { email: string };

const isUser = (by: UserName) => ('id' in by ? eq(users.id, by.id) : eq(users.email, by.email));

export const findUser = (orm: Orm, by: UserName): Promise<User | undefined> =>
  firstRow(orm.select().from(users).where(isUser(by)));

/** No sign-in by the user can complete in the meantime. */
export const lockUser = (tx: Tx, by: UserName): Promise<User | undefined> =>
  firstRow(tx.select().from(users).where(isUser(by)).for('no key update'));

/** Per page of a search. */
const MAX_SEARCHED = 100_000;

interface UserFilter {
  /** Case-insensitive; matches any part of the address or name. */
  search?: string | undefined;
  /** See `findSearchEnd`. */
  until?: string | undefined;
  failedSince?: Date | undefined;
}

/** Undefined if the search examines all remaining addresses. */
export const findSearchEnd = (orm: Orm, after: string | undefined): Promise<string | undefined> =>
  firstValue(
    orm
      .select({ value: users.email })
      .from(users)
      .where(after === undefined ? undefined : gt(users.email, after))
      .orderBy(asc(users.email))
      .offset(MAX_SEARCHED - 1)
      .limit(1),
  );

export async function listUsers(
  orm: Orm,
  { after, limit }: Range,
  { search, until, failedSince }: UserFilter = {},
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
        until === undefined ? undefined : lte(users.email, until),
        search === undefined ? undefined : containsText(search, users.email, users.name),
        failedSince && inArray(users.id, failed),
      ),
    )
    .orderBy(asc(users.email))
    .limit(limit + 1);
}

/** Each with at most this many customers. */
const MAX_CUSTOMERS = 3;

const SEEN_DAYS = 90;

/** By person. `lastSeenAt` is null without an open session or a recent sign-in; `unseen` is then shown. */
export async function readPeopleFacts(orm: Orm, ids: readonly string[], nowMs: number) {
  const since = new Date(nowMs - SEEN_DAYS * DAY_MS);
  const customers = sql`select o.slug, o.name from memberships m join organizations o on o.id = m.org_id
    where m.user_id = users.id order by o.name, o.slug limit ${MAX_CUSTOMERS}`;
  // All sign-ins are read once, not once per person.
  const signIns = orm
    .select({ actor: operatorLog.actor, at: max(operatorLog.at).as('at') })
    .from(operatorLog)
    .where(
      and(
        eq(operatorLog.action, 'user.signed_in'),
        gte(operatorLog.id, firstIdOf(since.getTime())),
        inArray(operatorLog.actor, [...ids]),
      ),
    )
    .groupBy(operatorLog.actor);
  const rows = await queryRows(orm)<{
    id: string;
    customers: { slug: string; name: string }[];
    hasFactor: boolean;
    lastSeenAt: string | null;
    unseen: string;
  }>`
    select users.id::text, ${hasFactor(users.id)} as "hasFactor",
      (select coalesce(json_agg(c), '[]') from (${customers}) c) as customers,
      to_json(greatest((select max(s.last_seen_at) from sessions s where s.user_id = users.id), l.at))
        #>> '{}' as "lastSeenAt",
      case when users.created_at < ${since.toISOString()}::timestamptz then ${`Not in ${SEEN_DAYS} days`}::text else 'Never' end as unseen
    from users left join (${signIns}) l on l.actor = users.id::text where ${inArray(users.id, [...ids])}`;
  return new Map(
    rows.map(({ id, lastSeenAt, ...facts }) => [
      id,
      { ...facts, lastSeenAt: lastSeenAt === null ? null : new Date(lastSeenAt) },
    ]),
  );
}

/** Changes nothing if the password has been changed meanwhile. */
export const replaceHash = (orm: Orm, { id, passwordHash }: User, to: string): Promise<unknown> =>
  orm.update(users).set({ passwordHash: to }).where(matches(users, { id, passwordHash }));

export const insertUser = (tx: Tx, user: User): Promise<unknown> => tx.insert(users).values(user);

/** A new password deletes open links for resetting it. */
export async function updateUser(tx: Tx, id: string, values: { name?: string; passwordHash?: string }) {
  await tx.update(users).set(values).where(eq(users.id, id));
  if (values.passwordHash !== undefined) await deleteOpenLinks(tx, id, 'password_reset');
}

/** An earlier proof stays. */
export const proveAddress = (tx: Tx, id: string, provenAt: Date): Promise<unknown> =>
  tx
    .update(users)
    .set({ provenAt })
    .where(and(eq(users.id, id), isNull(users.provenAt)));

/** Deletes sessions and links, too. Keys and memberships must be deleted first. */
export async function deleteUserRow(tx: Tx, { id, email }: Pick<User, 'id' | 'email'>): Promise<boolean> {
  const isDeleted = (await tx.delete(users).where(eq(users.id, id)).returning({ id: users.id })).length > 0;
  // An operator invitation refers to an address, not to an account.
  const isInvitation = matches(oneTimeLinks, { kind: 'operator_invitation', email });
  await tx.delete(oneTimeLinks).where(and(isInvitation, isNull(oneTimeLinks.usedAt)));
  return isDeleted;
}

export async function deleteMembershipsOf(tx: Tx, userId: string) {
  return tx
    .delete(memberships)
    .where(eq(memberships.userId, userId))
    .returning({ orgId: memberships.orgId, role: memberships.role });
}

/** Raw SQL, because the API keys module depends on this one. */
export async function forgetKeyCreator(tx: Tx, userId: string): Promise<void> {
  await tx.execute(sql`update api_keys set created_by = null where created_by = ${userId}`);
}

export const findOperatorNames = (orm: Orm, emails: string[]) =>
  orm
    .select({ name: users.name, email: users.email })
    .from(users)
    .innerJoin(operators, eq(operators.userId, users.id))
    .where(inArray(users.email, emails));
