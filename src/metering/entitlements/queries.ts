import {
  and,
  asc,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNotNull,
  isNull,
  lte,
  ne,
  or,
  sql,
  type SQL,
} from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import {
  containsText,
  selectRows,
  storeRows,
  textArray,
  timeText,
  firstRow,
  matches,
} from '../../core/db/sql.js';
import type { Range } from '../../core/http/page.js';
import { mergedFeatures } from './features.js';
import { effectiveCap, entitlements, NO_METRIC, products, type UsageLimit } from './table.js';

export type Product = typeof products.$inferSelect;

export const findProduct = (orm: Orm, slug: string): Promise<Product | undefined> =>
  firstRow(orm.select().from(products).where(eq(products.slug, slug)));

export const lockProduct = (tx: Tx, slug: string): Promise<Product | undefined> =>
  firstRow(tx.select().from(products).where(eq(products.slug, slug)).for('no key update'));

/** @param search any part of a slug or name, ignoring case */
export async function listProducts(orm: Orm, { after, limit }: Range, search?: string): Promise<Product[]> {
  return orm
    .select()
    .from(products)
    .where(
      and(
        after === undefined ? undefined : gt(products.slug, after),
        search === undefined ? undefined : containsText(search, products.slug, products.name),
      ),
    )
    .orderBy(asc(products.slug))
    .limit(limit + 1);
}

/** By slug. */
export const listPricedProducts = (orm: Orm, limit: number): Promise<Product[]> =>
  orm
    .select()
    .from(products)
    .where(and(isNotNull(products.creditPrice), isNull(products.archivedAt)))
    .orderBy(asc(products.slug))
    .limit(limit);

export const insertProduct = (tx: Tx, product: Product): Promise<unknown> =>
  tx.insert(products).values(product);

export const updateProduct = (
  tx: Tx,
  { id, slug: _slug, createdAt: _createdAt, ...fields }: Product,
): Promise<unknown> => tx.update(products).set(fields).where(eq(products.id, id));

export type Terms = Omit<typeof entitlements.$inferSelect, 'orgId' | 'productId' | 'createdAt' | 'updatedAt'>;

export type Grant = NonNullable<Awaited<ReturnType<typeof findGrant>>>;

const grantColumns = {
  productSlug: products.slug,
  productName: products.name,
  productFeatures: products.features,
  ...getTableColumns(entitlements),
  effectiveUnitCap: sql<string | null>`${sql.raw(effectiveCap('entitlements', 'products'))}`,
};

const selectGrants = (orm: Orm) =>
  orm.select(grantColumns).from(entitlements).innerJoin(products, eq(products.id, entitlements.productId));

export const findGrant = (orm: Orm, orgId: string, productId: string) =>
  firstRow(selectGrants(orm).where(matches(entitlements, { orgId, productId })));

export async function listGrants(orm: Orm, orgId: string, { after, limit }: Range): Promise<Grant[]> {
  return selectGrants(orm)
    .where(and(eq(entitlements.orgId, orgId), after === undefined ? undefined : gt(products.slug, after)))
    .orderBy(asc(products.slug))
    .limit(limit + 1);
}

/** The entitlements for the products, and those that a plan has set. */
export const listGrantsOf = (orm: Orm, orgIds: readonly string[], slugs?: readonly string[]) =>
  selectGrants(orm).where(
    and(
      inArray(entitlements.orgId, [...orgIds]),
      slugs && or(inArray(products.slug, [...slugs]), isNotNull(entitlements.plan)),
    ),
  );

export const listProductsBySlug = (orm: Orm, slugs: readonly string[]): Promise<Product[]> =>
  orm
    .select()
    .from(products)
    .where(inArray(products.slug, [...slugs]));

export const storeGrants = (tx: Tx, grants: readonly (typeof entitlements.$inferInsert)[]): Promise<void> =>
  storeRows(tx, entitlements, [entitlements.orgId, entitlements.productId], grants);

export const deleteGrants = (tx: Tx, grants: readonly { orgId: string; productId: string }[]) =>
  tx.delete(entitlements).where(
    and(
      inArray(entitlements.orgId, [...new Set(grants.map(({ orgId }) => orgId))]),
      sql`(${entitlements.orgId}, ${entitlements.productId}) in (
        select * from unnest(${textArray(grants.map(({ orgId }) => orgId))}::uuid[], ${textArray(grants.map(({ productId }) => productId))}::uuid[]))`,
    ),
  );

/** The first by slug. */
export const findLiveProduct = (orm: Orm, orgId: string, now: Date) =>
  firstRow(
    orm
      .select({ slug: products.slug, name: products.name, usageMetric: products.usageMetric })
      .from(entitlements)
      .innerJoin(products, eq(products.id, entitlements.productId))
      .where(and(isInEffect(orgId, now), eq(entitlements.kind, 'live'), ne(products.usageMetric, NO_METRIC)))
      .orderBy(asc(products.slug))
      .limit(1),
  );

