import { hashPassword } from '../password.js';
import { auditPerson, type Whereabouts } from '../source.js';
import {
  auditRecoveryCode,
  acceptCode,
  readFactor,
  type GivenFactor,
  type TypedCode,
} from '../second-factor/codes.js';
import type { PersonAuthority } from '../session/authority.js';
import { change, type ChangeDeps } from '../../audit/audit.js';
import { hasSecondFactor } from '../second-factor/queries.js';
import type { SecretBox } from '../../../core/secret-box.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import type { MailDeps } from '../../mail/outbox.js';
import { fieldError } from '../../../core/pages/form.js';
import { findMembershipOf, updateMailNotices } from '../organizations/queries.js';
import { deleteSessionById, deleteSessionsOf, updateToken } from '../session/queries.js';
import { mailAccountNotice } from '../users/notices.js';
import { findUser, lockUser, updateUser, type User } from '../users/queries.js';
import { proveUser } from '../users/users.js';

export interface Author extends PersonAuthority, Whereabouts {
  email: string;
  gone: AbortSignal;
}

export interface AccountChangeDeps extends ChangeDeps, MailDeps {
  secrets: SecretBox;
}

/** Counts towards the guess limit. */
export class WrongGuess extends AppError {
  /** Undefined if the password was wrong. */
  readonly factor: TypedCode | undefined;
  constructor(field: 'currentPassword' | 'code', detail: string, factor?: TypedCode) {
    const { code, message, errors } = fieldError(field, detail);
    super(code, message, errors ? { errors } : {});
    this.factor = factor;
  }
}

/** @throws WrongGuess */
export async function checkPassword(orm: Orm, { userId, gone }: Author, password: string): Promise<User> {
  const person = await proveUser(orm, await findUser(orm, { id: userId }), password, gone);
  if (!person) throw new WrongGuess('currentPassword', 'is not correct');
  return person;
}

export async function readRequiredFactor(orm: Orm, author: Author, given: GivenFactor): Promise<TypedCode> {
  const code = await readFactor(orm, { ...author, now: author.at }, given);
  if (!code) throw fieldError('code', 'is required');
  return code;
}

/** Consumes the code. */
export async function requireCode(tx: Tx, secrets: SecretBox, author: Author, code: TypedCode) {
  const kind = await acceptCode(tx, secrets, { userId: author.userId, code, now: author.at });
  if (kind === undefined)
    throw 'passkey' in code
      ? new WrongGuess('code', 'the passkey was not accepted: try again, or enter a code', code)
      : new WrongGuess('code', 'is wrong or was already used. Wait for the next code', code);
  if (kind === 'recovery_code') await auditRecoveryCode(tx, author, author);
}

export async function requireCodeIfOn(
  tx: Tx,
  secrets: SecretBox,
  author: Author,
  code: TypedCode | undefined,
): Promise<void> {
  if (!(await hasSecondFactor(tx, author.userId))) return;
  if (!code) throw fieldError('code', 'is required');
  await requireCode(tx, secrets, author, code);
}

/**
 * Blocks other changes and sign-ins by this person until the commit. Inside `work`, use only the given `tx`.
 * @param checked the person as read when their password was verified
 */
export function changeAccount<T>(
  deps: ChangeDeps,
  author: Author,
  checked: User | undefined,
  work: (tx: Tx, person: User) => Promise<T>,
): Promise<T> {
  return change(deps, author, async (tx) => {
    const person = await lockUser(tx, { id: author.userId });
    if (!person || (checked && checked.passwordHash !== person.passwordHash))
      throw new AppError('not_signed_in', 'Your password was just changed elsewhere.');
    return work(tx, person);
  });
}

export function changeName(deps: ChangeDeps, author: Author, name: string): Promise<boolean> {
  return changeAccount(deps, author, undefined, async (tx, person) => {
    if (person.name === name) return false;
    await updateUser(tx, person.id, { name });
    await audit(tx, author, 'user.changed', { before: { name: person.name }, after: { name } });
    return true;
  });
}

export function changeNotices(deps: ChangeDeps, author: Author, slug: string, isWanted: boolean) {
  return changeAccount(deps, author, undefined, async (tx, { id: userId }) => {
    const membership = await findMembershipOf(tx, userId, slug);
    if (!membership || !(await updateMailNotices(tx, membership.id, userId, isWanted)))
      throw new AppError('not_found', 'You receive no such e-mails from that Organization.');
    if (membership.mailNotices === isWanted) return false;
    const [before, after] = [{ mailNotices: !isWanted }, { mailNotices: isWanted }];
    await audit(tx, author, 'user.notices_changed', { organization: slug, before, after });
    return true;
  });
}

/**
 * Ends all other sessions of the person.
 * @param given required if a second factor is on: an unattended session is not enough
 * @returns this session's new token
 */
export async function changePassword(
  deps: AccountChangeDeps,
  author: Author,
  person: User,
  { newPassword, given }: { newPassword: string; given: GivenFactor },
): Promise<string> {
  const code = await readFactor(deps.db.orm, { ...author, now: author.at }, given);
  const passwordHash = await hashPassword(newPassword, author.gone);
  return changeAccount(deps, author, person, async (tx) => {
    await requireCodeIfOn(tx, deps.secrets, author, code);
    await updateUser(tx, person.id, { passwordHash });
    const { token, sessionsEnded } = await endOtherSessions(tx, author);
    await audit(tx, author, 'user.password_changed', { sessionsEnded });
    await mailAccountNotice(tx, deps, author.email, 'password', author);
    return token;
  });
}

export function endSession(deps: ChangeDeps, author: Author, id: string): Promise<string> {
  return changeAccount(deps, author, undefined, async (tx) => {
    const ended = await deleteSessionById(tx, author.userId, id);
    if (ended === undefined)
      throw new AppError('not_found', 'There is no such session. It may already have ended.');
    await audit(tx, author, 'user.session_ended', { isOwn: ended === author.sessionId });
    return ended;
  });
}

/** Also ends pending sign-ins. */
export function signOutEverywhere(deps: ChangeDeps, author: Author): Promise<void> {
  return changeAccount(deps, author, undefined, async (tx) => {
    await audit(tx, author, 'user.signed_out', { sessionsEnded: await deleteSessionsOf(tx, author.userId) });
  });
}

/** Also ends pending sign-ins. A copied cookie becomes useless, because this session gets a new token. */
export async function endOtherSessions(tx: Tx, { userId, sessionId }: Author) {
  const token = generateToken();
  const sessionsEnded = await deleteSessionsOf(tx, userId, sessionId);
  if (!(await updateToken(tx, sessionId, hashToken(token))))
    throw new AppError('not_signed_in', 'This session has just ended. Sign in again.');
  return { token, sessionsEnded };
}

export const audit = (tx: Tx, author: Author, action: string, details: Record<string, unknown> = {}) =>
  auditPerson(tx, author, action, author, details);
