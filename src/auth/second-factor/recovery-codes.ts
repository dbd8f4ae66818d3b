import { createHash, randomBytes } from 'node:crypto';

/** How many a person gets at a time. */
export const RECOVERY_CODES = 10;
const LENGTH = 16;

/** Crockford's base32: no letter that can be taken for a digit, and none that makes words. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** Codes of 80 random bits each, in groups that can be read aloud: `7Q2M-XK4D-90VT-HB3W`. */
export const generateRecoveryCodes = (): string[] => Array.from({ length: RECOVERY_CODES }, generateOne);

function generateOne(): string {
  // The alphabet has 32 letters, so every byte maps to them evenly.
  const letters = Array.from(randomBytes(LENGTH), (byte) => alphabet[byte % alphabet.length]);
  return letters.join('').match(/.{4}/g)!.join('-');
}

/**
 * The stored form of a code, SHA-256 in hex, however it was typed: in any case, with or without dashes and spaces, with
 * O for 0 and I or L for 1. Undefined for what cannot be one.
 */
export function hashRecoveryCode(typed: string): string | undefined {
  const code = typed
    .toUpperCase()
    .replace(/[\s\p{Pd}]/gu, '')
    .replaceAll('O', '0')
    .replace(/[IL]/g, '1');
  const isShaped = code.length === LENGTH && Array.from(code).every((letter) => alphabet.includes(letter));
  return isShaped ? createHash('sha256').update(code).digest('hex') : undefined;
}
