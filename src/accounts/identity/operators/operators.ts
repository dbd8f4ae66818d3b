import { asc, eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { recordOperatorAudit, byProof, byService, change, type ChangeDeps } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { hasRow } from '../../../core/db/sql.js';
import { AppError } from '../../../core/errors.js';
import { fieldError } from '../../../core/pages/form.js';
import {
  createLink,
  deleteOpenLinksBy,
  findLink,
  lockOpenLinks,
  isOperator,
  spendLink,
  type NewLink,
  type OneTimeLink,
} from '../links/links.js';
import { hashPassword, passwordProblem } from '../password.js';
import type { Arrival } from '../session/session.js';
import { byPassword, normalizeEmail, openSession, type SignedIn } from '../sign-in/sign-in.js';
import { users } from '../../organizations/table.js';
import { auditPerson, type Source } from '../source.js';
import { hasFactor } from '../second-factor/queries.js';
import { operators } from '../table.js';
import { findUser, insertUser, lockUser, proveAddress, type User } from '../users/queries.js';
import { proveUser } from '../users/users.js';

const kinds = ['setup', 'operator_invitation'] as const;

export const hasOperator = (orm: Orm): Promise<boolean> =>
  hasRow(orm.select({ userId: operators.userId }).from(operators).limit(1));

/**
 * Replaces the previous link. Undefined if an operator exists and `isForced` is false.
 * @param isForced for a service whose operators are locked out
 */
export function createSetUpLink(deps: ChangeDeps, isForced = false): Promise<NewLink | undefined> {
  return change(deps, byService, async (tx) => {
    // The previous link may be in use right now.
    await lockOpenLinks(tx, 'setup');
    const hasOne = await hasOperator(tx);
    if (hasOne && !isForced) return undefined;
    const source = { actor: 'system', at: new Date(deps.clock.now()) };
    if (hasOne)
      await recordOperatorAudit(tx, { ...source, action: 'operator.set_up_forced', target: 'setup' });
    return createLink(tx, { kind: 'setup' }, source);
  });
}

export const findOperatorLink = (orm: Orm, token: unknown, now: Date): Promise<OneTimeLink> =>
  findLink(orm, token, kinds, now);

/** @param url includes the secret */
export const describeSetUpLink = (url: string): string => `
Set up Gauge here, within an hour:

  ${url}

It works once. Earlier set-up links no longer work.
`;

interface OperatorInput {
  name: string | undefined;
  /** An invitation already contains the address. */
  email: string | undefined;
  password: string;
}

/**
 * Uses the address's existing account if the password matches. Signs the person in.
 * @throws LinkGone
 */
export async function becomeOperator(
  deps: ChangeDeps,
  token: unknown,
  input: OperatorInput,
  arrival: Arrival,
): Promise<SignedIn> {
  const { orm } = deps.db;
  const { at, gone } = arrival;
  const { email: invited } = await findOperatorLink(orm, token, at);
  const email = invited ?? normalizeEmail(input.email ?? '');
  const known = await findUser(orm, { email });
  const newAccount = known ? undefined : await newUser(email, input, at, gone);
  const found = known && (await proveUser(orm, known, input.password, gone));
  if (known && !found) throw wrongPassword();
  return change(deps, byProof, async (tx) => {
    const link = await findOperatorLink(tx, token, at);
    const person = await lockOrInsert(tx, found, newAccount);
    await spendLink(tx, link, at);
    const added = await tx
      .insert(operators)
      .values({ userId: person.id, createdAt: at, createdBy: link.createdBy })
      .onConflictDoNothing()
      .returning({ userId: operators.userId });
    const ofPerson = { userId: person.id, email };
    if (newAccount)
      await auditPerson(tx, ofPerson, 'user.created', arrival, {
        after: { name: person.name },
        by: link.kind,
      });
    const details = { by: link.kind, createdBy: link.createdBy, wasOperator: added.length === 0 };
    await auditPerson(tx, ofPerson, 'operator.added', arrival, details);
    await proveAddress(tx, person.id, at);
    return openSession(tx, person, arrival, byPassword);
  });
}

/** Slow: call this before taking any lock. */
async function newUser(email: string, { name, password }: OperatorInput, at: Date, gone: AbortSignal) {
  if (name === undefined) throw fieldError('name', 'is required');
  const problem = await passwordProblem(password, email);
  if (problem !== undefined) throw fieldError('password', problem);
  const passwordHash = await hashPassword(password, gone);
  return { id: uuid(), email, name, passwordHash, createdAt: at, provenAt: at };
}

async function lockOrInsert(tx: Tx, found: User | undefined, newAccount: User | undefined): Promise<User> {
  const email = (found ?? newAccount)!.email;
  const held = await lockUser(tx, { email });
  if (held?.passwordHash !== found?.passwordHash)
    throw new AppError('not_signed_in', 'This account was just changed elsewhere. Try again.');
  if (held) return held;
  await insertUser(tx, newAccount!);
  return newAccount!;
}

export const listOperators = (orm: Orm, limit: number) => selectOperators(orm).limit(limit);

const selectOperators = (orm: Orm) =>
  orm
    .select({
      userId: users.id,
      email: users.email,
      name: users.name,
      createdAt: operators.createdAt,
      hasSecondFactor: hasFactor(users.id),
    })
    .from(operators)
    .innerJoin(users, eq(users.id, operators.userId))
    .orderBy(asc(users.email));

export async function getOperator(orm: Orm, userId: string) {
  const [operator] = await selectOperators(orm).where(eq(operators.userId, userId));
  if (!operator) throw new AppError('not_found', 'There is no such operator.');
  return operator;
}

/** Replaces an open link to the same address. */
export async function inviteOperator(tx: Tx, email: string, by: string, source: Source): Promise<NewLink> {
  const person = await findUser(tx, { email });
  if (person && (await isOperator(tx, person.id)))
    throw fieldError('email', 'already belongs to an operator');
  return createLink(tx, { kind: 'operator_invitation', person: { email }, createdBy: by }, source);
}

/** The person keeps account and memberships; links that they created stop working. */
export async function removeOperator(tx: Tx, userId: string, source: Source): Promise<void> {
  const all = await tx
    .select({ userId: operators.userId })
    .from(operators)
    .orderBy(operators.userId)
    .for('update');
  const { email } = await getOperator(tx, userId);
  if (all.length === 1)
    throw new AppError('invalid_request', 'This is the only operator. Invite another one first.');
  await tx.delete(operators).where(eq(operators.userId, userId));
  // Creating a link locks the creator's row, which is locked above.
  const details = { linksEnded: await deleteOpenLinksBy(tx, userId) };
  await recordOperatorAudit(tx, { ...source, action: 'operator.removed', target: email, details });
}

const wrongPassword = () =>
  new AppError('not_signed_in', 'An account with this address exists, and this is not its password.', {
    errors: [{ pointer: '/password', code: 'not_signed_in', detail: 'does not match this account' }],
  });
