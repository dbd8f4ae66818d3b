import type { Clock } from '../../core/clock.js';
import type { Database, Orm, Tx } from '../../core/db/client.js';
import { recordOperatorAudit } from '../../audit/audit.js';
import { auditPerson, type Whereabouts } from '../source.js';
import { change, byProof, byService, type ChangeDeps } from '../../audit/change.js';
import { verifyPassword } from '../password.js';
import {
  acceptCode,
  auditRecoveryCode,
  auditRefusedFactor,
  readFactor,
  type GivenFactor,
} from '../second-factor/codes.js';
import {
  countTry,
  deleteChallenge,
  hasSecondFactor,
  insertChallenge,
  MAX_CODES,
  type findChallenge,
} from '../second-factor/queries.js';
import type { SecretBox } from '../second-factor/secret-box.js';
import {
  acceptPasskey,
  readAssertion,
  refusalOf,
  type Assertion,
  type Site,
} from '../second-factor/passkeys.js';
import { findPasskey } from '../second-factor/passkey-queries.js';
import { deleteSession, holdUser } from '../session/queries.js';
import { countFailedSignIn } from './failed-queries.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import { startSession, type NewBrowser } from '../session/session.js';
import { findUser, type User } from '../users/queries.js';

/** An address as it is stored and compared. */
export const normalizeEmail = (email: string): string => email.trim().toLowerCase();

export interface SignedIn {
  /** For the cookie. Of a session, or of a challenge while the second factor is due. */
  token: string;
  isCodeDue: boolean;
}

/**
 * Starts a session, or a challenge where a second factor is on. The token is always a new one, and what the browser
 * had before ends: no session can be prepared for another person.
 * @returns undefined for an unknown address or a wrong password, after the same time
 */
export async function signIn(
  { db, clock }: { db: Database; clock: Clock },
  credentials: { email: string; password: string },
  { gone, formerToken, ...browser }: FormerBrowser & { gone: AbortSignal },
): Promise<SignedIn | undefined> {
  const email = normalizeEmail(credentials.email);
  const user = await findUser(db.orm, { email });
  const isRight = await verifyPassword(user?.passwordHash, credentials.password, gone);
  if (!user || !isRight) return undefined;
  const now = new Date(clock.now());
  return change({ db, clock }, byProof, async (tx) => {
    if (!(await holdUser(tx, user))) return undefined;
    return openSession(tx, user, { ...browser, formerToken }, now);
  });
}

/**
 * Counts a wrong password. For when the answer is out: it must not take longer where there is such an account. It is no
 * entry of the audit log, which would grow, and be locked, with every guess.
 */
export async function countWrongPassword(deps: ChangeDeps & { db: Database }, typed: string): Promise<void> {
  const user = await findUser(deps.db.orm, { email: normalizeEmail(typed) });
  if (!user) return;
  const now = new Date(deps.clock.now());
  await change(deps, byService, (tx) => countFailedSignIn(tx, user.id, 'passwords', now));
}

/** What a browser has before it signs in. */
export type FormerBrowser = NewBrowser & { formerToken: string | undefined };

/** The same for a person who is held, and whose password was right. */
export async function openSession(
  tx: Tx,
  { id: userId, email }: { id: string; email: string },
  { formerToken, ...browser }: FormerBrowser,
  now: Date,
): Promise<SignedIn> {
  const where = { at: now, ip: browser.ip, requestId: browser.requestId };
  if (formerToken !== undefined) await endToken(tx, formerToken, where);
  // Read while the person is held: turning it on meanwhile waits, and then ends the session made here.
  if (!(await hasSecondFactor(tx, userId))) {
    const session = await startSession(tx, userId, browser, now);
    await auditPerson(tx, { userId, email }, 'user.signed_in', where, { secondFactor: null });
    return { token: session, isCodeDue: false };
  }
  const token = generateToken();
  await insertChallenge(tx, { hashedToken: hashToken(token), userId, now });
  return { token, isCodeDue: true };
}

