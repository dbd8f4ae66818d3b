import { recordAudit } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { exact } from '../../core/http/json.js';
import { fieldError } from '../../core/pages/form.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../accounts/identity/organizations/organizations.js';
import { findDifference, type Put, type Source } from '../../accounts/identity/source.js';
import { queueForBothModes } from '../../accounts/webhooks/outbox.js';
import { getProduct } from './products.js';
import { deleteGrant, findGrant, storeTerms, type Grant, type Product, type Terms } from './queries.js';
import { declaredLimitJson, defaultThresholds, toStoredThresholds } from './limits.js';
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
export async function putGrant(
  tx: Tx,
  slug: string,
  productSlug: string,
  input: GrantInput,
  source: Source,
): Promise<Put<Grant>> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const product = await getProduct(tx, productSlug);
  const current = await findGrant(tx, orgId, product.id);
  return setGrant(tx, { orgId, product, current }, input, source);
}

/** The Organization must be locked. */
export async function setGrant(
  tx: Tx,
  { orgId, product, current }: { orgId: string; product: Product; current: Grant | undefined },
  input: GrantInput,
  source: Source,
): Promise<Put<Grant>> {
  const { at } = source;
  const startsAt = input.startsAt ?? current?.startsAt ?? at;
  if (input.endsAt && input.endsAt <= startsAt)
    throw fieldError('endsAt', `must be later than the start, ${startsAt.toISOString()}`);
  const { kind, endsAt, unitCap = null, plan = null } = input;
  const limits = input.limits?.length ? input.limits : null;
  const perSubject = limits?.findIndex(({ per }) => per !== undefined) ?? -1;
  if (perSubject >= 0 && !product.subjectsSince)
    throw fieldError(`limits/${perSubject}/per`, 'needs a product that counts subjects');
  const hasOwnCap = input.unitCap !== undefined;
  if (product.usageMetric === NO_METRIC && (limits || unitCap !== null))
    throw fieldError(limits ? 'limits' : 'unitCap', 'needs a product that has a metric');
  const thresholds = toStoredThresholds(input.thresholds);
  const features = toStoredFeatures(input.features);
  const terms = { kind, startsAt, endsAt, hasOwnCap, unitCap, limits, thresholds, features, plan };
  const difference = current && findDifference(toFields(current), toFields(terms));
  if (current && !difference) return { isNew: false, resource: current };
  await storeTerms(tx, orgId, product.id, terms, at);
  const action = current ? 'entitlement.changed' : 'entitlement.granted';
  const details = { ...(difference ?? { after: toFields(terms) }) };
  await recordAudit(tx, orgId, { ...source, action, target: product.slug, details });
  const resource = (await findGrant(tx, orgId, product.id))!;
  const change = current ? 'changed' : 'granted';
  await queueForBothModes(tx, {
    orgId,
    type: 'entitlement.changed',
    data: { productSlug: product.slug, change, entitlement: toMessage(resource) },
    at,
  });
  return { isNew: !current, resource };
}

/** Takes effect with the next call; recorded usage stays. */
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
  return removeGrant(tx, orgId, grant, source);
}

/** The Organization must be locked. */
export async function removeGrant(tx: Tx, orgId: string, grant: Grant, source: Source): Promise<void> {
  const { productSlug } = grant;
  await deleteGrant(tx, orgId, grant.productId);
  const details = { before: toFields(grant) };
  await recordAudit(tx, orgId, { ...source, action: 'entitlement.withdrawn', target: productSlug, details });
  await queueForBothModes(tx, {
    orgId,
    type: 'entitlement.changed',
    data: { productSlug, change: 'withdrawn', entitlement: null },
    at: source.at,
  });
}

export async function getGrant(orm: Orm, slug: string, productSlug: string): Promise<Grant> {
  const { id: orgId } = await getOrganization(orm, slug);
  const product = await getProduct(orm, productSlug);
  const grant = await findGrant(orm, orgId, product.id);
  if (!grant) throw notEntitled(slug, productSlug);
  return grant;
}

const toFields = ({
  kind,
  startsAt,
  endsAt,
  hasOwnCap,
  unitCap,
  limits,
  thresholds,
  features,
  plan,
}: Terms) => ({
  kind,
  startsAt: startsAt.toISOString(),
  endsAt: endsAt?.toISOString() ?? null,
  unitCap: hasOwnCap ? unitCap : undefined,
  limits: limits
    ?.map(
      ({ quantity, window, enforcement, per }) =>
        `${quantity} ${window} ${enforcement}${per ? ` per ${per}` : ''}`,
    )
    .join(', '),
  thresholds: thresholds?.join(', '),
  features: features ? writeFeatures(features) : undefined,
  plan: plan ?? undefined,
});

const toMessage = ({
  kind,
  startsAt,
  endsAt,
  effectiveUnitCap,
  limits,
  thresholds,
  features,
  productFeatures,
}: Grant) => ({
  kind,
  startsAt: startsAt.toISOString(),
  endsAt: endsAt?.toISOString() ?? null,
  unitCap: exact(effectiveUnitCap),
  limits: (limits ?? []).map(declaredLimitJson),
  thresholds: [...(thresholds ?? defaultThresholds)],
  features: mergeFeatures(productFeatures, features),
});

const notEntitled = (slug: string, productSlug: string) =>
  new AppError('not_found', `The Organization "${slug}" has no entitlement to the product "${productSlug}".`);
