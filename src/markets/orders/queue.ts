import type { PrintsSeen } from '../ledger/orders-table.js';
import { bidsOf, otherSide, type MarketableOrder, type OrderBook, type Side } from '../market/book.js';
import { subtractCounts } from '../market/contracts.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { LISTING_LAG_MS, type Print } from '../market/source.js';

/**
 * Where a paper order stands in the venue's book, and when it is filled there. It is never ahead of what it could have been:
 * - Before it stands all that the book showed at its price when it came to rest.
 * - Only prints fill it: of takers on the other side, at its price or through it, after it came to rest. They go to what
 *   stands before it first.
 * - Orders that leave the level without a print are taken to have stood behind it, until the book shows less than what
 *   would stand before it.
 * - One print fills orders of one Organization once in sum: the best price first, then the oldest.
 */

/** The bid that an order is in a book that has bids only. */
interface Bid {
  side: Side;
  price: Micros;
}

/** A sale at a price is a bid for the other side at the rest of the dollar. */
export const bidOf = ({
  side,
  action,
  limitPrice,
}: Pick<MarketableOrder, 'side' | 'action' | 'limitPrice'>): Bid =>
  action === 'buy' ? { side, price: limitPrice } : { side: otherSide[side], price: DOLLAR - limitPrice };

/** What a book shows at a bid's price. */
export const shownAt = (book: OrderBook, { side, price }: Bid): number =>
  bidsOf(book, side).find((level) => level.price === price)?.contracts ?? 0;

/**
 * What stands before an order at its price; null where that is not known: of a shallow book behind the best price.
 * @param isShallow the best prices are all that is known
 */
export function aheadOf(book: OrderBook, isShallow: boolean, bid: Bid): number | null {
  const best = bidsOf(book, bid.side)[0];
  return isShallow && best && bid.price < best.price ? null : shownAt(book, bid);
}

export interface QueuedOrder {
  /** UUIDv7: the order of ids is that of time. */
  id: string;
  bid: Bid;
  remaining: number;
  /** Infinity while it is not known. */
  queueAhead: number;
  seen: PrintsSeen;
  /** Prints from then on are not for it; null while it stands. */
  endsAt: Date | null;
}

/** The market's prints from the orders' watermarks on. */
export interface KnownPrints {
  /** Oldest first. */
  prints: readonly Print[];
  /** All that the venue has listed until then is there. */
  through: Date;
}

/** What the book showed. */
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

/** Where an order stands now, and what it has seen. */
export interface QueuePlace {
  queueAhead: number;
  seen: PrintsSeen;
}

export interface Advanced {
  fills: QueueFill[];
  /** By order. */
  places: Map<string, QueuePlace>;
}

interface RankedOrder extends QueuedOrder {
  /** Prints from before are done with, in milliseconds. */
  from: number;
  /** Those since that have counted. */
  counted: Map<string, number>;
}

/**
 * Counts each print once, in the order of time, and between them what the book showed at its time: prints from before are gone
 * from it, and count before it does.
 * @param orders all of one Organization in one market
 * @param shown does not count while prints from before it may be missing
 */
export function advanceQueue(
  orders: readonly QueuedOrder[],
  { prints, through }: KnownPrints,
  shown: ShownBook | undefined,
): Advanced {
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

/** What a print fills. What stands before an order stands before the next one as well, so it takes of the print only for that order. */
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

function reaches(
  { id, at, takerSide, yesPrice }: Print,
  { bid, from, counted, endsAt }: RankedOrder,
): boolean {
  // Who takes NO sells YES to those who bid for it.
  if (takerSide === bid.side || at.getTime() < from || counted.has(id)) return false;
  if (endsAt !== null && at >= endsAt) return false;
  return (bid.side === 'yes' ? yesPrice : DOLLAR - yesPrice) <= bid.price;
}

function cutQueues(ranked: RankedOrder[], { at, book, isShallow }: ShownBook): void {
  for (const order of ranked)
    if (order.from <= at.getTime())
      order.queueAhead = Math.min(order.queueAhead, aheadOf(book, isShallow, order.bid) ?? Infinity);
}

function placeOf({ queueAhead, from, counted }: RankedOrder, settled: number): QueuePlace {
  const at = Math.max(from, settled);
  const recent = Object.fromEntries([...counted].filter(([, ms]) => ms >= at));
  return { queueAhead, seen: { at: new Date(at).toISOString(), counted: recent } };
}
