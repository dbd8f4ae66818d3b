import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { contractsColumn, micros, microsFromZero, tradeModes } from './orders-table.js';

/** Cash is checked and spent under this row's lock. */
export const tradingAccounts = pgTable(
  'trading_accounts',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    /** Invariant: the sum of the ledger's `cash`. */
    cash: micros('cash').notNull(),
    /** A corrected payout may already have been spent. */
    overdrawn: microsFromZero('overdrawn'),
    openedAt: time('opened_at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode] }),
    check('trading_accounts_mode', sql`${t.mode} in ('paper', 'live')`),
    // Paper orders cannot overdraw cash. A live account follows the venue's balance.
    check('trading_accounts_cash', sql`${t.mode} = 'live' or ${t.cash} + ${t.overdrawn} >= 0`),
    check('trading_accounts_overdrawn', sql`${t.overdrawn} >= 0`),
  ],
);

/** Buying the other side closes pairs at a dollar each. A closed position keeps its realised profit. */
export const tradingPositions = pgTable(
  'trading_positions',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    ticker: c.text().notNull(),
    eventTicker: c.text('event_ticker').notNull(),
    side: c.text({ enum: ['yes', 'no'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** Average cost of the held contracts, without fees. */
    cost: micros('cost').notNull(),
    /** Lifetime, before fees; losses are negative. */
    realised: micros('realised').notNull(),
    fees: micros('fees').notNull(),
    openedAt: time('opened_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode, t.ticker] }),
    // For an event's worst-case loss.
    index('trading_positions_event').on(t.orgId, t.mode, t.eventTicker),
    // For the portfolio and the scan of accounts with open positions.
    index('trading_positions_open')
      .on(t.orgId, t.mode, t.ticker)
      .where(sql`${t.contracts} > 0`),
    // Settlement reads by market across Organizations.
    index('trading_positions_to_settle')
      .on(t.ticker, t.orgId, t.mode)
      .where(sql`${t.contracts} > 0`),
    check('trading_positions_contracts', sql`${t.contracts} >= 0`),
    check('trading_positions_cost', sql`${t.cost} >= 0 and (${t.contracts} > 0 or ${t.cost} = 0)`),
  ],
);

/** `adjustment` follows the venue's cash; `transfer` moves money between its shards, one of which has our cash. */
export const ledgerKinds = ['deposit', 'fill', 'settlement', 'correction', 'adjustment', 'transfer'] as const;
export type LedgerKind = (typeof ledgerKinds)[number];

/**
 * Double entry, append-only: five accounts in millionths of a dollar, inflows positive, sum zero. `cash` and
 * `positions` (at cost) are assets, `fees` are expenses; `realised` and `capital` are sources, so profits, deposits and
 * transfers in are negative there.
 */
export const ledgerEntries = pgTable(
  'ledger_entries',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    kind: c.text({ enum: ledgerKinds }).notNull(),
    at: time('at').notNull(),
    ticker: c.text(),
    orderId: c.uuid('order_id'),
    fillN: c.integer('fill_n'),
    /** In `trading_settlements`. */
    settlementN: c.integer('settlement_n'),
    transferId: c.text('transfer_id'),
    cash: micros('cash').notNull(),
    positions: micros('positions').notNull(),
    fees: micros('fees').notNull(),
    realised: micros('realised').notNull(),
    capital: micros('capital').notNull(),
    memo: c.text(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // UUIDv7 ids sort by time. For the daily loss and the profit curve.
    index('ledger_entries_list').on(t.orgId, t.mode, t.id),
    // Every order's daily loss check excludes deposits and withdrawals, which are few.
    index('ledger_entries_capital')
      .on(t.orgId, t.mode, t.at)
      .where(sql`${t.capital} <> 0`),
    index('ledger_entries_at').on(t.orgId, t.mode, t.at),
    // Each fill, settlement report and transfer is booked once.
    uniqueIndex('ledger_entries_fill')
      .on(t.orgId, t.orderId, t.fillN)
      .where(sql`${t.orderId} is not null`),
    uniqueIndex('ledger_entries_settlement')
      .on(t.orgId, t.mode, t.ticker, t.settlementN)
      .where(sql`${t.settlementN} is not null`),
    uniqueIndex('ledger_entries_transfer')
      .on(t.orgId, t.transferId)
      .where(sql`${t.transferId} is not null`),
    check(
      'ledger_entries_balance',
      sql`${t.cash} + ${t.positions} + ${t.fees} + ${t.realised} + ${t.capital} = 0`,
    ),
    check(
      'ledger_entries_kind',
      sql`${t.kind} in ('deposit', 'fill', 'settlement', 'correction', 'adjustment', 'transfer')`,
    ),
  ],
);

export const settlementStates = [
  'provisional',
  'determined',
  'disputed',
  'amended',
  'finalized',
  'void',
] as const;
export type SettlementState = (typeof settlementStates)[number];

/** Markets held at their close, one row per change. Money moves with `finalized`, `void` and corrections. */
export const tradingSettlements = pgTable(
  'trading_settlements',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    ticker: c.text().notNull(),
    n: c.integer().notNull(),
    state: c.text({ enum: settlementStates }).notNull(),
    /** Per YES contract; null while unknown and for void markets. A fraction of a dollar is the last fair price. */
    value: micros('value'),
    /** °F if known: whole degrees from a report, hundredths from an index. */
    temperature: c.doublePrecision(),
    eventTicker: c.text('event_ticker').notNull(),
    side: c.text({ enum: ['yes', 'no'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** At settlement. Corrections need it after the position is closed. */
    cost: micros('cost').notNull(),
    /** The payout, or its difference from the previous one. 0 for a report that moves no money. */
    cashChange: micros('cash_change').notNull(),
    at: time('at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode, t.ticker, t.n] }),
    index('trading_settlements_at').on(t.orgId, t.mode, t.at),
    // The venue may still amend recent settlements.
    index('trading_settlements_recent').on(t.at),
    index('trading_settlements_ticker').on(t.ticker, t.orgId, t.mode, t.n),
    check('trading_settlements_contracts', sql`${t.contracts} > 0`),
  ],
);

/** Every 15 minutes while a position is open, and at each change. */
export const portfolioHistory = pgTable(
  'portfolio_history',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    at: time('at').notNull(),
    cash: micros('cash').notNull(),
    /** After fees. */
    liquidation: micros('liquidation').notNull(),
    realised: micros('realised').notNull(),
    unrealised: micros('unrealised').notNull(),
    fees: micros('fees').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.mode, t.at] })],
);

/** Cities whose markets a member follows. */
export const watchedMarkets = pgTable(
  'watched_markets',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    userId: c.uuid('user_id').notNull(),
    city: c.text().notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.userId, t.city] })],
);
