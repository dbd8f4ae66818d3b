import { asc, eq, gt } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { products } from '../table.js';
import type { Range } from '../../core/http/page.js';

export type Product = typeof products.$inferSelect;

export async function findProduct(orm: Orm, slug: string): Promise<Product | undefined> {
  const [product] = await orm.select().from(products).where(eq(products.slug, slug));
  return product;
}

/** Finds the product and keeps others from changing it until the transaction ends. */
export async function lockProduct(tx: Tx, slug: string): Promise<Product | undefined> {
  const [product] = await tx.select().from(products).where(eq(products.slug, slug)).for('no key update');
  return product;
}

export async function listProducts(orm: Orm, { after, limit }: Range): Promise<Product[]> {
  return orm
    .select()
    .from(products)
    .where(after === undefined ? undefined : gt(products.slug, after))
    .orderBy(asc(products.slug))
    .limit(limit + 1);
}

export async function insertProduct(tx: Tx, product: Product): Promise<void> {
  await tx.insert(products).values(product);
}

export async function updateProduct(
  tx: Tx,
  { id, name, usageMetric, unitCap, maxQuantity, updatedAt }: Product,
): Promise<void> {
  await tx
    .update(products)
    .set({ name, usageMetric, unitCap, maxQuantity, updatedAt })
    .where(eq(products.id, id));
}
