import { domainToASCII } from 'node:url';
import type { Orm, Tx } from '../../../core/db/client.js';
import {
  recordOperatorAudit,
  change,
  byProof,
  byService,
  lockLogs,
  type ChangeDeps,
} from '../../audit/audit.js';
import { auditPerson, type Whereabouts } from '../source.js';
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
import { AppError } from '../../../core/errors.js';
import type { SecretBox } from '../../../core/secret-box.js';
import {
  acceptPasskey,
  readAssertion,
  refusalOf,
  type Assertion,
  type Site,
} from '../second-factor/passkeys.js';
import { findPasskey } from '../second-factor/passkey-queries.js';
import { deleteSession, lockUser } from '../session/queries.js';
import { countFailedSignIn } from './failed-queries.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import { startSession, type Arrival, type SessionStart } from '../session/session.js';
import type { ClaimedRoles } from '../table.js';
import { findUser, type User } from '../users/queries.js';
import { proveUser } from '../users/users.js';

/** Shown on the sign-in page, whatever its code. */
export class CannotSignIn extends AppError {}

/**
 * Other characters become ASCII letters, too: U+212A becomes k, but `jac\u212a@` is not `jack@`. Domains become ASCII,
 * as browsers send them.
 */
export function normalizeEmail(typed: string): string {
  const [, local = '', domain = ''] = /^(.*@)?(.*)$/s.exec(typed.trim()) ?? [];
  return lowerCase(local) + (/\P{ASCII}/u.test(domain) ? domainToASCII(domain) || domain : lowerCase(domain));
}

const lowerCase = (text: string) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

export interface SignedIn {
  /** Token of a session, or of a challenge while a second factor is required. */
  token: string;
  isCodeDue: boolean;
}

/** Undefined for an unknown e-mail address or a wrong password, which take equally long. */
export async function signIn(
  deps: ChangeDeps,
  credentials: { email: string; password: string },
  arrival: Arrival,
): Promise<SignedIn | undefined> {
  const email = normalizeEmail(credentials.email);
  const { orm } = deps.db;
  const user = await proveUser(orm, await findUser(orm, { email }), credentials.password, arrival.gone);
  if (!user) return undefined;
  const at = new Date(deps.clock.now());
  return change(deps, byProof, async (tx) => {
    if (!(await lockUser(tx, user))) return undefined;
    return openSession(tx, user, { ...arrival, at }, byPassword);
  });
}

/** Called after the response, so that existing accounts take no longer. Not in the audit log: guesses would lock it. */
export async function countWrongPassword(deps: ChangeDeps, typed: string): Promise<void> {
  const user = await findUser(deps.db.orm, { email: normalizeEmail(typed) });
  if (!user) return;
  const now = new Date(deps.clock.now());
  await change(deps, byService, (tx) => countFailedSignIn(tx, user.id, 'passwords', now));
}

/** The issuer's claim changes roles; single sign-on supplies these. */
export interface RoleChanges {
  /** Call this before locking the person. Returns the Organizations concerned. */
  lock(tx: Tx, roles: ClaimedRoles): Promise<string[]>;
  set(tx: Tx, roles: ClaimedRoles, person: { id: string; email: string }, where: Whereabouts): Promise<void>;
}

interface FirstProof extends Omit<SessionStart, 'currentOrgId'> {
  /** Set with the session; null if nothing changes. */
  claimed: { roles: ClaimedRoles; set: () => Promise<void> } | null;
}

export const byPassword: FirstProof = { isSingleSignOn: false, isConfirmed: true, claimed: null };

/** The caller has locked the person's row and verified their password or their account at the issuer. */
export async function openSession(
  tx: Tx,
  { id: userId, email }: { id: string; email: string },
  arrival: Arrival,
  { claimed, ...proof }: FirstProof,
): Promise<SignedIn> {
  const start = { ...proof, currentOrgId: await endFormer(tx, arrival, userId) };
  // The person's row is locked: a concurrent request to turn on a second factor waits, and then ends this session.
  if (!(await hasSecondFactor(tx, userId))) {
    await claimed?.set();
    const session = await startSession(tx, userId, arrival, start);
    const details = { secondFactor: null, ...(proof.isSingleSignOn && { singleSignOn: true }) };
    await auditPerson(tx, { userId, email }, 'user.signed_in', arrival, details);
    return { token: session, isCodeDue: false };
  }
  const token = generateToken();
  const { isSingleSignOn: singleSignOn, isConfirmed: confirmed, currentOrgId } = start;
  const challenge = { hashedToken: hashToken(token), userId, singleSignOn, confirmed, currentOrgId };
  await insertChallenge(tx, { now: arrival.at, ...challenge, roles: claimed?.roles ?? null });
  return { token, isCodeDue: true };
}

