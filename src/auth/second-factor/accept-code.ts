import type { Tx } from '../../db/client.js';
import { findSecondFactor, raiseLastStep, spendRecoveryCode } from './queries.js';
import { hashRecoveryCode } from './recovery-codes.js';
import { findStep, isCodeShaped } from './totp.js';

/**
 * Uses up what a person typed: a code of their app, or a recovery code. Each is accepted once, and a code of the app
 * uses up the older ones too. True if it was right and unused; the caller's transaction decides whether it stays used.
 */
export async function acceptCode(tx: Tx, userId: string, typed: string, now: Date): Promise<boolean> {
  const factor = await findSecondFactor(tx, userId);
  if (!factor) return false;
  const code = cleanCode(typed);
  if (isCodeShaped(code)) {
    const step = findStep(factor.secret, code, now.getTime());
    return step !== undefined && raiseLastStep(tx, userId, step);
  }
  const hashedCode = hashRecoveryCode(code);
  return hashedCode !== undefined && spendRecoveryCode(tx, { userId, hashedCode, now });
}

/** Apps show `123 456`; some keyboards write digits in full width. */
export const cleanCode = (typed: string): string => typed.normalize('NFKC').replace(/\s/g, '');
