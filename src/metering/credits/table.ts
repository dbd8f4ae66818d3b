import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core';
import { bytewiseText, time } from '../../core/db/sql.js';

/** A row never changes, except that it can be voided once. */
export const creditGrants = pgTable(
  'credit_grants',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    startsAt: time('starts_at').notNull(),
    /** A whole hour, exclusive; null if the grant never expires. */
    expiresAt: time('expires_at'),
    createdAt: time('created_at').notNull(),
    voidedAt: time('voided_at'),
    livemode: c.boolean().notNull(),
    /** 0 to 100; the lowest burns first. */
    priority: c.integer().notNull(),
    /** Share of the credits left at expiry that stays valid for `rolloverDays` more days; null without rollover. */
    rolloverPercent: c.integer('rollover_percent'),
    rolloverDays: c.integer('rollover_days'),
    grantKey: bytewiseText('grant_key').notNull(),
    amount: c.numeric().notNull(),
    /** Null for every product. */
    productIds: c.uuid('product_ids').array(),
    reason: c.text().notNull(),
    actor: c.text().notNull(),
    voidReason: c.text('void_reason'),
    /** As sent, without defaults. A repeated request must equal it. */
    request: c.jsonb().$type<Record<string, unknown>>().notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.livemode, t.id] }),
    uniqueIndex('credit_grants_key').on(t.orgId, t.livemode, t.grantKey),
    check('credit_grants_amount', sql`${t.amount} > 0`),
    check('credit_grants_priority', sql`${t.priority} between 0 and 100`),
    check('credit_grants_range', sql`${t.expiresAt} > ${t.startsAt}`),
    check(
      'credit_grants_rollover',
      sql`(${t.rolloverPercent} is null) = (${t.rolloverDays} is null) and ${t.rolloverPercent} between 1 and 100
        and ${t.rolloverDays} between 1 and 366 and (${t.rolloverPercent} is null or ${t.expiresAt} is not null)`,
    ),
  ],
);

/**
 * Arrays with one entry per open grant, in burning order, and per overdraft. Only `gauge_burn` and statements that hold
 * the row's lock change it.
 */
export const creditAccounts = pgTable(
  'credit_accounts',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    livemode: c.boolean().notNull(),
    /** In percent, since a grant last lifted the balance above it. */
    reached: c.integer(),
    reachedAt: time('reached_at'),
    grants: c.uuid().array().notNull().default([]),
    rests: c.numeric().array().notNull().default([]),
    starts: time('starts').array().notNull().default([]),
    /** `infinity` for a grant that never expires. */
    ends: time('ends').array().notNull().default([]),
    /** Product ids separated by spaces; '' for every product. */
    scopes: c.text().array().notNull().default([]),
    priorities: c.integer().array().notNull().default([]),
    /** 0 if the grant does not roll over, or has already done so. */
    rollPercents: c.integer('roll_percents').array().notNull().default([]),
    rollDays: c.integer('roll_days').array().notNull().default([]),
    /** `debts` has the amounts. */
    debtors: c.uuid().array().notNull().default([]),
    debts: c.numeric().array().notNull().default([]),
    // For `gauge_burn` within one statement; meaningless afterwards.
    asked: c.uuid().array(),
    hours: time('hours').array(),
    costs: c.numeric().array(),
    tookKinds: c.text('took_kinds').array(),
    tookFrom: c.uuid('took_from').array(),
    tookFor: c.uuid('took_for').array(),
    tookHours: time('took_hours').array(),
    took: c.numeric().array(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.livemode] })],
);

/**
 * `burn`: an event took credits from a grant, or from its product's overdraft. `return`: a correction gave them back.
 * `expire` and `void`: credits left when the grant ended. `roll`: credits rolled over (no other kind includes them).
 * `repay`: a grant paid an overdraft. `forgive`: the operator forgave an overdraft. Amounts of `repay` and `forgive`
 * are negative where a correction undid them.
 */
export const creditEntryKinds = ['burn', 'return', 'expire', 'roll', 'void', 'repay', 'forgive'] as const;
export type CreditEntryKind = (typeof creditEntryKinds)[number];

/** No product, or no grant. */
export const NOBODY = '00000000-0000-0000-0000-000000000000';

/** Rows are only added, except that those of archived months are merged by day. */
export const creditEntries = pgTable(
  'credit_entries',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    /** `NOBODY` for `expire`, `roll` and `void`. */
    productId: c.uuid('product_id').notNull(),
    /** The grant; the product's id for an overdraft; `NOBODY` for `forgive`. */
    grantId: c.uuid('grant_id').notNull(),
    /** When the events were received (for `return`, the corrected events) or the change was made. */
    at: time('at').notNull(),
    /** The hour of the usage, the end of the grant, or `at` rounded down to the hour. */
    hour: time('hour').notNull(),
    livemode: c.boolean().notNull(),
    kind: c.text({ enum: creditEntryKinds }).notNull(),
    amount: c.numeric().notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'credit_entries_pk',
      columns: [t.orgId, t.livemode, t.productId, t.at, t.hour, t.grantId, t.kind],
    }),
    index('credit_entries_at').on(t.orgId, t.livemode, t.at),
    // How a closed grant ended, without reading everything that it paid for.
    index('credit_entries_closing')
      .on(t.orgId, t.livemode, t.grantId)
      .where(sql`${t.kind} in ('expire', 'roll', 'void')`),
    // For correcting an overdraft that has since been repaid.
    index('credit_entries_repaid')
      .on(t.orgId, t.livemode, t.productId, t.at)
      .where(sql`${t.kind} = 'repay'`),
  ],
);
