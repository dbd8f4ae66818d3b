import { randomBytes } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { recordAudit } from '../../audit/audit.js';
import type { MailConfig } from '../../../core/config.js';
import type { Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { toAddress } from '../../../core/pages/address.js';
import { fieldError } from '../../../core/pages/form.js';
import { formatDuration, formatTime } from '../../../core/pages/format.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../core/time.js';
import type { Role } from '../../organizations/table.js';
import { plainName, queueMail } from '../../mail/outbox.js';
import { findOrganization, lockOrganization } from '../organizations/queries.js';
import { hashToken } from '../session/session-cookie.js';
import type { Source } from '../source.js';
import {
  closeInvitation,
  countOpenInvitations,
  findInvitation,
  findNthInvitation,
  insertInvitation,
  type Invitation,
} from './invitation-queries.js';
import { mayManage, ownersOnly, requireManager } from './members.js';
import { findMemberByEmail } from './queries.js';

export const MAX_OPEN_INVITATIONS = 100;

/** Each may send an e-mail to a stranger. */
const MAX_AN_HOUR = 50;

interface InvitationInput {
  /** Generated with the form, so that submitting it twice creates one invitation. */
  id: string;
  email: string;
  role: Role;
  days: number;
}

export interface NewInvitation {
  /** Undefined if the link was mailed: only its reader may use it. */
  token: string | undefined;
  expiresAt: Date;
}

/**
 * Replaces the address's open invitation.
 * @returns undefined if the same form was processed before, because its link cannot be shown again
 */
export async function invite(
  tx: Tx,
  orgId: string,
  input: InvitationInput,
  source: Source,
  mail: MailConfig | undefined,
): Promise<NewInvitation | undefined> {
  const { email, role } = input;
  await lockOrganization(tx, { id: orgId });
  const me = await requireManager(tx, orgId, source.actor);
  if (!mayManage(me.role, role)) throw ownersOnly();
  const earlier = await findInvitation(tx, orgId, { id: input.id }, source.at);
  if (earlier && isSame(earlier, input)) return undefined;
  const replaced = await findInvitation(tx, orgId, { email }, source.at);
  if (replaced?.isOpen && !mayManage(me.role, replaced.role)) throw ownersOnly();
  await requireRoomInHour(tx, orgId, source.at);
  // A form submitted again with other values creates another invitation.
  const invitation = { ...input, id: earlier ? uuid() : input.id, createdBy: me.userId };
  return addInvitation(tx, orgId, invitation, source, mail);
}

/** Counts revoked invitations too. */
async function requireRoomInHour(tx: Tx, orgId: string, at: Date): Promise<void> {
  const since = new Date(at.getTime() - HOUR_MS);
  const oldest = await findNthInvitation(tx, orgId, MAX_AN_HOUR, since);
  if (!oldest) return;
  const waitMs = oldest.getTime() - since.getTime();
  throw new AppError(
    'rate_limited',
    `An Organization can create at most ${MAX_AN_HOUR} invitations an hour. Try again in ${formatDuration(Math.max(waitMs, MINUTE_MS))}.`,
    { retryAfterSeconds: Math.ceil(waitMs / SECOND_MS) },
  );
}

/** An archived Organization's invitations are void, so none can be sent. */
export async function inviteAsOperator(
  tx: Tx,
  orgId: string,
  input: Omit<InvitationInput, 'id'>,
  operatorId: string,
  source: Source,
  mail: MailConfig | undefined,
): Promise<NewInvitation> {
  if ((await lockOrganization(tx, { id: orgId }))?.archivedAt)
    throw new AppError(
      'invalid_request',
      'This Organization is archived. Restore it before you invite people.',
    );
  return addInvitation(tx, orgId, { id: uuid(), ...input, createdBy: operatorId }, source, mail);
}

/** The caller must hold the Organization's lock. */
async function addInvitation(
  tx: Tx,
  orgId: string,
  { id, email, role, days, createdBy }: InvitationInput & { createdBy: string },
  source: Source,
  mail: MailConfig | undefined,
): Promise<NewInvitation> {
  if (await findMemberByEmail(tx, orgId, email)) throw fieldError('email', 'already belongs to a member');
  const replaced = await findInvitation(tx, orgId, { email }, source.at);
  if (replaced) await closeInvitation(tx, orgId, replaced.id, { revokedAt: source.at });
  if ((await countOpenInvitations(tx, orgId, source.at)) >= MAX_OPEN_INVITATIONS) throw tooMany();
  const { token, hashedToken } = generateInvitationToken(orgId);
  const expiresAt = new Date(source.at.getTime() + days * DAY_MS);
  const row = { orgId, id, email, role, createdBy, createdAt: source.at, expiresAt };
  const mailed = await mailInvitation(tx, mail, { ...row, token });
  await insertInvitation(tx, { ...row, hashedToken, mailed });
  const details = { invitationId: id, role, expiresAt, ...(replaced ? { replacedId: replaced.id } : {}) };
  await recordAudit(tx, orgId, { ...source, action: 'member.invited', target: email, details });
  return { token: mailed ? undefined : token, expiresAt };
}

async function mailInvitation(
  tx: Tx,
  mail: MailConfig | undefined,
  invitation: Pick<InvitationInput, 'email' | 'role'> &
    Record<'orgId' | 'token', string> &
    Record<'createdAt' | 'expiresAt', Date>,
): Promise<boolean> {
  if (!mail) return false;
  const { orgId, email, role, token, createdAt, expiresAt } = invitation;
  const name = plainName((await findOrganization(tx, { id: orgId }))!.name);
  return queueMail(tx, mail, {
    kind: 'invitation',
    to: email,
    subject: `Invitation to ${name} on Gauge`,
    text: (origin) => [
      `You are invited to join ${name} on Gauge with the role ${role}. Open this link to accept:`,
      toInvitationLink(origin, token),
      `It works once, until ${formatTime(expiresAt)}. If you do not know ${name}, ignore this e-mail.`,
    ],
    at: createdAt,
    uselessAt: expiresAt,
  });
}

const isSame = (earlier: Invitation, { email, role, days }: InvitationInput): boolean =>
  earlier.email === email &&
  earlier.role === role &&
  earlier.expiresAt.getTime() - earlier.createdAt.getTime() === days * DAY_MS;

export async function revokeInvitation(
  tx: Tx,
  orgId: string,
  id: string,
  source: Source,
  isByOperator = false,
): Promise<void> {
  await lockOrganization(tx, { id: orgId });
  const me = isByOperator ? undefined : await requireManager(tx, orgId, source.actor);
  const invitation = await findInvitation(tx, orgId, { id }, source.at);
  if (!invitation) throw new AppError('not_found', 'There is no such invitation.');
  const { email, role } = invitation;
  if (me && !mayManage(me.role, role)) throw ownersOnly();
  if (invitation.acceptedAt !== null)
    throw new AppError(
      'not_found',
      'This invitation was already accepted. The person is listed among the members.',
    );
  if (!(await closeInvitation(tx, orgId, id, { revokedAt: source.at }))) return;
  const details = { invitationId: id, role };
  await recordAudit(tx, orgId, { ...source, action: 'invitation.revoked', target: email, details });
}

const tooMany = () =>
  new AppError(
    'invalid_request',
    `At most ${MAX_OPEN_INVITATIONS} invitations can be open at the same time. Revoke one that is no longer needed.`,
  );

export const JOIN = '/dashboard/join';

/** Browsers never send what follows `#`. */
export const toInvitationLink = (origin: string, token: string): string => `${origin}${JOIN}#${token}`;

export const toJoinAddress = (token: unknown): string => (isTokenShaped(token) ? JOIN : '/login');

export const toSignInAddress = (token: unknown): string =>
  isTokenShaped(token) ? toAddress('/login', { next: toJoinAddress(token) }) : '/login';

const shape = /^[\w-]{64}$/;

/** The Organization's id and 256 random bits, in base64url. Only the hash is stored. */
export function generateInvitationToken(orgId: string): { token: string; hashedToken: string } {
  const id = Buffer.from(orgId.replaceAll('-', ''), 'hex');
  const token = Buffer.concat([id, randomBytes(32)]).toString('base64url');
  return { token, hashedToken: hashToken(token) };
}

export const isTokenShaped = (token: unknown): token is string =>
  typeof token === 'string' && shape.test(token);

export function readInvitationToken(token: unknown) {
  if (!isTokenShaped(token)) return undefined;
  const id = Buffer.from(token, 'base64url').toString('hex', 0, 16);
  const orgId = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { orgId, hashedToken: hashToken(token) };
}
