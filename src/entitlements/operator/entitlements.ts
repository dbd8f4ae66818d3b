import { recordAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import type { EntitlementKind } from '../table.js';
import { AppError } from '../../core/errors.js';
import { findDifference, type Put, type Source } from '../../identity/operator/change.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../identity/organizations/operator/organizations.js';
import { getProduct } from '../products/products.js';
import { deleteGrant, findGrant, insertGrant, updateGrant, type Grant } from './queries.js';

export interface GrantInput {
  kind: EntitlementKind;
  /** Absent: from now on, or as it was for an entitlement that exists, so that a repeated declaration changes nothing. */
  startsAt: Date | undefined;
  /** Null: without an end. */
  endsAt: Date | null;
}

/** Makes the Organization's entitlement to the product so. It binds the next call. */
export async function putGrant(
  tx: Tx,
  slug: string,
  productSlug: string,
  input: GrantInput,
  source: Source,
): Promise<Put<Grant>> {
  const { at } = source;
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const product = await getProduct(tx, productSlug);
  const current = await findGrant(tx, orgId, product.id);
  const startsAt = input.startsAt ?? current?.startsAt ?? at;
  if (input.endsAt && input.endsAt <= startsAt) throw endsTooSoon(startsAt);
  const terms = { kind: input.kind, startsAt, endsAt: input.endsAt };
  if (!current) {
    const names = { productId: product.id, productSlug, productName: product.name };
    const grant = { ...names, ...terms, createdAt: at, updatedAt: at };
    await insertGrant(tx, orgId, grant);
    const details = { after: toFields(grant) };
    await recordAudit(tx, orgId, { ...source, action: 'entitlement.granted', target: productSlug, details });
    return { isNew: true, resource: grant };
  }
  const difference = findDifference(toFields(current), toFields(terms));
  if (!difference) return { isNew: false, resource: current };
  const grant = { ...current, ...terms, updatedAt: at };
  await updateGrant(tx, orgId, grant);
  const details = { ...difference };
  await recordAudit(tx, orgId, { ...source, action: 'entitlement.changed', target: productSlug, details });
  return { isNew: false, resource: grant };
}

/** Withdraws the entitlement; it binds the next call. What was used stays recorded. */
export async function withdrawGrant(
  tx: Tx,
  slug: string,
  productSlug: string,
  source: Source,
): Promise<void> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const product = await getProduct(tx, productSlug);
  const grant = await findGrant(tx, orgId, product.id);
  if (!grant) throw notEntitled(slug, productSlug);
  await deleteGrant(tx, orgId, product.id);
  const details = { before: toFields(grant) };
  await recordAudit(tx, orgId, { ...source, action: 'entitlement.withdrawn', target: productSlug, details });
}

/** @throws AppError not_found */
export async function getGrant(orm: Orm, slug: string, productSlug: string): Promise<Grant> {
  const { id: orgId } = await getOrganization(orm, slug);
  const product = await getProduct(orm, productSlug);
  const grant = await findGrant(orm, orgId, product.id);
  if (!grant) throw notEntitled(slug, productSlug);
  return grant;
}

const toFields = ({ kind, startsAt, endsAt }: Pick<Grant, 'kind' | 'startsAt' | 'endsAt'>) => ({
  kind,
  startsAt: startsAt.toISOString(),
  endsAt: endsAt?.toISOString() ?? null,
});

const notEntitled = (slug: string, productSlug: string) =>
  new AppError('not_found', `The Organization "${slug}" has no entitlement to the product "${productSlug}".`);

function endsTooSoon(startsAt: Date): AppError {
  const detail = `must be later than the start, ${startsAt.toISOString()}`;
  const place = { pointer: '/endsAt', code: 'invalid_request' as const, detail };
  return new AppError('invalid_request', `/endsAt ${detail}`, { errors: [place] });
}
