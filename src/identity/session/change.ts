import { and, eq, sql } from 'drizzle-orm';
import { apiKeys } from '../../api-keys/table.js';
import type { Clock } from '../../core/clock.js';
import type { Database, Orm, Tx } from '../../core/db/client.js';
import { retryOnConflict } from '../../core/db/conflict.js';
import { selectRows } from '../../core/db/select-rows.js';
import { AppError } from '../../core/errors.js';
import { organizations, type Role } from '../../organizations/table.js';
import type { Authority, KeyAuthority, MemberAuthority, PersonAuthority } from './authority.js';
import { invalidKey } from '../../api-keys/bearer-key.js';
import { keyError, type KeyProblem } from '../../api-keys/key-problem.js';
import { factorRequired } from './session.js';
import { idleSince } from './session-lifetime.js';

export interface ChangeDeps {
  db: Pick<Database, 'orm'>;
  clock: Clock;
}

/**
 * The one path of every change: one transaction in which the author's authority is read again and held, so that whoever
 * was removed, demoted, signed out or revoked while their request was on its way changes nothing. Starts again when
 * another request got in between; inside `work` use only the `tx` it is given.
 *
 * Changes of a member wait for each other under the Organization's lock: what is read after it stays true. Locks are taken
 * in the order Organization, membership, User, session, audit chain.
 * @throws AppError not_signed_in, forbidden_role, invalid_key, key_revoked, key_expired, insufficient_scope
 */
export function change<T>(
  { db, clock }: ChangeDeps,
  by: Authority,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return retryOnConflict(() =>
    db.orm.transaction(
      async (tx) => {
        if (by.kind === 'member') await lockOrganization(tx, by.orgId);
        return work(await confirmAuthority(tx, by, new Date(clock.now())));
      },
      // Each statement sees what was committed while it waited for the locks.
      { isolationLevel: 'read committed' },
    ),
  );
}

/**
 * Reads the authority of a change again and holds it until the transaction ends. For transactions of hot statements,
 * which take locks of their own first; everything else goes through `change`.
 * @throws as `change`
 */
export async function confirmAuthority(tx: Orm, by: Authority, now: Date): Promise<Tx> {
  if (by.kind === 'member') await confirmMember(tx, by, now);
  else if (by.kind === 'person') await confirmPerson(tx, by, now);
  else if (by.kind === 'key') await confirmKey(tx, by, now);
  else if (by.kind === 'operator' && !by.isConfigured())
    throw new AppError('invalid_key', 'This operator token is no longer valid.');
  return tx as unknown as Tx;
}

/** `no key update`, because rows that merely point at the Organization need not wait. */
async function lockOrganization(tx: Orm, orgId: string): Promise<void> {
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(eq(organizations.id, orgId))
    .for('no key update');
}

const isAlive = (now: Date) =>
  sql`s.expires_at > ${now.toISOString()}::timestamptz and s.last_seen_at > ${idleSince(now).toISOString()}::timestamptz`;

/** Rows that are locked are read as they are once the lock is had, whatever the statement saw when it began. */
async function confirmMember(tx: Orm, by: MemberAuthority, now: Date): Promise<void> {
  const [row] = await selectRows<{ role: Role }>(
    tx,
    sql`select m.role
    from memberships m
    join users u on u.id = m.user_id
    join sessions s on s.user_id = u.id and s.hashed_token = ${by.sessionId} and ${isAlive(now)}
    where m.org_id = ${by.orgId} and m.user_id = ${by.userId}
    for share of m for share of u for key share of s`,
  );
  if (!row) throw (await hasSession(tx, by, now)) ? noMember() : sessionEnded();
  if (!by.roles.includes(row.role)) throw wrongRole(row.role, by.roles);
  // Whoever turns a factor off waits for the person's row, which is held by now.
  const [lacking] = await selectRows<{ name: string }>(
    tx,
    sql`select name from organizations where id = ${by.orgId} and require_second_factor
      and not exists (select 1 from second_factors where user_id = ${by.userId} and confirmed_at is not null)`,
  );
  if (lacking) throw factorRequired(lacking.name);
}

/** What a person changes of their own account waits for what they change elsewhere. */
async function confirmPerson(tx: Orm, by: PersonAuthority, now: Date): Promise<void> {
  const rows = await selectRows(
    tx,
    sql`select 1 from users u
    join sessions s on s.user_id = u.id and s.hashed_token = ${by.sessionId} and ${isAlive(now)}
    where u.id = ${by.userId}
    for no key update of u for key share of s`,
  );
  if (rows.length === 0) throw sessionEnded();
}

async function hasSession(tx: Orm, { sessionId, userId }: PersonAuthority | MemberAuthority, now: Date) {
  const rows = await selectRows(
    tx,
    sql`select 1 from sessions s where s.hashed_token = ${sessionId} and s.user_id = ${userId} and ${isAlive(now)}`,
  );
  return rows.length > 0;
}

async function confirmKey(tx: Orm, { orgId, keyId, scope }: KeyAuthority, now: Date): Promise<void> {
  const [key] = await tx
    .select({ revokedAt: apiKeys.revokedAt, expiresAt: apiKeys.expiresAt, scopes: apiKeys.scopes })
    .from(apiKeys)
    .where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, keyId)))
    .for('share');
  if (!key) throw invalidKey();
  const problem: KeyProblem | null =
    key.revokedAt !== null
      ? 'key_revoked'
      : key.expiresAt !== null && key.expiresAt <= now
        ? 'key_expired'
        : key.scopes.includes(scope)
          ? null
          : 'insufficient_scope';
  const error = keyError(problem, scope);
  if (error) throw error;
}

const sessionEnded = () =>
  new AppError('not_signed_in', 'This session was ended just now. Sign in again; nothing was changed.');

const noMember = () =>
  new AppError('forbidden_role', 'You no longer belong to this Organization. Nothing was changed.');

const wrongRole = (role: Role, allowed: readonly Role[]) =>
  new AppError('forbidden_role', `You are ${role} by now; this needs the role ${allowed.join(' or ')}.`);
