import { formatCount, parseCount } from '../market/contracts.js';
import { DOLLAR, formatDollars, parseDollars, type Micros } from '../market/money.js';
import type { LiveOrder, VenueFill } from '../orders/order.js';
import type { VenueFillAnswer } from './venue-schema.js';

/** What identifies an order and says how to read its fills. */
export type SentOrder = Pick<
  LiveOrder,
  'id' | 'clientOrderId' | 'ticker' | 'side' | 'action' | 'contracts' | 'createdAt'
>;

/** The body of an order: one book, whose side and price are always those of YES. */
export interface WireOrder {
  ticker: string;
  client_order_id: string;
  side: 'bid' | 'ask';
  count: string;
  price: string;
  time_in_force: 'immediate_or_cancel' | 'fill_or_kill';
  self_trade_prevention_type: 'taker_at_cross';
  reduce_only?: true;
}

/**
 * | intent | side | price |
 * |---|---|---|
 * | buy YES at p | bid | p |
 * | sell YES at p | ask | p |
 * | buy NO at q | ask | 1 − q |
 * | sell NO at q | bid | 1 − q |
 *
 * A sale may only reduce what is held: if somebody has sold the same contracts by hand it would otherwise buy the other side.
 */
export function toWireOrder(
  order: Pick<
    LiveOrder,
    'ticker' | 'clientOrderId' | 'side' | 'action' | 'contracts' | 'limitPrice' | 'timeInForce'
  >,
): WireOrder {
  return {
    ticker: order.ticker,
    client_order_id: order.clientOrderId,
    side: (order.side === 'yes') === (order.action === 'buy') ? 'bid' : 'ask',
    count: formatCount(order.contracts),
    price: formatDollars(ofYes(order.side, order.limitPrice)),
    time_in_force: order.timeInForce,
    self_trade_prevention_type: 'taker_at_cross',
    ...(order.action === 'sell' ? { reduce_only: true as const } : {}),
  };
}

/** A price of a side as the price of YES, and back. */
const ofYes = (side: 'yes' | 'no', price: Micros): Micros => (side === 'yes' ? price : DOLLAR - price);

/** The venue's fills of an order in our terms: oldest first, at the price of the order's side. */
export const toVenueFills = (order: SentOrder, wires: readonly VenueFillAnswer[]): VenueFill[] =>
  wires
    .map((wire) => ({
      venueFillId: wire.fill_id,
      price: ofYes(order.side, parseDollars(wire.yes_price_dollars)),
      contracts: parseCount(wire.count_fp),
      fee: parseDollars(wire.fee_cost),
      filledAt: wire.created_time ? new Date(wire.created_time) : order.createdAt,
    }))
    .sort((a, b) => a.filledAt.getTime() - b.filledAt.getTime() || (isBetter(order, a, b) ? -1 : 1));

/** Of fills at the same time the better one was first. */
const isBetter = ({ action }: SentOrder, a: { price: Micros }, b: { price: Micros }): boolean =>
  action === 'buy' ? a.price < b.price : a.price > b.price;
