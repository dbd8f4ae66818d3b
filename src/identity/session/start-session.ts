import type { Tx } from '../../core/db/client.js';
import { insertSession } from './queries.js';
import { generateToken, hashToken } from './session-cookie.js';

/** What a session remembers of the browser that it was started in. */
export interface NewBrowser {
  ip: string;
  userAgent: string;
  /** Of the request that started it, for the audit log. */
  requestId?: string | undefined;
}

/** Starts a session and returns its token, always a new one. */
export async function startSession(tx: Tx, userId: string, browser: NewBrowser, now: Date): Promise<string> {
  const token = generateToken();
  const { ip, userAgent } = browser;
  await insertSession(tx, {
    hashedToken: hashToken(token),
    userId,
    now,
    ip,
    userAgent: userAgent.slice(0, 255),
  });
  return token;
}
