import type { Tx } from '../../core/db/client.js';
import { findSecondFactor, raiseLastStep, replaceSecret, spendRecoveryCode } from './queries.js';
import { hashRecoveryCode } from './recovery-codes.js';
import type { SecretBox } from './secret-box.js';
import { findStep, isCodeShaped } from './totp.js';

/** What a person typed: a code of their app, or a recovery code as it is stored; neither where it cannot be one. */
export type TypedCode = { app: string } | { hashedRecovery: string | undefined };

/** How a code was right. */
export type CodeKind = 'app' | 'recovery_code';

/**
 * Makes ready what a person typed. Hashing takes long, so this comes before anything is locked.
 * @throws as `hashPassword`
 */
export async function readCode(userId: string, typed: string, signal?: AbortSignal): Promise<TypedCode> {
  const code = cleanCode(typed);
  if (isCodeShaped(code)) return { app: code };
  return { hashedRecovery: await hashRecoveryCode(userId, code, signal) };
}

/**
 * Uses up a code. Each is accepted once, and a code of the app uses up the older ones too. Undefined if it was wrong or
 * used before; the caller's transaction decides whether it stays used.
 */
export async function acceptCode(
  tx: Tx,
  secrets: SecretBox,
  { userId, code, now }: { userId: string; code: TypedCode; now: Date },
): Promise<CodeKind | undefined> {
  const factor = await findSecondFactor(tx, userId);
  if (!factor) return undefined;
  if ('app' in code) {
    const secret = secrets.open(userId, factor.secret);
    const step = findStep(secret, code.app, now.getTime());
    if (step === undefined || !(await raiseLastStep(tx, userId, step))) return undefined;
    if (!secrets.isCurrent(factor.secret))
      await replaceSecret(tx, { userId, from: factor.secret, to: secrets.seal(userId, secret) });
    return 'app';
  }
  const { hashedRecovery } = code;
  if (hashedRecovery === undefined) return undefined;
  const isSpent = await spendRecoveryCode(tx, { userId, hashedCode: hashedRecovery, now });
  return isSpent ? 'recovery_code' : undefined;
}

/** Apps show `123 456`; some keyboards write digits in full width. */
export const cleanCode = (typed: string): string => typed.normalize('NFKC').replace(/\s/g, '');
