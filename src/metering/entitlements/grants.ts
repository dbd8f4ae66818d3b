import { recordAudits } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { found } from '../../core/errors.js';
import { exact } from '../../core/http/json.js';
import { fieldError } from '../../core/pages/form.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../accounts/identity/organizations/organizations.js';
import { findDifference, type Put, type Source } from '../../accounts/identity/source.js';
import { queueForModes } from '../../accounts/webhooks/outbox.js';
import { getProduct } from './products.js';
import { deleteGrants, findGrant, storeGrants, type Grant, type Product, type Terms } from './queries.js';
import { declaredLimitJson, defaultThresholds, logLimit, toStoredThresholds } from './limits.js';
import { mergeFeatures, toStoredFeatures, writeFeatures, type FeatureOverrides } from './features.js';
import { NO_METRIC, type UsageLimit } from './table.js';

interface GrantInput extends Pick<Terms, 'kind' | 'endsAt'> {
  /** Default: now for a new entitlement, unchanged for an existing one, so repeating a declaration changes nothing. */
  startsAt: Date | undefined;
  /** Null means unlimited. If undefined, the product's cap applies. */
  unitCap: string | null | undefined;
  limits?: UsageLimit[] | undefined;
  thresholds?: number[] | undefined;
  features?: FeatureOverrides | undefined;
  /** Slug of the plan that sets the terms. Default: they are set by hand. */
  plan?: string | undefined;
}

/** Takes effect with the next call. */
export async function putGrant(tx: Tx, slug: string, productSlug: string, input: GrantInput, source: Source) {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const product = await getProduct(tx, productSlug);
  const current = await findGrant(tx, orgId, product.id);
  const [put] = await setGrants(tx, [{ orgId, product, current, input }], source);
  return put!;
}

export interface Setting {
  orgId: string;
  product: Product;
  current: Grant | undefined;
  input: GrantInput;
}

/** Several Organizations' entitlements in a few statements. The Organizations must be locked. */
export async function setGrants(tx: Tx, settings: readonly Setting[], source: Source): Promise<Put<Grant>[]> {
  const { at } = source;
  const puts = settings.map(({ orgId, product, current, input }) => {
    const terms = toTerms(product, current, input, at);
    const difference = current && findDifference(toFields(current), toFields(terms));
    const resource = current && !difference ? current : toGrant(orgId, product, terms, current, at);
    return { isNew: !current, difference, resource };
  });
  const changed = puts.filter(({ isNew, difference }) => isNew || difference);
  const stored = changed.map(({ resource }) => resource);
  await storeGrants(tx, stored);
  await recordAudits(
    tx,
    changed.map(({ isNew, difference, resource: { orgId, productSlug, ...terms } }) => ({
      ...source,
      orgId,
      action: isNew ? 'entitlement.granted' : 'entitlement.changed',
      target: productSlug,
      details: { ...(difference ?? { after: toFields(terms) }) },
    })),
  );
  const messages = changed.map(({ isNew, resource }) => ({
    orgId: resource.orgId,
    type: 'entitlement.changed' as const,
    data: {
      productSlug: resource.productSlug,
      change: isNew ? ('granted' as const) : ('changed' as const),
      entitlement: toMessage(resource),
    },
    at,
  }));
  await queueForModes(tx, messages, [true, false]);
  return puts;
}

function toTerms(product: Product, current: Grant | undefined, input: GrantInput, at: Date): Terms {
  const startsAt = input.startsAt ?? current?.startsAt ?? at;
  if (input.endsAt && input.endsAt <= startsAt)
    throw fieldError('endsAt', `must be later than the start, ${startsAt.toISOString()}`);
  const { kind, endsAt, unitCap = null, plan = null } = input;
  const limits = input.limits?.length ? input.limits : null;
  refuseMisfit(product, { limits, unitCap });
  return {
    kind,
    startsAt,
    endsAt,
    hasOwnCap: input.unitCap !== undefined,
    unitCap,
    limits,
    thresholds: toStoredThresholds(input.thresholds),
    features: toStoredFeatures(input.features),
    plan,
  };
}

/** @param place the beginning of the pointer */
export function refuseMisfit(
  { subjectsSince, usageMetric }: Product,
  { limits, unitCap }: { limits?: UsageLimit[] | null; unitCap?: string | null },
  place = '',
): void {
  const perSubject = limits?.findIndex(({ per }) => per !== undefined) ?? -1;
  if (perSubject >= 0 && !subjectsSince)
    throw fieldError(`${place}limits/${perSubject}/per`, 'needs a product that counts subjects');
  if (usageMetric === NO_METRIC && (limits?.length || unitCap != null))
    throw fieldError(`${place}${limits?.length ? 'limits' : 'unitCap'}`, 'needs a product that has a metric');
}

const toGrant = (
  orgId: string,
  { id: productId, slug: productSlug, name: productName, features: productFeatures, unitCap }: Product,
  terms: Terms,
  current: Grant | undefined,
  at: Date,
): Grant => ({
  orgId,
  productId,
  productSlug,
  productName,
  productFeatures,
  ...terms,
  effectiveUnitCap: terms.hasOwnCap ? terms.unitCap : unitCap,
  createdAt: current?.createdAt ?? at,
  updatedAt: at,
});

/** Takes effect with the next call; recorded usage stays. */
export async function withdrawGrant(tx: Tx, slug: string, productSlug: string, source: Source) {
  await getLockedOrganization(tx, slug);
  return removeGrants(tx, [await getGrant(tx, slug, productSlug)], source);
}

/** The Organizations must be locked. */
export async function removeGrants(tx: Tx, grants: readonly Grant[], source: Source): Promise<void> {
  if (grants.length === 0) return;
  await deleteGrants(tx, grants);
  await recordAudits(
    tx,
    grants.map(({ orgId, productSlug: target, ...terms }) => ({
      ...source,
      orgId,
      action: 'entitlement.withdrawn',
      target,
      details: { before: toFields(terms) },
    })),
  );
  const messages = grants.map(({ orgId, productSlug }) => ({
    orgId,
    type: 'entitlement.changed' as const,
    data: { productSlug, change: 'withdrawn' as const, entitlement: null },
    at: source.at,
  }));
  await queueForModes(tx, messages, [true, false]);
}

export async function getGrant(orm: Orm, slug: string, productSlug: string): Promise<Grant> {
  const { id: orgId } = await getOrganization(orm, slug);
  const product = await getProduct(orm, productSlug);
  const grant = await findGrant(orm, orgId, product.id);
  return found(grant, `The Organization "${slug}" has no entitlement to the product "${productSlug}".`);
}

export const toFields = (terms: Terms) => ({
  kind: terms.kind,
  startsAt: terms.startsAt.toISOString(),
  endsAt: terms.endsAt?.toISOString() ?? null,
  unitCap: terms.hasOwnCap ? terms.unitCap : undefined,
  limits: terms.limits?.map(logLimit).join(', '),
  thresholds: terms.thresholds?.join(', '),
  features: terms.features ? writeFeatures(terms.features) : undefined,
  plan: terms.plan ?? undefined,
});

const toMessage = (grant: Grant) => ({
  kind: grant.kind,
  startsAt: grant.startsAt.toISOString(),
  endsAt: grant.endsAt?.toISOString() ?? null,
  unitCap: exact(grant.effectiveUnitCap),
  limits: (grant.limits ?? []).map(declaredLimitJson),
  thresholds: [...(grant.thresholds ?? defaultThresholds)],
  features: mergeFeatures(grant.productFeatures, grant.features),
});
