import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import type { FeatureOverrides, Features } from './features.js';
import { ofOrganization } from '../../accounts/organizations/table.js';

/** Far above any plausible quantity, and far below values that would distort a total. */
export const DEFAULT_MAX_QUANTITY = '1000000000000000';

/** A product without a metric is a plain switch. No event has this metric, so none can be recorded for it. */
export const NO_METRIC = '';

export const enforcements = ['warn', 'block'] as const;

export const products = pgTable(
  'products',
  (c) => ({
    id: c.uuid().primaryKey(),
    slug: c.text().notNull().unique(),
    name: c.text().notNull(),
    /** `NO_METRIC` without usage. */
    usageMetric: c.text('usage_metric').notNull(),
    /** Per Organization and calendar month (UTC); null means unlimited. */
    unitCap: c.numeric('unit_cap'),
    /** Per usage event. */
    maxQuantity: c.numeric('max_quantity').notNull().default(DEFAULT_MAX_QUANTITY),
    /** New keys are only added at the end. */
    dimensions: c.text().array().notNull().default([]),
    /** Events received from this time on are also counted by subject; null if subjects are not counted. */
    subjectsSince: time('subjects_since'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    archivedAt: time('archived_at'),
    /** Null if no usage is sent to Stripe. */
    stripeMeterEvent: c.text('stripe_meter_event'),
    /** First hour whose usage is sent to Stripe. */
    stripeSince: time('stripe_since'),
    /** Per unit; null if the product costs no credits. */
    creditPrice: c.numeric('credit_price'),
    /** Its values have prices that differ from `creditPrice`. */
    creditDimension: c.text('credit_dimension'),
    creditPrices: c.jsonb('credit_prices').$type<Record<string, string>>(),
    /** Without credits, `block` refuses checks and reservations. */
    creditEnforcement: c.text('credit_enforcement', { enum: enforcements }),
    /** Null without any. */
    features: c.jsonb().$type<Features>(),
  }),
  (t) => [
    index('products_stripe')
      .on(t.id)
      .where(sql`${t.stripeMeterEvent} is not null`),
    check('products_stripe_since', sql`(${t.stripeMeterEvent} is null) = (${t.stripeSince} is null)`),
    check('products_unit_cap', sql`${t.unitCap} >= 0`),
    check('products_max_quantity', sql`${t.maxQuantity} > 0`),
    check(
      'products_credits',
      sql`${t.creditPrice} >= 0 and (${t.creditPrice} is null) = (${t.creditEnforcement} is null)
        and (${t.creditDimension} is null) = (${t.creditPrices} is null)
        and (${t.creditDimension} is null or ${t.creditPrice} is not null)`,
    ),
    check('products_dimensions', sql`cardinality(${t.dimensions}) <= 4`),
  ],
);

/** A blocking limit can refuse checks and reservations, but never events. */
export interface UsageLimit {
  /** An exact decimal. */
  quantity: string;
  /** `calendar_month`, `calendar_week`, `calendar_day`, or an ISO 8601 duration of a rolling window. */
  window: string;
  enforcement: (typeof enforcements)[number];
  /** The limit applies to each subject separately. */
  per?: 'subject' | undefined;
}

export const entitlementKinds = ['live', 'read_only'] as const;
export type EntitlementKind = (typeof entitlementKinds)[number];

/** In effect from `startsAt` (inclusive) until `endsAt` (exclusive). */
export const entitlements = pgTable(
  'entitlements',
  (c) => ({
    orgId: ofOrganization(),
    productId: c
      .uuid('product_id')
      .notNull()
      .references(() => products.id),
    kind: c.text({ enum: entitlementKinds }).notNull(),
    startsAt: time('starts_at').notNull(),
    endsAt: time('ends_at'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Replaces the product's cap. */
    hasOwnCap: c.boolean('has_own_cap').notNull().default(false),
    /** Applies only with `hasOwnCap`; null then means unlimited. */
    unitCap: c.numeric('unit_cap'),
    /** These apply in addition to the cap; null without any. */
    limits: c.jsonb().$type<UsageLimit[]>(),
    /** In percent of cap and limits; null for the default. */
    thresholds: c.integer().array(),
    /** Replace the product's by name; null without any. */
    features: c.jsonb().$type<FeatureOverrides>(),
    /** Slug of the plan that set the terms; null if they were set by hand. */
    plan: c.text(),
  }),
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

/** Takes the row names of both tables. */
export const effectiveCap = (entitlement: string, product: string): string =>
  `case when ${entitlement}.has_own_cap then ${entitlement}.unit_cap else ${product}.unit_cap end`;

/** The cap, or a lower limit of the calendar month. */
export const monthlyCap = (entitlement: string, product: string): string =>
  `least(${effectiveCap(entitlement, product)}, (
    select min((l ->> 'quantity')::numeric) from jsonb_array_elements(${entitlement}.limits) l
    where l ->> 'window' = 'calendar_month' and l ->> 'per' is null))`;
