import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Time-based one-time passwords (RFC 6238) with the parameters that every app supports: SHA-1, 6 digits, 30 s. */

export const STEP_MS = 30_000;
const DIGITS = 6;
/** The hash's length, as RFC 4226 recommends. */
const SECRET_BYTES = 20;
/** Tolerates clocks that differ by one step and codes typed just as the next appears. */
const WINDOW = [-1, 0, 1];

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

export const generateSecret = (): string => encodeBase32(randomBytes(SECRET_BYTES));

/** Number of the time step at `ms` (RFC 6238, T). */
export const stepAt = (ms: number): number => Math.floor(ms / STEP_MS);

/** The code of a time step (RFC 4226, section 5.3, with the step as the counter). */
export function codeOf(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const hash = createHmac('sha1', decodeBase32(secret)).update(counter).digest();
  const offset = hash[hash.length - 1]! & 0x0f;
  const number = (hash.readUInt32BE(offset) & 0x7fff_ffff) % 10 ** DIGITS;
  return String(number).padStart(DIGITS, '0');
}

export const isCodeShaped = (text: string): boolean => /^\d{6}$/.test(text);

/** The time step near `ms` to which a code belongs, if any. */
export function findStep(secret: string, code: string, ms: number): number | undefined {
  const now = stepAt(ms);
  return WINDOW.map((distance) => now + distance).find((step) =>
    timingSafeEqual(Buffer.from(codeOf(secret, step)), Buffer.from(code)),
  );
}

/** RFC 4648 base32 without padding. The length of `bytes` must be a multiple of 5. */
export function encodeBase32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{5}/g) ?? []).map((group) => alphabet[Number.parseInt(group, 2)]).join('');
}

function decodeBase32(text: string): Buffer {
  const bits = Array.from(text, (letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
