import { createHash, randomBytes } from 'node:crypto';
import { hashWithSalt } from '../password.js';

/** How many a person gets at a time. */
export const RECOVERY_CODES = 10;
const LENGTH = 28;
/** Codes of 80 bits from earlier versions, stored as SHA-256, are good until they are used or replaced. */
const EARLIER_LENGTH = 16;

/** Crockford's base32: no letter that can be taken for a digit, and none that makes words. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** Codes of 140 random bits each, in groups that can be read aloud: `7Q2M-XK4D-90VT-HB3W-…`. */
export const generateRecoveryCodes = (): string[] => Array.from({ length: RECOVERY_CODES }, generateOne);

function generateOne(): string {
  // The alphabet has 32 letters, so every byte maps to them evenly.
  const letters = Array.from(randomBytes(LENGTH), (byte) => alphabet[byte % alphabet.length]);
  return letters.join('').match(/.{4}/g)!.join('-');
}

/**
 * The stored form of a code, however it was typed: in any case, with or without dashes and spaces, with O for 0 and I or
 * L for 1. Undefined for what cannot be one. Argon2id with a salt of the person's own, so that a code is found by its hash.
 * @throws as `hashPassword`
 */
export async function hashRecoveryCode(
  userId: string,
  typed: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
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
