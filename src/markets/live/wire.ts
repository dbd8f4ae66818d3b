import { z } from 'zod';
import { mayRest, sidePrice, type TimeInForce } from '../market/book.js';
import { formatContracts, parseCount } from '../market/contracts.js';
import { WEATHER_SHARD } from '../market/market.js';
import { formatDollars, parseDollars, type Micros } from '../market/money.js';
import type { LiveOrder, VenueFill } from '../orders/order.js';
import { count, dollars, price, time, tradedCount, tradedPrice } from '../venue/kalshi-schema.js';

/** OpenAPI 3.13 to 3.34. Directions come from our own orders: the venue is about to rename them. */
const signedCount = z.string().regex(/^-?\d{1,12}(\.\d{1,2})?$/);
export const id = z.string().min(1).max(200);
/** Missing in responses from before the venue had several shards. */
const shard = z.int().optional();

/** Omits market and side, which are known from the request. */
export const createdOrderSchema = z.object({
  order_id: id,
  client_order_id: z.string().optional(),
  fill_count: count,
  remaining_count: count,
});

export const changedOrderSchema = z.object({ order_id: id });

export const orderGroupSchema = z.object({ order_group_id: id });

export const venueOrderSchema = z.object({
  order_id: id,
  /** Empty for orders placed by hand. */
  client_order_id: z.string(),
  ticker: id,
  exchange_index: shard,
  status: z.enum(['resting', 'canceled', 'executed']),
  yes_price_dollars: price,
  initial_count_fp: count,
  fill_count_fp: count,
  remaining_count_fp: count,
  created_time: time.nullish(),
});
export type VenueOrder = z.infer<typeof venueOrderSchema>;

export const venueFillSchema = z.object({
  fill_id: id,
  order_id: z.string(),
  ticker: id,
  exchange_index: shard,
  count_fp: tradedCount,
  yes_price_dollars: tradedPrice,
  fee_cost: dollars.refine((text) => !text.startsWith('-'), 'a fee is never negative'),
  created_time: time.nullish(),
});
export type VenueFillAnswer = z.infer<typeof venueFillSchema>;

export const venuePositionSchema = z.object({
  ticker: id,
  exchange_index: shard,
  position_fp: signedCount,
});
export type VenuePosition = z.infer<typeof venuePositionSchema>;

export const venueSettlementSchema = z.object({
  ticker: id,
  market_result: z.string(),
  /** Cents. */
  revenue: z.number(),
  settled_time: time,
});
export type VenueSettlement = z.infer<typeof venueSettlementSchema>;

const cursor = z.string().nullish();
const rows = z.array(z.unknown());
export const ordersPageSchema = z.object({ orders: rows, cursor });
export const fillsPageSchema = z.object({ fills: rows, cursor });
export const positionsPageSchema = z.object({ market_positions: rows, cursor });
export const settlementsPageSchema = z.object({ settlements: rows, cursor });
/** `balance` is in cents; newer versions add the exact amount. Subaccount keys get no breakdown. */
export const balanceSchema = z.object({
  balance: z.int(),
  balance_dollars: dollars.optional(),
  balance_breakdown: rows.optional(),
});
export const shardBalanceSchema = z.object({ exchange_index: z.int(), balance: dollars });

/** `queue_position_fp` is the number of contracts that must match before the order does, by price and time. */
export const queuePositionsSchema = z.object({ queue_positions: rows.nullish() });
export const queuePositionSchema = z.object({
  order_id: id,
  market_ticker: id,
  queue_position_fp: z.string().regex(/^\d{1,9}(\.\d{1,2})?$/),
});

export const transferSchema = z.object({
  transfer_id: id,
  /** `event_contract`, or a part of the account that does not trade events. */
  source: z.string(),
  destination: z.string(),
  source_exchange_shard: z.int(),
  destination_exchange_shard: z.int(),
  amount: dollars,
  status: z.enum(['pending', 'complete']),
  /** Unix seconds. */
  created_ts: z.number().min(0).max(8_640_000_000_000),
});
export const transfersPageSchema = z.object({ transfers: rows, cursor });

/** Neither a deposit nor a profit. */
export type ShardTransfer = NonNullable<ReturnType<typeof toShardTransfer>>;

