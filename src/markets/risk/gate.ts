import { AppError } from '../../core/errors.js';
import {
  checkAccess,
  checkData,
  checkExposure,
  checkOrder,
  checkSwitches,
  refuse,
  type RiskRefusal,
} from './checks.js';
import { toCandidate, type RiskInput } from './exposure.js';
import { readRiskFacts, type RiskFacts } from './facts.js';

/** Fails closed: a value that is unknown or cannot be computed is a refusal. */
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

/** Undefined if missing or inconsistent. */
export const readKnownFacts = (...asked: Parameters<typeof readRiskFacts>): Promise<RiskFacts | undefined> =>
  readRiskFacts(...asked).catch((error: unknown) => {
    if (error instanceof RangeError) return undefined;
    throw error;
  });

/**
 * Names the limit, its value and the order's. To place an order, read the facts in its transaction, after locking the
 * account's row, so that changes of access, switches and limits bind the next order on every instance.
 * @throws AppError risk_limit, entitlement_required, entitlement_read_only; a failure of the database is thrown as such
 */
export function assertWithinRisk(input: RiskInput, facts: RiskFacts | undefined): void {
  const refusal: RiskRefusal | undefined = facts
    ? assessRisk(input, facts)
    : refuse('unknown_state', 'the account does not exist, or its records are inconsistent.');
  if (refusal) throw new AppError(refusal.code ?? 'risk_limit', refusal.detail, { cause: refusal.cause });
}