/** Ends whatever the token of a cookie stands for. */
export async function endToken(tx: Tx, token: string, where: Whereabouts): Promise<void> {
  const hashedToken = hashToken(token);
  await deleteChallenge(tx, hashedToken);
  const person = await deleteSession(tx, hashedToken);
  if (person) await auditPerson(tx, person, 'user.signed_out', where, { sessionsEnded: 1 });
}

/** Whose passkey it is, for the limits; undefined for an unknown one. */
export async function findPasskeyOwner(orm: Orm, credentialId: string): Promise<User | undefined> {
  const passkey = await findPasskey(orm, credentialId);
  return passkey && findUser(orm, { id: passkey.userId });
}

/**
 * Starts a session by a passkey alone, whose device has verified its person: it is both factors.
 * @param user whose passkey it is
 * @returns the token; undefined where the passkey is refused
 */
export async function signInByPasskey(
  { db, clock }: ChangeDeps,
  user: User | undefined,
  assertion: Assertion,
  site: Site,
  { formerToken, ...browser }: FormerBrowser,
): Promise<string | undefined> {
  const now = new Date(clock.now());
  const where = { at: now, ip: browser.ip, requestId: browser.requestId };
  const use = await readAssertion(db.orm, site, assertion, {
    userId: undefined,
    hashedToken: undefined,
    now,
  });
  return change({ db, clock }, byProof, async (tx) => {
    const isHeld = user !== undefined && (await holdUser(tx, user));
    const isTheirs = isHeld && 'userId' in use && use.userId === user.id;
    if (!isTheirs || !(await acceptPasskey(tx, use, now))) {
      if (isHeld) await countFailedSignIn(tx, user.id, 'codes', now);
      const details = { at: 'sign_in', reason: refusalOf(use) };
      const refused = { action: 'user.passkey_refused', actor: 'unknown', target: user?.email ?? 'unknown' };
      await recordOperatorAudit(tx, { ...where, ...refused, details });
      return undefined;
    }
    const person = { userId: user.id, email: user.email };
    if (formerToken !== undefined) await endToken(tx, formerToken, where);
    const token = await startSession(tx, user.id, browser, now);
    await auditPerson(tx, person, 'user.signed_in', where, { passkey: true });
    return token;
  });
}

export type Challenge = NonNullable<Awaited<ReturnType<typeof findChallenge>>>;

type CodeAnswer =
  | { outcome: 'signed_in'; token: string }
  | { outcome: 'wrong'; triesLeft: number }
  /** The challenge has expired or was ended, or all its tries are used up. */
  | { outcome: 'over' };

/** Another request has ended the challenge: what this one did is undone. */
class ChallengeOver extends Error {}

/**
 * Ends a challenge with the right code and starts the session. The try is counted for good before the code is checked.
 * A password change either comes first and leaves nothing to hold, or waits and then ends the new session too.
 */
export async function answerChallenge(
  { db, clock, secrets }: { db: Database; clock: Clock; secrets: SecretBox },
  challenge: Challenge,
  given: GivenFactor,
  { gone, ...browser }: NewBrowser & { gone: AbortSignal },
): Promise<CodeAnswer> {
  const now = new Date(clock.now());
  const { hashedToken, userId, email, passwordHash } = challenge;
  const where = { at: now, ip: browser.ip, requestId: browser.requestId };
  const tries = await countTry(db.orm, hashedToken, now);
  if (tries === undefined) return { outcome: 'over' };
  const code = (await readFactor(db.orm, { userId, now, gone }, given))!;
  try {
    return await change({ db, clock }, byProof, async (tx): Promise<CodeAnswer> => {
      if (!(await holdUser(tx, { id: userId, passwordHash }))) throw new ChallengeOver();
      const kind = await acceptCode(tx, secrets, { userId, code, now });
      if (kind === undefined) {
        await countFailedSignIn(tx, userId, 'codes', now);
        await auditRefusedFactor(tx, { userId, email }, code, where, { at: 'sign_in', tries });
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