/** Undefined for a transfer between other shards. */
export function toShardTransfer(wire: z.infer<typeof transferSchema>) {
  const { source, destination, source_exchange_shard: from, destination_exchange_shard: to } = wire;
  const isOurs = (part: string, index: number) => part === 'event_contract' && index === WEATHER_SHARD;
  const [leaves, comes] = [isOurs(source, from), isOurs(destination, to)];
  if (leaves === comes) return undefined;
  const amount = parseDollars(wire.amount);
  return {
    id: wire.transfer_id,
    change: comes ? amount : -amount,
    /** Perhaps debited from one shard but not yet credited to the other. */
    isPending: wire.status === 'pending',
    createdAt: new Date(wire.created_ts * 1000),
    memo: comes ? `transfer from exchange shard ${from}` : `transfer to exchange shard ${to}`,
  };
}

/** The venue sends an object, or wraps an object or a sentence in `error`. */
const errorFields = z.object({
  code: z.string(),
  message: z.string().optional(),
  details: z.string().optional(),
});
export const errorSchema = z.union([z.object({ error: z.union([errorFields, z.string()]) }), errorFields]);

export type SentOrder = Pick<
  LiveOrder,
  'id' | 'clientOrderId' | 'ticker' | 'side' | 'action' | 'contracts' | 'timeInForce' | 'createdAt'
>;

export type WireOrder = ReturnType<typeof toWireOrder>;

/**
 * The venue keeps one book per market, so side and price are those of YES.
 *
 * | intent | side | price |
 * |---|---|---|
 * | buy YES at p | bid | p |
 * | sell YES at p | ask | p |
 * | buy NO at q | ask | 1 − q |
 * | sell NO at q | bid | 1 − q |
 *
 * A sale is reduce-only: if a person has sold the same contracts by hand, it would otherwise buy the other side. The venue
 * supports this only for orders that do not rest.
 */
export function toWireOrder(
  order: Pick<
    LiveOrder,
    'ticker' | 'clientOrderId' | 'side' | 'action' | 'contracts' | 'limitPrice' | 'timeInForce' | 'rest'
  >,
  group?: string,
) {
  const { timeInForce, rest } = order;
  return {
    ticker: order.ticker,
    client_order_id: order.clientOrderId,
    side: (order.side === 'yes') === (order.action === 'buy') ? ('bid' as const) : ('ask' as const),
    count: formatContracts(order.contracts),
    price: formatDollars(sidePrice(order.side, order.limitPrice)),
    time_in_force: wireTimes[timeInForce],
    self_trade_prevention_type: 'taker_at_cross' as const,
    // Without it, the venue looks up the shard, which is slower and charged to every shard's budget.
    exchange_index: WEATHER_SHARD,
    ...(order.action === 'sell' && !mayRest(timeInForce) ? { reduce_only: true as const } : {}),
    ...(rest?.expiresAt ? { expiration_time: Math.floor(rest.expiresAt.getTime() / 1000) } : {}),
    ...(rest?.postOnly ? { post_only: true as const } : {}),
    ...(mayRest(timeInForce) && group !== undefined ? { order_group_id: group } : {}),
  };
}

const wireTimes = {
  immediate_or_cancel: 'immediate_or_cancel',
  fill_or_kill: 'fill_or_kill',
  good_till_cancelled: 'good_till_canceled',
  good_till_time: 'good_till_canceled',
} as const satisfies Record<TimeInForce, string>;

/** Oldest first, at the price of the order's side. */
export const toVenueFills = (order: SentOrder, wires: readonly VenueFillAnswer[]): VenueFill[] =>
  wires
    .map((wire) => ({
      venueFillId: wire.fill_id,
      price: sidePrice(order.side, parseDollars(wire.yes_price_dollars)),
      contracts: parseCount(wire.count_fp),
      fee: parseDollars(wire.fee_cost),
      filledAt: wire.created_time ? new Date(wire.created_time) : order.createdAt,
    }))
    .sort((a, b) => a.filledAt.getTime() - b.filledAt.getTime() || (isBetter(order, a, b) ? -1 : 1));

/** At the same time, the better price filled first. */
const isBetter = ({ action }: SentOrder, a: { price: Micros }, b: { price: Micros }): boolean =>
  action === 'buy' ? a.price < b.price : a.price > b.price;
