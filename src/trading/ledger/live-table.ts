import { jsonb, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core';

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

/** What is known about the venue's account of an Organization that trades live, besides its money. */
export const liveAccounts = pgTable('live_accounts', {
  orgId: uuid('org_id').primaryKey(),
  /**
   * Contracts at the venue that are not ours, by market, in hundredths; negative for NO. Those that were there when the
   * account was opened, and those that were accepted since.
   */
  foreignPositions: jsonb('foreign_positions').$type<Record<string, number>>().notNull(),
  /** Differences in orders that were accepted, as `venue order id ours venue's`: they are not told again. */
  accepted: jsonb('accepted').$type<string[]>().notNull(),
  /** The venue said something that is not understood: no instance sends orders until that is accepted. */
  problem: text('problem'),
  openedAt: time('opened_at').notNull(),
  updatedAt: time('updated_at').notNull(),
});
