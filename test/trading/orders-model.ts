import type { OrderBook, Side } from '../../src/trading/markets/book.js';
import type { MarketableOrder } from '../../src/trading/portfolio/match.js';

/** What follows from an order by the plainest reading of the rules, one contract at a time: what the real thing is held against. */

const DOLLAR = 1_000_000n;
const CENT = 10_000n;

export interface ModelAccount {
  cash: bigint;
  /** Above nothing YES, below nothing NO. */
  net: number;
  /** What is left of the present book: one entry for each contract that somebody bids for. */
  bids: { side: Side; price: bigint }[];
}

export interface ModelFill {
  price: bigint;
  contracts: number;
}

export type ModelAnswer =
  | { refusal: 'insufficient_position' | 'price_moved' | 'insufficient_funds' }
  | { fills: ModelFill[]; cashChange: bigint; fees: bigint };

export const bidsOfBook = (book: OrderBook): ModelAccount['bids'] =>
  (['yes', 'no'] as const).flatMap((side) =>
    book[side].flatMap(({ price, contracts }) => Array.from({ length: contracts }, () => ({ side, price }))),
  );

/** 7 % of contracts · p · (1 − p), up to a hundredth of a cent. */
const feeOf = ({ price, contracts }: ModelFill): bigint => {
  const exact = 7n * BigInt(contracts) * price * (DOLLAR - price);
  const unit = 100n * DOLLAR * 100n;
  return ((exact + unit - 1n) / unit) * 100n;
};

const floorToCent = (amount: bigint): bigint => {
  const rest = ((amount % CENT) + CENT) % CENT;
  return amount - rest;
};

/** What an order's fills change the balance by: their exact sum, down to a cent, once. */
export function chargeOf(
  action: 'buy' | 'sell',
  fills: readonly ModelFill[],
): { change: bigint; fees: bigint } {
  let gross = 0n;
  let fees = 0n;
  for (const fill of fills) {
    gross += (action === 'buy' ? -1n : 1n) * fill.price * BigInt(fill.contracts);
    fees += feeOf(fill);
  }
  const change = floorToCent(gross - fees);
  return { change, fees: gross - change };
}

/** What can be had by an order, one contract after the other, the best first. */
export function offersOf(bids: ModelAccount['bids'], { side, action, limitPrice }: MarketableOrder) {
  const isWanted = (bid: { side: Side }) => (action === 'sell') === (bid.side === side);
  return bids
    .filter(isWanted)
    .map((bid) => ({ bid, price: action === 'sell' ? bid.price : DOLLAR - bid.price }))
    .filter(({ price }) => (action === 'sell' ? price >= limitPrice : price <= limitPrice))
    .toSorted((a, b) => Number(action === 'sell' ? b.price - a.price : a.price - b.price));
}

export function placeOnModel(account: ModelAccount, order: MarketableOrder): ModelAnswer {
  const { side, action, contracts, limitPrice, timeInForce } = order;
  const held = Math.max(0, side === 'yes' ? account.net : -account.net);
  const heldOfOther = Math.max(0, side === 'yes' ? -account.net : account.net);
  if (action === 'sell' && contracts > held) return { refusal: 'insufficient_position' };
  const offers = offersOf(account.bids, order);
  if (offers.length === 0) return { refusal: 'price_moved' };
  if (action === 'buy') {
    const worst = -chargeOf('buy', [{ price: limitPrice, contracts }]).change;
    const needed = worst - BigInt(Math.min(contracts, heldOfOther)) * DOLLAR;
    if (needed > 0n && needed > account.cash) return { refusal: 'insufficient_funds' };
  }
  const isKilled = timeInForce === 'fill_or_kill' && offers.length < contracts;
  const taken = isKilled ? [] : offers.slice(0, contracts);
  const fills: ModelFill[] = [];
  for (const { bid, price } of taken) {
    account.bids.splice(account.bids.indexOf(bid), 1);
    const last = fills.at(-1);
    if (last?.price === price) last.contracts++;
    else fills.push({ price, contracts: 1 });
  }
  const { change, fees } = chargeOf(action, fills);
  const pairs = action === 'buy' ? Math.min(taken.length, heldOfOther) : 0;
  const cashChange = change + BigInt(pairs) * DOLLAR;
  account.cash += cashChange;
  account.net += (side === 'yes') === (action === 'buy') ? taken.length : -taken.length;
  return { fills, cashChange, fees };
}
