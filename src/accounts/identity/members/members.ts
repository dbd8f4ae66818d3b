import { recordAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { ConcurrentChangeError } from '../../../core/db/sql.js';
import { AppError } from '../../../core/errors.js';
import { isManager, roles, type Role } from '../../organizations/table.js';
import { getLockedOrganization, getOrganization } from '../organizations/organizations.js';
import { lockOrganization } from '../organizations/queries.js';
import type { Put, Source } from '../source.js';
import { hasAccepted } from './invitation-queries.js';
import { getUser } from '../users/users.js';
import {
  deleteMembership,
  findMember,
  hasOtherOwner,
  lockOtherOwner,
  insertMembership,
  updateRole,
  type Member,
} from './queries.js';

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
) {
  const isMe = me.userId === member.userId;
  const isAllowed = mayManage(me.role, member.role);
  const isLastOwner = member.role === 'owner' && !(await hasOtherOwner(orm, orgId, member.userId));
  return {
    assignableRoles: isAllowed && !isLastOwner ? manageableRoles(me.role) : [],
    mayRemove: (isAllowed || isMe) && !isLastOwner,
    isLastOwner,
  };
}

export async function changeRole(tx: Tx, orgId: string, userId: string, role: Role, source: Source) {
  await lockOrganization(tx, { id: orgId });
  const me = await requireManager(tx, orgId, source.actor);
  const member = await requireMember(tx, orgId, userId);
  if (!mayManage(me.role, member.role) || !mayManage(me.role, role)) throw ownersOnly();
  if (member.role === role) return;
  await refuseLastOwner(tx, orgId, member);
  await setRole(tx, orgId, member, role, source);
}

async function setRole(tx: Tx, orgId: string, member: Member, role: Role, source: Source): Promise<void> {
  // Deleting a user does not take the Organization's lock.
  if (!(await updateRole(tx, orgId, { ...member, role }))) throw new ConcurrentChangeError();
  const details = { before: { role: member.role }, after: { role } };
  await recordAudit(tx, orgId, { ...source, action: 'member.role_changed', target: member.email, details });
}

/** Any member may leave. API keys that the member created stay valid. */
export async function removeMember(tx: Tx, orgId: string, userId: string, source: Source): Promise<void> {
  await lockOrganization(tx, { id: orgId });
  const me = await requireSelf(tx, orgId, source.actor);
  const member = await requireMember(tx, orgId, userId);
  if (me.userId !== member.userId && !mayManage(me.role, member.role))
    throw isManager(me.role) ? ownersOnly() : managersOnly();
  await refuseLastOwner(tx, orgId, member);
  await deleteMember(tx, orgId, member, source);
}

async function deleteMember(tx: Tx, orgId: string, member: Member, source: Source): Promise<void> {
  if (!(await deleteMembership(tx, orgId, member.userId))) throw new ConcurrentChangeError();
  const details = { before: { role: member.role } };
  await recordAudit(tx, orgId, { ...source, action: 'member.removed', target: member.email, details });
}

/** The role may have changed while the member waited for the lock. */
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
  if (member.role !== 'owner' || (await lockOtherOwner(tx, orgId, member.userId))) return;
  throw new AppError(
    'invalid_request',
    'An Organization needs at least one owner. Make another member an owner first.',
  );
}

export const ownersOnly = () => new AppError('forbidden_role', 'Only an owner can change owners.');

const managersOnly = () =>
  new AppError('forbidden_role', 'Only an owner or admin can change members and invitations.');

export const roleDescriptions: Record<Role, string> = {
  owner: 'Can do everything: order, halt trading, correct events and, unlike admins, change owners.',
  admin: 'Manages keys, and members other than owners; places orders, halts trading and corrects events.',
  member: 'Sees keys, usage, members and markets. Cannot place orders, halt trading or correct events.',
  billing:
    'Sees what a member sees, and sets usage alerts. Cannot place orders, halt trading or correct events.',
};

export function manageableRoles(role: Role): readonly Role[] {
  if (role === 'owner') return roles;
  return role === 'admin' ? roles.filter((other) => other !== 'owner') : [];
}

export const mayManage = (role: Role, other: Role): boolean => manageableRoles(role).includes(other);

/** Refuses another Organization's account with an unproven address: its holder may be somebody else. */
export async function putMember(
  tx: Tx,
  slug: string,
  email: string,
  { role }: { role: Role },
  source: Source,
): Promise<Put<Member>> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const user = await getUser(tx, email);
  const current = await findMember(tx, orgId, user.id);
  if (!current) {
    if (user.provenAt === null && !(await hasAccepted(tx, orgId, user.id))) throw unprovenAddress(email);
    const member = { userId: user.id, email, name: user.name, role, createdAt: source.at };
    await insertMembership(tx, orgId, member);
    const entry = { ...source, action: 'member.added', target: email, details: { after: { role } } };
    await recordAudit(tx, orgId, entry);
    return { isNew: true, resource: member };
  }
  if (current.role !== role) await setRole(tx, orgId, current, role, source);
  return { isNew: false, resource: { ...current, role } };
}

const unprovenAddress = (email: string) =>
  new AppError(
    'invalid_request',
    `The account "${email}" began with another Organization's invitation, and nobody has proven that the address is its owner's. Set a new password for the user first, or send an invitation.`,
  );

/** Removes even the last owner, because the operator can appoint another. */
export async function removeMemberByEmail(tx: Tx, slug: string, email: string, source: Source) {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  await deleteMember(tx, orgId, await getMember(tx, slug, email), source);
}

export async function getMember(orm: Orm, slug: string, email: string): Promise<Member> {
  const { id: orgId } = await getOrganization(orm, slug);
  const user = await getUser(orm, email);
  const member = await findMember(orm, orgId, user.id);
  if (member) return member;
  throw new AppError('not_found', `The user "${email}" is not a member of the Organization "${slug}".`);
}
