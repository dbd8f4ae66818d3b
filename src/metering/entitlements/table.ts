import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  text,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { organizations } from '../../accounts/organizations/table.js';

/** Far beyond what any event means, and far below what makes a total useless. */
export const DEFAULT_MAX_QUANTITY = '1000000000000000';

export const products = pgTable(
  'products',
  {
    id: uuid().primaryKey(),
    slug: text().notNull().unique(),
    name: text().notNull(),
    usageMetric: text('usage_metric').notNull(),
    /** Units per calendar month (UTC) and Organization; null is unlimited. */
    unitCap: numeric('unit_cap'),
    /** What one usage event may count at most. */
    maxQuantity: numeric('max_quantity').notNull().default(DEFAULT_MAX_QUANTITY),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Since when no entitlement to it is in effect. */
    archivedAt: time('archived_at'),
  },
  (t) => [
    check('products_unit_cap', sql`${t.unitCap} >= 0`),
    check('products_max_quantity', sql`${t.maxQuantity} > 0`),
  ],
);

export const enforcements = ['warn', 'block'] as const;

/** So many units in a window that ends or rolls; what is asked before may be stopped by it, events never are. */
export interface UsageLimit {
  /** An exact decimal. */
  quantity: string;
  /** `calendar_month`, `calendar_week`, `calendar_day`, or an ISO 8601 duration of a rolling window. */
  window: string;
  enforcement: (typeof enforcements)[number];
}

export const entitlementKinds = ['live', 'read_only'] as const;
export type EntitlementKind = (typeof entitlementKinds)[number];

/** In effect from `startsAt` (inclusive) until `endsAt` (exclusive). */
export const entitlements = pgTable(
  'entitlements',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    productId: uuid('product_id')
      .notNull()
      .references(() => products.id),
    kind: text({ enum: entitlementKinds }).notNull(),
    startsAt: time('starts_at').notNull(),
    endsAt: time('ends_at'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Whether `unitCap` takes the place of the product's. */
    hasOwnCap: boolean('has_own_cap').notNull().default(false),
    /** As of a product; null is unlimited where the cap is the entitlement's own. */
    unitCap: numeric('unit_cap'),
    /** Beside the cap; null is none. */
    limits: jsonb().$type<UsageLimit[]>(),
    /** Shares of cap and limits, in percent, of which webhooks tell; null is the default. */
    thresholds: integer().array(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.productId] }),
    index('entitlements_own_cap')
      .on(t.orgId, t.productId)
      .where(sql`${t.hasOwnCap}`),
    check('entitlements_kind', sql`${t.kind} in ('live', 'read_only')`),
    check('entitlements_range', sql`${t.endsAt} > ${t.startsAt}`),
    check('entitlements_unit_cap', sql`${t.unitCap} is null or (${t.hasOwnCap} and ${t.unitCap} >= 0)`),
  ],
);

/** SQL of the cap that binds, over the names of a row of each table: the entitlement's own, else the product's. */
export const effectiveCap = (entitlement: string, product: string): string =>
  `case when ${entitlement}.has_own_cap then ${entitlement}.unit_cap else ${product}.unit_cap end`;
