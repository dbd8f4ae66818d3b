import { sql } from 'drizzle-orm';
import { boolean, check, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { contractsColumn, micros, tradeModes } from '../ledger/orders-table.js';

/**
 * Prices after a fill or, if `n` is 0, after the shadow paper fill of a live order. Prices are for the order's own
 * side.
 */
export const executionMarks = pgTable(
  'execution_marks',
  {
    orgId: uuid('org_id').notNull(),
    orderId: uuid('order_id').notNull(),
    /** Number of the fill; 0 for the order itself. */
    n: integer().notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    ticker: text().notNull(),
    side: text({ enum: ['yes', 'no'] }).notNull(),
    action: text({ enum: ['buy', 'sell'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** Cost or proceeds without fees. */
    value: micros('value').notNull(),
    fees: micros('fees').notNull(),
    at: time('at').notNull(),
    /** Null until the fill is marked, a minute after it happens. */
    markedAt: time('marked_at'),
    /**
     * True if nobody traded at the fill's price or better in the minute after it and nothing was left at that price;
     * null if unknown.
     */
    missed: boolean(),
    /** Price 15, 30 and 60 seconds later; null if unknown. */
    after15: micros('after_15'),
    after30: micros('after_30'),
    after60: micros('after_60'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.orderId, t.n] }),
    index('execution_marks_list').on(t.orgId, t.mode, t.at),
    // Serves the marking job, which reads across Organizations.
    index('execution_marks_waiting')
      .on(t.at)
      .where(sql`${t.markedAt} is null`),
    check('execution_marks_contracts', sql`${t.contracts} >= 0 and (${t.n} = 0 or ${t.contracts} > 0)`),
  ],
);
