import type { Clock } from '../clock.js';
import type { Database, Tx } from '../db/client.js';
import { change } from './change.js';
import { verifyPassword } from './password.js';
import { deleteSession, findUserByEmail, holdUser } from './queries.js';
import { deleteChallenge, insertChallenge } from './second-factor/challenge-queries.js';
import { findSecondFactor } from './second-factor/queries.js';
import { generateToken, hashToken } from './session-cookie.js';
import { startSession, type NewBrowser } from './start-session.js';

/** An address as it is stored and compared. */
export const normalizeEmail = (email: string): string => email.trim().toLowerCase();

export interface SignedIn {
  /** For the cookie. Of a session, or of a challenge while the second factor is due. */
  token: string;
  isCodeDue: boolean;
}

/**
 * Starts a session, or a challenge for whoever has a second factor. The token is always a new one, and what the browser
 * had before ends: nobody can prepare a session for somebody else.
 * @returns undefined for an unknown address or a wrong password, after the same time
 */
export async function signIn(
  { db, clock }: { db: Database; clock: Clock },
  credentials: { email: string; password: string },
  { formerToken, ...browser }: NewBrowser & { formerToken: string | undefined },
): Promise<SignedIn | undefined> {
  const user = await findUserByEmail(db.orm, normalizeEmail(credentials.email));
  const isRight = await verifyPassword(user?.passwordHash, credentials.password);
  if (!user || !isRight) return undefined;
  const now = new Date(clock.now());
  return change({ db, clock }, { kind: 'proof' }, async (tx) => {
    if (!(await holdUser(tx, user))) return undefined;
    if (formerToken !== undefined) await endToken(tx, formerToken);
    // Read while the person is held: whoever turns it on meanwhile waits, and then ends the session made here.
    if (!(await findSecondFactor(tx, user.id)))
      return { token: await startSession(tx, user.id, browser, now), isCodeDue: false };
    const token = generateToken();
    await insertChallenge(tx, { hashedToken: hashToken(token), userId: user.id, now });
    return { token, isCodeDue: true };
  });
}

/** Ends whatever the token of a cookie stands for. */
export async function endToken(tx: Tx, token: string): Promise<void> {
  const hashedToken = hashToken(token);
  await deleteSession(tx, hashedToken);
  await deleteChallenge(tx, hashedToken);
}
