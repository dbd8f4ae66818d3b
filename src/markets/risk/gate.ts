import { AppError } from '../../core/errors.js';
import type { OrderBook } from '../market/book.js';
import type { ListedMarket } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { OrderInput } from '../ledger/order-input.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import {
  checkAccess,
  checkData,
  checkExposure,
  checkOrder,
  checkSwitches,
  refuse,
  type RiskRefusal,
} from './checks.js';
import { toCandidate } from './exposure.js';
import { readRiskFacts, type RiskFacts } from './facts.js';

/**
 * What stands against an order, or undefined if it may pass. Fails closed: each check lets an order pass only if what it
 * compares is known, and whatever cannot be computed is a refusal.
 */
export function assessRisk(input: RiskInput, facts: RiskFacts): RiskRefusal | undefined {
  try {
    const candidate = toCandidate(input, facts);
    return (
      checkAccess(candidate) ??
      checkSwitches(candidate) ??
      checkData(candidate) ??
      checkOrder(candidate) ??
      (candidate.isReducing ? undefined : checkExposure(candidate))
    );
  } catch (cause) {
    const detail = 'something that the order must be checked against is missing or cannot be computed.';
    return { ...refuse('unknown_state', detail), cause };
  }
}

/** What an order is checked on. Read under the lock of the account's row, so nothing of it changes before the order is written. */
export interface RiskInput {
  order: OrderInput;
  market: ListedMarket;
  /** Without what the Organization's paper orders have taken already. */
  book: OrderBook;
  snapshot: Snapshot;
  /** What the order may take from the balance at its limit price, fee included; less for one that closes pairs, 0 for a sale. */
  worstCost: Micros;
  /** What may be spent: cash without what pending orders have reserved. */
  available: Micros;
  at: Date;
}

/** What an order is checked on; undefined where that cannot be read, or makes no sense. */
export const readKnownFacts = (...asked: Parameters<typeof readRiskFacts>): Promise<RiskFacts | undefined> =>
  readRiskFacts(...asked).catch((error: unknown) => {
    if (error instanceof RangeError) return undefined;
    throw error;
  });

/**
 * Lets an order pass, or says which limit stands against it, its value and what was asked. What cannot be read or
 * computed counts as a refusal; only a database that does not answer is told as what it is.
 *
 * The facts of an order that is written are read in its transaction, after the account's row was locked: access, switches and limits
 * are among them, so they bind on the next order of every instance.
 * @throws AppError risk_limit, entitlement_required, entitlement_read_only
 */
export function assertWithinRisk(input: RiskInput, facts: RiskFacts | undefined): void {
  const refusal: RiskRefusal | undefined = facts
    ? assessRisk(input, facts)
    : refuse('unknown_state', 'there is no account, or what is recorded of it makes no sense.');
  if (refusal) throw new AppError(refusal.code ?? 'risk_limit', refusal.detail, { cause: refusal.cause });
}
