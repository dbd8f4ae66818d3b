import { asksOf, bidsOf, type Level, type OrderBook, type Side } from './book.js';
import { DOLLAR, type Micros } from './money.js';
import { subtractCounts } from './contracts.js';

export interface MarketableOrder {
  side: Side;
  action: 'buy' | 'sell';
  contracts: number;
  /** The worst price to trade at, of the order's own side. */
  limitPrice: Micros;
  timeInForce: 'immediate_or_cancel' | 'fill_or_kill';
}

export interface Match {
  /** What is taken, level by level, the best first. Empty if nothing is. */
  fills: Level[];
  filledContracts: number;
}

/**
 * What an order takes from a book at once: level by level from the best price on, never beyond its limit, never more than
 * stands there. The rest is cancelled; fill-or-kill takes all or nothing.
 */
export function matchOrder(book: OrderBook, order: MarketableOrder): Match {
  const levels = order.action === 'buy' ? asksOf(book, order.side) : bidsOf(book, order.side);
  const fills: Level[] = [];
  let open = order.contracts;
  for (const { price, contracts } of levels) {
    const isBeyondLimit = order.action === 'buy' ? price > order.limitPrice : price < order.limitPrice;
    if (open === 0 || isBeyondLimit) break;
    const taken = Math.min(open, contracts);
    fills.push({ price, contracts: taken });
    open = subtractCounts(open, taken);
  }
  if (order.timeInForce === 'fill_or_kill' && open > 0) return { fills: [], filledContracts: 0 };
  return { fills, filledContracts: subtractCounts(order.contracts, open) };
}

/** The book without what fills have taken from it: nobody can take the same contract twice. */
export function consume(
  book: OrderBook,
  order: Pick<MarketableOrder, 'side' | 'action'>,
  fills: readonly Level[],
): OrderBook {
  const isOwnSide = order.action === 'sell';
  const name = (order.side === 'yes') === isOwnSide ? 'yes' : 'no';
  const taken = new Map(fills.map(({ price, contracts }) => [isOwnSide ? price : DOLLAR - price, contracts]));
  const left = book[name].flatMap(({ price, contracts }) => {
    const rest = subtractCounts(contracts, taken.get(price) ?? 0);
    return rest > 0 ? [{ price, contracts: rest }] : [];
  });
  return { ...book, [name]: left };
}
