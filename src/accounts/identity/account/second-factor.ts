import type { Orm, Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { fieldError } from '../../../core/pages/form.js';
import {
  cleanCode,
  generateRecoveryCodes,
  hashRecoveryCode,
  type GivenFactor,
} from '../second-factor/codes.js';
import {
  confirmSetup,
  countRecoveryCodes,
  deleteApp,
  deleteRecoveryCodes,
  findFactorDemand,
  findFactors,
  findSecondFactor,
  findSetup,
  hasSecondFactor,
  putSetup,
  replaceRecoveryCodes,
} from '../second-factor/queries.js';
import {
  deletePasskey,
  insertPasskey,
  listPasskeys,
  MAX_PASSKEYS,
} from '../second-factor/passkey-queries.js';
import type { NewPasskey } from '../second-factor/passkeys.js';
import { findStep, generateSecret, isCodeShaped } from '../second-factor/totp.js';
import { mailAccountNotice } from '../users/notices.js';
import type { User } from '../users/queries.js';
import {
  audit,
  changeAccount,
  endOtherSessions,
  readRequiredFactor,
  requireCode,
  type AccountChangeDeps,
  type Author,
} from './account.js';

export type SecondFactorState = Awaited<ReturnType<typeof readSecondFactor>>;

export async function readSecondFactor(orm: Orm, userId: string) {
  const app = await findSecondFactor(orm, userId);
  return {
    since: app?.confirmedAt ?? undefined,
    ...(await findFactors(orm, userId)),
    recoveryCodesLeft: await countRecoveryCodes(orm, userId),
  };
}

/**
 * The secret has no effect until its first code is confirmed.
 * @param checked the person as read when their password was verified; undefined if `author` requires a recent
 * confirmation instead
 */
export function beginSetup(deps: AccountChangeDeps, author: Author, checked: User | undefined) {
  const { userId, sessionId, at: now } = author;
  return changeAccount(deps, author, checked, async (tx) => {
    const setup = { userId, sessionId, secret: deps.secrets.seal(userId, generateSecret()), now };
    if (!(await putSetup(tx, setup))) throw isOn();
  });
}

/** Consumes the code and ends all other sessions. The recovery codes are never shown again. */
export async function finishSetup(deps: AccountChangeDeps, author: Author, typed: string) {
  const { userId, at } = author;
  const stored = await findSetup(deps.db.orm, author);
  if (stored === undefined)
    throw new AppError('not_found', 'This set-up has ended, or the second factor is already on.');
  const code = cleanCode(typed);
  const step = isCodeShaped(code)
    ? findStep(deps.secrets.open(userId, stored), code, at.getTime())
    : undefined;
  if (step === undefined)
    throw fieldError(
      'code',
      'is wrong. Enter the newest code from the app, and check that the clock of its device is right',
    );
  // Ten hashes are expensive.
  const { recoveryCodes, hashedCodes } = await makeRecoveryCodes(author);
  return changeAccount(deps, author, undefined, async (tx) => {
    const isFirst = !(await hasSecondFactor(tx, userId));
    if (!(await confirmSetup(tx, { userId, secret: stored, step, now: at }))) throw isOn();
    await replaceRecoveryCodes(tx, userId, hashedCodes);
    const { token, sessionsEnded } = await endOtherSessions(tx, author);
    await audit(tx, author, isFirst ? 'user.second_factor_turned_on' : 'user.authenticator_app_added', {
      sessionsEnded,
    });
    await mailAccountNotice(tx, deps, author.email, 'appAdded', author);
    return { recoveryCodes, token };
  });
}

export async function renewRecoveryCodes(
  deps: AccountChangeDeps,
  author: Author,
  person: User,
  given: GivenFactor,
): Promise<string[]> {
  const code = await readRequiredFactor(deps.db.orm, author, given);
  const { recoveryCodes, hashedCodes } = await makeRecoveryCodes(author);
  return changeAccount(deps, author, person, async (tx) => {
    if (!(await hasSecondFactor(tx, person.id))) throw isOff();
    await requireCode(tx, deps.secrets, author, code);
    await replaceRecoveryCodes(tx, person.id, hashedCodes);
    await audit(tx, author, 'user.recovery_codes_made');
    await mailAccountNotice(tx, deps, author.email, 'recoveryCodes', author);
    return recoveryCodes;
  });
}

/** Ends all other sessions and returns this session's new token. */
export async function turnOff(deps: AccountChangeDeps, author: Author, person: User, given: GivenFactor) {
  const code = await readRequiredFactor(deps.db.orm, author, given);
  return changeAccount(deps, author, person, async (tx) => {
    if (!(await findSecondFactor(tx, person.id))) throw isOff();
    await requireCode(tx, deps.secrets, author, code);
    await deleteApp(tx, person.id);
    const wasLast = await endLastFactor(tx, person.id);
    const { token, sessionsEnded } = await endOtherSessions(tx, author);
    await audit(tx, author, wasLast ? 'user.second_factor_turned_off' : 'user.authenticator_app_removed', {
      sessionsEnded,
    });
    await mailAccountNotice(tx, deps, author.email, wasLast ? 'secondFactor' : 'appRemoved', author);
    return { token, wasLast };
  });
}

/** If no second factor is left, deletes the recovery codes and returns true. */
async function endLastFactor(tx: Tx, userId: string): Promise<boolean> {
  if (await hasSecondFactor(tx, userId)) return false;
  const demand = await findFactorDemand(tx, userId);
  if (demand !== undefined)
    throw new AppError(
      'forbidden_role',
      `${demand} requires you to have a second factor, and this is your last one. Add another one first.`,
    );
  await deleteRecoveryCodes(tx, userId);
  return true;
}

const isOff = () => new AppError('not_found', 'The second factor is already off.');

/** Slow: call this before taking any lock. */
async function makeRecoveryCodes({ userId, gone }: Author) {
  const recoveryCodes = generateRecoveryCodes();
  const hashed = await Promise.all(recoveryCodes.map((code) => hashRecoveryCode(userId, code, gone)));
  return { recoveryCodes, hashedCodes: hashed.map((code) => code!) };
}

const isOn = () =>
  new AppError('not_found', 'The second factor is already on. Turn it off to set up another.');

/** Google Authenticator's key URI format, for the QR code. */
export function toKeyUri(email: string, secret: string): string {
  const query = new URLSearchParams({
    secret,
    issuer: 'Gauge',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  });
  return `otpauth://totp/Gauge:${encodeURIComponent(email)}?${query.toString()}`;
}

/** Adding the first factor or removing the last ends all other sessions and renews this session's token. */
export async function addPasskey(deps: AccountChangeDeps, author: Author, passkey: NewPasskey, name: string) {
  const { userId, at } = author;
  const made = (await hasSecondFactor(deps.db.orm, userId)) ? undefined : await makeRecoveryCodes(author);
  return changeAccount(deps, author, undefined, async (tx) => {
    const isFirst = !(await hasSecondFactor(tx, userId));
    if (isFirst && !made)
      throw new AppError('unavailable', 'Your second factor was removed just now. Try again.');
    if ((await listPasskeys(tx, userId)).length >= MAX_PASSKEYS)
      throw new AppError('invalid_request', `You have ${MAX_PASSKEYS} passkeys. Remove one to add another.`);
    if (!(await insertPasskey(tx, { ...passkey, userId, name, createdAt: at, lastUsedAt: null })))
      throw new AppError('invalid_request', 'This passkey has already been added.');
    const { token, sessionsEnded } = isFirst ? await endOtherSessions(tx, author) : noSessions;
    if (isFirst) await replaceRecoveryCodes(tx, userId, made!.hashedCodes);
    await audit(tx, author, 'user.passkey_added', { name, sessionsEnded });
    await mailAccountNotice(tx, deps, author.email, 'passkeyAdded', author);
    return { token, recoveryCodes: isFirst ? made!.recoveryCodes : undefined };
  });
}

export function removePasskey(deps: AccountChangeDeps, author: Author, credentialId: string) {
  return changeAccount(deps, author, undefined, async (tx) => {
    const gone = await deletePasskey(tx, author.userId, credentialId);
    if (!gone) throw new AppError('not_found', 'There is no such passkey. It may already have been removed.');
    const wasLast = await endLastFactor(tx, author.userId);
    const { token, sessionsEnded } = wasLast ? await endOtherSessions(tx, author) : noSessions;
    await audit(tx, author, 'user.passkey_removed', { name: gone.name, sessionsEnded });
    await mailAccountNotice(tx, deps, author.email, wasLast ? 'secondFactor' : 'passkeyRemoved', author);
    return { token };
  });
}

const noSessions = { token: undefined, sessionsEnded: 0 };
