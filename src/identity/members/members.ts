import { recordAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { ConcurrentChangeError } from '../../core/db/conflict.js';
import type { Source } from '../operator/change.js';
import type { Role } from '../../organizations/table.js';
import {
  deleteMembership,
  findMember,
  hasOtherOwner,
  holdOtherOwner,
  lockMembers,
  updateRole,
  type Member,
} from './queries.js';
import { isManager, manageableRoles, mayManage } from './roles.js';

/** What one member may do with another, or with themselves, as the page offers it. */
export interface Permissions {
  /** Empty if the role is not theirs to change. */
  assignableRoles: readonly Role[];
  mayRemove: boolean;
  /** The Organization has no other owner. */
  isLastOwner: boolean;
}

/** @throws AppError not_found: another Organization's member does not exist here */
export async function requireMember(orm: Orm, orgId: string, userId: string): Promise<Member> {
  const member = await findMember(orm, orgId, userId);
  if (!member) throw new AppError('not_found', 'There is no such member.');
  return member;
}

export async function readPermissions(
  orm: Orm,
  orgId: string,
  me: { userId: string; role: Role },
  member: Member,
): Promise<Permissions> {
  const isMe = me.userId === member.userId;
  const isAllowed = mayManage(me.role, member.role);
  const isLastOwner = member.role === 'owner' && !(await hasOtherOwner(orm, orgId, member.userId));
  return {
    assignableRoles: isAllowed && !isLastOwner ? manageableRoles(me.role) : [],
    mayRemove: (isAllowed || isMe) && !isLastOwner,
    isLastOwner,
  };
}

/**
 * Gives a member another role. `source.actor` is the person who does it, and may be the member.
 * @throws AppError not_found, forbidden_role, invalid_request (the last owner)
 */
export async function changeRole(
  tx: Tx,
  orgId: string,
  userId: string,
  role: Role,
  source: Source,
): Promise<void> {
  await lockMembers(tx, orgId);
  const me = await requireManager(tx, orgId, source.actor);
  const member = await requireMember(tx, orgId, userId);
  if (!mayManage(me.role, member.role) || !mayManage(me.role, role)) throw ownersOnly();
  if (member.role === role) return;
  await refuseLastOwner(tx, orgId, member);
  if (!(await updateRole(tx, orgId, { userId, role }))) throw new ConcurrentChangeError();
  const details = { before: { role: member.role }, after: { role } };
  await recordAudit(tx, orgId, { ...source, action: 'member.role_changed', target: member.email, details });
}

/**
 * Ends a membership. Everybody may end their own. Keys belong to the Organization and stay as they are.
 * @throws AppError not_found, forbidden_role, invalid_request (the last owner)
 */
export async function removeMember(tx: Tx, orgId: string, userId: string, source: Source): Promise<void> {
  await lockMembers(tx, orgId);
  const me = await requireSelf(tx, orgId, source.actor);
  const member = await requireMember(tx, orgId, userId);
  if (me.userId !== member.userId && !mayManage(me.role, member.role)) {
    throw isManager(me.role) ? ownersOnly() : managersOnly();
  }
  await refuseLastOwner(tx, orgId, member);
  if ((await deleteMembership(tx, orgId, userId)) === undefined) throw new ConcurrentChangeError();
  const details = { before: { role: member.role } };
  await recordAudit(tx, orgId, { ...source, action: 'member.removed', target: member.email, details });
}

/**
 * The member who asks for a change, as they are now: their role may have changed while they waited for the lock.
 * @throws AppError forbidden_role
 */
export async function requireManager(tx: Tx, orgId: string, userId: string): Promise<Member> {
  const me = await requireSelf(tx, orgId, userId);
  if (!isManager(me.role)) throw managersOnly();
  return me;
}

async function requireSelf(tx: Tx, orgId: string, userId: string): Promise<Member> {
  const me = await findMember(tx, orgId, userId);
  if (!me) throw new AppError('forbidden_role', 'You no longer belong to this Organization.');
  return me;
}

async function refuseLastOwner(tx: Tx, orgId: string, member: Member): Promise<void> {
  if (member.role !== 'owner' || (await holdOtherOwner(tx, orgId, member.userId))) return;
  throw new AppError(
    'invalid_request',
    'An Organization needs an owner, and there is no other. Make somebody else owner first.',
  );
}

export const ownersOnly = () => new AppError('forbidden_role', 'Only an owner decides about owners.');

const managersOnly = () =>
  new AppError('forbidden_role', 'Only an owner or admin changes members and invitations.');
