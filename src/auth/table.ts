import { index, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core';
import { organizations, users } from '../organizations/table.js';

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

/**
 * A signed-in browser. The cookie holds only the opaque token; this row, found by the token's hash, is what
 * makes it valid, so that deleting the row ends the session on its next request.
 */
export const sessions = pgTable(
  'sessions',
  {
    hashedToken: text('hashed_token').primaryKey(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The Organization the person looks at. Named so that sessions stay a person's rows, not a tenant's. */
    currentOrgId: uuid('current_org_id').references(() => organizations.id),
    createdAt: time('created_at').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    ip: text().notNull(),
    userAgent: text('user_agent').notNull(),
  },
  (t) => [index('sessions_user').on(t.userId), index('sessions_expiry').on(t.expiresAt)],
);
