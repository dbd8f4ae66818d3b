import { v7 as uuid } from 'uuid';
import { recordAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { findSecondFactor } from '../second-factor/queries.js';
import { findDifference, type Put, type Source } from '../source.js';
import {
  findOrganization,
  insertOrganization,
  lockOrganization,
  updateOrganization,
  type Organization,
} from './queries.js';

export async function putOrganization(
  tx: Tx,
  slug: string,
  { name, requireSecondFactor }: { name: string; requireSecondFactor?: boolean | undefined },
  source: Source,
): Promise<Put<Organization>> {
  const current = await lockOrganization(tx, { slug });
  if (!current) {
    const organization = {
      id: uuid(),
      slug,
      name,
      requireSecondFactor: requireSecondFactor ?? false,
      createdAt: source.at,
    };
    await insertOrganization(tx, organization);
    const details = { after: { name, ...(requireSecondFactor ? { requireSecondFactor } : {}) } };
    const entry = { ...source, action: 'organization.created', target: slug, details };
    await recordAudit(tx, organization.id, entry);
    return { isNew: true, resource: organization };
  }
  const wanted = { name, requireSecondFactor: requireSecondFactor ?? current.requireSecondFactor };
  return { isNew: false, resource: await update(tx, current, wanted, source) };
}

async function update(
  tx: Tx,
  current: Organization,
  wanted: Partial<Organization>,
  source: Source,
): Promise<Organization> {
  const organization = { ...current, ...wanted };
  const difference = findDifference(toFields(current), toFields(organization));
  if (!difference) return current;
  await updateOrganization(tx, organization);
  const details = { ...difference };
  await recordAudit(tx, current.id, {
    ...source,
    action: 'organization.updated',
    target: current.slug,
    details,
  });
  return organization;
}

/**
 * Says whether the members of an Organization need a second factor. `source.actor` is the owner who decides: they need
 * one themselves, or the decision would lock them out.
 * @throws AppError invalid_request
 */
export async function requireFactorOfMembers(
  tx: Tx,
  orgId: string,
  requireSecondFactor: boolean,
  source: Source,
): Promise<void> {
  const current = await lockOrganization(tx, { id: orgId });
  if (requireSecondFactor && !(await findSecondFactor(tx, source.actor)))
    throw new AppError('invalid_request', 'Set up a second factor of your own first.');
  await update(tx, current!, { requireSecondFactor }, source);
}

const toFields = ({ name, requireSecondFactor }: Organization) => ({
  name,
  requireSecondFactor: requireSecondFactor ? 'yes' : 'no',
});

/** @throws AppError not_found */
export async function getOrganization(orm: Orm, slug: string): Promise<Organization> {
  return known(await findOrganization(orm, { slug }), slug);
}

/** The same, held until the transaction ends. */
export async function getLockedOrganization(tx: Tx, slug: string): Promise<Organization> {
  return known(await lockOrganization(tx, { slug }), slug);
}

function known(organization: Organization | undefined, slug: string): Organization {
  if (!organization) throw new AppError('not_found', `There is no Organization "${slug}".`);
  return organization;
}
