import { randomBytes } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { Secret, TOTP } from 'otpauth';
import type { Database } from '../../src/core/db/client.js';
import { generateRecoveryCodes, hashRecoveryCode } from '../../src/accounts/identity/second-factor/codes.js';
import { generateSecret, STEP_MS } from '../../src/accounts/identity/second-factor/totp.js';
import { recoveryCodes, secondFactors } from '../../src/accounts/identity/table.js';
import type { TestClock } from './service.js';

export interface Authenticator {
  secret: string;
  /**
   * Returns another of the ten recovery codes on each call. Each code is hashed only on request, because hashing is
   * slow.
   */
  recoveryCode(): Promise<string>;
  /** The app's current code, or its code `steps` × 30 s from now. */
  code(steps?: number): string;
}

export async function giveSecondFactor(
  db: Database,
  userId: string,
  clock: TestClock,
): Promise<Authenticator> {
  const secret = generateSecret();
  const unhashed = generateRecoveryCodes().map((code) => ({
    code,
    hashedCode: `argon2id:${randomBytes(32).toString('hex')}`,
  }));
  const past = new Date('2020-01-01T00:00:00Z');
  const factor = { secret, setupSession: '', confirmedAt: past, createdAt: past };
  await db.orm
    .insert(secondFactors)
    .values({ userId, ...factor })
    .onConflictDoUpdate({ target: secondFactors.userId, set: factor });
  await db.orm.insert(recoveryCodes).values(unhashed.map(({ hashedCode }) => ({ userId, hashedCode })));
  return {
    secret,
    code: authenticator(secret, clock),
    async recoveryCode() {
      const { code, hashedCode } = unhashed.pop()!;
      await db.orm
        .update(recoveryCodes)
        .set({ hashedCode: (await hashRecoveryCode(userId, code))! })
        .where(eq(recoveryCodes.hashedCode, hashedCode));
      return code;
    },
  };
}

export const authenticator =
  (secret: string, clock: TestClock) =>
  (steps = 0): string =>
    TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: clock.now() + steps * STEP_MS });
