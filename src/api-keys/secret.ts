import { hash, randomBytes } from 'node:crypto';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shape = /^org_(live|test)_[0-9A-Za-z]{32}$/;

/** `org_{live|test}_` and 32 base62 characters, about 190 bits. Bytes of 248 and above are drawn again: no modulo bias. */
export function generateSecret(livemode: boolean): string {
  let random = '';
  while (random.length < 32) {
    for (const byte of randomBytes(48)) if (byte < 248 && random.length < 32) random += alphabet[byte % 62];
  }
  return `org_${livemode ? 'live' : 'test'}_${random}`;
}

/** Junk is told from a secret without asking the database. */
export const isSecretShaped = (value: string): boolean => shape.test(value);

/** SHA-256, hex: enough for a random secret of this length, and the same in every lookup. */
export const hashSecret = (secret: string): string => hash('sha256', secret, 'hex');
