import type { riskLimits } from '../ledger/risk-table.js';
import { CENT, DOLLAR } from '../market/money.js';

/** Null means the service's default. */
export type DeclaredLimits = Omit<typeof riskLimits.$inferSelect, 'orgId' | 'updatedAt'>;

/** A limit of 0 refuses everything that it covers. */
export type RiskLimits = { [Name in keyof DeclaredLimits]: NonNullable<DeclaredLimits[Name]> };

/** For the starting cash of paper accounts, about a thousand dollars. */
export const defaultLimits: RiskLimits = {
  // Weather books are only a few hundred contracts deep.
  maxOrderContracts: 1_000,
  // One mistyped order cannot spend the whole account.
  maxOrderCost: 250n * DOLLAR,
  // Stops a loop that repeats an order.
  maxPositionContracts: 1_000,
  // Half of the account on one day at one station.
  maxEventLoss: 500n * DOLLAR,
  // After such a day, a person should take a look.
  maxDailyLoss: 200n * DOLLAR,
  // Most orders finish immediately, so twenty open ones suggest a fault at the venue.
  maxOpenOrders: 20,
  // Wider than a busy book moves in a minute, but catches a price with an extra digit.
  priceCollar: 10n * CENT,
};

const limitNames = Object.keys(defaultLimits) as (keyof RiskLimits)[];

export const noLimitsDeclared = Object.fromEntries(limitNames.map((name) => [name, null])) as DeclaredLimits;

/** Some refused orders would now pass. */
export function isRaised(before: DeclaredLimits | undefined, after: DeclaredLimits): boolean {
  const [was, is] = [toEffectiveLimits(before ?? noLimitsDeclared), toEffectiveLimits(after)];
  return limitNames.some((name) => is[name] > was[name]);
}

export const toEffectiveLimits = (declared: DeclaredLimits) =>
  Object.fromEntries(limitNames.map((name) => [name, declared[name] ?? defaultLimits[name]])) as RiskLimits;
