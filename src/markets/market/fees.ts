import { toHundredths, valueOf } from './contracts.js';
import type { Market } from './market.js';
import { BALANCE_STEP, DOLLAR, floorTo, type Micros } from './money.js';

/**
 * Returns the fee rule of the event, or else of its series; undefined if neither is known, in which case orders are
 * refused.
 */
export function feeRuleOf(
  { feeRules }: { feeRules: ReadonlyMap<string, FeeRule> },
  { eventTicker, seriesTicker }: Pick<Market, 'eventTicker' | 'seriesTicker'>,
): FeeRule | undefined {
  const rule = feeRules.get(eventTicker) ?? feeRules.get(seriesTicker);
  return isSupported(rule) ? rule : undefined;
}

export const feeTypes = [
  'quadratic',
  'quadratic_with_maker_fees',
  'quadratic_with_combo_maker_fees',
  'flat',
] as const;
type FeeType = (typeof feeTypes)[number];

export interface FeeRule {
  /** `unknown`: the venue reports a fee type that is not listed here. */
  type: FeeType | 'unknown';
  /** In millionths: 1,000,000 means one. */
  multiplier: bigint;
}

export interface Fill {
  action: 'buy' | 'sell';
  price: Micros;
  contracts: number;
  isMaker?: boolean;
}

/** Maker's fee in hundredths of the taker's fee, by fee type. */
const makerShares: Partial<Record<FeeRule['type'], bigint>> = {
  quadratic: 0n,
  quadratic_with_maker_fees: 25n,
  quadratic_with_combo_maker_fees: 50n,
};

/** Also false for flat fees, because no public source gives their amounts. */
export const isSupported = (rule: FeeRule | undefined): rule is FeeRule =>
  rule !== undefined && makerShares[rule.type] !== undefined;

/**
 * Returns the fee of one fill, rounded up to the next $0.000001. Takers pay 7% × contracts × price × (1 − price) ×
 * multiplier; makers pay a share of that, which depends on the fee type.
 *
 * Source: the venue's fee schedule of 2026-07-07, its API documentation of fee types, and its documentation of fee
 * rounding of October 2026.
 * @throws RangeError for an unsupported rule
 */
export function tradeFee(
  { type, multiplier }: FeeRule,
  { price, contracts, isMaker = false }: Omit<Fill, 'action'>,
): Micros {
  const makerShare = makerShares[type];
  if (makerShare === undefined) throw new RangeError(`fees of the type ${type} are not supported`);
  const share = isMaker ? makerShare : 100n;
  // 7% of contracts · price · (1 − price) · multiplier, with contracts in hundredths and the other factors in
  // millionths. A single division at the end keeps the result exact.
  const numerator = 7n * share * BigInt(toHundredths(contracts)) * price * (DOLLAR - price) * multiplier;
  const denominator = 100n * 100n * 100n * DOLLAR * DOLLAR;
  return (numerator + denominator - 1n) / denominator;
}

/** Running totals of an order, both starting at 0. Their difference is rounding that has not been refunded yet. */
interface OrderAccount {
  /** Amounts received minus amounts paid minus fees, unrounded. */
  exact: Micros;
  /** Actual balance change, in whole balance steps. */
  booked: Micros;
}

export const newOrderAccount: OrderAccount = { exact: 0n, booked: 0n };

interface Charge {
  /** Negative for a purchase. */
  balanceChange: Micros;
  /** Fee including rounding, less refunds of earlier rounding. Never negative. */
  fee: Micros;
  account: OrderAccount;
}

/**
 * Charges the next fill of an order. Each balance change is rounded down to $0.0001; accumulated overpayment is
 * refunded in steps of $0.0001, up to the fill's own fee. In total an order pays its exact amount, rounded once.
 *
 * Source: the venue's documentation of fee rounding of October 2026, steps 1 to 5, for direct members.
 */
export function chargeFill(rule: FeeRule, account: OrderAccount, fill: Fill): Charge {
  const value = valueOf(fill.price, fill.contracts);
  const revenue = fill.action === 'buy' ? -value : value;
  const unrounded = revenue - tradeFee(rule, fill);
  const aligned = floorTo(unrounded, BALANCE_STEP);
  const exact = account.exact + unrounded;
  const overpaid = floorTo(exact - account.booked - aligned, BALANCE_STEP);
  const most = floorTo(revenue - aligned, BALANCE_STEP);
  const balanceChange = aligned + (overpaid < most ? overpaid : most);
  return {
    balanceChange,
    fee: revenue - balanceChange,
    account: { exact, booked: account.booked + balanceChange },
  };
}

/** Returns the marginal cost of a contract in dollars, with the unrounded fee. */
export function allInCost({ multiplier }: FeeRule, price: Micros | number): number {
  const dollars = Number(price) / MICROS_PER_DOLLAR;
  return dollars + 0.07 * (Number(multiplier) / 1_000_000) * dollars * (1 - dollars);
}

const MICROS_PER_DOLLAR = Number(DOLLAR);
