import { toDeal } from './deal.js';
import type { RiskFacts } from './facts.js';
import type { RiskInput } from './gate.js';
import { checkExposure, checkOrder } from './order-checks.js';
import { refuse, type Refusal } from './refusal.js';
import { checkData, checkSwitches } from './state-checks.js';

/**
 * What stands against an order, or undefined if it may pass. Fails closed: each check lets an order pass only if what it
 * compares is known, and whatever cannot be computed is a refusal.
 */
export function assessRisk(input: RiskInput, facts: RiskFacts): Refusal | undefined {
  try {
    const deal = toDeal(input, facts);
    return (
      checkSwitches(deal) ??
      checkData(deal) ??
      checkOrder(deal) ??
      (deal.isReducing ? undefined : checkExposure(deal))
    );
  } catch (cause) {
    const detail = 'something that the order must be judged on is missing or cannot be computed.';
    return { ...refuse('unknown_state', detail), cause };
  }
}
