import type { MarketableOrder, OrderBook, Side } from '../../../src/markets/market/book.js';

/**
 * A naive reference model of orders to compare the implementation with. Works on one hundredth of a contract at a time.
 */

const DOLLAR = 1_000_000n;
/** Balances are multiples of this, in millionths of a dollar. */
const STEP = 100n;

export interface ModelAccount {
  cash: bigint;
  /** Hundredths of contracts: positive for YES, negative for NO. */
  net: number;
  /** Remaining bids of the current book: one entry for each hundredth of a contract. */
  bids: { side: Side; price: bigint }[];
}

export interface ModelFill {
  price: bigint;
  contracts: number;
}

export type ModelAnswer =
  | { refusal: 'insufficient_position' | 'price_moved' | 'insufficient_funds' }
  | { fills: ModelFill[]; cashChange: bigint; fees: bigint };

const unitsOf = (contracts: number): number => Number((contracts * 100).toFixed());

export const bidsOfBook = (book: OrderBook): ModelAccount['bids'] =>
  (['yes', 'no'] as const).flatMap((side) =>
    book[side].flatMap(({ price, contracts }) =>
      Array.from({ length: unitsOf(contracts) }, () => ({ side, price })),
    ),
  );

/** 7% of contracts · p · (1 − p), rounded up to a millionth. */
const feeOf = ({ price, contracts }: ModelFill): bigint => {
  const exact = 7n * BigInt(unitsOf(contracts)) * price * (DOLLAR - price);
  const unit = 100n * 100n * DOLLAR;
  return (exact + unit - 1n) / unit;
};

const floorToStep = (amount: bigint): bigint => {
  const rest = ((amount % STEP) + STEP) % STEP;
  return amount - rest;
};

/** Balance change of an order's fills: their exact sum, rounded down once to a multiple of $0.0001. */
export function chargeOf(
  action: 'buy' | 'sell',
  fills: readonly ModelFill[],
): { change: bigint; fees: bigint } {
  let gross = 0n;
  let fees = 0n;
  for (const fill of fills) {
    gross += (action === 'buy' ? -1n : 1n) * ((fill.price * BigInt(unitsOf(fill.contracts))) / 100n);
    fees += feeOf(fill);
  }
  const change = floorToStep(gross - fees);
  return { change, fees: gross - change };
}

/** Returns the contracts available to an order, best first. */
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
  const units = unitsOf(contracts);
  if (action === 'sell' && units > held) return { refusal: 'insufficient_position' };
  const offers = offersOf(account.bids, order);
  if (offers.length === 0) return { refusal: 'price_moved' };
  if (action === 'buy') {
    const worst = -chargeOf('buy', [{ price: limitPrice, contracts }]).change;
    const needed = worst - BigInt(Math.min(units, heldOfOther)) * (DOLLAR / 100n);
    if (needed > 0n && needed > account.cash) return { refusal: 'insufficient_funds' };
  }
  const isKilled = timeInForce === 'fill_or_kill' && offers.length < units;
  const taken = isKilled ? [] : offers.slice(0, units);
  const counted: { price: bigint; units: number }[] = [];
  for (const { bid, price } of taken) {
    account.bids.splice(account.bids.indexOf(bid), 1);
    const last = counted.at(-1);
    if (last?.price === price) last.units++;
    else counted.push({ price, units: 1 });
  }
  const fills = counted.map(({ price, units: some }): ModelFill => ({ price, contracts: some / 100 }));
  const { change, fees } = chargeOf(action, fills);
  const pairs = action === 'buy' ? Math.min(taken.length, heldOfOther) : 0;
  const cashChange = change + BigInt(pairs) * (DOLLAR / 100n);
  account.cash += cashChange;
  account.net += (side === 'yes') === (action === 'buy') ? taken.length : -taken.length;
  return { fills, cashChange, fees };
}
