import { DOLLAR, formatDollars, parseDollars, type Micros } from '../money.js';
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
    count: `${order.contracts}.00`,
    price: formatDollars(ofYes(order.side, order.limitPrice)),
    time_in_force: order.timeInForce,
    self_trade_prevention_type: 'taker_at_cross',
    ...(order.action === 'sell' ? { reduce_only: true as const } : {}),
  };
}

/** A price of a side as the price of YES, and back. */
const ofYes = (side: 'yes' | 'no', price: Micros): Micros => (side === 'yes' ? price : DOLLAR - price);

/** `2.50` contracts as 250: the venue trades hundredths, this service whole ones. */
export function toHundredths(count: string): number {
  const [, sign, whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d{1,2}))?$/.exec(count) ?? [];
  const hundredths = Number(whole) * 100 + Number(fraction.padEnd(2, '0'));
  return sign === '-' ? -hundredths : hundredths;
}

export const formatHundredths = (hundredths: number): string => (hundredths / 100).toFixed(2);

/** The venue's fills of an order in our terms: oldest first, whole contracts, at the price of the order's side. */
export function toVenueFills(order: SentOrder, wires: readonly VenueFillAnswer[]): VenueFill[] {
  const fills = wires
    .map((wire) => ({
      venueFillId: wire.fill_id,
      price: ofYes(order.side, parseDollars(wire.yes_price_dollars)),
      hundredths: toHundredths(wire.count_fp),
      fee: parseDollars(wire.fee_cost),
      filledAt: wire.created_time ? new Date(wire.created_time) : order.createdAt,
    }))
    .sort((a, b) => a.filledAt.getTime() - b.filledAt.getTime() || (isBetter(order, a, b) ? -1 : 1));
  if (fills.some(({ hundredths }) => hundredths % 100 !== 0)) return mergeParts(fills);
  return fills.map(({ hundredths, ...fill }) => ({ ...fill, contracts: hundredths / 100 }));
}

/** Of fills at the same time the better one was first. */
const isBetter = ({ action }: SentOrder, a: { price: Micros }, b: { price: Micros }): boolean =>
  action === 'buy' ? a.price < b.price : a.price > b.price;

/**
 * Where the venue filled parts of contracts they are booked together, as whole ones for exactly the same money: some at
 * the average price and the others a millionth above it. What is left of a contract at the end cannot be booked: the
 * comparison with the venue shows it.
 */
function mergeParts(fills: (Omit<VenueFill, 'contracts'> & { hundredths: number })[]): VenueFill[] {
  const total = fills.reduce((sum, { hundredths }) => sum + hundredths, 0);
  const contracts = Math.floor(total / 100);
  let left = contracts * 100;
  let value = 0n;
  for (const { price, hundredths } of fills) {
    const taken = Math.min(left, hundredths);
    value += price * BigInt(taken);
    left -= taken;
  }
  value /= 100n;
  const first = fills[0]!;
  const fee = fills.reduce((sum, fill) => sum + fill.fee, 0n);
  if (contracts === 0) return [];
  const dearer = Number(value % BigInt(contracts));
  const price = value / BigInt(contracts);
  const part = { fee, filledAt: first.filledAt };
  return [
    { ...part, venueFillId: first.venueFillId, price, contracts: contracts - dearer },
    ...(dearer > 0
      ? [{ ...part, fee: 0n, venueFillId: `${first.venueFillId}+`, price: price + 1n, contracts: dearer }]
      : []),
  ];
}
