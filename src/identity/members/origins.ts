import { and, eq, gte, inArray, lt, or, sql } from 'drizzle-orm';
import { firstIdOf } from '../../audit/queries.js';
import { auditLog } from '../../audit/table.js';
import type { Orm } from '../../core/db/client.js';
import { invitations, users } from '../../organizations/table.js';
import type { Member } from './queries.js';

/** How a person became a member, in few words and as a sentence. A `name` was given by somebody. */
export interface Origin {
  short: string;
  name: string | null;
  /** What an account that existed before and one that the invitation made have apart. */
  account: string | null;
  invitedAt: Date | null;
}

const unknown: Origin = { short: 'Not recorded', name: null, account: null, invitedAt: null };

/**
 * Where members came from, by their ids, as the audit log has it: the entry of the moment in which the membership was made.
 * Entries have ids in the order of time, so each is found by the index on actions.
 */
export async function readOrigins(
  orm: Orm,
  orgId: string,
  members: readonly Pick<Member, 'userId' | 'email' | 'createdAt'>[],
): Promise<Map<string, Origin>> {
  if (members.length === 0) return new Map();
  const rows = await orm
    .select({
      target: auditLog.target,
      at: auditLog.at,
      actor: auditLog.actor,
      details: auditLog.details,
      invitedAt: invitations.createdAt,
      inviter: users.name,
    })
    .from(auditLog)
    .leftJoin(
      invitations,
      and(
        eq(invitations.orgId, auditLog.orgId),
        eq(invitations.id, sql`(${auditLog.details} ->> 'invitationId')::uuid`),
      ),
    )
    .leftJoin(users, eq(users.id, invitations.createdBy))
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

interface OriginRow {
  actor: string;
  details: Record<string, unknown>;
  invitedAt: Date | null;
  inviter: string | null;
}

function toOrigin(row: OriginRow | undefined): Origin {
  if (row === undefined) return unknown;
  const { actor, details, invitedAt, inviter } = row;
  if (invitedAt !== null)
    return {
      short: 'Invited by',
      name: inviter ?? 'a former member',
      account:
        details.isNewAccount === true
          ? 'The account was made by the invitation.'
          : 'The account was there before.',
      invitedAt,
    };
  if (actor === 'operator' || actor.startsWith('operator:'))
    return { ...unknown, short: 'Added by the operator' };
  return actor === 'system' ? { ...unknown, short: 'Made with the demo' } : unknown;
}