/** Returns the Organization that the earlier session showed, if it was this person's. */
export async function endFormer(tx: Tx, { formerToken, ...where }: Arrival, userId?: string) {
  if (formerToken === undefined) return null;
  const hashedToken = hashToken(formerToken);
  const challenge = await deleteChallenge(tx, hashedToken);
  const session = await deleteSession(tx, hashedToken);
  if (session) await auditPerson(tx, session, 'user.signed_out', where, { sessionsEnded: 1 });
  const former = session ?? challenge;
  return former?.userId === userId ? (former?.currentOrgId ?? null) : null;
}

export async function findPasskeyOwner(orm: Orm, credentialId: string): Promise<User | undefined> {
  const passkey = await findPasskey(orm, credentialId);
  return passkey && findUser(orm, { id: passkey.userId });
}

/** The device has verified the person, so the passkey counts as both factors. Undefined if refused. */
export async function signInByPasskey(
  deps: ChangeDeps,
  user: User | undefined,
  assertion: Assertion,
  site: Site,
  arrival: Arrival,
): Promise<string | undefined> {
  const { at: now, ip, requestId } = arrival;
  const use = await readAssertion(deps.db.orm, site, assertion, {
    userId: undefined,
    hashedToken: undefined,
    now,
  });
  return change(deps, byProof, async (tx) => {
    const isHeld = user !== undefined && (await lockUser(tx, user));
    const isTheirs = isHeld && 'userId' in use && use.userId === user.id;
    if (!isTheirs || !(await acceptPasskey(tx, use, now))) {
      if (isHeld) await countFailedSignIn(tx, user.id, 'codes', now);
      const details = { at: 'sign_in', reason: refusalOf(use) };
      const refused = { action: 'user.passkey_refused', actor: 'unknown', target: user?.email ?? 'unknown' };
      await recordOperatorAudit(tx, { at: now, ip, requestId, ...refused, details });
      return undefined;
    }
    const person = { userId: user.id, email: user.email };
    const currentOrgId = await endFormer(tx, arrival, user.id);
    const start = { isSingleSignOn: false, isConfirmed: true, currentOrgId };
    const token = await startSession(tx, user.id, arrival, start);
    await auditPerson(tx, person, 'user.signed_in', arrival, { passkey: true });
    return token;
  });
}

export type Challenge = NonNullable<Awaited<ReturnType<typeof findChallenge>>>;

type CodeAnswer =
  | { outcome: 'signed_in'; token: string }
  | { outcome: 'wrong'; triesLeft: number }
  | { outcome: 'over' };

/** Rolls back this transaction. */
class ChallengeOver extends Error {}

/** Commits the attempt count before checking the code, so that a rollback cannot undo it. */
export async function answerChallenge(
  deps: ChangeDeps & { secrets: SecretBox; roleChanges: RoleChanges },
  challenge: Challenge,
  given: GivenFactor,
  arrival: Arrival,
): Promise<CodeAnswer> {
  const { at: now, gone } = arrival;
  const { hashedToken, userId, email, passwordHash, roles, isSingleSignOn, isConfirmed, currentOrgId } =
    challenge;
  const tries = await countTry(deps.db.orm, hashedToken, now);
  if (tries === undefined) return { outcome: 'over' };
  const code = (await readFactor(deps.db.orm, { userId, now, gone }, given))!;
  try {
    return await change(deps, byProof, async (tx): Promise<CodeAnswer> => {
      const organizations = roles ? await deps.roleChanges.lock(tx, roles) : [];
      if (!(await lockUser(tx, { id: userId, passwordHash }))) throw new ChallengeOver();
      await lockLogs(tx, organizations);
      const kind = await acceptCode(tx, deps.secrets, { userId, code, now });
      if (kind === undefined) {
        await countFailedSignIn(tx, userId, 'codes', now);
        await auditRefusedFactor(tx, { userId, email }, code, arrival, { at: 'sign_in', tries });
        return { outcome: 'wrong', triesLeft: MAX_CODES - tries };
      }
      if (!(await deleteChallenge(tx, hashedToken))) throw new ChallengeOver();
      if (roles) await deps.roleChanges.set(tx, roles, { id: userId, email }, arrival);
      const token = await startSession(tx, userId, arrival, { isSingleSignOn, isConfirmed, currentOrgId });
      if (kind === 'recovery_code') await auditRecoveryCode(tx, { userId, email }, arrival);
      const details = { secondFactor: kind, ...(isSingleSignOn && { singleSignOn: true }) };
      await auditPerson(tx, { userId, email }, 'user.signed_in', arrival, details);
      return { outcome: 'signed_in', token };
    });
  } catch (error) {
    if (error instanceof ChallengeOver) return { outcome: 'over' };
    throw error;
  }
}
