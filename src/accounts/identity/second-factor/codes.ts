import { createHash, randomBytes } from 'node:crypto';
import type { Database, Orm, Tx } from '../../../core/db/client.js';
import { auditPerson, type Whereabouts } from '../source.js';
import { hashWithSalt } from '../password.js';
import {
  acceptPasskey,
  readAssertion,
  refusalOf,
  type Assertion,
  type PasskeyUse,
  type Site,
} from './passkeys.js';
import {
  countRecoveryCodes,
  findSecondFactor,
  listStaleSecrets,
  raiseLastStep,
  replaceSecret,
  spendRecoveryCode,
} from './queries.js';
import type { SecretBox } from '../../../core/secret-box.js';
import { findStep, isCodeShaped } from './totp.js';

export const RECOVERY_CODES = 10;
const LENGTH = 28;
/** Earlier versions' codes (80 bits, stored as SHA-256) stay valid until used or replaced. */
const EARLIER_LENGTH = 16;

/** Crockford's base32, without letters that look like digits or spell words. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** 140 random bits, in groups that can be read aloud: `7Q2M-XK4D-90VT-HB3W-…`. */
export const generateRecoveryCodes = (): string[] => Array.from({ length: RECOVERY_CODES }, generateOne);

function generateOne(): string {
  // 32 symbols, so bytes map to them without bias.
  const letters = Array.from(randomBytes(LENGTH), (byte) => alphabet[byte % alphabet.length]);
  return letters.join('').match(/.{4}/g)!.join('-');
}

/**
 * Ignores case, dashes and spaces; reads O as 0 and I or L as 1. One fixed salt per person, so that a code can be found
 * by its hash. Undefined for a malformed code.
 */
export async function hashRecoveryCode(userId: string, typed: string, signal?: AbortSignal) {
  const code = typed
    .toUpperCase()
    .replace(/[\s\p{Pd}]/gu, '')
    .replaceAll('O', '0')
    .replace(/[IL]/g, '1');
  if (!Array.from(code).every((letter) => alphabet.includes(letter))) return undefined;
  if (code.length === EARLIER_LENGTH) return createHash('sha256').update(code).digest('hex');
  if (code.length !== LENGTH) return undefined;
  const salt = createHash('sha256').update(`gauge recovery codes ${userId}`).digest().subarray(0, 16);
  return `argon2id:${await hashWithSalt(code, salt, signal)}`;
}

/** `hashedRecovery` is undefined for a malformed code. */
export type TypedCode = { app: string } | { hashedRecovery: string | undefined } | { passkey: PasskeyUse };

export interface GivenFactor {
  code?: string | undefined;
  passkey?: Assertion | undefined;
  site: Site;
  /** The session or pending sign-in that requires the factor. */
  hashedToken: string;
}

export async function readFactor(
  orm: Orm,
  { userId, now, gone }: { userId: string; now: Date; gone: AbortSignal },
  { code, passkey, site, hashedToken }: GivenFactor,
): Promise<TypedCode | undefined> {
  if (passkey) return { passkey: await readAssertion(orm, site, passkey, { userId, hashedToken, now }) };
  return code === undefined ? undefined : readCode(userId, code, gone);
}

/** Slow: call this before taking any lock. */
export async function readCode(userId: string, typed: string, signal?: AbortSignal): Promise<TypedCode> {
  const code = cleanCode(typed);
  if (isCodeShaped(code)) return { app: code };
  return { hashedRecovery: await hashRecoveryCode(userId, code, signal) };
}

/** A newer code invalidates older ones; a rollback leaves it usable. Undefined for a wrong or used code. */
export async function acceptCode(
  tx: Tx,
  secrets: SecretBox,
  { userId, code, now }: { userId: string; code: TypedCode; now: Date },
): Promise<'app' | 'recovery_code' | 'passkey' | undefined> {
  if ('passkey' in code) return (await acceptPasskey(tx, code.passkey, now)) ? 'passkey' : undefined;
  if ('app' in code) {
    const factor = await findSecondFactor(tx, userId);
    if (!factor) return undefined;
    const secret = secrets.open(userId, factor.secret);
    const step = findStep(secret, code.app, now.getTime());
    if (step === undefined || !(await raiseLastStep(tx, userId, step))) return undefined;
    if (!secrets.isCurrent(factor.secret))
      await replaceSecret(tx, { userId, from: factor.secret, to: secrets.seal(userId, secret) });
    return 'app';
  }
  const { hashedRecovery } = code;
  if (hashedRecovery === undefined) return undefined;
  const isSpent = await spendRecoveryCode(tx, { userId, hashedCode: hashedRecovery, now });
  return isSpent ? 'recovery_code' : undefined;
}

/** Apps show `123 456`, and some keyboards type full-width digits. */
export const cleanCode = (typed: string): string => typed.normalize('NFKC').replace(/\s/g, '');

export const auditRefusedFactor = (
  tx: Tx,
  person: { userId: string; email: string },
  code: TypedCode,
  where: Whereabouts,
  details: Record<string, unknown>,
): Promise<void> =>
  'passkey' in code
    ? auditPerson(tx, person, 'user.passkey_refused', where, { ...details, reason: refusalOf(code.passkey) })
    : auditPerson(tx, person, 'user.code_refused', where, details);

export async function auditRecoveryCode(
  tx: Tx,
  person: { userId: string; email: string },
  where: Whereabouts,
): Promise<void> {
  const left = await countRecoveryCodes(tx, person.userId);
  await auditPerson(tx, person, 'user.recovery_code_used', where, { left });
}

const BATCH = 100;

/** Also seals earlier versions' unencrypted secrets. Afterwards, older keys are no longer needed. */
export async function resealSecrets({ orm }: Pick<Database, 'orm'>, secrets: SecretBox): Promise<number> {
  let resealed = 0;
  for (let after: string | undefined; ;) {
    const rows = await listStaleSecrets(orm, secrets.currentPrefix, after, BATCH);
    for (const { userId, secret: from } of rows) {
      const to = secrets.seal(userId, secrets.open(userId, from));
      if (await replaceSecret(orm, { userId, from, to })) resealed++;
    }
    if (rows.length < BATCH) return resealed;
    after = rows.at(-1)!.userId;
  }
}
