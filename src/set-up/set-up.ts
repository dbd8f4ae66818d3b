import { and, asc, eq, notExists, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../core/db/client.js';
import { toPlainDecimal } from '../core/decimal.js';
import { putGrant } from '../entitlements/grants.js';
import { putProduct } from '../entitlements/products.js';
import { DEFAULT_MAX_QUANTITY, entitlements } from '../entitlements/table.js';
import { listOpenInvitations } from '../identity/members/invitation-queries.js';
import { putOrganization } from '../identity/organizations/organizations.js';
import type { Source } from '../identity/source.js';
import { memberships, organizations } from '../organizations/table.js';

export interface FirstProduct {
  productSlug: string;
  productName: string;
  usageMetric: string;
  /** A plain decimal; undefined is unlimited. */
  unitCap?: string | undefined;
  orgSlug: string;
  orgName: string;
}

/** The first product, the first Organization, and its entitlement to it. The same again changes nothing. */
export async function declareFirst(tx: Tx, first: FirstProduct, source: Source): Promise<void> {
  const { productSlug, productName: name, usageMetric, unitCap, orgSlug, orgName } = first;
  const cap = unitCap === undefined ? null : toPlainDecimal(unitCap, 0);
  const product = { name, usageMetric, unitCap: cap, maxQuantity: DEFAULT_MAX_QUANTITY };
  await putProduct(tx, productSlug, product, source);
  await putOrganization(tx, orgSlug, { name: orgName }, source);
  const grant = { kind: 'live', startsAt: undefined, endsAt: null, unitCap: undefined } as const;
  await putGrant(tx, orgSlug, productSlug, grant, source);
}

/** What comes after the operator's own account and second factor. */
export type NextStep = 'product' | 'owner' | 'done';

const owners = (orm: Orm) =>
  orm
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(and(eq(memberships.orgId, organizations.id), eq(memberships.role, 'owner')));

/** The Organization that has been without an owner the longest. */
export async function findOwnerless(orm: Orm) {
  const [organization] = await orm
    .select()
    .from(organizations)
    .where(notExists(owners(orm)))
    .orderBy(asc(organizations.createdAt), asc(organizations.id))
    .limit(1);
  return organization;
}

/** The owner that this Organization waits for. */
export async function findInvitedOwner(orm: Orm, orgId: string, now: Date) {
  const open = await listOpenInvitations(orm, orgId, now, 100);
  return open.find(({ role }) => role === 'owner');
}

/** Follows from what there is, so that a set-up goes on where it was left, in any browser. */
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
