import { sql } from 'drizzle-orm';
import type { Request, Response } from 'express';
import { change, type Authority, type ChangeDeps } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { hasRow, queryRows } from '../../../core/db/sql.js';
import { AppError } from '../../../core/errors.js';
import { requestIdOf } from '../../../core/http/request.js';
import { MINUTE_MS } from '../../../core/time.js';
import { lockOrganizationId, roles as allRoles, type Role } from '../../organizations/table.js';
import { hasFactor, hasSecondFactor } from '../second-factor/queries.js';
import {
  onlyFor,
  factorRequired,
  organizationArchived,
  personOf,
  personSource,
  sessionOf,
  singleSignOnRequired,
  type SessionPerson,
} from './session.js';
import type { Source, Whereabouts } from '../source.js';
import { idleSince } from './queries.js';

export interface PersonAuthority extends Authority {
  userId: string;
  /** Hash of the session's token. */
  sessionId: string;
}

export interface MemberAuthority extends Authority {
  userId: string;
}

interface Member {
  orgId: string;
  userId: string;
  /** Hash of the session's token. */
  sessionId: string;
  roles: readonly Role[];
}

export interface OperatorAuthority extends Authority {
  actor: string;
}

export function byMember(res: Response): MemberAuthority {
  const { orgId, userId, sessionId, portal } = sessionOf(res);
  const roles = (res.locals.requiredRoles as readonly Role[] | undefined) ?? allRoles;
  return portal ? portal.authorityOf(roles) : memberAuthority({ orgId, userId, sessionId, roles });
}

export interface MemberActor extends Pick<Whereabouts, 'ip' | 'requestId'> {
  orgId: string;
  userId: string;
  by: Authority;
  /** The service key or operator that vouches for a person in a portal. */
  voucher?: string;
}

export function memberActor(req: Request, res: Response): MemberActor {
  const { orgId, userId, portal } = sessionOf(res);
  const voucher = portal && { voucher: portal.name };
  return { orgId, userId, by: byMember(res), ip: req.ip, requestId: requestIdOf(res), ...voucher };
}

/** The operator has the rights of an owner. */
export function operatorActor(req: Request, res: Response, orgId: string): MemberActor {
  const by = byOperator(res);
  return { orgId, userId: by.actor, by, ip: req.ip, requestId: requestIdOf(res) };
}

export function changeAsMember<T>(
  deps: ChangeDeps,
  req: Request,
  res: Response,
  work: (tx: Tx, orgId: string, source: Source) => Promise<T>,
): Promise<T> {
  const { orgId } = sessionOf(res);
  const source = personSource(req, res, deps.clock);
  return change(deps, byMember(res), (tx) => work(tx, orgId, source));
}

/** Takes the Organization's lock, so that the data that changes read stays valid. */
export const memberAuthority = (member: Member): MemberAuthority => ({
  userId: member.userId,
  lock: (tx) => lockOrganizationId(tx, member.orgId),
  confirm: (tx, now) => confirmMember(tx, member, now),
});

/** @param isDangerous also requires a recent confirmation of identity */
export function byPerson(res: Response, isDangerous = false): PersonAuthority {
  const { userId, sessionId } = personOf(res);
  return {
    userId,
    sessionId,
    confirm: (tx, now) => confirmPerson(tx, { userId, sessionId }, isDangerous, now),
  };
}

/** A later dangerous change requires the password and code again. */
const CONFIRMED_MS = 10 * MINUTE_MS;

const confirmedSince = (now: Date): Date => new Date(now.getTime() - CONFIRMED_MS);

export const isConfirmedAt = ({ confirmedAt }: SessionPerson, now: Date): boolean =>
  confirmedAt !== null && confirmedAt > confirmedSince(now);

export const operatorPerson = (
  { email, userId, sessionId }: Session & { email: string },
  isDangerous: boolean,
): OperatorAuthority => ({
  actor: `operator:${email}`,
  confirm: (tx, now) => confirmOperator(tx, { userId, sessionId }, isDangerous, now),
});

export function byOperator(res: Response): OperatorAuthority {
  const operator = res.locals.operator as OperatorAuthority | undefined;
  if (!operator) throw new Error('this route is not behind requireOperator');
  return operator;
}

type Session = Pick<PersonAuthority, 'userId' | 'sessionId'>;

const isAlive = (now: Date) =>
  sql`s.expires_at > ${now.toISOString()}::timestamptz and s.last_seen_at > ${idleSince(now).toISOString()}::timestamptz`;

