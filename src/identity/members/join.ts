import { v7 as uuid } from 'uuid';
import { recordAudit, recordOperatorAudit } from '../../audit/audit.js';
import { findUserByEmail, updateSession } from '../session/queries.js';
import type { SessionPerson } from '../session/session.js';
import { hashToken } from '../session/session-cookie.js';
import { endToken } from '../sign-in/sign-in.js';
import { startSession } from '../session/start-session.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import type { Source } from '../operator/change.js';
import { insertUser } from '../users/queries.js';
import { closeAsAccepted, findInvitationByToken, type Invitation } from './invitation-queries.js';
import { readInvitationToken } from './invitation-token.js';
import { findMember, holdPerson, insertMembership, lockMembers } from './queries.js';

/** The link opens nothing. Why is not said: it may have come to anybody. */
export class InvitationGone extends AppError {
  constructor() {
    super(
      'not_found',
      'This invitation does not work. It may have been used, replaced or revoked, or have expired.',
    );
  }
}

/** An open invitation, or one that this person has accepted or, being a member, does not need. */
export interface FoundInvitation extends Invitation {
  isMember: boolean;
}

/**
 * What a link stands for, to whoever holds it.
 * @throws InvitationGone
 */
export async function getInvitation(
  orm: Orm,
  token: unknown,
  userId: string | undefined,
  now: Date,
): Promise<FoundInvitation> {
  const key = readInvitationToken(token);
  const invitation = key && (await findInvitationByToken(orm, key, now));
  if (!invitation) throw new InvitationGone();
  const member = userId === undefined ? undefined : await findMember(orm, invitation.orgId, userId);
  const isTheirs = member !== undefined && invitation.acceptedBy === userId;
  if (!invitation.isOpen && !isTheirs) throw new InvitationGone();
  return { ...invitation, isMember: member !== undefined };
}

/**
 * Makes the signed-in person a member and their session look at the Organization.
 * @returns false if they were a member before: then the invitation stays open
 * @throws InvitationGone
 */
export async function joinAs(
  tx: Tx,
  person: SessionPerson,
  token: unknown,
  source: Source,
): Promise<boolean> {
  const { orgId } = readInvitationToken(token) ?? {};
  if (orgId === undefined) throw new InvitationGone();
  await lockMembers(tx, orgId);
  const invitation = await getInvitation(tx, token, person.userId, source.at);
  if (!invitation.isMember) {
    if (!(await holdPerson(tx, person.userId)))
      throw new AppError('not_signed_in', 'Sign in first, at /login.');
    await addJoined(tx, invitation, person, source, false);
  } else if (invitation.acceptedBy !== person.userId) return false;
  await updateSession(tx, person.sessionId, { currentOrgId: orgId });
  return true;
}

export interface NewAccount {
  name: string;
  passwordHash: string;
  browser: { formerToken: string | undefined; ip: string; userAgent: string };
}

/**
 * Makes an account for the invited address, a member of the Organization and signed in.
 * @returns the token of its session
 * @throws InvitationGone; AppError invalid_request if the address has an account by now
 */
export async function joinWithNewAccount(
  tx: Tx,
  token: unknown,
  { name, passwordHash, browser }: NewAccount,
  source: Omit<Source, 'actor'>,
): Promise<string> {
  const { orgId } = readInvitationToken(token) ?? {};
  const organization = orgId === undefined ? undefined : await lockMembers(tx, orgId);
  if (!organization) throw new InvitationGone();
  const invitation = await getInvitation(tx, token, undefined, source.at);
  const { email } = invitation;
  if (await findUserByEmail(tx, email)) throw hasAccount();
  const user = { id: uuid(), email, name, passwordHash, createdAt: source.at };
  const ownSource: Source = { ...source, actor: user.id };
  await insertUser(tx, user);
  await addJoined(tx, invitation, { userId: user.id, email }, ownSource, true);
  // Accounts are the operator's: the ones that came into being without them are in their log.
  const details = { after: { name }, invitedTo: organization.slug };
  await recordOperatorAudit(tx, { ...ownSource, action: 'user.created', target: email, details });
  // As for every sign-in, the session that the browser had before ends.
  if (browser.formerToken !== undefined) await endToken(tx, browser.formerToken, source);
  const session = await startSession(tx, user.id, browser, source.at);
  await updateSession(tx, hashToken(session), { currentOrgId: organization.id });
  return session;
}

async function addJoined(
  tx: Tx,
  invitation: Invitation,
  { userId, email }: Pick<SessionPerson, 'userId' | 'email'>,
  source: Source,
  isNewAccount: boolean,
): Promise<void> {
  const { id, orgId, role } = invitation;
  if (!(await closeAsAccepted(tx, orgId, id, { userId, now: source.at }))) throw new InvitationGone();
  await insertMembership(tx, orgId, { userId, role, createdAt: source.at });
  const details = { invitationId: id, invited: invitation.email, after: { role }, isNewAccount };
  await recordAudit(tx, orgId, { ...source, action: 'member.joined', target: email, details });
}

export const hasAccount = () =>
  new AppError('invalid_request', 'There is an account with this address by now. Sign in with it to join.');
