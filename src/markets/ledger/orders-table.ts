import { sql } from 'drizzle-orm';
import { bigint, check, index, numeric, pgTable, primaryKey, unique, uniqueIndex } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { timesInForce } from '../market/book.js';

/** Millionths of a dollar. */
export const micros = (name: string) => bigint(name, { mode: 'bigint' });

/** For sums, which start at 0. */
export const microsFromZero = (name: string) =>
  micros(name)
    .notNull()
    .default(sql`0`);

/** Two decimals, exact in Postgres; raw SQL reads `::float8`, the nearest double. */
export const contractsColumn = (name: string) => numeric(name, { precision: 12, scale: 2, mode: 'number' });

export const liveAccounts = pgTable('live_accounts', (c) => ({
  orgId: c.uuid('org_id').primaryKey(),
  /** Signed hundredths by market (negative: NO), held at opening or accepted later. */
  foreignPositions: c.jsonb('foreign_positions').$type<Record<string, number>>().notNull(),
  /** As `<venue order id> <ours> <venue's>`. Not reported again. */
  accepted: c.jsonb('accepted').$type<string[]>().notNull(),
  /** A venue answer could not be understood. No instance sends orders until a person accepts the problem. */
  problem: c.text('problem'),
  /** One request cancels all resting orders in the venue's group. */
  orderGroupId: c.text('order_group_id'),
  openedAt: time('opened_at').notNull(),
  updatedAt: time('updated_at').notNull(),
}));

export const tradeModes = ['paper', 'live'] as const;
export type TradeMode = (typeof tradeModes)[number];

/**
 * `pending`: the outcome is unknown; only live orders stay so. `resting`: the unfilled part is in the book. Final:
 * `filled`, `partially_filled` (the rest was cancelled), `cancelled` (nothing filled), `rejected` (by the venue).
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

/** An open order keeps its reservation. */
export const openStatuses: readonly OrderStatus[] = ['pending', 'resting'];
export const isOpen = (status: OrderStatus): boolean => openStatuses.includes(status);

/** Automatic cancellation on a new observation, untrusted data, or a signal whose gate closed. */
export const cancelCauses = ['observation', 'stale', 'gate_closed'] as const;
export type CancelCause = (typeof cancelCauses)[number];

/** All prints before `at` are processed; `counted` lists later ones already used. */
export interface PrintsSeen {
  at: string;
  /** Unix milliseconds by print id. */
  counted: Record<string, number>;
}

