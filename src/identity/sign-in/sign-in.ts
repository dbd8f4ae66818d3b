import type { Clock } from '../../core/clock.js';
import type { Database, Tx } from '../../core/db/client.js';
import { auditPerson, type Whereabouts } from '../audit-person.js';
import { change, byProof } from '../../audit/change.js';
import { verifyPassword } from '../password.js';
import { deleteSession, findUserByEmail, holdUser } from '../session/queries.js';
import { deleteChallenge, insertChallenge } from '../second-factor/challenge-queries.js';
import { findSecondFactor } from '../second-factor/queries.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import { startSession, type NewBrowser } from '../session/start-session.js';

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
  { formerToken, gone, ...browser }: NewBrowser & { formerToken: string | undefined; gone: AbortSignal },
): Promise<SignedIn | undefined> {
  const email = normalizeEmail(credentials.email);
  const user = await findUserByEmail(db.orm, email);
  const isRight = await verifyPassword(user?.passwordHash, credentials.password, gone);
  if (!user || !isRight) return undefined;
  const now = new Date(clock.now());
  return change({ db, clock }, byProof, async (tx) => {
    if (!(await holdUser(tx, user))) return undefined;
    const where = { at: now, ip: browser.ip, requestId: browser.requestId };
    if (formerToken !== undefined) await endToken(tx, formerToken, where);
    // Read while the person is held: whoever turns it on meanwhile waits, and then ends the session made here.
    if (!(await findSecondFactor(tx, user.id))) {
      const session = await startSession(tx, user.id, browser, now);
      await auditPerson(tx, { userId: user.id, email }, 'user.signed_in', where, { secondFactor: null });
      return { token: session, isCodeDue: false };
    }
    const token = generateToken();
    await insertChallenge(tx, { hashedToken: hashToken(token), userId: user.id, now });
    return { token, isCodeDue: true };
  });
}

/** Ends whatever the token of a cookie stands for. */
export async function endToken(tx: Tx, token: string, where: Whereabouts): Promise<void> {
  const hashedToken = hashToken(token);
  await deleteChallenge(tx, hashedToken);
  const person = await deleteSession(tx, hashedToken);
  if (person) await auditPerson(tx, person, 'user.signed_out', where, { sessionsEnded: 1 });
}
