import { toHundredths, valueOf } from './contracts.js';
import type { Market } from './market.js';
import { BALANCE_STEP, DOLLAR, floorTo, type Micros } from './money.js';

/** An event's own rule precedes its series'; without a rule, orders are refused. */
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

export interface FeeRule {
  /** `unknown`: a fee type that is not listed here. */
  type: (typeof feeTypes)[number] | 'unknown';
  /** In millionths. */
  multiplier: bigint;
}

export interface Fill {
  action: 'buy' | 'sell';
  price: Micros;
  contracts: number;
  isMaker?: boolean;
}

/** In hundredths of the taker's fee. */
const makerShares: Partial<Record<FeeRule['type'], bigint>> = {
  quadratic: 0n,
  quadratic_with_maker_fees: 25n,
  quadratic_with_combo_maker_fees: 50n,
};

/** No public source gives the amounts of flat fees. */
export const isSupported = (rule: FeeRule | undefined): rule is FeeRule =>
  rule !== undefined && makerShares[rule.type] !== undefined;

/**
 * Rounded up to the next $0.000001. Takers pay 7% × contracts × price × (1 − price) × multiplier; makers a share of
 * that. Source: the venue's fee schedule of 2026-07-07 and its API documentation of October 2026.
 * @throws RangeError for an unsupported rule
 */
export function tradeFee(
  { type, multiplier }: FeeRule,
  { price, contracts, isMaker = false }: Omit<Fill, 'action'>,
): Micros {
  const makerShare = makerShares[type];
  if (makerShare === undefined) throw new RangeError(`fees of the type ${type} are not supported`);
  const share = isMaker ? makerShare : 100n;
  // A single division at the end keeps the result exact: contracts are in hundredths, the other factors in millionths.
  const numerator = 7n * share * BigInt(toHundredths(contracts)) * price * (DOLLAR - price) * multiplier;
  const denominator = 100n * 100n * 100n * DOLLAR * DOLLAR;
  return (numerator + denominator - 1n) / denominator;
}

/** Both start at 0. Their difference is rounding that has not been refunded yet. */
interface OrderAccount {
  /** Unrounded, after fees. */
  exact: Micros;
  /** In whole balance steps. */
  booked: Micros;
}

export const newOrderAccount: OrderAccount = { exact: 0n, booked: 0n };

/**
 * Each balance change is rounded down to $0.0001; overpayment is refunded in such steps, up to the fill's own fee. In
 * total an order pays its exact amount, rounded once. Source: the venue's documentation of fee rounding of October
 * 2026, steps 1 to 5, for direct members.
 */
export function chargeFill(rule: FeeRule, account: OrderAccount, fill: Fill) {
  const value = valueOf(fill.price, fill.contracts);
  const revenue = fill.action === 'buy' ? -value : value;
  const unrounded = revenue - tradeFee(rule, fill);
  const aligned = floorTo(unrounded, BALANCE_STEP);
  const exact = account.exact + unrounded;
  const overpaid = floorTo(exact - account.booked - aligned, BALANCE_STEP);
  const most = floorTo(revenue - aligned, BALANCE_STEP);
  const balanceChange = aligned + (overpaid < most ? overpaid : most);
  return {
    /** Negative for a purchase. */
    balanceChange,
    /** Includes rounding, less refunds of earlier rounding. Never negative. */
    fee: revenue - balanceChange,
    account: { exact, booked: account.booked + balanceChange },
  };
}

/** In dollars per contract, with the unrounded fee. */
export function allInCost({ multiplier }: FeeRule, price: Micros | number): number {
  const dollars = Number(price) / MICROS_PER_DOLLAR;
  return dollars + 0.07 * (Number(multiplier) / 1_000_000) * dollars * (1 - dollars);
}

const MICROS_PER_DOLLAR = Number(DOLLAR);