/** Passed the risk gate. Written before anything is sent to a venue. */
export const tradingOrders = pgTable(
  'trading_orders',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    mode: c.text({ enum: tradeModes }).notNull(),
    idempotencyKey: c.text('idempotency_key').notNull(),
    /** SHA-256, hex. Reusing the idempotency key with another hash is a conflict. */
    requestHash: c.text('request_hash').notNull(),
    /** Derived from Organization and idempotency key. */
    clientOrderId: c.text('client_order_id').notNull(),
    venueOrderId: c.text('venue_order_id'),
    ticker: c.text().notNull(),
    eventTicker: c.text('event_ticker').notNull(),
    seriesTicker: c.text('series_ticker').notNull(),
    /** A ticker alone does not show which tail a bracket is, and markets disappear from the listing. */
    label: c.text().notNull(),
    side: c.text({ enum: ['yes', 'no'] }).notNull(),
    action: c.text({ enum: ['buy', 'sell'] }).notNull(),
    contracts: contractsColumn('contracts').notNull(),
    limitPrice: micros('limit_price').notNull(),
    timeInForce: c.text('time_in_force', { enum: timesInForce }).notNull(),
    status: c.text({ enum: orderStatuses }).notNull(),
    reason: c.text(),
    filledContracts: contractsColumn('filled_contracts').notNull().default(0),
    /** See `OrderAccount`. */
    exact: microsFromZero('exact'),
    booked: microsFromZero('booked'),
    fees: microsFromZero('fees'),
    /** For the unfilled part of a purchase. */
    reserved: microsFromZero('reserved'),
    /** For `good_till_time` only. */
    expiresAt: time('expires_at'),
    postOnly: c.boolean('post_only').notNull().default(false),
    cancelOn: c.text('cancel_on', { enum: cancelCauses }).array().notNull().default([]),
    /** The venue has not confirmed it yet. */
    cancelRequestedAt: time('cancel_requested_at'),
    cancelReason: c.text('cancel_reason'),
    /** Outcome of the last request to the venue. Set before a resting live order is changed. */
    unknownSince: time('unknown_since'),
    /** At its price, for a resting paper order; null while unknown. */
    queueAhead: contractsColumn('queue_ahead'),
    /** Null until the first print counts. Prints from before the order rested never count. */
    printsSeen: c.jsonb('prints_seen').$type<PrintsSeen>(),
    feeRule: c.jsonb('fee_rule').$type<{ type: string; multiplier: string }>().notNull(),
    bookFetchedAt: time('book_fetched_at').notNull(),
    /** Exactly one of `apiKeyId` and `userId` is set. */
    apiKeyId: c.uuid('api_key_id'),
    userId: c.uuid('user_id'),
    createdAt: time('created_at').notNull(),
    /** Null while a live order waits to be sent. */
    sentAt: time('sent_at'),
    finishedAt: time('finished_at'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('trading_orders_idempotency').on(t.orgId, t.idempotencyKey),
    unique('trading_orders_client').on(t.orgId, t.clientOrderId),
    index('trading_orders_list').on(t.orgId, t.mode, t.id),
    index('trading_orders_status').on(t.orgId, t.mode, t.status, t.id),
    index('trading_orders_series').on(t.orgId, t.mode, t.seriesTicker, t.id),
    index('trading_orders_ticker').on(t.orgId, t.mode, t.ticker, t.id),
    index('trading_orders_open')
      .on(t.orgId, t.mode)
      .where(sql`${t.status} in ('pending', 'resting')`),
    // Reads resting orders by market, across Organizations.
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

export const tradingFills = pgTable(
  'trading_fills',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    orderId: c.uuid('order_id').notNull(),
    n: c.integer().notNull(),
    price: micros('price').notNull(),
    contracts: contractsColumn('contracts').notNull(),
    fee: micros('fee').notNull(),
    balanceChange: micros('balance_change').notNull(),
    filledAt: time('filled_at').notNull(),
    venueFillId: c.text('venue_fill_id'),
    /** On paper, near the day's extreme so far: such a fill would have gone to people who knew more. */
    nearExtreme: c.boolean('near_extreme').notNull().default(false),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.orderId, t.n] }),
    // The venue may report a fill again.
    uniqueIndex('trading_fills_venue')
      .on(t.orgId, t.venueFillId)
      .where(sql`${t.venueFillId} is not null`),
    // For fill marks, across Organizations.
    index('trading_fills_time').on(t.filledAt),
    check('trading_fills_contracts', sql`${t.contracts} > 0`),
  ],
);

/**
 * The same contract is not sold twice. Valid for the book with this hash; the next book starts fresh. Instances may
 * briefly hold different books, so a row stays until no order is matched against its book.
 */
export const paperBooks = pgTable(
  'paper_books',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    ticker: c.text().notNull(),
    bookHash: c.text('book_hash').notNull(),
    /** `[side of the bid, price in millionths, contracts]`. */
    taken: c.jsonb().$type<[side: 'yes' | 'no', price: string, contracts: number][]>().notNull(),
    updatedAt: time('updated_at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.ticker, t.bookHash] }), index('paper_books_old').on(t.updatedAt)],
);

/** Runs alongside a live order. */
export interface ShadowPlace extends PrintsSeen {
  /** Contracts ahead; null while unknown. */
  atPrice: number | null;
}

/** The first row is written with the order, and another whenever a number changes. */
export const queuePositions = pgTable(
  'queue_positions',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    orderId: c.uuid('order_id').notNull(),
    at: time('at').notNull(),
    /** Contracts that must match first, as the venue reports them. Null in the first row. */
    venueAhead: contractsColumn('venue_ahead'),
    /** In the paper queue. Null while unknown. */
    paperAhead: contractsColumn('paper_ahead'),
    printsSeen: c.jsonb('prints_seen').$type<ShadowPlace>().notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.orderId, t.at] }),
    index('queue_positions_list').on(t.orgId, t.at),
    index('queue_positions_old').on(t.at),
  ],
);
