import { sql } from 'drizzle-orm';
import {
  check,
  doublePrecision,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { contractsColumn, micros, tradeModes } from './orders-table.js';

/** An Organization's money in one mode. Its row is the lock under which cash is checked and spent. */
export const tradingAccounts = pgTable(
  'trading_accounts',
  {
    orgId: uuid('org_id').notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    /** Always the sum of the ledger's `cash`. */
    cash: micros('cash').notNull(),
    /** How far below nothing cash was when a market was last settled: a corrected payout may have been spent already. */
    overdrawn: micros('overdrawn')
      .notNull()
      .default(sql`0`),
    openedAt: time('opened_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode] }),
    check('trading_accounts_mode', sql`${t.mode} in ('paper', 'live')`),
    // Paper money is never lent: no order takes more than there is. A live account follows the venue, whose word is final.
    check('trading_accounts_cash', sql`${t.mode} = 'live' or ${t.cash} + ${t.overdrawn} >= 0`),
    check('trading_accounts_overdrawn', sql`${t.overdrawn} >= 0`),
  ],
);

/**
 * What is held of a market. A market is held on one side: a purchase of the other side closes pairs at a dollar each, as
 * the venue does. Rows stay when everything is sold, with what was earned.
 */
export const tradingPositions = pgTable(
  'trading_positions',
  {
    orgId: uuid('org_id').notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    ticker: text().notNull(),
    eventTicker: text('event_ticker').notNull(),
    /** The side that is held, or was last. */
    side: text({ enum: ['yes', 'no'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** What the held contracts were bought for, without fees: average cost. */
    cost: micros('cost').notNull(),
    /** Over the whole life of the position. Profit is positive; fees apart. */
    realised: micros('realised').notNull(),
    fees: micros('fees').notNull(),
    openedAt: time('opened_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode, t.ticker] }),
    // Serves the worst case of an event.
    index('trading_positions_event').on(t.orgId, t.mode, t.eventTicker),
    // Serves the portfolio, and the walk through all accounts that hold something.
    index('trading_positions_open')
      .on(t.orgId, t.mode, t.ticker)
      .where(sql`${t.contracts} > 0`),
    // Serves the settlement, which reads by market across Organizations.
    index('trading_positions_to_settle')
      .on(t.ticker, t.orgId, t.mode)
      .where(sql`${t.contracts} > 0`),
    check('trading_positions_contracts', sql`${t.contracts} >= 0`),
    check('trading_positions_cost', sql`${t.cost} >= 0 and (${t.contracts} > 0 or ${t.cost} = 0)`),
  ],
);

/**
 * `adjustment`: cash of a live account as the venue has it, where that differed. `transfer`: between the venue's exchange shards, of
 * which an account's cash is on one.
 */
export const ledgerKinds = ['deposit', 'fill', 'settlement', 'correction', 'adjustment', 'transfer'] as const;
export type LedgerKind = (typeof ledgerKinds)[number];

/**
 * Double entry: each row is one event with its posting to each of five accounts, in millionths of a dollar, what flows in
 * positive; together they are nothing. Rows are added and never changed.
 *
 * `cash` and `positions` (at cost) are what the Organization has; `fees` is what it paid; `realised` and `capital` are where
 * money came from, so a profit, a deposit and a transfer from another shard are negative here.
 */
export const ledgerEntries = pgTable(
  'ledger_entries',
  {
    orgId: uuid('org_id').notNull(),
    id: uuid().notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    kind: text({ enum: ledgerKinds }).notNull(),
    at: time('at').notNull(),
    ticker: text(),
    orderId: uuid('order_id'),
    fillN: integer('fill_n'),
    /** The settlement of the market that this is a part of, see `trading_settlements`. */
    settlementN: integer('settlement_n'),
    /** The venue's id of a transfer between its shards. */
    transferId: text('transfer_id'),
    cash: micros('cash').notNull(),
    positions: micros('positions').notNull(),
    fees: micros('fees').notNull(),
    realised: micros('realised').notNull(),
    capital: micros('capital').notNull(),
    /** Why, for what no order or settlement explains. */
    memo: text(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // Ids are UUIDv7, so this is the order in time. Serves the day's loss and the curve of profit and loss.
    index('ledger_entries_list').on(t.orgId, t.mode, t.id),
    // Serves the day's loss of every order: money that was put in or taken out is no part of it, and such entries are few.
    index('ledger_entries_capital')
      .on(t.orgId, t.mode, t.at)
      .where(sql`${t.capital} <> 0`),
    index('ledger_entries_at').on(t.orgId, t.mode, t.at),
    // A fill is booked once, and so is each word of the venue about a market.
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

/**
 * What the venue said about a market that an Organization held at its end, word by word: a new row for each change. Money
 * moves with `finalized` and `void`, and with what changes them afterwards.
 */
export const tradingSettlements = pgTable(
  'trading_settlements',
  {
    orgId: uuid('org_id').notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    ticker: text().notNull(),
    /** 1, 2, 3 … within the market. */
    n: integer().notNull(),
    state: text({ enum: settlementStates }).notNull(),
    /** What a YES contract pays; null while it is not known, and for a void market. Part of a dollar: a last fair price. */
    value: micros('value'),
    /** What the market settled by, °F: whole degrees of a report, hundredths of an index, where it is known. */
    temperature: doublePrecision(),
    eventTicker: text('event_ticker').notNull(),
    side: text({ enum: ['yes', 'no'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    /** What the contracts had cost: corrections need it after the position is closed. */
    cost: micros('cost').notNull(),
    /** What this row moved: the payout, or the difference to the payout before it. 0 for what is only a word. */
    cashChange: micros('cash_change').notNull(),
    at: time('at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.mode, t.ticker, t.n] }),
    index('trading_settlements_at').on(t.orgId, t.mode, t.at),
    // Serve the read of what was settled a few days ago and may be amended.
    index('trading_settlements_recent').on(t.at),
    index('trading_settlements_ticker').on(t.ticker, t.orgId, t.mode, t.n),
    check('trading_settlements_contracts', sql`${t.contracts} > 0`),
  ],
);

/** What an account was worth at a time: written every quarter of an hour that it holds something, and when it changed. */
export const portfolioHistory = pgTable(
  'portfolio_history',
  {
    orgId: uuid('org_id').notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    at: time('at').notNull(),
    cash: micros('cash').notNull(),
    /** What the open positions could be sold for, after fees. */
    liquidation: micros('liquidation').notNull(),
    /** Since the account was opened. */
    realised: micros('realised').notNull(),
    unrealised: micros('unrealised').notNull(),
    fees: micros('fees').notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.mode, t.at] })],
);
