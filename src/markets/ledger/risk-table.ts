import { sql } from 'drizzle-orm';
import { check, pgTable, text } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { contractsColumn, micros } from './orders-table.js';

/** Null, or no row, means the service's default. */
export const riskLimits = pgTable(
  'risk_limits',
  (c) => ({
    orgId: c.uuid('org_id').primaryKey(),
    maxOrderContracts: contractsColumn('max_order_contracts'),
    /** One purchase at its limit price, fee included. */
    maxOrderCost: micros('max_order_cost'),
    maxPositionContracts: contractsColumn('max_position_contracts'),
    /** Worst case, after the order. */
    maxEventLoss: micros('max_event_loss'),
    /** Loss since midnight UTC, realised and marked, fees included. */
    maxDailyLoss: micros('max_daily_loss'),
    maxOpenOrders: c.integer('max_open_orders'),
    /** Largest distance from the best price in the book. */
    priceCollar: micros('price_collar'),
    updatedAt: time('updated_at').notNull(),
  }),
  (t) => [
    check(
      'risk_limits_sign',
      sql`least(${t.maxOrderContracts}, ${t.maxOrderCost}, ${t.maxPositionContracts}, ${t.maxEventLoss}, ${t.maxDailyLoss}, ${t.maxOpenOrders}, ${t.priceCollar}) >= 0`,
    ),
  ],
);

export const switchStates = ['open', 'reduce_only', 'halt'] as const;
export type SwitchState = (typeof switchStates)[number];

const state = (name: string) => text(name, { enum: switchStates }).notNull().default('open');

/** The strictest of these two and the service's switch applies. Times are null for one that was never set. */
export const tradingSwitches = pgTable(
  'trading_switches',
  (c) => ({
    orgId: c.uuid('org_id').primaryKey(),
    ownState: state('own_state'),
    ownReason: c.text('own_reason'),
    /** Kept after the user's account is deleted. */
    ownBy: c.uuid('own_by'),
    ownAt: time('own_at'),
    operatorState: state('operator_state'),
    operatorReason: c.text('operator_reason'),
    operatorAt: time('operator_at'),
  }),
  (t) => [
    check('trading_switches_own', sql`${t.ownState} in ('open', 'reduce_only', 'halt')`),
    check('trading_switches_operator', sql`${t.operatorState} in ('open', 'reduce_only', 'halt')`),
  ],
);

export const serviceSwitch = pgTable(
  'service_switch',
  (c) => ({
    id: c.boolean().primaryKey().default(true),
    state: state('state'),
    reason: c.text(),
    updatedAt: time('updated_at').notNull(),
  }),
  (t) => [
    check('service_switch_one', sql`${t.id}`),
    check('service_switch_state', sql`${t.state} in ('open', 'reduce_only', 'halt')`),
  ],
);

export const jobLeases = pgTable('job_leases', (c) => ({
  name: c.text().primaryKey(),
  holder: c.uuid().notNull(),
  until: time('until').notNull(),
}));
