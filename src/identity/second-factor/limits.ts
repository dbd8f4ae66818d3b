/** A sign-in waits this long for its code. */
export const CHALLENGE_MS = 10 * 60_000;
/** Codes that can be tried before the password is asked for again. */
export const MAX_CODES = 5;
/** A secret that was asked for and never confirmed is kept this long. */
export const SETUP_MS = 24 * 60 * 60_000;
