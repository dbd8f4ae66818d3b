import { asc, sql } from 'drizzle-orm';
import { byProof, byService, change, type ChangeDeps } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { newId } from '../../../core/ids.js';
import { fieldError } from '../../../core/pages/form.js';
import { formatTime } from '../../../core/pages/format.js';
import { HOUR_MS } from '../../../core/time.js';
import { queueMail, type MailDeps } from '../../mail/outbox.js';
import { createLink, findLink, spendLink, type NewLink } from '../links/links.js';
import { hashPassword, passwordProblem } from '../password.js';
import {
  acceptCode,
  auditRecoveryCode,
  readFactor,
  type GivenFactor,
  type TypedCode,
} from '../second-factor/codes.js';
import { deleteSecondFactor, hasSecondFactor } from '../second-factor/queries.js';
import { deleteSessionsOf } from '../session/queries.js';
import { startSession, type Arrival } from '../session/session.js';
import { endFormer } from '../sign-in/sign-in.js';
import { auditPerson, type Whereabouts } from '../source.js';
import { passwordRequests } from '../table.js';
import { mailAccountNotice } from '../users/notices.js';
import { findUser, lockUser, proveAddress, updateUser } from '../users/queries.js';
import { getUser, proveUser } from '../users/users.js';
import type { AccountChangeDeps } from './account.js';

export type Lost = 'password_reset' | 'second_factor_reset';

export const createResetLink = (deps: ChangeDeps, kind: Lost, email: string): Promise<NewLink> =>
  change(deps, byService, async (tx) => {
    const person = await getUser(tx, email);
    return createLink(tx, { kind, person }, { actor: 'system', at: new Date(deps.clock.now()) });
  });

/** Neither the content nor the timing of the response reveals an account. */
export const requestPasswordReset = (deps: ChangeDeps, email: string, { at, ip, requestId }: Whereabouts) =>
  change(deps, byProof, async (tx) => {
    await tx.insert(passwordRequests).values({ id: newId(at.getTime()), email, at, ip, requestId });
  });

/** Also the age beyond which a request for a link is dropped. */
const MAILED_MS = HOUR_MS;
const REQUESTS_PER_RUN = 100;

export async function answerPasswordRequests(deps: ChangeDeps & MailDeps): Promise<void> {
  for (let n = 0; n < REQUESTS_PER_RUN; n++) if (!(await answerOldestRequest(deps))) return;
}

const answerOldestRequest = (deps: ChangeDeps & MailDeps): Promise<boolean> =>
  change(deps, byService, async (tx) => {
    const oldest = tx
      .select({ id: passwordRequests.id })
      .from(passwordRequests)
      .orderBy(asc(passwordRequests.id))
      .limit(1)
      .for('update', { skipLocked: true });
    const [request] = await tx
      .delete(passwordRequests)
      .where(sql`${passwordRequests.id} = any(array(${oldest}))`)
      .returning();
    if (!request) return false;
    const at = new Date(deps.clock.now());
    const person = await findUser(tx, { email: request.email });
    if (!person || at.getTime() - request.at.getTime() > MAILED_MS) return true;
    const source = {
      actor: 'unknown',
      at,
      ip: request.ip ?? undefined,
      requestId: request.requestId ?? undefined,
    };
    const link = { kind: 'password_reset', person, lifetimeMs: MAILED_MS, isMailed: true } as const;
    const { path, expiresAt } = await createLink(tx, link, source);
    await queueMail(tx, deps.config.mail, {
      kind: 'password_reset',
      to: person.email,
      subject: 'Choose a new password',
      text: (origin) => [
        'A new password was requested for your account. Open this link to choose one:',
        `${origin}${path}`,
        `It works once, until ${formatTime(expiresAt)}. If you did not request it, ignore this e-mail: your password does not change.`,
      ],
      at,
      uselessAt: expiresAt,
    });
    return true;
  });

type ResetLink = Awaited<ReturnType<typeof findResetLink>>;

