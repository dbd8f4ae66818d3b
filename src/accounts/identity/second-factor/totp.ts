import { Secret, TOTP } from 'otpauth';

// Time step of the codes. Like the library's other defaults (SHA-1, 6 digits), 30 s is supported by every app.
export const STEP_MS = 30_000;
/** Length of the hash, as RFC 4226 recommends. */
const SECRET_BYTES = 20;
/** Tolerates clocks that differ by one step and codes typed just as the next one appears. */
const WINDOW = 1;

/** Base32 without padding. */
export const generateSecret = (): string => new Secret({ size: SECRET_BYTES }).base32;

export const isCodeShaped = (text: string): boolean => /^\d{6}$/.test(text);

/** The code's time step near `ms` (T in RFC 6238); undefined if the code is wrong. */
export function findStep(secret: string, code: string, ms: number): number | undefined {
  const key = Secret.fromBase32(secret);
  const distance = TOTP.validate({ secret: key, token: code, timestamp: ms, window: WINDOW });
  return distance === null ? undefined : Math.floor(ms / STEP_MS) + distance;
}

export const codeAt = (secret: string, ms: number): string =>
  TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: ms });
