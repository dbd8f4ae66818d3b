import type { riskLimits } from '../ledger/risk-table.js';
import { endsOf } from '../market/event.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { dayLossOf, toLeg, worstCaseLoss } from './exposure.js';
import type { RiskFacts } from './facts.js';
import type { LargestOrders } from './queries.js';

export type LimitUse = ReturnType<typeof toLimitUse>;

/** Computed with what the gate computes with, so that the page never says anything else than a refusal. */
export function toLimitUse(
  facts: RiskFacts,
  { largestOrder, dearestOrder }: LargestOrders,
  snapshot: Snapshot | undefined,
) {
  const { positions, pending } = facts;
  const events = new Set([...positions, ...pending].map(({ eventTicker }) => eventTicker));
  const losses = [...events].map((eventTicker) => {
    const held = positions.filter((one) => one.eventTicker === eventTicker);
    const out = pending.filter((one) => one.eventTicker === eventTicker).map(toLeg);
    const event = snapshot?.events.find((one) => one.eventTicker === eventTicker);
    const tickers = [...held, ...out].map(({ ticker }) => ticker);
    return { eventTicker, loss: worstCaseLoss(endsOf(eventTicker, event, tickers), held, out) };
  });
  return {
    largestOrder,
    /** The dearest purchase of today at its limit price, without its fee. */
    dearestOrder,
    /** Undefined if nothing is held. */
    largestPosition: positions.toSorted((a, b) => b.contracts - a.contracts)[0],
    /** The event that may lose the most, pending orders included. */
    worstEvent: losses.toSorted((a, b) => (a.loss < b.loss ? 1 : -1))[0],
    dayLoss: dayLossOrUndefined(facts, snapshot),
    openOrders: pending.length,
  };
}

/** Negative for a profit; undefined while it cannot be computed, and nothing new may be bought. */
function dayLossOrUndefined(facts: RiskFacts, snapshot: Snapshot | undefined): Micros | undefined {
  try {
    return snapshot && dayLossOf(facts, snapshot);
  } catch {
    return undefined;
  }
}

/** As declared; null is the service's default. */
export type DeclaredLimits = Omit<typeof riskLimits.$inferSelect, 'orgId' | 'updatedAt'>;

/** What an Organization's orders are held to, in each mode by itself. A limit of 0 lets nothing pass that it limits. */
export type RiskLimits = { [Name in keyof DeclaredLimits]: NonNullable<DeclaredLimits[Name]> };

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
  // A fifth of the account: after a day like that a person should look before it goes on.
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

/** True if orders that were refused under one of the limits pass it now. */
export function isRaised(before: DeclaredLimits | undefined, after: DeclaredLimits): boolean {
  const [was, is] = [toEffectiveLimits(before ?? noLimitsDeclared), toEffectiveLimits(after)];
  return limitNames.some((name) => is[name] > was[name]);
}

const limitNames = Object.keys(defaultLimits) as (keyof RiskLimits)[];

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
