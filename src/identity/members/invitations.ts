import { v7 as uuid } from 'uuid';
import { recordAudit } from '../../audit/audit.js';
import type { Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import type { Source } from '../operator/change.js';
import type { Role } from '../../organizations/table.js';
import { fieldError } from '../../core/pages/form.js';
import {
  closeAsRevoked,
  countOpenInvitations,
  findInvitation,
  findUnclosedInvitation,
  insertInvitation,
  type Invitation,
} from './invitation-queries.js';
import { generateInvitationToken } from './invitation-token.js';
import { ownersOnly, requireManager } from './members.js';
import { findMemberByEmail, lockMembers } from './queries.js';
import { mayManage } from './roles.js';

/** Invitations of an Organization that are open at the same time. */
export const MAX_OPEN_INVITATIONS = 100;

const DAY_MS = 24 * 60 * 60 * 1000;

export interface InvitationInput {
  /** Made with the form, so that the same form makes one invitation however often it arrives. */
  id: string;
  email: string;
  role: Role;
  days: number;
}

export interface NewInvitation {
  /** The secret of the link. The only time it is seen. */
  token: string;
  expiresAt: Date;
}

/**
 * Invites an address. An invitation that is open for it already is replaced: its link stops working.
 * @returns undefined if the same form was carried out before; the link is not known any more
 * @throws AppError forbidden_role, invalid_request
 */
export async function invite(
  tx: Tx,
  orgId: string,
  input: InvitationInput,
  source: Source,
): Promise<NewInvitation | undefined> {
  const { email, role, days } = input;
  await lockMembers(tx, orgId);
  const me = await requireManager(tx, orgId, source.actor);
  if (!mayManage(me.role, role)) throw ownersOnly();
  const earlier = await findInvitation(tx, orgId, input.id, source.at);
  if (earlier && isSame(earlier, input)) return undefined;
  if (await findMemberByEmail(tx, orgId, email)) throw fieldError('email', 'belongs to a member already');
  const replaced = await findUnclosedInvitation(tx, orgId, email, source.at);
  if (replaced) {
    if (replaced.isOpen && !mayManage(me.role, replaced.role)) throw ownersOnly();
    await closeAsRevoked(tx, orgId, replaced.id, source.at);
  }
  if ((await countOpenInvitations(tx, orgId, source.at)) >= MAX_OPEN_INVITATIONS) throw tooMany();

  // Somebody who goes back to a form that was carried out and writes another address into it means another invitation.
  const id = earlier ? uuid() : input.id;
  const { token, hashedToken } = generateInvitationToken(orgId);
  const expiresAt = new Date(source.at.getTime() + days * DAY_MS);
  const row = { id, email, role, createdBy: me.userId, createdAt: source.at, expiresAt };
  await insertInvitation(tx, { ...row, orgId, hashedToken });
  const details = { invitationId: id, role, expiresAt, ...(replaced ? { replacedId: replaced.id } : {}) };
  await recordAudit(tx, orgId, { ...source, action: 'member.invited', target: email, details });
  return { token, expiresAt };
}

const isSame = (earlier: Invitation, { email, role, days }: InvitationInput): boolean =>
  earlier.email === email &&
  earlier.role === role &&
  earlier.expiresAt.getTime() - earlier.createdAt.getTime() === days * DAY_MS;

/**
 * Makes an invitation's link stop working. One that was revoked before stays as it is.
 * @throws AppError not_found (also one that was accepted), forbidden_role
 */
export async function revokeInvitation(tx: Tx, orgId: string, id: string, source: Source): Promise<void> {
  await lockMembers(tx, orgId);
  const me = await requireManager(tx, orgId, source.actor);
  const invitation = await findInvitation(tx, orgId, id, source.at);
  if (!invitation) throw new AppError('not_found', 'There is no such invitation.');
  const { email, role } = invitation;
  if (!mayManage(me.role, role)) throw ownersOnly();
  if (invitation.acceptedAt !== null)
    throw new AppError(
      'not_found',
      'This invitation has been accepted. Look for the person among the members.',
    );
  if (!(await closeAsRevoked(tx, orgId, id, source.at))) return;
  const details = { invitationId: id, role };
  await recordAudit(tx, orgId, { ...source, action: 'invitation.revoked', target: email, details });
}

const tooMany = () =>
  new AppError(
    'invalid_request',
    `At most ${MAX_OPEN_INVITATIONS} invitations can be open at the same time. Revoke one that is no longer needed.`,
  );
