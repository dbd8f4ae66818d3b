import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import { auditPerson, auditRecoveryCode } from '../audit-person.js';
import { change, byProof } from '../../audit/change.js';
import { holdUser } from '../session/queries.js';
import { startSession, type NewBrowser } from '../session/start-session.js';
import { acceptCode, readCode } from './accept-code.js';
import { MAX_CODES } from './limits.js';
import type { SecretBox } from './secret-box.js';
import { countTry, deleteChallenge, type findChallenge } from './challenge-queries.js';

export type Challenge = NonNullable<Awaited<ReturnType<typeof findChallenge>>>;

export type CodeAnswer =
  | { outcome: 'signed_in'; token: string }
  | { outcome: 'wrong'; triesLeft: number }
  /** The challenge has expired or was ended, or all its tries are used up. */
  | { outcome: 'over' };

/** Another request has ended the challenge: what this one did is undone. */
class ChallengeOver extends Error {}

/**
 * Ends a challenge with the right code and starts the session. The try is counted for good before the code is judged.
 * A password change either comes first and leaves nothing to hold, or waits and then ends the new session too.
 */
export async function answerChallenge(
  { db, clock, secrets }: { db: Database; clock: Clock; secrets: SecretBox },
  challenge: Challenge,
  typed: string,
  { gone, ...browser }: NewBrowser & { gone: AbortSignal },
): Promise<CodeAnswer> {
  const now = new Date(clock.now());
  const { hashedToken, userId, email, passwordHash } = challenge;
  const where = { at: now, ip: browser.ip, requestId: browser.requestId };
  const tries = await countTry(db.orm, hashedToken, now);
  if (tries === undefined) return { outcome: 'over' };
  const code = await readCode(userId, typed, gone);
  try {
    return await change({ db, clock }, byProof, async (tx): Promise<CodeAnswer> => {
      if (!(await holdUser(tx, { id: userId, passwordHash }))) throw new ChallengeOver();
      const kind = await acceptCode(tx, secrets, { userId, code, now });
      if (kind === undefined) {
        await auditPerson(tx, { userId, email }, 'user.code_refused', where, { at: 'sign_in', tries });
        return { outcome: 'wrong', triesLeft: MAX_CODES - tries };
      }
      if (!(await deleteChallenge(tx, hashedToken))) throw new ChallengeOver();
      const token = await startSession(tx, userId, browser, now);
      if (kind === 'recovery_code') await auditRecoveryCode(tx, { userId, email }, where);
      await auditPerson(tx, { userId, email }, 'user.signed_in', where, { secondFactor: kind });
      return { outcome: 'signed_in', token };
    });
  } catch (error) {
    if (error instanceof ChallengeOver) return { outcome: 'over' };
    throw error;
  }
}
