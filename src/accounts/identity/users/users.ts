import { v7 as uuid } from 'uuid';
import { recordAudit, recordOperatorAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError, found } from '../../../core/errors.js';
import { fieldError } from '../../../core/pages/form.js';
import { findDifference, type Put, type Source } from '../source.js';
import { hashPassword, passwordProblem, verifyPassword } from '../password.js';
import { deleteOpenLinks, deleteRecoveryCodes, deleteSecondFactor } from '../second-factor/queries.js';
import { deleteKeptForm, deleteSessionsOf } from '../session/queries.js';
import {
  deleteMembershipsOf,
  deleteUserRow,
  findUser,
  forgetKeyCreator,
  insertUser,
  lockUser,
  proveAddress,
  replaceHash,
  updateUser,
  type User,
} from './queries.js';

/**
 * Replaces a hash from an earlier version. Call this also for an unknown person, so that both take equally long.
 * Undefined if the password is wrong.
 */
export async function proveUser<P extends User>(
  orm: Orm,
  person: P | undefined,
  password: string,
  gone?: AbortSignal,
): Promise<P | undefined> {
  const match = await verifyPassword(person?.passwordHash, password, gone);
  if (!person || !match) return undefined;
  if (match === 'current') return person;
  const passwordHash = await hashPassword(password, gone);
  await replaceHash(orm, person, passwordHash);
  return { ...person, passwordHash };
}

/** `seenHash` is what the database contained when the new hash was computed. */
export interface PasswordChoice {
  seenHash: string | undefined;
  passwordHash: string;
}

/**
 * Keeps the stored hash if the password is unchanged. Slow: call this before the transaction; `putUser` then checks
 * `seenHash`.
 * @throws AppError invalid_request for a new password that is easy to guess
 */
export async function choosePassword(orm: Orm, email: string, password: string, gone?: AbortSignal) {
  const seenHash = (await findUser(orm, { email }))?.passwordHash;
  if (seenHash !== undefined && (await verifyPassword(seenHash, password, gone)))
    return { seenHash, passwordHash: seenHash };
  const problem = await passwordProblem(password, email);
  if (problem !== undefined) throw fieldError('password', problem);
  return { seenHash, passwordHash: await hashPassword(password, gone) };
}

/** The caller must choose again. */
export class PasswordChanged extends AppError {
  constructor() {
    super('unavailable', 'The same user is being changed by other requests.', { retryAfterSeconds: 1 });
  }
}

export interface UserInput extends PasswordChoice {
  name: string;
}

/**
 * Ends every way into an account whose address nobody had proven, except its password and its account at the issuer.
 * @param except hashed token of the session to keep
 * @returns the number of ended sessions
 */
export async function endAccess(tx: Tx, userId: string, except?: string): Promise<number> {
  await deleteSecondFactor(tx, userId);
  await deleteRecoveryCodes(tx, userId);
  await deleteOpenLinks(tx, userId, 'second_factor_reset');
  await deleteKeptForm(tx, userId);
  return deleteSessionsOf(tx, userId, except);
}

/**
 * A new password ends all sessions. If nobody has proven the address, the operator's word does, and second factors end
 * too. @throws PasswordChanged
 */
export async function putUser(tx: Tx, email: string, input: UserInput, source: Source): Promise<Put<User>> {
  const { name, seenHash, passwordHash } = input;
  const current = await lockUser(tx, { email });
  if (current?.passwordHash !== seenHash) throw new PasswordChanged();
  if (!current) {
    const user = { id: uuid(), email, name, passwordHash, createdAt: source.at, provenAt: source.at };
    await insertUser(tx, user);
    const entry = { ...source, action: 'user.created', target: email, details: { after: { name } } };
    await recordOperatorAudit(tx, entry);
    return { isNew: true, resource: user };
  }
  const difference = findDifference({ name: current.name }, { name });
  const passwordChanged = passwordHash !== current.passwordHash;
  if (!difference && !passwordChanged) return { isNew: false, resource: current };
  const isProof = passwordChanged && current.provenAt === null;
  const user = { ...current, name, passwordHash, ...(isProof && { provenAt: source.at }) };
  await updateUser(tx, user.id, { name, ...(passwordChanged && { passwordHash }) });
  if (isProof) await proveAddress(tx, user.id, source.at);
  const endWays = isProof ? endAccess : deleteSessionsOf;
  const details = {
    ...difference,
    ...(passwordChanged && { passwordChanged, sessionsEnded: await endWays(tx, user.id) }),
    ...(isProof && { addressProven: true }),
  };
  await recordOperatorAudit(tx, { ...source, action: 'user.changed', target: email, details });
  return { isNew: false, resource: user };
}

/** Keys keep working. Locks the user's own row last, as a key rotation does, to avoid deadlocks. */
export async function removeUser(tx: Tx, email: string, source: Source): Promise<void> {
  const user = await getUser(tx, email);
  const memberships = await deleteMembershipsOf(tx, user.id);
  await forgetKeyCreator(tx, user.id);
  if (!(await deleteUserRow(tx, user))) throw new AppError('not_found', unknownUser(email));
  for (const { orgId, role } of memberships.sort(byOrganization)) {
    const details = { before: { role }, userRemoved: true };
    await recordAudit(tx, orgId, { ...source, action: 'member.removed', target: email, details });
  }
  const details = { before: { name: user.name } };
  await recordOperatorAudit(tx, { ...source, action: 'user.removed', target: email, details });
}

export async function endSessions(tx: Tx, email: string, source: Source): Promise<void> {
  const sessionsEnded = await deleteSessionsOf(tx, (await getUser(tx, email)).id);
  if (sessionsEnded === 0) throw new AppError('not_found', `The user "${email}" has no session.`);
  const entry = { ...source, action: 'user.signed_out', target: email, details: { sessionsEnded } };
  await recordOperatorAudit(tx, entry);
}

/** The password alone is then enough. Ends all sessions, which may belong to an attacker. */
export async function removeSecondFactor(tx: Tx, email: string, source: Source): Promise<void> {
  const user = found(await lockUser(tx, { email }), unknownUser(email));
  if (!(await deleteSecondFactor(tx, user.id)))
    throw new AppError('not_found', `The user "${email}" has no second factor.`);
  const details = { sessionsEnded: await deleteSessionsOf(tx, user.id) };
  await recordOperatorAudit(tx, { ...source, action: 'user.second_factor_removed', target: email, details });
}

export const getUser = async (orm: Orm, email: string): Promise<User> =>
  found(await findUser(orm, { email }), unknownUser(email));

/** The chains of several Organizations are locked in this order. */
const byOrganization = (a: { orgId: string }, b: { orgId: string }) => (a.orgId < b.orgId ? -1 : 1);

const unknownUser = (email: string): string => `There is no user "${email}".`;
