import { sql } from 'drizzle-orm';
import { foreignKey, index, pgTable, primaryKey } from 'drizzle-orm/pg-core';
import { organizations } from '../../accounts/organizations/table.js';
import { bytewiseText, time } from '../../core/db/sql.js';
import type { Definition } from './schema.js';

export const plans = pgTable('plans', (c) => ({
  slug: bytewiseText('slug').primaryKey(),
  name: c.text().notNull(),
  /** The newest. */
  version: c.integer().notNull(),
  createdAt: time('created_at').notNull(),
  updatedAt: time('updated_at').notNull(),
}));

/** A row never changes. */
export const planVersions = pgTable(
  'plan_versions',
  (c) => ({
    plan: bytewiseText('plan')
      .notNull()
      .references(() => plans.slug),
    version: c.integer().notNull(),
    definition: c.jsonb().$type<Definition>().notNull(),
    createdAt: time('created_at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.plan, t.version] })],
);

/** An Organization's plan. The row stays when the plan ends, because a trial is given once. */
export const organizationPlans = pgTable(
  'organization_plans',
  (c) => ({
    orgId: c
      .uuid('org_id')
      .primaryKey()
      .references(() => organizations.id),
    plan: bytewiseText('plan').notNull(),
    version: c.integer().notNull(),
    startsAt: time('starts_at').notNull(),
    /** Periods are counted from here. */
    anchor: time('anchor').notNull(),
    /** Null without a trial, and after its confirmation. */
    trialEndsAt: time('trial_ends_at'),
    /** The trial has ended, and the entitlements are read-only. */
    isTrialOver: c.boolean('is_trial_over').notNull().default(false),
    /** Slugs of the plans that it has tried. */
    tried: c.text().array().notNull().default([]),
    /** The grants of all periods that begin by this time have been made. */
    grantedUntil: time('granted_until').notNull(),
    /** When the job next has something to do; null for nothing. */
    dueAt: time('due_at'),
    endedAt: time('ended_at'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  }),
  (t) => [
    foreignKey({
      columns: [t.plan, t.version],
      foreignColumns: [planVersions.plan, planVersions.version],
      name: 'organization_plans_version',
    }),
    index('organization_plans_by_version')
      .on(t.plan, t.version, t.orgId)
      .where(sql`${t.endedAt} is null`),
    index('organization_plans_due')
      .on(t.dueAt)
      .where(sql`${t.dueAt} is not null`),
  ],
);
