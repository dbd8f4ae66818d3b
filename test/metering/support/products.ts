import { v7 as uuid } from 'uuid';
import type { Database } from '../../../src/core/db/client.js';
import { entitlements, products } from '../../../src/metering/entitlements/table.js';
import { past, uniqueSlug } from '../../support/fixtures.js';

/** A maximum quantity so large that tests with many-digit quantities never reach it. */
export const ANY_QUANTITY = `1${'0'.repeat(400)}`;

export async function createProduct(
  db: Database,
  values: {
    slug?: string;
    name?: string;
    usageMetric?: string;
    unitCap?: string | null;
    maxQuantity?: string;
    dimensions?: string[];
    subjectsSince?: Date | null;
    creditPrice?: string;
    creditDimension?: string;
    creditPrices?: Record<string, string>;
    creditEnforcement?: 'block' | 'warn';
  } = {},
) {
  const slug = values.slug ?? uniqueSlug('product');
  const product = {
    id: uuid(),
    slug,
    name: `Product ${slug}`,
    usageMetric: 'calls',
    unitCap: null,
    ...values,
  };
  await db.orm.insert(products).values({ ...product, createdAt: past, updatedAt: past });
  return product;
}

export async function grant(
  db: Database,
  orgId: string,
  productId: string,
  values: Partial<typeof entitlements.$inferInsert> = {},
) {
  await db.orm.insert(entitlements).values({
    orgId,
    productId,
    kind: 'live',
    startsAt: past,
    endsAt: null,
    ...values,
    createdAt: past,
    updatedAt: past,
  });
}
