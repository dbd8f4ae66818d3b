import { addCounts, perContract, subtractCounts, valueOf } from './contracts.js';
import { chargeFill, newOrderAccount, type FeeRule } from './fees.js';
import { DOLLAR, type Micros } from './money.js';

export const timesInForce = [
  'immediate_or_cancel',
  'fill_or_kill',
  'good_till_cancelled',
  'good_till_time',
] as const;
export type TimeInForce = (typeof timesInForce)[number];

/** The venue and most of its clients spell the word with one l. */
export const acceptedTimesInForce = [...timesInForce, 'good_till_canceled'] as const;

export const readTimeInForce = (given: (typeof acceptedTimesInForce)[number]): TimeInForce =>
  given === 'good_till_canceled' ? 'good_till_cancelled' : given;

export const mayRest = (timeInForce: TimeInForce): boolean =>
  timeInForce === 'good_till_cancelled' || timeInForce === 'good_till_time';

export interface MarketableOrder {
  side: Side;
  action: 'buy' | 'sell';
  contracts: number;
  /** Worst acceptable, for a contract of `side`. */
  limitPrice: Micros;
  timeInForce: TimeInForce;
}

/** Starts at the best price. A fill-or-kill order fills whole or not at all; the caller handles others' remainder. */
export function matchOrder(book: OrderBook, order: MarketableOrder) {
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

/** The same contract is not taken twice. */
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

export type Quote = ReturnType<typeof quoteOrder>;

/** Fills and charges as `POST /trade` does in paper mode. */
export function quoteOrder(book: OrderBook, feeRule: FeeRule, order: MarketableOrder, isMaker = false) {
  const match = matchOrder(book, order);
  let account = newOrderAccount;
  const fills = match.fills.map(({ price, contracts }) => {
    const charge = chargeFill(feeRule, account, { action: order.action, price, contracts, isMaker });
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
    /** Rounded to the millionth; null without a fill. */
    averagePrice: filledContracts === 0 ? null : perContract(value, filledContracts),
    fees: fills.reduce((sum, { fee }) => sum + fee, 0n),
    /** Negative for a purchase, as in each fill. */
    balanceChange,
    /** For a purchase, a dollar per filled contract. */
    maximumPayout,
    /** Probability at which a purchase breaks even after fees; null without a fill. */
    breakEven: filledContracts === 0 ? null : Number(-balanceChange) / Number(maximumPayout),
    /** Unrounded; see `OrderAccount`. */
    exact: account.exact,
  };
}

/**
 * Every contract at the limit price, with its fee. Fees peak at 50 cents, so a fill below the limit can have a higher
 * fee, but not a higher total; but with sub-cent prices, each of many small fills may be rounded up by as much as
 * $0.0001.
 */
export function worstCost(
  feeRule: FeeRule,
  { contracts, limitPrice }: Pick<MarketableOrder, 'contracts' | 'limitPrice'>,
): Micros {
  return -chargeFill(feeRule, newOrderAccount, { action: 'buy', price: limitPrice, contracts }).balanceChange;
}

export type Side = 'yes' | 'no';

export interface Level {
  price: Micros;
  contracts: number;
}

/** Best first. An offer to sell YES at 60 cents is a bid of 40 cents for NO. */
export interface OrderBook {
  yes: readonly Level[];
  no: readonly Level[];
}

export const emptyBook: OrderBook = { yes: [], no: [] };

export const otherSide = { yes: 'no', no: 'yes' } as const;

/** Cheapest first: the other side's bids at complementary prices. */
export const asksOf = (book: OrderBook, side: Side): Level[] =>
  book[otherSide[side]].map(({ price, contracts }) => ({ price: DOLLAR - price, contracts }));

/** The price of a side from that of YES, and the other way round. */
export const sidePrice = (side: Side, price: Micros): Micros => (side === 'yes' ? price : DOLLAR - price);

export const bidsOf = (book: OrderBook, side: Side): readonly Level[] => book[side];

/** Best first, one level per price. The venue writes "no bid" as a price of zero or a dollar. */
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

/** A crossed book is either about to change or wrong. */
export function isCrossed({ yes, no }: OrderBook): boolean {
  const [bid, otherBid] = [yes[0], no[0]];
  return bid !== undefined && otherBid !== undefined && bid.price + otherBid.price >= DOLLAR;
}

export const isSameBook = (a: OrderBook, b: OrderBook): boolean =>
  isSameSide(a.yes, b.yes) && isSameSide(a.no, b.no);

const isSameSide = (a: readonly Level[], b: readonly Level[]): boolean =>
  a.length === b.length &&
  a.every(({ price, contracts }, i) => price === b[i]!.price && contracts === b[i]!.contracts);
