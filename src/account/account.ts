import { recordOperatorAudit, type AuditEntry } from '../audit/audit.js';
import { hashPassword, verifyPassword } from '../auth/password.js';
import { acceptCode } from '../auth/second-factor/accept-code.js';
import { deleteChallengesOf } from '../auth/second-factor/challenge-queries.js';
import { generateToken, hashToken } from '../auth/session-cookie.js';
import type { Database, Orm } from '../db/client.js';
import { AppError } from '../errors.js';
import { inTransaction } from '../operator/change.js';
import { fieldError } from '../pages/form.js';
import {
  deleteSessionsOf,
  findPerson,
  lockPerson,
  updateName,
  updatePasswordHash,
  updateToken,
  type Person,
} from './queries.js';

/** Who changes their account, in which session, when and from where. */
export interface Author {
  userId: string;
  email: string;
  /** The hash of the session's token. */
  sessionId: string;
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
export async function requireCode(tx: Orm, { userId, at }: Author, code: string): Promise<void> {
  if (!(await acceptCode(tx, userId, code, at)))
    throw new WrongGuess('code', 'is not right, or was used before: wait for the next one');
}

/**
 * One change of a person's account, while nothing else changes it and no sign-in of theirs is finished. Inside `work` use
 * only the `tx` it is given.
 * @param checked the person as they were when their password was found right
 */
export function changeAccount<T>(
  db: Database,
  userId: string,
  checked: Person | undefined,
  work: (tx: Orm, person: Person) => Promise<T>,
): Promise<T> {
  return inTransaction(db.orm, async (tx) => {
    const person = await lockPerson(tx, userId);
    if (!person || (checked && checked.passwordHash !== person.passwordHash))
      throw new AppError('not_signed_in', 'Your password was changed just now, in another place.');
    return work(tx, person);
  });
}

/** True if the name was another. */
export function changeName(db: Database, author: Author, name: string): Promise<boolean> {
  return changeAccount(db, author.userId, undefined, async (tx, person) => {
    if (person.name === name) return false;
    await updateName(tx, person.id, name);
    await audit(tx, author, 'user.changed', { before: { name: person.name }, after: { name } });
    return true;
  });
}

/** @returns the new token of this session; every other session of the person ends */
export async function changePassword(
  db: Database,
  author: Author,
  person: Person,
  newPassword: string,
): Promise<string> {
  // Hashing takes long, so it happens before anything is locked.
  const passwordHash = await hashPassword(newPassword);
  return changeAccount(db, person.id, person, async (tx) => {
    await updatePasswordHash(tx, person.id, passwordHash);
    const { token, sessionsEnded } = await endOtherSessions(tx, author);
    await audit(tx, author, 'user.password_changed', { sessionsEnded });
    return token;
  });
}

/** Ends every session and every half-finished sign-in of the person, this session too. */
export function signOutEverywhere(db: Database, author: Author): Promise<void> {
  return changeAccount(db, author.userId, undefined, async (tx) => {
    const sessionsEnded = await deleteSessionsOf(tx, author.userId);
    await deleteChallengesOf(tx, author.userId);
    await audit(tx, author, 'user.signed_out', { sessionsEnded });
  });
}

/**
 * Ends every other session and every half-finished sign-in, and gives this session a new token: a copy of its cookie is
 * worth nothing any more.
 */
export async function endOtherSessions(tx: Orm, { userId, sessionId }: Author) {
  const token = generateToken();
  const sessionsEnded = await deleteSessionsOf(tx, userId, sessionId);
  await deleteChallengesOf(tx, userId);
  if (!(await updateToken(tx, sessionId, hashToken(token))))
    throw new AppError('not_signed_in', 'This session was ended just now. Sign in again.');
  return { token, sessionsEnded };
}

/** People belong to no Organization: what they do to their accounts is in the operator's log. */
export function audit(
  tx: Orm,
  { userId, email, at, ip, requestId }: Author,
  action: string,
  details: AuditEntry['details'] = {},
): Promise<void> {
  return recordOperatorAudit(tx, { at, action, actor: userId, target: email, details, ip, requestId });
}
