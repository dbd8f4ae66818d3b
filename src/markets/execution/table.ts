import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { contractsColumn, micros, tradeModes } from '../ledger/orders-table.js';

/** If `n` is 0, after the shadow paper fill of a live order. Prices are for the order's own side. */
export const executionMarks = pgTable(
  'execution_marks',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    orderId: c.uuid('order_id').notNull(),
    /** 0 for the order itself. */
    n: c.integer().notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    ticker: c.text().notNull(),
    side: c.text({ enum: ['yes', 'no'] }).notNull(),
    action: c.text({ enum: ['buy', 'sell'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** Without fees. */
    value: micros('value').notNull(),
    fees: micros('fees').notNull(),
    at: time('at').notNull(),
    /** Null until a minute after the fill. */
    markedAt: time('marked_at'),
    /** Nobody traded at the price or better in the next minute and nothing was left there; null if unknown. */
    missed: c.boolean(),
    /** Price 15 seconds later; null if unknown. */
    after15: micros('after_15'),
    after30: micros('after_30'),
    after60: micros('after_60'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.orderId, t.n] }),
    index('execution_marks_list').on(t.orgId, t.mode, t.at),
    // For the marking job, which reads across Organizations.
    index('execution_marks_waiting')
      .on(t.at)
      .where(sql`${t.markedAt} is null`),
    check('execution_marks_contracts', sql`${t.contracts} >= 0 and (${t.n} = 0 or ${t.contracts} > 0)`),
  ],
);
