import { asksOf, isCrossed, matchOrder, type MarketableOrder } from '../market/book.js';
import { isOnTick, isPlaced, takesOrders } from '../market/market.js';
import { CENT, formatDollars, type Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';

/** At this limit or below, every ask passes the default price collar. */
const LIMIT: Micros = 10n * CENT;
const CONTRACTS = 5;

/**
 * Finds a small purchase that fills now and would probably still fill a while later: a cheap bracket of the day that
 * closes last. Undefined if no book has such an offer.
 */
export function findFirstOrder(snapshot: Snapshot | undefined) {
  if (!snapshot) return undefined;
  const wanted = { side: 'yes', action: 'buy', contracts: CONTRACTS } as const;
  const order: MarketableOrder = { ...wanted, limitPrice: LIMIT, timeInForce: 'fill_or_kill' };
  const found = snapshot.data.markets
    .flatMap((market) => {
      const book = snapshot.data.books.get(market.ticker);
      const { openTime, closeTime } = market;
      const isOpen = takesOrders(market) && openTime <= snapshot.asOf && closeTime > snapshot.asOf;
      if (!isPlaced(market) || !isOpen || !book || isCrossed(book)) return [];
      const best = asksOf(book, 'yes')[0]?.price;
      const fills = matchOrder(book, order).filledContracts === CONTRACTS;
      if (best === undefined || !fills || !isOnTick(market.priceRanges, LIMIT)) return [];
      // The farther a price is from 0 and from the limit, the less a change in the book matters.
      return [{ market, distance: best < 4n * CENT ? 4n * CENT - best : best - 4n * CENT }];
    })
    .toSorted(
      (a, b) =>
        b.market.closeTime.getTime() - a.market.closeTime.getTime() || Number(a.distance - b.distance),
    )[0];
  if (!found) return undefined;
  return { ticker: found.market.ticker, ...wanted, limitPrice: formatDollars(LIMIT) };
}
