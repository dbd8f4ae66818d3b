import type { Clock } from '../clock.js';
import type { Database } from '../db/client.js';
import { verifyPassword } from './password.js';
import { deleteSession, findUserByEmail, holdUser, insertSession } from './queries.js';
import { generateToken, hashToken } from './session-cookie.js';

/** An address as it is stored and compared. */
export const normalizeEmail = (email: string): string => email.trim().toLowerCase();

/**
 * Starts a session. The token is always a new one, and the session that the browser had before ends: nobody can
 * prepare a session for somebody else.
 * @returns the token, or undefined for an unknown address or a wrong password, after the same time
 */
export async function signIn(
  { db, clock }: { db: Database; clock: Clock },
  credentials: { email: string; password: string },
  browser: { formerToken: string | undefined; ip: string; userAgent: string },
): Promise<string | undefined> {
  const user = await findUserByEmail(db.orm, normalizeEmail(credentials.email));
  const isRight = await verifyPassword(user?.passwordHash, credentials.password);
  if (!user || !isRight) return undefined;
  const token = generateToken();
  const isStarted = await db.orm.transaction(async (tx) => {
    if (!(await holdUser(tx, user))) return false;
    if (browser.formerToken !== undefined) await deleteSession(tx, hashToken(browser.formerToken));
    await insertSession(tx, {
      hashedToken: hashToken(token),
      userId: user.id,
      now: new Date(clock.now()),
      ip: browser.ip,
      userAgent: browser.userAgent.slice(0, 255),
    });
    return true;
  });
  return isStarted ? token : undefined;
}
