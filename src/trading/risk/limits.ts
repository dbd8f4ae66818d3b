import { CENT, DOLLAR, type Micros } from '../market/money.js';

/** What an Organization's orders are held to, in each mode by itself. A limit of 0 lets nothing pass that it limits. */
export interface RiskLimits {
  maxOrderContracts: number;
  /** What one purchase may cost at its limit price, fee included. */
  maxOrderCost: Micros;
  /** Contracts held of one market, after the order. */
  maxPositionContracts: number;
  /** What one event may lose in its worst outcome, after the order. */
  maxEventLoss: Micros;
  /** What may be lost since midnight UTC, realised and marked, fees included. */
  maxDailyLoss: Micros;
  maxOpenOrders: number;
  /** How far a limit price may be beyond the best price of the book. */
  priceCollar: Micros;
}

/** As somebody has declared them; null is the service's default. */
export type DeclaredLimits = { [Name in keyof RiskLimits]: RiskLimits[Name] | null };

/** For an account of about a thousand dollars, which is what paper accounts begin with. */
export const defaultLimits: RiskLimits = {
  // No good reason to take more at once: the books of weather markets are a few hundred contracts deep.
  maxOrderContracts: 1_000,
  // A quarter of the account: one mistyped order cannot spend it.
  maxOrderCost: 250n * DOLLAR,
  // As much as one order, so that a loop that repeats an order comes to its end.
  maxPositionContracts: 1_000,
  // Half of the account on one day at one station, whatever the day brings.
  maxEventLoss: 500n * DOLLAR,
  // A fifth of the account: after a day like that somebody should look before it goes on.
  maxDailyLoss: 200n * DOLLAR,
  // Orders end at once here. Twenty without an answer mean that something is wrong with the venue or the way to it.
  maxOpenOrders: 20,
  // Wider than a busy book moves within a minute, and narrow enough for a price with a digit too many.
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

/** What binds: what was declared, and the default for the rest. */
export const toEffectiveLimits = (declared: DeclaredLimits): RiskLimits => ({
  maxOrderContracts: declared.maxOrderContracts ?? defaultLimits.maxOrderContracts,
  maxOrderCost: declared.maxOrderCost ?? defaultLimits.maxOrderCost,
  maxPositionContracts: declared.maxPositionContracts ?? defaultLimits.maxPositionContracts,
  maxEventLoss: declared.maxEventLoss ?? defaultLimits.maxEventLoss,
  maxDailyLoss: declared.maxDailyLoss ?? defaultLimits.maxDailyLoss,
  maxOpenOrders: declared.maxOpenOrders ?? defaultLimits.maxOpenOrders,
  priceCollar: declared.priceCollar ?? defaultLimits.priceCollar,
});