/** In any state. */
export const findGrantedProducts = (orm: Orm, orgId: string, search: string, limit: number) =>
  orm
    .select({ slug: products.slug, name: products.name })
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .where(and(eq(entitlements.orgId, orgId), containsText(search, products.slug, products.name)))
    .orderBy(asc(products.slug))
    .limit(limit);

export const listProductsInEffect = (orm: Orm, orgId: string, { now, limit }: { now: Date; limit: number }) =>
  orm
    .select({
      id: products.id,
      slug: products.slug,
      name: products.name,
      kind: entitlements.kind,
      usageMetric: products.usageMetric,
      maxQuantity: products.maxQuantity,
    })
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .where(isInEffect(orgId, now))
    .orderBy(asc(products.slug))
    .limit(limit);

/** For an entitlement and its joined product. */
const isInEffect = (orgId: string, now: Date) =>
  and(
    eq(entitlements.orgId, orgId),
    isNull(products.archivedAt),
    lte(entitlements.startsAt, now),
    or(isNull(entitlements.endsAt), gt(entitlements.endsAt, now)),
  );

/** In any state, with both modes. Decimals are text, which keeps all their digits. */
export interface BalanceRow
  extends
    Pick<Product, 'usageMetric' | 'creditPrice' | 'creditPrices'>,
    Pick<Grant, 'productId' | 'productSlug' | 'productName' | 'kind' | 'hasOwnCap' | 'plan'> {
  hasLimits: boolean;
  /** Null if the entitlement has no limits. */
  perSubject: UsageLimit[] | null;
  /** The effective one; null means unlimited. */
  unitCap: string | null;
  startsAt: string;
  endsAt: string | null;
  isArchived: boolean;
  /** JSON of the merged features; null without any. */
  features: string | null;
  liveUsed: string;
  testUsed: string;
}

const used = (orgId: string, period: string, livemode: boolean): SQL => sql`(
    select quantity from usage_totals
    where org_id = ${orgId}::uuid and period = ${period}::date and livemode = ${livemode} and product_id = g.product_id and metric = g.usage_metric
    limit 1)`;

/** By product slug. Reads balances only for the page's rows. `period` is a month's first day. */
export const selectBalances = (
  orgId: string,
  period: string,
  { after, limit }: { after: string | undefined; limit: number },
): SQL => sql`
  select g.product_id::text as "productId", g.has_limits as "hasLimits", g.per_subject as "perSubject", g.slug as "productSlug", g.name as "productName", g.kind, g.usage_metric as "usageMetric", trim_scale(g.unit_cap)::text as "unitCap",
    ${timeText(sql`g.starts_at`)} as "startsAt", ${timeText(sql`g.ends_at`)} as "endsAt",
    g.has_own_cap as "hasOwnCap", g.archived_at is not null as "isArchived", trim_scale(g.credit_price)::text as "creditPrice", g.credit_prices as "creditPrices", g.features, g.plan,
    trim_scale(coalesce(${used(orgId, period, true)}, 0))::text as "liveUsed",
    trim_scale(coalesce(${used(orgId, period, false)}, 0))::text as "testUsed"
  from (
    select e.product_id, e.limits is not null as has_limits, jsonb_path_query_array(e.limits, '$[*] ? (@.per == "subject")') as per_subject, e.kind, e.starts_at, e.ends_at, e.has_own_cap, p.slug, p.name, p.usage_metric, p.archived_at, p.credit_price, p.credit_prices, e.plan, ${sql.raw(mergedFeatures('e', 'p'))},
      ${sql.raw(effectiveCap('e', 'p'))} as unit_cap
    from entitlements e
    cross join lateral (select * from products where id = e.product_id limit 1) p
    where e.org_id = ${orgId}::uuid and p.slug collate "C" > ${after ?? ''} collate "C"
    order by p.slug collate "C"
    limit ${limit}
  ) g
  order by g.slug collate "C"`;

export const listBalances = (
  orm: Orm,
  orgId: string,
  period: string,
  page: { after: string | undefined; limit: number },
): Promise<BalanceRow[]> => selectRows(orm, selectBalances(orgId, period, page));

export const listDimensions = (orm: Orm, slugs: string[]): Promise<Pick<Product, 'slug' | 'dimensions'>[]> =>
  orm
    .select({ slug: products.slug, dimensions: products.dimensions })
    .from(products)
    .where(inArray(products.slug, slugs));

/** From the five-minute slot in which a time lies, the largest first. */
export const listSubjectSums = (
  orm: Orm,
  { orgId, productIds, livemode }: { orgId: string; productIds: readonly string[]; livemode: boolean },
  sinceMs: number,
): Promise<{ subject: string; metric: string; quantity: string }[]> =>
  selectRows(
    orm,
    sql`select subject, metric, trim_scale(sum(quantity))::text as quantity from usage_subjects
    where org_id = ${orgId}::uuid and product_id = any(${textArray(productIds)}::uuid[]) and livemode = ${livemode}
      and slot >= date_bin('5 minutes', ${new Date(sinceMs).toISOString()}::timestamptz, timestamptz '2000-01-01 00:00:00+00')
    group by 1, 2 order by sum(quantity) desc, 1 limit 100`,
  );
