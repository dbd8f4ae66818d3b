import type { PrintsSeen } from '../ledger/orders-table.js';
import {
  bidsOf,
  otherSide,
  sidePrice,
  type MarketableOrder,
  type OrderBook,
  type Side,
} from '../market/book.js';
import { subtractCounts, sumCounts } from '../market/contracts.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { LISTING_LAG_MS, type Print } from '../market/source.js';

/**
 * A paper order's position in the venue's queue, and its fills there. A paper order never fills earlier than a real
 * order could have:
 * - All contracts that the book showed at its price when it came to rest are ahead of it.
 * - Only prints fill it: takers on the other side, at its price or through it, after it came to rest. They fill the
 * queue ahead first.
 * - Orders that leave the level without a print are assumed to have been behind it, until the book shows fewer
 * contracts
 * than its queue ahead.
 * - One print fills all orders of one Organization at most once in total: best price first, then oldest.
 */

export interface Bid {
  side: Side;
  price: Micros;
}

export function bidOf(order: Pick<MarketableOrder, 'side' | 'action' | 'limitPrice'>): Bid {
  const { side, action, limitPrice: price } = order;
  return action === 'buy' ? { side, price } : { side: otherSide[side], price: DOLLAR - price };
}

export const shownAt = (book: OrderBook, { side, price }: Bid): number =>
  bidsOf(book, side).find((level) => level.price === price)?.contracts ?? 0;

/**
 * Contracts ahead of an order at its price; null if unknown because only the best prices are known and the order is
 * below them.
 * @param isShallow true if only the best prices are known
 */
export function aheadOf(book: OrderBook, isShallow: boolean, bid: Bid): number | null {
  const best = bidsOf(book, bid.side)[0];
  return isShallow && best && bid.price < best.price ? null : shownAt(book, bid);
}

/**
 * Contracts ahead of an order at its price and at better prices.
 * @param atPrice contracts ahead at the order's price; null if unknown
 */
export function aheadInAll(book: OrderBook, { side, price }: Bid, atPrice: number | null): number | null {
  if (atPrice === null) return null;
  const better = bidsOf(book, side).filter((level) => level.price > price);
  return sumCounts([atPrice, ...better.map(({ contracts }) => contracts)]);
}

export interface QueuedOrder {
  /** UUIDv7, so ids sort by time. */
  id: string;
  bid: Bid;
  remaining: number;
  /** Infinity if unknown. */
  queueAhead: number;
  seen: PrintsSeen;
  /** Prints from this time on cannot fill the order; null if the order does not expire. */
  endsAt: Date | null;
}

export interface KnownPrints {
  /** Oldest first. */
  prints: readonly Print[];
  /** `prints` is complete up to this time. */
  through: Date;
}

export interface ShownBook {
  at: Date;
  book: OrderBook;
  isShallow: boolean;
}

interface QueueFill {
  orderId: string;
  contracts: number;
  print: Print;
}

export type QueuePlace = ReturnType<typeof placeOf>;
export type QueueStep = ReturnType<typeof advanceQueue>;

interface RankedOrder extends QueuedOrder {
  /** Unix time in milliseconds; older prints have been applied. */
  from: number;
  /** Unix times in milliseconds of newer prints that have been applied, by print id. */
  counted: Map<string, number>;
}

/**
 * Applies each print once, in time order. The shown book is applied at its own time, after the prints that it already
 * reflects.
 * @param orders all orders of one Organization in one market
 * @param shown ignored while prints from before it may be missing
 */
export function advanceQueue(
  orders: readonly QueuedOrder[],
  { prints, through }: KnownPrints,
  shown: ShownBook | undefined,
) {
  const ranked = orders.map(toRanked).toSorted(byPriority);
  const fills: QueueFill[] = [];
  const usable = shown && shown.at <= through ? shown : undefined;
  const isAfter = ({ at }: Print) => usable !== undefined && at > usable.at;
  for (const print of prints.filter((one) => !isAfter(one))) fills.push(...applyPrint(ranked, print));
  if (usable) cutQueues(ranked, usable);
  for (const print of prints.filter(isAfter)) fills.push(...applyPrint(ranked, print));
  const settled = Math.max(through.getTime() - LISTING_LAG_MS, usable?.at.getTime() ?? 0);
  return { fills, places: new Map(ranked.map((order) => [order.id, placeOf(order, settled)])) };
}

const toRanked = (order: QueuedOrder): RankedOrder => {
  const { at, counted } = order.seen;
  return { ...order, from: Date.parse(at), counted: new Map(Object.entries(counted)) };
};

const byPriority = (a: QueuedOrder, b: QueuedOrder): number =>
  a.bid.price === b.bid.price ? (a.id < b.id ? -1 : 1) : a.bid.price > b.bid.price ? -1 : 1;

/** The contracts ahead of one order are also ahead of the next, so they use up the print only once. */
function applyPrint(ranked: RankedOrder[], print: Print): QueueFill[] {
  const fills: QueueFill[] = [];
  let left = print.contracts;
  for (const order of ranked) {
    if (!reaches(print, order)) continue;
    order.counted.set(print.id, print.at.getTime());
    const passed = Math.min(order.queueAhead, left);
    const contracts = Math.min(order.remaining, subtractCounts(left, passed));
    order.queueAhead = subtractCounts(order.queueAhead, passed);
    if (contracts === 0) continue;
    order.remaining = subtractCounts(order.remaining, contracts);
    left = subtractCounts(left, contracts);
    fills.push({ orderId: order.id, contracts, print });
  }
  return fills;
}

function reaches({ id, at, takerSide, yesPrice }: Print, { bid, from, counted, endsAt }: RankedOrder) {
  // A taker of NO sells YES to the bidders for YES.
  if (takerSide === bid.side || at.getTime() < from || counted.has(id)) return false;
  if (endsAt !== null && at >= endsAt) return false;
  return sidePrice(bid.side, yesPrice) <= bid.price;
}

function cutQueues(ranked: RankedOrder[], { at, book, isShallow }: ShownBook): void {
  for (const order of ranked)
    if (order.from <= at.getTime())
      order.queueAhead = Math.min(order.queueAhead, aheadOf(book, isShallow, order.bid) ?? Infinity);
}

function placeOf({ queueAhead, from, counted }: RankedOrder, settled: number) {
  const at = Math.max(from, settled);
  const recent = Object.fromEntries([...counted].filter(([, ms]) => ms >= at));
  return { queueAhead, seen: { at: new Date(at).toISOString(), counted: recent } };
}
