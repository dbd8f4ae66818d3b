import type { Clock } from '../../clock.js';
import type { Database } from '../../db/client.js';
import { change } from '../change.js';
import { holdUser } from '../queries.js';
import { startSession, type NewBrowser } from '../start-session.js';
import { acceptCode } from './accept-code.js';
import { MAX_CODES } from './limits.js';
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
  { db, clock }: { db: Database; clock: Clock },
  challenge: Challenge,
  code: string,
  browser: NewBrowser,
): Promise<CodeAnswer> {
  const now = new Date(clock.now());
  const { hashedToken, userId, passwordHash } = challenge;
  const tries = await countTry(db.orm, hashedToken, now);
  if (tries === undefined) return { outcome: 'over' };
  try {
    return await change({ db, clock }, { kind: 'proof' }, async (tx): Promise<CodeAnswer> => {
      if (!(await holdUser(tx, { id: userId, passwordHash }))) throw new ChallengeOver();
      const isRight = await acceptCode(tx, userId, code, now);
      if (!isRight) return { outcome: 'wrong', triesLeft: MAX_CODES - tries };
      if (!(await deleteChallenge(tx, hashedToken))) throw new ChallengeOver();
      return { outcome: 'signed_in', token: await startSession(tx, userId, browser, now) };
    });
  } catch (error) {
    if (error instanceof ChallengeOver) return { outcome: 'over' };
    throw error;
  }
}
