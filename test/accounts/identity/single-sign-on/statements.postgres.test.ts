import { eq } from 'drizzle-orm';
import pg from 'pg';
import { expect, it, vi } from 'vitest';
import { v7 as uuid } from 'uuid';
import { organizations } from '../../../../src/accounts/organizations/table.js';
import { signedIn, type Browser } from '../../../support/accounts.js';
import { TestIssuer } from '../../../support/issuer.js';
import { use, useService } from '../../../support/use.js';

const issuer = use(
  () => new TestIssuer().start(),
  (started) => started.stop(),
);
const { database, service, startAnother } = useService(() => ({ env: issuer.env() }));

async function countStatements(work: () => Promise<unknown>): Promise<number> {
  const query = vi.spyOn(pg.Client.prototype, 'query');
  await work();
  const texts = query.mock.calls.map(([first]) =>
    typeof first === 'string' ? first : (first as { text: string }).text,
  );
  query.mockRestore();
  // Ignores the SET statements that a new connection runs.
  return texts.filter((text) => !/^set /i.test(text)).length;
}

/** Counts the SQL statements run for a page, a change and the sign-in form. */
async function countEach(browser: Browser) {
  const html = { accept: 'text/html' };
  const create = () =>
    browser.send('POST', '/dashboard/api-keys', { json: { name: uuid(), livemode: true } });
  // Warm-up: the first request of each minute also updates the session's last-seen time, and a non-empty key list takes
  // more statements.
  await create();
  return {
    page: await countStatements(() => browser.get('/dashboard/api-keys', html)),
    change: await countStatements(create),
    form: await countStatements(() => browser.copy().get('/login', html)),
  };
}

it('single sign-on adds no statement to other requests, even where it is required', async () => {
  const { browser, user, organization } = await signedIn(database.db, service.url);
  const without = await startAnother();
  const before = await countEach(browser.copy(without.url));
  // Measured without single sign-on. One of the page's statements checks whether the navigation offers the credits
  // page.
  expect(before).toEqual({ page: 8, change: 16, form: 1 });
  expect(await countEach(browser)).toEqual(before);
  issuer.claims = { sub: uuid(), email: user.email, email_verified: true };
  await issuer.signIn(browser);
  expect(await countEach(browser)).toEqual(before);
  const isTheirs = eq(organizations.id, organization.id);
  await database.db.orm.update(organizations).set({ requireSingleSignOn: true }).where(isTheirs);
  expect(await countEach(browser)).toEqual(before);
});
