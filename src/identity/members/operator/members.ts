import { recordAudit } from '../../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import type { Role } from '../../../organizations/table.js';
import { ConcurrentChangeError } from '../../../core/db/conflict.js';
import type { Put, Source } from '../../operator/change.js';
import { getLockedOrganization, getOrganization } from '../../organizations/operator/organizations.js';
import { getUser } from '../../users/users.js';
import { deleteMembership, findMember, insertMembership, updateRole, type Member } from '../queries.js';

/** Makes the user a member of the Organization in that role. */
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
    const member = { userId: user.id, email, name: user.name, role, createdAt: source.at };
    await insertMembership(tx, orgId, member);
    const entry = { ...source, action: 'member.added', target: email, details: { after: { role } } };
    await recordAudit(tx, orgId, entry);
    return { isNew: true, resource: member };
  }
  if (current.role === role) return { isNew: false, resource: current };
  const member = { ...current, role };
  // Removing the user does not wait for the Organization's lock.
  if (!(await updateRole(tx, orgId, member))) throw new ConcurrentChangeError();
  const details = { before: { role: current.role }, after: { role } };
  await recordAudit(tx, orgId, { ...source, action: 'member.role_changed', target: email, details });
  return { isNew: false, resource: member };
}

/** Ends the membership, the last owner's too: the operator can name another. The Organization's keys stay as they are. */
export async function removeMember(tx: Tx, slug: string, email: string, source: Source): Promise<void> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const user = await getUser(tx, email);
  const role = await deleteMembership(tx, orgId, user.id);
  if (role === undefined) throw notAMember(slug, email);
  const entry = { ...source, action: 'member.removed', target: email, details: { before: { role } } };
  await recordAudit(tx, orgId, entry);
}

/** @throws AppError not_found */
export async function getMember(orm: Orm, slug: string, email: string): Promise<Member> {
  const { id: orgId } = await getOrganization(orm, slug);
  const user = await getUser(orm, email);
  const member = await findMember(orm, orgId, user.id);
  if (!member) throw notAMember(slug, email);
  return member;
}

const notAMember = (slug: string, email: string) =>
  new AppError('not_found', `The user "${email}" is not a member of the Organization "${slug}".`);
