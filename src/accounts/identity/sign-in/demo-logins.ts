import type { Context } from '../../../core/http/context.js';
import { findSecondFactor } from '../second-factor/queries.js';
import { codeAt, STEP_MS } from '../second-factor/totp.js';

/** Shown to every visitor, so it is never a customer's. */
export interface DemoLogin {
  email: string;
  name: string;
  organization: string;
  role: string;
  password: string;
  /** The demo shows the app's codes. */
  factorSecret?: string | undefined;
}

export type ListDemoLogins = () => readonly DemoLogin[];

export function groupByPerson(logins: readonly DemoLogin[]): DemoLogin[][] {
  const emails = new Set(logins.map(({ email }) => email));
  return [...emails].map((email) => logins.filter((login) => login.email === email));
}

/**
 * The current code or the next, which is already valid. Empty once both are used; undefined if this is no demo login.
 */
export async function findDemoCode(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  logins: readonly DemoLogin[],
  { email, userId }: { email: string; userId: string },
): Promise<string | undefined> {
  const secret = logins.find((login) => login.email === email)?.factorSecret;
  if (secret === undefined) return undefined;
  const present = Math.floor(clock.now() / STEP_MS);
  const used = (await findSecondFactor(db.orm, userId))?.lastStep ?? 0;
  const step = Math.max(present, used + 1);
  return step > present + 1 ? '' : codeAt(secret, step * STEP_MS);
}
