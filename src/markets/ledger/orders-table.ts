import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { timesInForce } from '../market/book.js';

/** Millionths of a dollar. */
export const micros = (name: string) => bigint(name, { mode: 'bigint' });

/** Contracts, in hundredths; see `contracts.ts`. Postgres reckons with them exactly. Raw SQL reads them `::float8`, which is the nearest number. */
export const contractsColumn = (name: string) => numeric(name, { precision: 12, scale: 2, mode: 'number' });

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
  /** The venue's group of the orders that rest: one request takes all of them out of the book. Null where there is none. */
  orderGroupId: text('order_group_id'),
  openedAt: time('opened_at').notNull(),
  updatedAt: time('updated_at').notNull(),
});

export const tradeModes = ['paper', 'live'] as const;
export type TradeMode = (typeof tradeModes)[number];

/**
 * `pending`: persisted, and its outcome is not known yet (only live orders stay so: on their way to the venue, or its
 * answer was lost). `resting`: what was not filled yet stands in the book. The others are final: `filled` whole,
 * `partially_filled` (the rest was cancelled), `cancelled` (nothing was filled), `rejected` (the venue would not take it).
 */
export const orderStatuses = [
  'pending',
  'resting',
  'filled',
  'partially_filled',
  'cancelled',
  'rejected',
] as const;
export type OrderStatus = (typeof orderStatuses)[number];

/** May yet be filled, and keeps back what it takes for that. */
export const isOpen = (status: OrderStatus): boolean => status === 'pending' || status === 'resting';

/** What takes a resting order out of the book: news of the weather, data that cannot be trusted, a signal's gate that is closed. */
export const cancelCauses = ['observation', 'stale', 'gate_closed'] as const;
export type CancelCause = (typeof cancelCauses)[number];

/** How far a resting paper order has seen the venue's prints: those from before `at` are done with, and of those since which ones were counted. */
export interface PrintsSeen {
  at: string;
  /** Times in milliseconds, by print. */
  counted: Record<string, number>;
}

