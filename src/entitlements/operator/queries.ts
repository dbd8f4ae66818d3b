import { and, asc, eq, gt } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { entitlements, products, type EntitlementKind } from '../table.js';
import type { Range } from '../../core/http/page.js';

/** An entitlement with the product's names. */
export interface Grant {
  productId: string;
  productSlug: string;
  productName: string;
  kind: EntitlementKind;
  startsAt: Date;
  endsAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

const columns = {
  productId: products.id,
  productSlug: products.slug,
  productName: products.name,
  kind: entitlements.kind,
  startsAt: entitlements.startsAt,
  endsAt: entitlements.endsAt,
  createdAt: entitlements.createdAt,
  updatedAt: entitlements.updatedAt,
};

export async function findGrant(orm: Orm, orgId: string, productId: string): Promise<Grant | undefined> {
  const [grant] = await orm
    .select(columns)
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .where(and(eq(entitlements.orgId, orgId), eq(entitlements.productId, productId)));
  return grant;
}

export async function listGrants(orm: Orm, orgId: string, { after, limit }: Range): Promise<Grant[]> {
  return orm
    .select(columns)
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .where(and(eq(entitlements.orgId, orgId), after === undefined ? undefined : gt(products.slug, after)))
    .orderBy(asc(products.slug))
    .limit(limit + 1);
}

export async function insertGrant(tx: Tx, orgId: string, grant: Grant): Promise<void> {
  const { productId, kind, startsAt, endsAt, createdAt, updatedAt } = grant;
  await tx.insert(entitlements).values({ orgId, productId, kind, startsAt, endsAt, createdAt, updatedAt });
}

export async function updateGrant(tx: Tx, orgId: string, grant: Grant): Promise<void> {
  const { productId, kind, startsAt, endsAt, updatedAt } = grant;
  await tx
    .update(entitlements)
    .set({ kind, startsAt, endsAt, updatedAt })
    .where(and(eq(entitlements.orgId, orgId), eq(entitlements.productId, productId)));
}

export async function deleteGrant(tx: Tx, orgId: string, productId: string): Promise<void> {
  await tx
    .delete(entitlements)
    .where(and(eq(entitlements.orgId, orgId), eq(entitlements.productId, productId)));
}
