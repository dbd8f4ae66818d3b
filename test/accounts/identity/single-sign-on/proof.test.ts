import { beforeEach, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { Browser, createUser } from '../../../support/accounts.js';
import { TestIssuer } from '../../../support/issuer.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { use, useService } from '../../../support/use.js';

const html = { accept: 'text/html', 'sec-fetch-mode': 'navigate' };
const FACTOR = '/dashboard/account/second-factor';
const PASSWORD = '/dashboard/account/password';

const issuer = use(
  () => new TestIssuer().start(),
  (started) => started.stop(),
);
const { database, service } = useService(() => ({ env: issuer.env() }));
beforeEach(() => service.clock.advance(61_000));

const secondsAgo = (seconds: number) => Math.floor(service.clock.now() / 1000) - seconds;

/** Creates a person who has signed in through the issuer, which does not report when it last authenticated them. */
async function person() {
  const user = await createUser(database.db);
  issuer.claims = { sub: uuid(), email: user.email, email_verified: true };
  const browser = new Browser(service.url);
  await issuer.signIn(browser);
  return { user, browser };
}

/** @param authTime seconds since 1970; undefined if the issuer does not report it */
async function confirm(browser: Browser, next: string, authTime?: number) {
  issuer.claims.auth_time = authTime;
  const path = await issuer.visit(browser, next, { confirm: 'yes' });
  return (await browser.get(path, html)).headers.get('location')!;
}

const post = (browser: Browser, path: string, form: Record<string, string> = {}) =>
  browser.send('POST', path, { form, headers: html });

it('makes the issuer ask the person again, but only to confirm', async () => {
  const { browser } = await person();
  for (const [query, asked] of [
    ['', [null, null]],
    ['?confirm=yes', ['login', '0']],
  ] as const) {
    const begun = await browser.get(`/login/single-sign-on${query}`);
    const { searchParams } = new URL(begun.headers.get('location')!);
    expect([searchParams.get('prompt'), searchParams.get('max_age')]).toEqual(asked);
  }
});

it('replaces the password for ten minutes', async () => {
  const { browser, user } = await person();
  const before = await browser.get(FACTOR, html);
  expect(before.text).toContain(
    `href="/login/single-sign-on?confirm=yes&amp;next=${encodeURIComponent(FACTOR)}"`,
  );
  expect((await post(browser, FACTOR)).status).toBe(400);
  const back = await confirm(browser, FACTOR, secondsAgo(0));
  expect((await browser.get(back, html)).headers.get('location')).toBe(FACTOR);
  expect((await browser.get(FACTOR, html)).text).toContain('You have just confirmed');
  expect((await post(browser, FACTOR)).headers.get('location')).toBe(`${FACTOR}/setup`);

  const passwords = {
    newPassword: 'four unrelated words here',
    newPasswordAgain: 'four unrelated words here',
  };
  service.clock.advance(10 * 60_000);
  expect((await post(browser, PASSWORD, passwords)).status).toBe(400);
  await confirm(browser, PASSWORD, secondsAgo(0));
  expect((await post(browser, PASSWORD, passwords)).headers.get('location')).toContain('done=changed');
  const other = new Browser(service.url);
  expect((await other.signIn(user.email, passwords.newPassword)).status).toBe(303);
  // A session started with a password does not inherit the issuer's confirmation.
  expect((await post(other, FACTOR)).status).toBe(400);
});

it.each([
  ['says nothing', () => undefined],
  ['remembered the person', () => secondsAgo(90)],
])('an issuer that %s confirms nothing', async (_what, authTime) => {
  const { browser } = await person();
  const back = await confirm(browser, FACTOR, authTime());
  const page = await browser.get(back, html);
  expect([page.status, page.text]).toEqual([
    200,
    expect.stringContaining('did not say that it asked you again'),
  ]);
  expect((await post(browser, FACTOR)).status).toBe(400);
  expect((await browser.get('/dashboard/account/passkeys', html)).text).toContain('confirm it’s you');
});

it('a second factor is still required', async () => {
  const { browser, user } = await person();
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  const due = await confirm(browser, PASSWORD, secondsAgo(0));
  expect(due).toMatch(/^\/login\/code\?next=/);
  expect((await post(browser, `${FACTOR}/recovery-codes`)).status).toBe(401);
  const next = new URL(due, service.url).searchParams.get('next')!;
  const answered = await post(browser, '/login/code', { code: app.code(), next });
  expect(answered.headers.get('location')).toBe(next);
  expect((await browser.get(next, html)).headers.get('location')).toBe(PASSWORD);
  expect((await post(browser, `${FACTOR}/recovery-codes`)).status).toBe(400);
  service.clock.advance(31_000);
  expect((await post(browser, `${FACTOR}/recovery-codes`, { code: app.code() })).status).toBe(200);
});

it('the confirmation form still needs the password, so a proof by single sign-on cannot be prolonged there', async () => {
  const { browser } = await person();
  await confirm(browser, FACTOR, secondsAgo(0));
  expect((await browser.get('/confirm', html)).text).toContain('name="currentPassword"');
  expect((await post(browser, '/confirm')).status).toBe(400);
});