/** Every order that passed the risk gate, once per idempotency key. Written before anything is sent to a venue. */
export const tradingOrders = pgTable(
  'trading_orders',
  {
    orgId: uuid('org_id').notNull(),
    id: uuid().notNull(),
    mode: text({ enum: tradeModes }).notNull(),
    idempotencyKey: text('idempotency_key').notNull(),
    /** SHA-256 of the order's fields, hex: the same key with another order is a conflict. */
    requestHash: text('request_hash').notNull(),
    /** What the venue knows the order by; follows from Organization and idempotency key. */
    clientOrderId: text('client_order_id').notNull(),
    venueOrderId: text('venue_order_id'),
    ticker: text().notNull(),
    eventTicker: text('event_ticker').notNull(),
    seriesTicker: text('series_ticker').notNull(),
    /** The bracket in words: a ticker alone does not say which tail it is, and markets leave the listing. */
    label: text().notNull(),
    side: text({ enum: ['yes', 'no'] }).notNull(),
    action: text({ enum: ['buy', 'sell'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    limitPrice: micros('limit_price').notNull(),
    timeInForce: text('time_in_force', { enum: timesInForce }).notNull(),
    status: text({ enum: orderStatuses }).notNull(),
    /** Why it was cancelled or rejected, or what is known about one that is open. */
    reason: text(),
    filledContracts: contractsColumn('filled_contracts').notNull().default(0),
    /** The fee accumulator, see `OrderAccount`. */
    exact: micros('exact')
      .notNull()
      .default(sql`0`),
    booked: micros('booked')
      .notNull()
      .default(sql`0`),
    fees: micros('fees')
      .notNull()
      .default(sql`0`),
    /** Cash that an open purchase may still take: not to be spent twice. */
    reserved: micros('reserved')
      .notNull()
      .default(sql`0`),
    /** Of a `good_till_time` order. */
    expiresAt: time('expires_at'),
    postOnly: boolean('post_only').notNull().default(false),
    cancelOn: text('cancel_on', { enum: cancelCauses }).array().notNull().default([]),
    /** Somebody, or something that it was to be cancelled on, wants it out of the book: the venue's word on that is awaited. */
    cancelRequestedAt: time('cancel_requested_at'),
    cancelReason: text('cancel_reason'),
    /** Contracts that stand before a resting paper order at its price; null while that is not known, and for all others. */
    queueAhead: contractsColumn('queue_ahead'),
    /** Null until a print was counted; prints from before it came to rest never are. */
    printsSeen: jsonb('prints_seen').$type<PrintsSeen>(),
    /** `multiplier` and `type` of the series' fees when the order was accepted. */
    feeRule: jsonb('fee_rule').$type<{ type: string; multiplier: string }>().notNull(),
    /** When the order book that was matched or checked against was fetched. */
    bookFetchedAt: time('book_fetched_at').notNull(),
    /** The API key or the User that placed it: one of both. */
    apiKeyId: uuid('api_key_id'),
    userId: uuid('user_id'),
    createdAt: time('created_at').notNull(),
    sentAt: time('sent_at'),
    finishedAt: time('finished_at'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('trading_orders_idempotency').on(t.orgId, t.idempotencyKey),
    unique('trading_orders_client').on(t.orgId, t.clientOrderId),
    index('trading_orders_list').on(t.orgId, t.mode, t.id),
    index('trading_orders_ticker').on(t.orgId, t.mode, t.ticker, t.id),
    index('trading_orders_open')
      .on(t.orgId, t.mode)
      .where(sql`${t.status} in ('pending', 'resting')`),
    // Across Organizations: what stands in the book, market by market.
    index('trading_orders_resting')
      .on(t.mode, t.ticker, t.orgId)
      .where(sql`${t.status} = 'resting'`),
    index('trading_orders_pending_all')
      .on(t.createdAt)
      .where(sql`${t.status} = 'pending'`),
    check('trading_orders_contracts', sql`${t.contracts} > 0`),
    check('trading_orders_filled', sql`${t.filledContracts} >= 0 and ${t.filledContracts} <= ${t.contracts}`),
    check('trading_orders_price', sql`${t.limitPrice} > 0 and ${t.limitPrice} < 1000000`),
    check('trading_orders_reserved', sql`${t.reserved} >= 0`),
    check('trading_orders_mode', sql`${t.mode} in ('paper', 'live')`),
    check(
      'trading_orders_status',
      sql`${t.status} in ('pending', 'resting', 'filled', 'partially_filled', 'cancelled', 'rejected')`,
    ),
    check(
      'trading_orders_rest',
      sql`(${t.timeInForce} = 'good_till_time') = (${t.expiresAt} is not null) and ${t.queueAhead} >= 0`,
    ),
    check('trading_orders_actor', sql`(${t.apiKeyId} is null) <> (${t.userId} is null)`),
  ],
);

/** What was taken from the book, level by level. */
export const tradingFills = pgTable(
  'trading_fills',
  {
    orgId: uuid('org_id').notNull(),
    orderId: uuid('order_id').notNull(),
    /** 1, 2, 3 … within the order. */
    n: integer().notNull(),
    price: micros('price').notNull(),
    contracts: contractsColumn('contracts').notNull(),
    fee: micros('fee').notNull(),
    balanceChange: micros('balance_change').notNull(),
    filledAt: time('filled_at').notNull(),
    venueFillId: text('venue_fill_id'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.orderId, t.n] }),
    // The venue's fill is booked once, however often it is told.
    uniqueIndex('trading_fills_venue')
      .on(t.orgId, t.venueFillId)
      .where(sql`${t.venueFillId} is not null`),
    // Serves the marks of fills, across Organizations.
    index('trading_fills_time').on(t.filledAt),
    check('trading_fills_contracts', sql`${t.contracts} > 0`),
  ],
);

/**
 * What paper orders have taken from a market's book: the same contract is not sold twice. Holds for the book with this
 * hash; the venue's next book starts anew. Instances may have different books for a moment, so each has its row until
 * no order is matched on it any more.
 */
export const paperBooks = pgTable(
  'paper_books',
  {
    orgId: uuid('org_id').notNull(),
    ticker: text().notNull(),
    bookHash: text('book_hash').notNull(),
    /** Bids that were hit: `[side of the bid, price in millionths, contracts]`. */
    taken: jsonb().$type<[side: 'yes' | 'no', price: string, contracts: number][]>().notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.ticker, t.bookHash] }), index('paper_books_old').on(t.updatedAt)],
);
