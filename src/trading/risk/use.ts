import type { Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { dayLossOf } from './day-loss.js';
import { toLeg } from './deal.js';
import { endsOf } from '../market/event-ends.js';
import { worstCaseLoss } from './exposure.js';
import type { HeldPosition, RiskFacts } from './facts.js';
import type { LargestOrders } from './queries.js';

/** How much of its limits an account uses at this moment. */
export interface LimitUse {
  /** The largest order of today. */
  largestOrder: number;
  /** The dearest purchase of today at its limit price, without its fee. */
  dearestOrder: Micros;
  /** The largest position; undefined if nothing is held. */
  largestPosition: HeldPosition | undefined;
  /** The event that may lose the most, pending orders included. */
  worstEvent: { eventTicker: string; loss: Micros } | undefined;
  /** Negative for a profit; undefined while it cannot be computed, and nothing new may be bought. */
  dayLoss: Micros | undefined;
  openOrders: number;
}

/** Computed with what the gate computes with, so that the page never says anything else than a refusal. */
export function toLimitUse(
  facts: RiskFacts,
  { largestOrder, dearestOrder }: LargestOrders,
  snapshot: Snapshot | undefined,
): LimitUse {
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
    dearestOrder,
    largestPosition: positions.toSorted((a, b) => b.contracts - a.contracts)[0],
    worstEvent: losses.toSorted((a, b) => (a.loss < b.loss ? 1 : -1))[0],
    dayLoss: dayLossOrUndefined(facts, snapshot),
    openOrders: pending.length,
  };
}

function dayLossOrUndefined(facts: RiskFacts, snapshot: Snapshot | undefined): Micros | undefined {
  try {
    return snapshot && dayLossOf(facts, snapshot);
  } catch {
    return undefined;
  }
}
