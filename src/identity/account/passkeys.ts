import { AppError } from '../../core/errors.js';
import {
  deletePasskey,
  insertPasskey,
  listPasskeys,
  MAX_PASSKEYS,
} from '../second-factor/passkey-queries.js';
import type { NewPasskey } from '../second-factor/passkeys.js';
import { hasSecondFactor, replaceRecoveryCodes } from '../second-factor/queries.js';
import { mailAccountNotice } from '../users/notices.js';
import { audit, changeAccount, endOtherSessions, type AccountChangeDeps, type Author } from './account.js';
import { endLastFactor, makeRecoveryCodes } from './second-factor.js';

/** What a first or a last factor brings with it: other sessions end, and this one has a new token. */
interface FactorChange {
  token: string | undefined;
  /** Made with a first factor, and never shown again. */
  recoveryCodes: string[] | undefined;
}

/** @throws AppError invalid_request, not_found for one too many or one that is known */
export async function addPasskey(
  deps: AccountChangeDeps,
  author: Author,
  passkey: NewPasskey,
  name: string,
): Promise<FactorChange> {
  const { userId, at } = author;
  // Hashing takes long, so this comes before anything is locked.
  const made = (await hasSecondFactor(deps.db.orm, userId)) ? undefined : await makeRecoveryCodes(author);
  return changeAccount(deps, author, undefined, async (tx) => {
    const isFirst = !(await hasSecondFactor(tx, userId));
    if (isFirst && !made)
      throw new AppError('unavailable', 'Your second factor was removed just now. Try again.');
    if ((await listPasskeys(tx, userId)).length >= MAX_PASSKEYS)
      throw new AppError('invalid_request', `You have ${MAX_PASSKEYS} passkeys. Remove one to add another.`);
    const row = { ...passkey, userId, name, createdAt: at, lastUsedAt: null };
    if (!(await insertPasskey(tx, row)))
      throw new AppError('invalid_request', 'This passkey was added before.');
    const { token, sessionsEnded } = isFirst ? await endOtherSessions(tx, author) : noSessions;
    if (isFirst) await replaceRecoveryCodes(tx, userId, made!.hashedCodes);
    await audit(tx, author, 'user.passkey_added', { name, sessionsEnded });
    await mailAccountNotice(tx, deps, author.email, 'passkeyAdded', author);
    return { token, recoveryCodes: isFirst ? made!.recoveryCodes : undefined };
  });
}

/** @throws AppError not_found; forbidden_role for the last factor of a person who has to have one */
export function removePasskey(
  deps: AccountChangeDeps,
  author: Author,
  credentialId: string,
): Promise<Pick<FactorChange, 'token'>> {
  return changeAccount(deps, author, undefined, async (tx) => {
    const gone = await deletePasskey(tx, author.userId, credentialId);
    if (!gone) throw new AppError('not_found', 'There is no such passkey. It may have been removed already.');
    const wasLast = await endLastFactor(tx, author.userId);
    const { token, sessionsEnded } = wasLast ? await endOtherSessions(tx, author) : noSessions;
    await audit(tx, author, 'user.passkey_removed', { name: gone.name, sessionsEnded });
    await mailAccountNotice(tx, deps, author.email, wasLast ? 'secondFactor' : 'passkeyRemoved', author);
    return { token };
  });
}

const noSessions = { token: undefined, sessionsEnded: 0 };
