import { byProof, byService, change, type ChangeDeps } from '../../audit/change.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { createLink, findLink, spendLink, type NewLink, type OneTimeLink } from '../links/links.js';
import { hashPassword, passwordProblem, verifyPassword } from '../password.js';
import { acceptCode, auditRecoveryCode, readCode } from '../second-factor/codes.js';
import { deleteSecondFactor, hasSecondFactor } from '../second-factor/queries.js';
import { deleteSessionsOf } from '../session/queries.js';
import { startSession } from '../session/session.js';
import { endToken, type FormerBrowser } from '../sign-in/sign-in.js';
import { auditPerson, type Whereabouts } from '../source.js';
import { findUser, lockUser, updateUser, type User } from '../users/queries.js';
import { getUser } from '../users/users.js';
import type { AccountChangeDeps } from './account.js';

/** What a person has lost. */
export type Lost = 'password_reset' | 'second_factor_reset';

/** A link with which a person gets back in. @throws AppError not_found */
export const createResetLink = (deps: ChangeDeps, kind: Lost, email: string): Promise<NewLink> =>
  change(deps, byService, async (tx) => {
    const person = await getUser(tx, email);
    const source = { actor: 'system', at: new Date(deps.clock.now()), ip: undefined, requestId: undefined };
    return createLink(tx, { kind, person, createdBy: undefined }, source);
  });

interface ResetLink {
  link: OneTimeLink;
  person: User;
  hasFactor: boolean;
}

/** @throws LinkGone */
export async function findResetLink(orm: Orm, token: unknown, now: Date): Promise<ResetLink> {
  const link = await findLink(orm, token, ['password_reset', 'second_factor_reset'], now);
  // Removing a person removes their links.
  const person = (await findUser(orm, { id: link.userId! }))!;
  return { link, person, hasFactor: await hasSecondFactor(orm, person.id) };
}

/** Who uses a link, from where. */
interface Bearer {
  where: Whereabouts;
  browser: FormerBrowser;
  /** Aborted when they hang up. */
  gone: AbortSignal;
}

/** A wrong password or code beside the link: it is counted. */
export class WrongProof extends AppError {
  readonly field: 'password' | 'code';
  constructor(field: 'password' | 'code', detail: string) {
    const errors = [{ pointer: `/${field}`, code: 'not_signed_in' as const, detail }];
    super('not_signed_in', `/${field} ${detail}`, { errors });
    this.field = field;
  }
}

/**
 * Gives the link's person another password and ends all their sessions, but for a new one in this browser. Where a second
 * factor is on, it takes a code of it.
 * @returns the token of the new session
 * @throws LinkGone; AppError invalid_request, not_signed_in for a wrong code
 */
export async function resetPassword(
  deps: AccountChangeDeps,
  found: ResetLink,
  { newPassword, code: typed }: { newPassword: string; code: string | undefined },
  bearer: Bearer,
): Promise<string> {
  const { id: userId, email } = found.person;
  const { where, gone } = bearer;
  const problem = await passwordProblem(newPassword, email);
  if (problem !== undefined) throw fieldError('newPassword', problem);
  if (found.hasFactor && typed === undefined) throw fieldError('code', 'is required');
  // Hashing takes long, so it happens before anything is locked.
  const code = typed === undefined ? undefined : await readCode(userId, typed, gone);
  const passwordHash = await hashPassword(newPassword, gone);
  return change(deps, byProof, async (tx) => {
    await hold(tx, found);
    if (await hasSecondFactor(tx, userId)) {
      const kind = code && (await acceptCode(tx, deps.secrets, { userId, code, now: where.at }));
      if (kind === undefined)
        throw new WrongProof('code', 'is not right, or was used before: wait for the next one');
      if (kind === 'recovery_code') await auditRecoveryCode(tx, { userId, email }, where);
    }
    await spendLink(tx, found.link, where.at);
    await updateUser(tx, userId, { passwordHash });
    return enter(tx, found, 'user.password_reset', bearer);
  });
}

/**
 * Removes the second factor of the link's person, who has to know their password, and ends all their sessions, but for a
 * new one in this browser.
 * @returns the token of the new session
 * @throws LinkGone; AppError not_signed_in for a wrong password
 */
export async function resetSecondFactor(
  deps: ChangeDeps,
  found: ResetLink,
  password: string,
  bearer: Bearer,
): Promise<string> {
  const isRight = await verifyPassword(found.person.passwordHash, password, bearer.gone);
  if (!isRight) throw new WrongProof('password', 'is not your password');
  return change(deps, byProof, async (tx) => {
    await hold(tx, found);
    await spendLink(tx, found.link, bearer.where.at);
    await deleteSecondFactor(tx, found.person.id);
    return enter(tx, found, 'user.second_factor_removed', bearer);
  });
}

async function hold(tx: Tx, { person }: ResetLink): Promise<void> {
  const held = await lockUser(tx, { id: person.id });
  if (held?.passwordHash !== person.passwordHash)
    throw new AppError('not_signed_in', 'Your password was changed just now, in another place.');
}

/** Whoever had a session is out; the second factor, where it is on, has been asked for. */
async function enter(
  tx: Tx,
  { link, person: { id: userId, email } }: ResetLink,
  action: string,
  { where, browser }: Bearer,
): Promise<string> {
  const sessionsEnded = await deleteSessionsOf(tx, userId);
  await auditPerson(tx, { userId, email }, action, where, { sessionsEnded, by: link.kind });
  const { formerToken, ...own } = browser;
  if (formerToken !== undefined) await endToken(tx, formerToken, where);
  const token = await startSession(tx, userId, own, where.at);
  await auditPerson(tx, { userId, email }, 'user.signed_in', where, { by: link.kind });
  return token;
}
