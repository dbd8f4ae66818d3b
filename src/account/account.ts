import { recordOperatorAudit, type AuditEntry } from '../audit/audit.js';
import { hashPassword, verifyPassword } from '../auth/password.js';
import type { PersonAuthority } from '../auth/authority.js';
import { change, type ChangeDeps } from '../auth/change.js';
import { acceptCode } from '../auth/second-factor/accept-code.js';
import { deleteChallengesOf } from '../auth/second-factor/challenge-queries.js';
import { generateToken, hashToken } from '../auth/session-cookie.js';
import type { Orm, Tx } from '../db/client.js';
import { AppError } from '../errors.js';
import { fieldError } from '../pages/form.js';
import {
  deleteSessionById,
  deleteSessionsOf,
  findPerson,
  lockPerson,
  updateName,
  updatePasswordHash,
  updateToken,
  type Person,
} from './queries.js';

/** Who changes their account, in which session, when and from where. */
export interface Author extends PersonAuthority {
  email: string;
  at: Date;
  ip: string | undefined;
  requestId: string;
}

/** A wrong password or code: it is counted. */
export class WrongGuess extends AppError {
  constructor(field: 'currentPassword' | 'code', detail: string) {
    const { code, message, errors } = fieldError(field, detail);
    super(code, message, errors ? { errors } : {});
  }
}

/** @throws WrongGuess */
export async function checkPassword(orm: Orm, userId: string, password: string): Promise<Person> {
  const person = await findPerson(orm, userId);
  const isRight = await verifyPassword(person?.passwordHash, password);
  if (!person || !isRight) throw new WrongGuess('currentPassword', 'is not your password');
  return person;
}

/** Uses the code up. @throws WrongGuess */
export async function requireCode(tx: Tx, { userId, at }: Author, code: string): Promise<void> {
  if (!(await acceptCode(tx, userId, code, at)))
    throw new WrongGuess('code', 'is not right, or was used before: wait for the next one');
}

/**
 * One change of a person's account, while nothing else changes it and no sign-in of theirs is finished. Inside `work` use
 * only the `tx` it is given.
 * @param checked the person as they were when their password was found right
 */
export function changeAccount<T>(
  deps: ChangeDeps,
  author: Author,
  checked: Person | undefined,
  work: (tx: Tx, person: Person) => Promise<T>,
): Promise<T> {
  return change(deps, author, async (tx) => {
    const person = await lockPerson(tx, author.userId);
    if (!person || (checked && checked.passwordHash !== person.passwordHash))
      throw new AppError('not_signed_in', 'Your password was changed just now, in another place.');
    return work(tx, person);
  });
}

/** True if the name was another. */
export function changeName(deps: ChangeDeps, author: Author, name: string): Promise<boolean> {
  return changeAccount(deps, author, undefined, async (tx, person) => {
    if (person.name === name) return false;
    await updateName(tx, person.id, name);
    await audit(tx, author, 'user.changed', { before: { name: person.name }, after: { name } });
    return true;
  });
}

/** @returns the new token of this session; every other session of the person ends */
export async function changePassword(
  deps: ChangeDeps,
  author: Author,
  person: Person,
  newPassword: string,
): Promise<string> {
  // Hashing takes long, so it happens before anything is locked.
  const passwordHash = await hashPassword(newPassword);
  return changeAccount(deps, author, person, async (tx) => {
    await updatePasswordHash(tx, person.id, passwordHash);
    const { token, sessionsEnded } = await endOtherSessions(tx, author);
    await audit(tx, author, 'user.password_changed', { sessionsEnded });
    return token;
  });
}

/** Ends one session of the person and says which it was: the hash of its token. @throws AppError not_found */
export function endSession(deps: ChangeDeps, author: Author, id: string): Promise<string> {
  return changeAccount(deps, author, undefined, async (tx) => {
    const ended = await deleteSessionById(tx, author.userId, id);
    if (ended === undefined)
      throw new AppError('not_found', 'There is no such session. It may have ended already.');
    await audit(tx, author, 'user.session_ended', { isOwn: ended === author.sessionId });
    return ended;
  });
}

/** Ends every session and every half-finished sign-in of the person, this session too. */
export function signOutEverywhere(deps: ChangeDeps, author: Author): Promise<void> {
  return changeAccount(deps, author, undefined, async (tx) => {
    const sessionsEnded = await deleteSessionsOf(tx, author.userId);
    await deleteChallengesOf(tx, author.userId);
    await audit(tx, author, 'user.signed_out', { sessionsEnded });
  });
}

/**
 * Ends every other session and every half-finished sign-in, and gives this session a new token: a copy of its cookie is
 * worth nothing any more.
 */
export async function endOtherSessions(tx: Tx, { userId, sessionId }: Author) {
  const token = generateToken();
  const sessionsEnded = await deleteSessionsOf(tx, userId, sessionId);
  await deleteChallengesOf(tx, userId);
  if (!(await updateToken(tx, sessionId, hashToken(token))))
    throw new AppError('not_signed_in', 'This session was ended just now. Sign in again.');
  return { token, sessionsEnded };
}

/** People belong to no Organization: what they do to their accounts is in the operator's log. */
export function audit(
  tx: Tx,
  { userId, email, at, ip, requestId }: Author,
  action: string,
  details: AuditEntry['details'] = {},
): Promise<void> {
  return recordOperatorAudit(tx, { at, action, actor: userId, target: email, details, ip, requestId });
}
