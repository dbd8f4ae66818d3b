import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, text, timestamp, uuid } from 'drizzle-orm/pg-core';

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

export const organizations = pgTable('organizations', {
  id: uuid().primaryKey(),
  slug: text().notNull().unique(),
  name: text().notNull(),
  createdAt: time('created_at').notNull(),
});

export const users = pgTable('users', {
  id: uuid().primaryKey(),
  /** Trimmed and lower-cased before it is stored or looked up. */
  email: text().notNull().unique(),
  name: text().notNull(),
  passwordHash: text('password_hash').notNull(),
  createdAt: time('created_at').notNull(),
});

export const roles = ['owner', 'admin', 'member', 'billing'] as const;
export type Role = (typeof roles)[number];

export const memberships = pgTable(
  'memberships',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id),
    role: text({ enum: roles }).notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.userId] }),
    index('memberships_user').on(t.userId),
    check('memberships_role', sql`${t.role} in ('owner', 'admin', 'member', 'billing')`),
  ],
);
