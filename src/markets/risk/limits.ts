import type { riskLimits } from '../ledger/risk-table.js';
import { CENT, DOLLAR } from '../market/money.js';

/** Null means the service's default. */
export type DeclaredLimits = Omit<typeof riskLimits.$inferSelect, 'orgId' | 'updatedAt'>;

/** Limits per mode. A limit of 0 refuses everything that it covers. */
export type RiskLimits = { [Name in keyof DeclaredLimits]: NonNullable<DeclaredLimits[Name]> };

/** Sized for about a thousand dollars, the starting cash of paper accounts. */
export const defaultLimits: RiskLimits = {
  // Weather books are only a few hundred contracts deep.
  maxOrderContracts: 1_000,
  // A quarter of the account, so that one mistyped order cannot spend it all.
  maxOrderCost: 250n * DOLLAR,
  // The same as the limit for one order, to stop a loop that repeats an order.
  maxPositionContracts: 1_000,
  // Half of the account on one day at one station.
  maxEventLoss: 500n * DOLLAR,
  // A fifth of the account. After such a day, a person should take a look before trading continues.
  maxDailyLoss: 200n * DOLLAR,
  // Most orders finish immediately, so twenty open ones suggest a fault at the venue or in the connection to it.
  maxOpenOrders: 20,
  // Wider than a busy book moves in a minute, but narrow enough to catch a price with an extra digit.
  priceCollar: 10n * CENT,
};

export const noLimitsDeclared: DeclaredLimits = {
  maxOrderContracts: null,
  maxOrderCost: null,
  maxPositionContracts: null,
  maxEventLoss: null,
  maxDailyLoss: null,
  maxOpenOrders: null,
  priceCollar: null,
};

/** True if some previously refused orders would now pass. */
export function isRaised(before: DeclaredLimits | undefined, after: DeclaredLimits): boolean {
  const [was, is] = [toEffectiveLimits(before ?? noLimitsDeclared), toEffectiveLimits(after)];
  return limitNames.some((name) => is[name] > was[name]);
}

const limitNames = Object.keys(defaultLimits) as (keyof RiskLimits)[];

export const toEffectiveLimits = (declared: DeclaredLimits): RiskLimits => ({
  maxOrderContracts: declared.maxOrderContracts ?? defaultLimits.maxOrderContracts,
  maxOrderCost: declared.maxOrderCost ?? defaultLimits.maxOrderCost,
  maxPositionContracts: declared.maxPositionContracts ?? defaultLimits.maxPositionContracts,
  maxEventLoss: declared.maxEventLoss ?? defaultLimits.maxEventLoss,
  maxDailyLoss: declared.maxDailyLoss ?? defaultLimits.maxDailyLoss,
  maxOpenOrders: declared.maxOpenOrders ?? defaultLimits.maxOpenOrders,
  priceCollar: declared.priceCollar ?? defaultLimits.priceCollar,
});
