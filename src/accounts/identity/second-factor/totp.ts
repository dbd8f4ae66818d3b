import { Secret, TOTP } from 'otpauth';

// Every app supports 30 s and the library's other defaults (SHA-1, 6 digits).
export const STEP_MS = 30_000;
/** As RFC 4226 recommends. */
const SECRET_BYTES = 20;
/** Tolerates clocks that differ by one step and codes typed just as the next one appears. */
const WINDOW = 1;

/** Base32 without padding. */
export const generateSecret = (): string => new Secret({ size: SECRET_BYTES }).base32;

export const isCodeShaped = (text: string): boolean => /^\d{6}$/.test(text);

/** T in RFC 6238, near `ms`; undefined if the code is wrong. */
export function findStep(secret: string, code: string, ms: number): number | undefined {
  const key = Secret.fromBase32(secret);
  const distance = TOTP.validate({ secret: key, token: code, timestamp: ms, window: WINDOW });
  return distance === null ? undefined : Math.floor(ms / STEP_MS) + distance;
}

export const codeAt = (secret: string, ms: number): string =>
  TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: ms });