/** @throws LinkGone */
export async function findResetLink(orm: Orm, token: unknown, now: Date) {
  const link = await findLink(orm, token, ['password_reset', 'second_factor_reset'], now);
  // Deleting a person also deletes their links, so the person exists.
  const person = (await findUser(orm, { id: link.userId! }))!;
  return { link, person, hasFactor: await hasSecondFactor(orm, person.id) };
}

export class WrongProof extends AppError {
  readonly factor: TypedCode | undefined;
  constructor(field: 'password' | 'code', detail: string, factor?: TypedCode) {
    const errors = [{ pointer: `/${field}`, code: 'not_signed_in' as const, detail }];
    super('not_signed_in', `/${field} ${detail}`, { errors });
    this.factor = factor;
  }
}

/**
 * Ends all sessions and starts a new one in this browser. Requires a code or passkey if a second factor is on.
 * @returns the token of the new session
 */
export async function resetPassword(
  deps: AccountChangeDeps,
  found: ResetLink,
  newPassword: string,
  given: GivenFactor,
  arrival: Arrival,
): Promise<string> {
  const { id: userId, email } = found.person;
  const { at: now, gone } = arrival;
  const problem = await passwordProblem(newPassword, email);
  if (problem !== undefined) throw fieldError('newPassword', problem);
  if (found.hasFactor && given.code === undefined && !given.passkey) throw fieldError('code', 'is required');
  const code = await readFactor(deps.db.orm, { userId, now, gone }, given);
  const passwordHash = await hashPassword(newPassword, gone);
  return change(deps, byProof, async (tx) => {
    await hold(tx, found);
    if (await hasSecondFactor(tx, userId)) {
      const kind = code && (await acceptCode(tx, deps.secrets, { userId, code, now }));
      if (kind === undefined)
        throw new WrongProof(
          'code',
          given.passkey
            ? 'is needed: this passkey was not accepted'
            : 'is wrong or was already used. Wait for the next code',
          code,
        );
      if (kind === 'recovery_code') await auditRecoveryCode(tx, { userId, email }, arrival);
    }
    await spendLink(tx, found.link, now);
    // The mail server or an operator gave the link to the address's owner.
    await proveAddress(tx, userId, now);
    await updateUser(tx, userId, { passwordHash });
    await mailAccountNotice(tx, deps, email, 'password', arrival);
    return replaceSessions(tx, found, 'user.password_reset', arrival);
  });
}

/**
 * Requires the password. Ends all sessions and starts a new one in this browser.
 * @returns the token of the new session
 */
export async function resetSecondFactor(
  deps: ChangeDeps & MailDeps,
  found: ResetLink,
  password: string,
  arrival: Arrival,
): Promise<string> {
  const person = await proveUser(deps.db.orm, found.person, password, arrival.gone);
  if (!person) throw new WrongProof('password', 'is not correct');
  const proven = { ...found, person };
  return change(deps, byProof, async (tx) => {
    await hold(tx, proven);
    await spendLink(tx, found.link, arrival.at);
    await deleteSecondFactor(tx, person.id);
    await mailAccountNotice(tx, deps, person.email, 'secondFactor', arrival);
    return replaceSessions(tx, proven, 'user.second_factor_removed', arrival);
  });
}

async function hold(tx: Tx, { person }: ResetLink): Promise<void> {
  if ((await lockUser(tx, { id: person.id }))?.passwordHash !== person.passwordHash)
    throw new AppError('not_signed_in', 'Your password was just changed elsewhere.');
}

/** The caller must have checked any second factor. */
async function replaceSessions(
  tx: Tx,
  { link, person: { id: userId, email } }: ResetLink,
  action: string,
  arrival: Arrival,
): Promise<string> {
  const sessionsEnded = await deleteSessionsOf(tx, userId);
  await auditPerson(tx, { userId, email }, action, arrival, { sessionsEnded, by: link.kind });
  await endFormer(tx, arrival);
  const start = { isSingleSignOn: false, isConfirmed: true, currentOrgId: null };
  const token = await startSession(tx, userId, arrival, start);
  await auditPerson(tx, { userId, email }, 'user.signed_in', arrival, { by: link.kind });
  return token;
}
