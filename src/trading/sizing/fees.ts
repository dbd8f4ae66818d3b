import { ceilTo, CENT, DOLLAR, floorTo, type Micros } from '../money.js';

/** How a series charges. Read from the venue: the multiplier differs between series. */
export interface FeeRule {
  type: 'quadratic' | 'quadratic_with_maker_fees' | 'flat';
  /** Millionths: 1,000,000 is one. */
  multiplier: bigint;
}

/** One part of an order that was filled at one price. */
export interface Fill {
  action: 'buy' | 'sell';
  /** Of a contract of the side that was traded, per dollar it can pay. */
  price: Micros;
  contracts: number;
}

/** $0.0001: what a fill's own fee is rounded up to. */
const FEE_UNIT: Micros = 100n;

/**
 * The taker's fee of one fill: 7 % of contracts × price × (1 − price) × the series' multiplier, up to the next $0.0001.
 * Source: the venue's fee schedule and its text on fee rounding.
 * @throws RangeError for a series with flat fees, whose amount no public source gives
 */
export function takerFee(rule: FeeRule, { price, contracts }: Pick<Fill, 'price' | 'contracts'>): Micros {
  if (rule.type === 'flat') throw new RangeError('a series with flat fees is not supported');
  // 7 / 100 of dollars⁻² · multiplier · count, all in millionths: one division at the very end keeps it exact.
  const numerator = 7n * BigInt(contracts) * price * (DOLLAR - price) * rule.multiplier;
  const denominator = 100n * DOLLAR * DOLLAR;
  const micros = (numerator + denominator - 1n) / denominator;
  return ceilTo(micros, FEE_UNIT);
}

/** What an order has cost or brought so far. Both start at 0. */
export interface OrderAccount {
  /** Before rounding: minus what was paid, plus what was received, minus fees. */
  exact: Micros;
  /** What the balance has changed by: whole cents. */
  booked: Micros;
}

export const newOrderAccount: OrderAccount = { exact: 0n, booked: 0n };

export interface Charge {
  /** By how much the balance changes with this fill: whole cents, negative for a purchase. */
  balanceChange: Micros;
  /** What of it is the fee, roundings included. May be negative where an earlier fill's rounding is given back. */
  fee: Micros;
  account: OrderAccount;
}

/**
 * Charges one more fill of an order. Each fill's balance change is floored to a cent, and each whole cent that an order
 * has overpaid by that is given back at once. So an order is always charged its exact sum, rounded to a cent once.
 */
export function chargeFill(rule: FeeRule, account: OrderAccount, fill: Fill): Charge {
  const value = fill.price * BigInt(fill.contracts);
  const gross = fill.action === 'buy' ? -value : value;
  const exact = account.exact + gross - takerFee(rule, fill);
  const booked = floorTo(exact, CENT);
  const balanceChange = booked - account.booked;
  return { balanceChange, fee: gross - balanceChange, account: { exact, booked } };
}