const wasConfirmed = (now: Date) =>
  sql`coalesce(s.confirmed_at > ${confirmedSince(now).toISOString()}::timestamptz, false)`;

/** Locked rows are read in their latest version, even if they changed after the statement began. */
async function confirmMember(tx: Orm, { orgId, roles, ...session }: Member, now: Date): Promise<void> {
  const [row] = await queryRows(tx)<{ role: Role; isSingleSignOn: boolean }>`
    select m.role, s.single_sign_on_at is not null or (m.role = 'owner' and
      coalesce(s.single_sign_on_waived_until > ${now.toISOString()}::timestamptz, false)) as "isSingleSignOn"
    from memberships m
    join users u on u.id = m.user_id
    join sessions s on s.user_id = u.id and s.hashed_token = ${session.sessionId} and ${isAlive(now)}
    where m.org_id = ${orgId} and m.user_id = ${session.userId}
    for share of m for share of u for key share of s`;
  if (!row) throw (await hasSession(tx, session, now)) ? noMember() : sessionEnded();
  if (!roles.includes(row.role)) throw wrongRole(row.role, roles);
  // Turning off a second factor locks the person's row, archiving the Organization. This transaction holds both locks.
  const lacksSingleSignOn = sql`(require_single_sign_on and not ${row.isSingleSignOn}::boolean)`;
  const [closed] = await queryRows(tx)<{ name: string; isArchived: boolean; lacksSingleSignOn: boolean }>`
    select name, archived_at is not null as "isArchived", ${lacksSingleSignOn} as "lacksSingleSignOn"
    from organizations where id = ${orgId} and (archived_at is not null or ${lacksSingleSignOn}
      or require_second_factor and not ${hasFactor(session.userId)})`;
  if (closed?.isArchived) throw organizationArchived(closed.name);
  if (closed)
    throw closed.lacksSingleSignOn ? singleSignOnRequired(closed.name) : factorRequired(closed.name);
}

async function confirmPerson(tx: Orm, session: Session, isDangerous: boolean, now: Date): Promise<void> {
  const { userId, sessionId } = session;
  const [row] = await queryRows(tx)<{ isConfirmed: boolean }>`
    select ${wasConfirmed(now)} as "isConfirmed" from users u
    join sessions s on s.user_id = u.id and s.hashed_token = ${sessionId} and ${isAlive(now)}
    where u.id = ${userId}
    for no key update of u for key share of s`;
  if (!row) throw sessionEnded();
  if (isDangerous && !row.isConfirmed) throw new ConfirmationDue();
}

/** Removing the operator or their second factor waits for this lock. */
async function confirmOperator(tx: Orm, session: Session, isDangerous: boolean, now: Date): Promise<void> {
  const { userId, sessionId } = session;
  const [row] = await queryRows(tx)<{ isConfirmed: boolean }>`select ${wasConfirmed(now)} as "isConfirmed"
    from operators o
    join users u on u.id = o.user_id
    join sessions s on s.user_id = u.id and s.hashed_token = ${sessionId} and ${isAlive(now)}
    where o.user_id = ${userId}
    for share of o for share of u for key share of s`;
  if (!row) throw (await hasSession(tx, session, now)) ? operatorsOnly() : sessionEnded();
  if (!(await hasSecondFactor(tx, userId))) throw operatorFactorRequired();
  if (isDangerous && !row.isConfirmed) throw new ConfirmationDue();
}

const hasSession = (tx: Orm, { sessionId, userId }: Session, now: Date): Promise<boolean> =>
  hasRow(
    queryRows(tx)`
      select 1 from sessions s where s.hashed_token = ${sessionId} and s.user_id = ${userId} and ${isAlive(now)}`,
  );

const sessionEnded = () =>
  new AppError('not_signed_in', 'This session has just ended. Nothing was changed. Sign in again.');

export const operatorsOnly = () =>
  new AppError('forbidden_role', 'Only operators of this service can do this.');

export const operatorFactorRequired = () =>
  new AppError('forbidden_role', 'Operators need a second factor. Set yours up at /set-up.');

export class ConfirmationDue extends AppError {
  constructor() {
    super('forbidden_role', 'Nothing was changed. Confirm your identity at /confirm first.');
  }
}

export const noMember = () =>
  new AppError('forbidden_role', 'You no longer belong to this Organization. Nothing was changed.');

export const wrongRole = (role: Role, allowed: readonly Role[]) =>
  new AppError('forbidden_role', `${onlyFor(allowed)} Your role is ${role} now.`);
