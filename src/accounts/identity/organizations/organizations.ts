import { v7 as uuid } from 'uuid';
import type { z } from 'zod';
import { recordAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import type { organizationSchema } from '../operator/schema.js';
import { hasSecondFactor } from '../second-factor/queries.js';
import {
  describeArchiving,
  findDifference,
  toArchivedAt,
  toStripeSince,
  type Put,
  type Source,
} from '../source.js';
import {
  copyToKeys,
  findOrganization,
  insertOrganization,
  lockOrganization,
  updateOrganization,
  type Organization,
} from './queries.js';

export async function putOrganization(
  tx: Tx,
  slug: string,
  {
    name,
    requireSecondFactor,
    requireSingleSignOn,
    archived,
    marketAccess,
    mayCorrect,
    stripeCustomerId,
    creditThresholds,
  }: z.output<typeof organizationSchema>,
  source: Source,
): Promise<Put<Organization>> {
  const current = await lockOrganization(tx, { slug });
  const archivedAt = toArchivedAt(current?.archivedAt ?? null, archived, source.at);
  if (!current) {
    const organization = {
      id: uuid(),
      slug,
      name,
      requireSecondFactor: requireSecondFactor ?? false,
      requireSingleSignOn: requireSingleSignOn ?? false,
      createdAt: source.at,
      archivedAt,
      marketAccess: marketAccess ?? 'trade',
      mayCorrect: mayCorrect ?? false,
      ...toStripe(undefined, stripeCustomerId, source.at),
      creditThresholds: creditThresholds ?? null,
    };
    await insertOrganization(tx, organization);
    const after = {
      name,
      ...(requireSecondFactor ? { requireSecondFactor } : {}),
      ...(requireSingleSignOn ? { requireSingleSignOn } : {}),
      ...(archived ? { archived } : {}),
      ...(marketAccess ? { marketAccess } : {}),
      ...(mayCorrect ? { mayCorrect } : {}),
      ...(stripeCustomerId ? { stripeCustomerId } : {}),
      ...(creditThresholds ? { creditThresholds: creditThresholds.join(', ') } : {}),
    };
    const entry = { ...source, action: 'organization.created', target: slug, details: { after } };
    await recordAudit(tx, organization.id, entry);
    return { isNew: true, resource: organization };
  }
  const wanted = {
    name,
    requireSecondFactor: requireSecondFactor ?? current.requireSecondFactor,
    requireSingleSignOn: requireSingleSignOn ?? current.requireSingleSignOn,
    archivedAt,
    marketAccess: marketAccess ?? current.marketAccess,
    mayCorrect: mayCorrect ?? current.mayCorrect,
    ...toStripe(current, stripeCustomerId, source.at),
    creditThresholds: creditThresholds === undefined ? current.creditThresholds : creditThresholds,
  };
  return { isNew: false, resource: await update(tx, current, wanted, source) };
}

/** The first customer id sends usage from the start of the current hour. Replacing it keeps the earlier start. */
const toStripe = (current: Organization | undefined, wanted: string | null | undefined, at: Date) => {
  const stripeCustomerId = wanted === undefined ? (current?.stripeCustomerId ?? null) : wanted;
  return { stripeCustomerId, stripeSince: toStripeSince(stripeCustomerId, current?.stripeSince, at) };
};

async function update(tx: Tx, current: Organization, wanted: Partial<Organization>, source: Source) {
  const organization = { ...current, ...wanted };
  const difference = findDifference(toFields(current), toFields(organization));
  if (!difference) return current;
  await updateOrganization(tx, organization);
  const archiving = describeArchiving(current, organization);
  if (archiving) await copyToKeys(tx, organization);
  await recordAudit(tx, current.id, {
    ...source,
    action: `organization.${archiving ?? 'updated'}`,
    target: current.slug,
    details: { ...difference },
  });
  return organization;
}

/** An owner without a second factor would lock themselves out. */
export async function requireFactorOfMembers(
  tx: Tx,
  orgId: string,
  requireSecondFactor: boolean,
  source: Source,
): Promise<void> {
  const current = await lockOrganization(tx, { id: orgId });
  if (requireSecondFactor && !(await hasSecondFactor(tx, source.actor)))
    throw new AppError('invalid_request', 'Set up your own second factor first.');
  await update(tx, current!, { requireSecondFactor }, source);
}

/** An owner who has not used single sign-on would lock themselves out. */
export async function requireSingleSignOnOfMembers(
  tx: Tx,
  orgId: string,
  { required, hasOwn }: { required: boolean; hasOwn: boolean },
  source: Source,
): Promise<void> {
  const current = await lockOrganization(tx, { id: orgId });
  if (required && !hasOwn) throw new AppError('invalid_request', 'Sign in with single sign-on first.');
  await update(tx, current!, { requireSingleSignOn: required }, source);
}

const toFields = (organization: Organization) => ({
  name: organization.name,
  marketAccess: organization.marketAccess,
  mayCorrect: organization.mayCorrect ? 'yes' : 'no',
  stripeCustomerId: organization.stripeCustomerId,
  creditThresholds: organization.creditThresholds?.join(', ') ?? null,
  requireSecondFactor: organization.requireSecondFactor ? 'yes' : 'no',
  requireSingleSignOn: organization.requireSingleSignOn ? 'yes' : 'no',
  archived: organization.archivedAt === null ? 'no' : 'yes',
});

export async function getOrganization(orm: Orm, slug: string): Promise<Organization> {
  return known(await findOrganization(orm, { slug }), slug);
}

export async function getLockedOrganization(tx: Tx, slug: string): Promise<Organization> {
  return known(await lockOrganization(tx, { slug }), slug);
}

function known(organization: Organization | undefined, slug: string): Organization {
  if (!organization) throw new AppError('not_found', `There is no Organization "${slug}".`);
  return organization;
}
