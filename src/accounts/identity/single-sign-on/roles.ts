import type { Tx } from '../../../core/db/client.js';
import { lockOrganizationIds, roles as allRoles } from '../../organizations/table.js';
import { putMember, removeMemberByEmail } from '../members/members.js';
import { findMember, lockOtherOwner } from '../members/queries.js';
import { findOrganization, lockOrganization } from '../organizations/queries.js';
import type { RoleChanges } from '../sign-in/sign-in.js';
import type { Source } from '../source.js';
import type { ClaimedRoles } from '../table.js';
import type { RoleGrant } from './config.js';

/** Null in an Organization where the person has no role. The highest of several grants wins. */
export function readGrants(grants: readonly RoleGrant[], values: readonly string[]): ClaimedRoles {
  const given = new Map<string, ClaimedRoles[string]>(grants.map(({ organization }) => [organization, null]));
  for (const wanted of allRoles.toReversed())
    for (const { value, organization, role } of grants)
      if (role === wanted && values.includes(value)) given.set(organization, role);
  return Object.fromEntries(given);
}

/** Roles change after the last factor, with the session. */
export const roleChanges: RoleChanges = {
  async lock(tx, roles) {
    const ids: string[] = [];
    for (const slug of Object.keys(roles)) {
      const organization = await findOrganization(tx, { slug });
      if (organization) ids.push(organization.id);
    }
    await lockOrganizationIds(tx, ids);
    return ids;
  },
  async set(tx, roles, person, { at, ip, requestId }) {
    const source = { at, ip, requestId, actor: 'single_sign_on' };
    for (const [slug, role] of Object.entries(roles)) await setRole(tx, slug, person, role, source);
  },
};

/** The last owner stays owner, whatever the claim says. */
async function setRole(
  tx: Tx,
  slug: string,
  { id, email }: { id: string; email: string },
  role: ClaimedRoles[string],
  source: Source,
): Promise<void> {
  const organization = await lockOrganization(tx, { slug });
  const current = organization && (await findMember(tx, organization.id, id));
  if (!organization || (current?.role ?? null) === role) return;
  if (current?.role === 'owner' && !(await lockOtherOwner(tx, organization.id, id))) return;
  if (role !== null) await putMember(tx, slug, email, { role }, source);
  else await removeMemberByEmail(tx, slug, email, source);
}
