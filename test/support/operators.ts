import { eq } from 'drizzle-orm';
import { byService, change } from '../../src/accounts/audit/audit.js';
import { createLink } from '../../src/accounts/identity/links/links.js';
import { operators, sessions } from '../../src/accounts/identity/table.js';
import type { LinkKind } from '../../src/accounts/identity/table.js';
import { Browser, createUser, sessionIdOf, type TestUser } from './accounts.js';
import { giveSecondFactor, type Authenticator } from './second-factor.js';
import type { TestService } from './service.js';

export interface TestOperator extends TestUser {
  browser: Browser;
  app: Authenticator;
}

export async function makeOperator({ context: { db, clock } }: TestService, userId: string): Promise<void> {
  await db.orm.insert(operators).values({ userId, createdAt: new Date(clock.now()) });
}

export async function signedInOperator(service: TestService): Promise<TestOperator> {
  const { db } = service.context;
  const user = await createUser(db);
  await makeOperator(service, user.id);
  const browser = new Browser(service.url);
  const { status } = await browser.signIn(user.email);
  if (status !== 303) throw new Error(`sign-in failed: ${status}`);
  return { ...user, browser, app: await giveSecondFactor(db, user.id, service.clock) };
}

/** Removes the session's confirmation, so that a dangerous change asks for the password again. */
export const forgetConfirmation = ({ context: { db } }: TestService, browser: Browser) =>
  db.orm
    .update(sessions)
    .set({ confirmedAt: null })
    .where(eq(sessions.hashedToken, sessionIdOf(browser)));

export async function makeLink(
  { context: { db, clock } }: TestService,
  kind: LinkKind,
  person?: { id: string | undefined; email: string },
  createdBy?: string,
): Promise<string> {
  const source = { actor: 'system', at: new Date(clock.now()), ip: undefined, requestId: undefined };
  const made = await change({ db, clock }, byService, (tx) =>
    createLink(tx, { kind, person, createdBy }, source),
  );
  return made.path.split('#')[1]!;
}
