import { and, desc, eq, notInArray } from 'drizzle-orm';
import { operatorLog } from '../../../../src/accounts/audit/table.js';
import type { Answer, Browser } from '../../../support/accounts.js';
import type { TestDatabase } from '../../../support/database.js';

export const html = { accept: 'text/html,*/*;q=0.8' };
export const ACCOUNT = '/dashboard/account';

export const post = (browser: Browser, path: string, form: Record<string, string> = {}): Promise<Answer> =>
  browser.send('POST', `${ACCOUNT}${path}`, { form, headers: html });

export const open = (browser: Browser, path: string): Promise<Answer> =>
  browser.get(`${ACCOUNT}${path}`, html);

/** Follows the redirect after a form submission. */
export async function follow(browser: Browser, answer: Answer): Promise<Answer> {
  return browser.get(answer.headers.get('location') ?? 'nowhere', html);
}

export const isSignedIn = async (browser: Browser): Promise<boolean> =>
  (await browser.get('/dashboard/session')).status !== 401;

/** A person's entries in the operator's log, newest first, without sign-ins and wrong codes (tested separately). */
export const logOf = ({ db }: TestDatabase, email: string) =>
  db.orm
    .select()
    .from(operatorLog)
    .where(
      and(
        eq(operatorLog.target, email),
        notInArray(operatorLog.action, ['user.signed_in', 'user.code_refused', 'user.recovery_code_used']),
      ),
    )
    .orderBy(desc(operatorLog.id));
