import { generateRecoveryCodes, hashRecoveryCode } from '../../src/identity/second-factor/recovery-codes.js';
import { codeOf, generateSecret, stepAt } from '../../src/identity/second-factor/totp.js';
import type { Database } from '../../src/core/db/client.js';
import { recoveryCodes, secondFactors } from '../../src/tables.js';
import type { TestClock } from './service.js';

export interface Authenticator {
  secret: string;
  recoveryCodes: string[];
  /** What the app shows now, or `steps` of 30 s later. */
  code(steps?: number): string;
}

/** Gives a person a second factor that is on, as if they had set it up long ago. */
export async function giveSecondFactor(
  db: Database,
  userId: string,
  clock: TestClock,
): Promise<Authenticator> {
  const secret = generateSecret();
  const codes = generateRecoveryCodes();
  const past = new Date('2020-01-01T00:00:00Z');
  await db.orm
    .insert(secondFactors)
    .values({ userId, secret, setupSession: '', confirmedAt: past, createdAt: past });
  await db.orm
    .insert(recoveryCodes)
    .values(
      await Promise.all(
        codes.map(async (code) => ({ userId, hashedCode: (await hashRecoveryCode(userId, code))! })),
      ),
    );
  return { secret, recoveryCodes: codes, code: authenticator(secret, clock) };
}

/** An app that holds a secret. */
export const authenticator =
  (secret: string, clock: TestClock) =>
  (steps = 0): string =>
    codeOf(secret, stepAt(clock.now()) + steps);
