import { v7 as uuid } from 'uuid';
import { recordAudit, recordOperatorAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { lockOrganization } from '../organizations/queries.js';
import { updateSession } from '../session/queries.js';
import { startSession, type Arrival, type SessionPerson } from '../session/session.js';
import { endFormer } from '../sign-in/sign-in.js';
import type { Source } from '../source.js';
import { findUser, insertUser, proveAddress } from '../users/queries.js';
import { closeInvitation, findInvitation, type Invitation } from './invitation-queries.js';
import { readInvitationToken } from './invitations.js';
import { findMember, lockPerson, insertMembership } from './queries.js';

/** Does not say why: whoever has the link may be a stranger. */
export class InvitationGone extends AppError {
  constructor() {
    super(
      'not_found',
      'This invitation does not work. It may have been used, replaced or revoked, or have expired.',
    );
  }
}

/** The Organization is archived. */
export class InvitationVoid extends AppError {
  readonly orgName: string;
  constructor(orgName: string) {
    super('forbidden_role', `${orgName} is archived. The invitation works again after it is restored.`);
    this.orgName = orgName;
  }
}

/** `isMember` is true if the person already belongs. @throws InvitationGone, InvitationVoid */
export async function getInvitation(orm: Orm, token: unknown, userId: string | undefined, now: Date) {
  const key = readInvitationToken(token);
  const invitation = key && (await findInvitation(orm, key.orgId, key, now));
  if (!invitation) throw new InvitationGone();
  const member = userId === undefined ? undefined : await findMember(orm, invitation.orgId, userId);
  const isTheirs = member !== undefined && invitation.acceptedBy === userId;
  if (!invitation.isOpen && !isTheirs) throw new InvitationGone();
  if (invitation.isArchived) throw new InvitationVoid(invitation.orgName);
  return { ...invitation, isMember: member !== undefined };
}

/** False if the person was already a member; the invitation then stays open. */
export async function joinAs(tx: Tx, person: SessionPerson, token: unknown, source: Source) {
  const { orgId } = readInvitationToken(token) ?? {};
  if (orgId === undefined) throw new InvitationGone();
  await lockOrganization(tx, { id: orgId });
  const invitation = await getInvitation(tx, token, person.userId, source.at);
  if (!invitation.isMember) {
    if (!(await lockPerson(tx, person.userId)))
      throw new AppError('not_signed_in', 'Sign in first, at /login.');
    await addJoined(tx, invitation, person, source, false);
    if (invitation.provesAddress && invitation.email === person.email)
      await proveAddress(tx, person.userId, source.at);
  } else if (invitation.acceptedBy !== person.userId) return false;
  await updateSession(tx, person.sessionId, { currentOrgId: orgId });
  return true;
}

export async function joinWithNewAccount(
  tx: Tx,
  token: unknown,
  { name, passwordHash }: { name: string; passwordHash: string },
  arrival: Arrival,
): Promise<string> {
  const { at, ip, requestId } = arrival;
  const { orgId } = readInvitationToken(token) ?? {};
  const organization = orgId === undefined ? undefined : await lockOrganization(tx, { id: orgId });
  if (!organization) throw new InvitationGone();
  const invitation = await getInvitation(tx, token, undefined, at);
  const { email } = invitation;
  if (await findUser(tx, { email })) throw hasAccount();
  const provenAt = invitation.provesAddress ? at : null;
  const user = { id: uuid(), email, name, passwordHash, createdAt: at, provenAt };
  const source = { at, ip, requestId, actor: user.id };
  await insertUser(tx, user);
  await addJoined(tx, invitation, { userId: user.id, email }, source, true);
  // Operators are responsible for all accounts, so the operator log records this one too.
  const details = { after: { name }, invitedTo: organization.slug };
  await recordOperatorAudit(tx, { ...source, action: 'user.created', target: email, details });
  await endFormer(tx, arrival);
  const start = { isSingleSignOn: false, isConfirmed: true, currentOrgId: organization.id };
  return startSession(tx, user.id, arrival, start);
}

async function addJoined(
  tx: Tx,
  invitation: Invitation,
  { userId, email }: Pick<SessionPerson, 'userId' | 'email'>,
  source: Source,
  isNewAccount: boolean,
): Promise<void> {
  const { id, orgId, role } = invitation;
  if (!(await closeInvitation(tx, orgId, id, { acceptedAt: source.at, acceptedBy: userId })))
    throw new InvitationGone();
  await insertMembership(tx, orgId, { userId, role, createdAt: source.at });
  const details = { invitationId: id, invited: invitation.email, after: { role }, isNewAccount };
  await recordAudit(tx, orgId, { ...source, action: 'member.joined', target: email, details });
}

export const hasAccount = () =>
  new AppError('invalid_request', 'An account with this address exists now. Sign in with it to join.');
