import { and, asc, eq, notExists, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../core/db/client.js';
import { toPlainDecimal } from '../core/decimal.js';
import { fieldError } from '../core/pages/form.js';
import { putGrant } from '../metering/entitlements/grants.js';
import { putProduct } from '../metering/entitlements/products.js';
import { findGrant, lockProduct, type Product } from '../metering/entitlements/queries.js';
import { DEFAULT_MAX_QUANTITY, entitlements } from '../metering/entitlements/table.js';
import { listOpenInvitations } from '../accounts/identity/members/invitation-queries.js';
import { putOrganization } from '../accounts/identity/organizations/organizations.js';
import { findOrganization } from '../accounts/identity/organizations/queries.js';
import { findDifference, type Source } from '../accounts/identity/source.js';
import { memberships, organizations, type MarketAccess } from '../accounts/organizations/table.js';

export interface FirstProduct {
  productSlug: string;
  productName: string;
  usageMetric: string;
  /** A plain decimal; undefined is unlimited. */
  unitCap?: string | undefined;
  orgSlug: string;
  orgName: string;
  marketAccess: MarketAccess;
}

/**
 * Declares the first product, the first Organization and its entitlement. A repeat changes nothing, and
 * existing objects with the same names keep their values.
 * @throws AppError invalid_request
 */
export async function declareFirst(tx: Tx, first: FirstProduct, source: Source): Promise<void> {
  const { productSlug, productName: name, usageMetric, unitCap, orgSlug, orgName, marketAccess } = first;
  const cap = unitCap === undefined ? null : toPlainDecimal(unitCap, 0);
  const product = { name, usageMetric, unitCap: cap, maxQuantity: DEFAULT_MAX_QUANTITY };
  const earlier = await lockProduct(tx, productSlug);
  if (earlier && findDifference(toFields(earlier), toFields(product)))
    throw fieldError(
      'productSlug',
      'is taken by another product. Enter that product exactly as it is, or choose another slug',
    );
  const customer = await findOrganization(tx, { slug: orgSlug });
  if (customer && customer.name !== orgName)
    throw fieldError('orgSlug', 'is taken by another Organization. Enter its name, or choose another slug');
  if (!earlier) await putProduct(tx, productSlug, product, source);
  if (!customer) await putOrganization(tx, orgSlug, { name: orgName, marketAccess }, source);
  if (earlier && customer && (await findGrant(tx, customer.id, earlier.id))) return;
  const grant = { kind: 'live', startsAt: undefined, endsAt: null, unitCap: undefined } as const;
  await putGrant(tx, orgSlug, productSlug, grant, source);
}

const toFields = ({ name, usageMetric, unitCap }: Pick<Product, 'name' | 'usageMetric' | 'unitCap'>) => ({
  name,
  usageMetric,
  unitCap,
});

/** Next step after the operator's own account and second factor. */
export type NextStep = 'product' | 'owner' | 'done';

const owners = (orm: Orm) =>
  orm
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(and(eq(memberships.orgId, organizations.id), eq(memberships.role, 'owner')));

/** The Organization that has been without an owner the longest, or the named one if it has none. */
export async function findOwnerless(orm: Orm, slug?: string) {
  const [organization] = await orm
    .select()
    .from(organizations)
    .where(and(notExists(owners(orm)), slug === undefined ? undefined : eq(organizations.slug, slug)))
    .orderBy(asc(organizations.createdAt), asc(organizations.id))
    .limit(1);
  return organization;
}

export async function findInvitedOwner(orm: Orm, orgId: string, now: Date) {
  const open = await listOpenInvitations(orm, orgId, now, 100);
  return open.find(({ role }) => role === 'owner');
}

/** Derived from the existing data, so that a set-up can be resumed in any browser. */
export async function readNextStep(orm: Orm, now: Date): Promise<NextStep> {
  const [granted] = await orm.select({ orgId: entitlements.orgId }).from(entitlements).limit(1);
  if (!granted) return 'product';
  const [owned] = await orm
    .select({ one: sql`1` })
    .from(memberships)
    .where(eq(memberships.role, 'owner'))
    .limit(1);
  if (owned) return 'done';
  const waiting = await findOwnerless(orm);
  return !waiting || (await findInvitedOwner(orm, waiting.id, now)) ? 'done' : 'owner';
}
