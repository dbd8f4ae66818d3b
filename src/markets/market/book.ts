import { addCounts, perContract, subtractCounts, valueOf } from './contracts.js';
import { chargeFill, newOrderAccount, type FeeRule } from './fees.js';
import { DOLLAR, type Micros } from './money.js';

/** How long an order waits for what does not fill at once: not at all, or in the book, until it is cancelled or its time is over. */
export const timesInForce = [
  'immediate_or_cancel',
  'fill_or_kill',
  'good_till_cancelled',
  'good_till_time',
] as const;
export type TimeInForce = (typeof timesInForce)[number];

export const mayRest = (timeInForce: TimeInForce): boolean =>
  timeInForce === 'good_till_cancelled' || timeInForce === 'good_till_time';

export interface MarketableOrder {
  side: Side;
  action: 'buy' | 'sell';
  contracts: number;
  /** The worst price to trade at, of the order's own side. */
  limitPrice: Micros;
  timeInForce: TimeInForce;
}

interface Match {
  /** What is taken, level by level, the best first. Empty if nothing is. */
  fills: Level[];
  filledContracts: number;
}

/**
 * What an order takes from a book at once: level by level from the best price on, never beyond its limit, never more than
 * stands there. What becomes of the rest is not said here; fill-or-kill takes all or nothing.
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

/** The book without what fills have taken from it: the same contract is not taken twice. */
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

interface QuotedFill extends Level {
  fee: Micros;
  /** Negative for a purchase. */
  balanceChange: Micros;
}

/** What an order would do to a book at this moment, as it would be charged. */
export interface Quote {
  fills: QuotedFill[];
  filledContracts: number;
  /** Of what is filled, rounded to the millionth; null if nothing is. */
  averagePrice: Micros | null;
  fees: Micros;
  /** What the balance changes by: negative for a purchase. */
  balanceChange: Micros;
  /** What the filled contracts may pay at the most. For a purchase: one dollar each. */
  maximumPayout: Micros;
  /** For a purchase: the probability from which on it is worth its price and fee; null if nothing is filled. */
  breakEven: number | null;
  /** The balance change before its rounding, see `OrderAccount`. */
  exact: Micros;
}

/** Matches an order and charges the venue's fee, as `POST /trade` does in paper mode. */
export function quoteOrder(book: OrderBook, feeRule: FeeRule, order: MarketableOrder): Quote {
  const match = matchOrder(book, order);
  let account = newOrderAccount;
  const fills = match.fills.map(({ price, contracts }): QuotedFill => {
    const charge = chargeFill(feeRule, account, { action: order.action, price, contracts });
    account = charge.account;
    return { price, contracts, fee: charge.fee, balanceChange: charge.balanceChange };
  });
  const { filledContracts } = match;
  const value = fills.reduce((sum, { price, contracts }) => sum + valueOf(price, contracts), 0n);
  const balanceChange = fills.reduce((sum, fill) => sum + fill.balanceChange, 0n);
  const maximumPayout = valueOf(DOLLAR, filledContracts);
  return {
    fills,
    filledContracts,
    averagePrice: filledContracts === 0 ? null : perContract(value, filledContracts),
    fees: fills.reduce((sum, { fee }) => sum + fee, 0n),
    balanceChange,
    maximumPayout,
    breakEven: filledContracts === 0 ? null : Number(-balanceChange) / Number(maximumPayout),
    exact: account.exact,
  };
}

/**
 * What a purchase may cost at the most: everything at its limit price, with the fee of that. The fee is largest at 50
 * cents, so a purchase that is filled below its limit could pay more fee than at the limit, but not more in sum: only where prices have parts of
 * a cent each of many small fills may be rounded by up to $0.0001 that is not given back.
 */
export function worstCost(
  feeRule: FeeRule,
  { contracts, limitPrice }: Pick<MarketableOrder, 'contracts' | 'limitPrice'>,
): Micros {
  return -chargeFill(feeRule, newOrderAccount, { action: 'buy', price: limitPrice, contracts }).balanceChange;
}

export type Side = 'yes' | 'no';

/** Contracts that are bid for at a price. */
export interface Level {
  price: Micros;
  contracts: number;
}

/** Bids of both sides, best first. There are no asks: who sells YES at 60 cents is who bids 40 for NO. */
export interface OrderBook {
  yes: readonly Level[];
  no: readonly Level[];
}

export const emptyBook: OrderBook = { yes: [], no: [] };

export const otherSide = { yes: 'no', no: 'yes' } as const;

/** What can be bought of a side, cheapest first: the other side's bids, turned around. */
export const asksOf = (book: OrderBook, side: Side): Level[] =>
  book[otherSide[side]].map(({ price, contracts }) => ({ price: DOLLAR - price, contracts }));

/** What the side can be sold for, dearest first. */
export const bidsOf = (book: OrderBook, side: Side): readonly Level[] => book[side];

/**
 * Bids as an order book has them: best first, one level per price, none that is empty or outside of the dollar.
 * A price of nothing or of a whole dollar is how the venue writes that there is no bid.
 */
export function toLevels(levels: Iterable<Level>): Level[] {
  const byPrice = new Map<Micros, number>();
  for (const { price, contracts } of levels) {
    if (price <= 0n || price >= DOLLAR || contracts <= 0) continue;
    byPrice.set(price, addCounts(byPrice.get(price) ?? 0, contracts));
  }
  return [...byPrice]
    .map(([price, contracts]) => ({ price, contracts }))
    .sort((a, b) => (a.price > b.price ? -1 : 1));
}

/** True if the best bid for YES is at the best ask or above: such a book is about to change, or wrong. */
export function isCrossed({ yes, no }: OrderBook): boolean {
  const [bid, otherBid] = [yes[0], no[0]];
  return bid !== undefined && otherBid !== undefined && bid.price + otherBid.price >= DOLLAR;
}

export const isSameBook = (a: OrderBook, b: OrderBook): boolean =>
  isSameSide(a.yes, b.yes) && isSameSide(a.no, b.no);

const isSameSide = (a: readonly Level[], b: readonly Level[]): boolean =>
  a.length === b.length &&
  a.every(({ price, contracts }, i) => price === b[i]!.price && contracts === b[i]!.contracts);
