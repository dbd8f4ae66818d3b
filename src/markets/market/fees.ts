import { toHundredths, valueOf } from './contracts.js';
import type { Market } from './market.js';
import { BALANCE_STEP, DOLLAR, floorTo, type Micros } from './money.js';
import type { MarketData } from './source.js';

/** What an order of a market is charged by: its event's own rule, or else its series'. Undefined where it is not known: no orders then. */
export function feeRuleOf(
  { feeRules }: Pick<MarketData, 'feeRules'>,
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

/** How a market charges. Read from the venue: type and multiplier differ between series, and an event may have its own. */
export interface FeeRule {
  /** `unknown`: the venue names one that is not among these. */
  type: FeeType | 'unknown';
  /** Millionths: 1,000,000 is one. */
  multiplier: bigint;
}

export interface Fill {
  action: 'buy' | 'sell';
  /** Of a contract of the side that was traded, per dollar it can pay. */
  price: Micros;
  contracts: number;
  /** True for what had rested in the book; orders of this service never do. */
  isMaker?: boolean;
}

/** Hundredths of the taker's fee that the maker pays, by fee type. */
const makerShares: Partial<Record<FeeRule['type'], bigint>> = {
  quadratic: 0n,
  quadratic_with_maker_fees: 25n,
  quadratic_with_combo_maker_fees: 50n,
};

/** False for flat fees too: no public source gives their amounts. */
export const isSupported = (rule: FeeRule | undefined): rule is FeeRule =>
  rule !== undefined && makerShares[rule.type] !== undefined;

/**
 * The fee of one fill: 7% of contracts × price × (1 − price) × the multiplier for the taker, the share of it that the
 * type says for the maker, up to the next $0.000001.
 * Source: the venue's fee schedule of 2026-07-07, its API's text on fee types, and its text on fee rounding of October 2026.
 * @throws RangeError for a rule that is not supported
 */
export function tradeFee(
  { type, multiplier }: FeeRule,
  { price, contracts, isMaker = false }: Omit<Fill, 'action'>,
): Micros {
  const ofMaker = makerShares[type];
  if (ofMaker === undefined) throw new RangeError(`fees of the type ${type} are not supported`);
  const share = isMaker ? ofMaker : 100n;
  // 7 / 100 of hundredths of contracts · dollars⁻² · multiplier, all in millionths: one division at the very end keeps it exact.
  const numerator = 7n * share * BigInt(toHundredths(contracts)) * price * (DOLLAR - price) * multiplier;
  const denominator = 100n * 100n * 100n * DOLLAR * DOLLAR;
  return (numerator + denominator - 1n) / denominator;
}

/** What an order has cost or brought so far. Both start at 0. What was rounded away and not given back is the difference. */
interface OrderAccount {
  /** Before rounding: minus what was paid, plus what was received, minus fees. */
  exact: Micros;
  /** What the balance has changed by: whole steps of the balance. */
  booked: Micros;
}

export const newOrderAccount: OrderAccount = { exact: 0n, booked: 0n };

interface Charge {
  /** By how much the balance changes with this fill: negative for a purchase. */
  balanceChange: Micros;
  /** What of it is the fee: with the rounding, less what is given back of earlier roundings. Never below 0. */
  fee: Micros;
  account: OrderAccount;
}

/**
 * Charges one more fill of an order. Each fill's balance change is rounded down to $0.0001; what an order has overpaid by that is given
 * back in steps of $0.0001, no more of it than the fill's own fee. So in sum an order is charged its exact amount, rounded once.
 * Source: the venue's text on fee rounding of October 2026, steps 1 to 5, for direct members.
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

/** What one more contract costs at a price, fee included, in dollars: the fee's formula before it is rounded. */
export function allInCost({ multiplier }: FeeRule, price: Micros | number): number {
  const dollars = Number(price) / MICROS_PER_DOLLAR;
  return dollars + 0.07 * (Number(multiplier) / 1_000_000) * dollars * (1 - dollars);
}

const MICROS_PER_DOLLAR = Number(DOLLAR);
