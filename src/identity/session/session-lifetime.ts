const DAY_MS = 24 * 60 * 60 * 1000;

/** A session ends this long after the sign-in, however much it is used. */
export const SESSION_MS = 30 * DAY_MS;
/** A session ends after this long without a request. */
export const SESSION_IDLE_MS = 7 * DAY_MS;
/** How far `lastSeenAt` may be behind: one write a minute at most, not one a request. */
export const SESSION_SEEN_MS = 60_000;

/** Whoever was seen last before then is signed out. */
export const idleSince = (now: Date): Date => new Date(now.getTime() - SESSION_IDLE_MS);
