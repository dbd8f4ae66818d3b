import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { recoveryCodes, secondFactors } from '../../../../src/accounts/identity/table.js';
import { Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { authenticator, giveSecondFactor } from '../../../support/second-factor.js';
import { type TestService } from '../../../support/service.js';
import { ACCOUNT, follow, isSignedIn, logOf, open, post } from './account.js';
import { useService } from '../../../support/use.js';

const withLimits = (limits = {}) => ({
  app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1, perAddress: 1000, ...limits } },
});
const { database, service, startAnother } = useService(withLimits());

const start = (limits = {}) => startAnother(withLimits(limits));

const FACTOR = '/second-factor';
const secretOn = (text: string) =>
  /<code id="secret">([A-Z2-7 ]+)<\/code>/.exec(text)![1]!.replaceAll(' ', '');
const codesOn = (text: string) => /<code id="recovery-codes">([^<]+)<\/code>/.exec(text)![1]!.split('\n');
const wrongCodeOf = (right: string) => (right === '000000' ? '000001' : '000000');
const factorOf = async (userId: string) =>
  (await database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, userId)))[0];

/** Creates a person who has started the set-up, and an authenticator app with the secret from the page. */
async function settingUp() {
  const person = await signedIn(database.db, service.url);
  const answer = await post(person.browser, FACTOR, { currentPassword: PASSWORD });
  expect(answer.headers.get('location')).toBe(`${ACCOUNT}/second-factor/setup`);
  const page = await follow(person.browser, answer);
  const secret = secretOn(page.text);
  return { ...person, page, secret, code: authenticator(secret, service.clock) };
}

async function secured(on: TestService = service) {
  const person = await signedIn(database.db, on.url);
  const app = await giveSecondFactor(database.db, person.user.id, on.clock);
  return { ...person, app };
}

describe('setting up a second factor', () => {
  it('requires the password', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    expect((await open(browser, FACTOR)).text).toContain('name="currentPassword"');
    const wrong = await post(browser, FACTOR, { currentPassword: 'not it' });
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('id="field-currentPassword-error"');
    expect((await post(browser, FACTOR, {})).status).toBe(400);
    expect(await factorOf(user.id)).toBeUndefined();
    const early = await open(browser, `${FACTOR}/setup`);
    expect(early.headers.get('location')).toBe(`${ACCOUNT}/second-factor?done=ended`);
  });

  it('shows a QR code drawn inline, and the same secret as text', async () => {
    const { page, secret, user } = await settingUp();
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(page.text).toMatch(/<svg class="qr"[^>]*role="img" aria-label="[^"]+"/);
    expect(page.text).toContain(`otpauth://totp/Gauge:${encodeURIComponent(user.email)}?secret=${secret}`);
    expect(page.text).toContain('issuer=Gauge');
    expect(page.text).not.toMatch(/<img|\sstyle=/);
    expect(page.headers.get('cache-control')).toBe('no-store');
  });

  it('has no effect until a code is right, and then ends the other sessions', async () => {
    const { browser, user, code } = await settingUp();
    const other = new Browser(service.url);
    expect((await other.signIn(user.email)).headers.get('location')).toBe('/dashboard');
    const copied = browser.copy();
    const answer = await post(browser, `${FACTOR}/setup`, { code: code() });
    expect(answer.status).toBe(200);
    const codes = codesOn(answer.text);
    expect(new Set(codes).size).toBe(10);
    expect(await isSignedIn(other)).toBe(false);
    expect(await isSignedIn(copied)).toBe(false);
    expect(await isSignedIn(browser)).toBe(true);
    expect((await other.signIn(user.email)).headers.get('location')).toMatch(/^\/login\/code/);
    expect(await logOf(database, user.email)).toMatchObject([
      { action: 'user.second_factor_turned_on', actor: user.id, details: { sessionsEnded: 1 } },
    ]);
    // The set-up consumed this code; the next code works.
    const first = await other.send('POST', '/login/code', { form: { code: code() } });
    expect(first.status).toBe(401);
    const second = await other.send('POST', '/login/code', { form: { code: codes[9]! } });
    expect(second.status).toBe(303);
  });

  it('shows the recovery codes once and stores only their hashes', async () => {
    const { browser, user, code, secret } = await settingUp();
    const shown = await post(browser, `${FACTOR}/setup`, { code: code() });
    expect(shown.headers.get('cache-control')).toBe('no-store, no-transform');
    const codes = codesOn(shown.text);
    const rows = await database.db.orm.select().from(recoveryCodes).where(eq(recoveryCodes.userId, user.id));
    expect(rows).toHaveLength(10);
    for (const row of rows) expect(row.hashedCode).toMatch(/^argon2id:[\da-f]{64}$/);
    const again = await post(browser, `${FACTOR}/setup`, { code: code(1) });
    expect(again.headers.get('location')).toBe(`${ACCOUNT}/second-factor?done=on`);
    const pages = await Promise.all(
      [FACTOR, `${FACTOR}/recovery-codes`, `${FACTOR}/off`].map((p) => open(browser, p)),
    );
    for (const { text } of pages) {
      expect(text).not.toContain(codes[0]);
      expect(text).not.toContain(secret);
    }
    expect(pages[0]!.text).toContain('10 codes left');
  });

  it('asks again with the same secret after a wrong code', async () => {
    const { browser, user, code, secret } = await settingUp();
    for (const wrong of [
      wrongCodeOf(code()),
      '',
      '12345',
      '<script>alert(1)</script>',
      'a\0b',
      'x'.repeat(300),
    ]) {
      const answer = await post(browser, `${FACTOR}/setup`, { code: wrong });
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('id="field-code-error"');
      expect(answer.text).not.toContain('<script>alert');
      expect(secretOn(answer.text)).toBe(secret);
    }
    expect((await factorOf(user.id))!.confirmedAt).toBeNull();
    expect((await post(browser, `${FACTOR}/setup`, { code: code(-1) })).status).toBe(200);
  });

  it('hides the secret from the person’s other sessions', async () => {
    const { user, code } = await settingUp();
    const other = new Browser(service.url);
    await other.signIn(user.email);
    const page = await open(other, `${FACTOR}/setup`);
    expect(page.status).toBe(303);
    const confirmed = await post(other, `${FACTOR}/setup`, { code: code() });
    expect(confirmed.status).toBe(303);
    expect((await factorOf(user.id))!.confirmedAt).toBeNull();
  });

  it('a second time issues a new secret and voids the old one', async () => {
    const { browser, code, secret } = await settingUp();
    const page = await follow(browser, await post(browser, FACTOR, { currentPassword: PASSWORD }));
    expect(secretOn(page.text)).not.toBe(secret);
    expect((await post(browser, `${FACTOR}/setup`, { code: code() })).status).toBe(400);
  });

  it('twice concurrently creates one set of recovery codes', async () => {
    const { browser, user, code } = await settingUp();
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => post(browser.copy(), `${FACTOR}/setup`, { code: code() })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, user.id))).toBe(10);
    expect(await logOf(database, user.email)).toHaveLength(1);
  });

  it('during a sign-in leaves no session without a code', async () => {
    for (let i = 0; i < 5; i++) {
      const { browser, user, code } = await settingUp();
      const others = [new Browser(service.url), new Browser(service.url)];
      const [answer] = await Promise.all([
        post(browser, `${FACTOR}/setup`, { code: code() }),
        ...others.map((other) => other.signIn(user.email)),
      ]);
      expect(answer.status).toBe(200);
      for (const other of others) expect(await isSignedIn(other)).toBe(false);
      expect(await isSignedIn(browser)).toBe(true);
    }
  });

  it('is refused while the factor is on', async () => {
    const { browser, user, app } = await secured();
    const answer = await post(browser, FACTOR, { currentPassword: PASSWORD });
    expect(answer.status).toBe(404);
    expect(answer.text).toContain('is already on');
    expect((await factorOf(user.id))!.secret).toBe(app.secret);
  });
});

describe('new recovery codes', () => {
  it('replace all previous ones', async () => {
    const { browser, user, app } = await secured();
    const former = await app.recoveryCode();
    const form = { currentPassword: PASSWORD, code: app.code() };
    const answer = await post(browser, `${FACTOR}/recovery-codes`, form);
    expect(answer.status).toBe(200);
    const codes = codesOn(answer.text);
    expect(codes).toHaveLength(10);
    const login = new Browser(service.url);
    await login.signIn(user.email);
    const give = (code: string) => login.send('POST', '/login/code', { form: { code } });
    expect((await give(former)).status).toBe(401);
    expect((await give(codes[0]!)).status).toBe(303);
    expect((await open(browser, FACTOR)).text).toContain('9 codes left');
    expect(await logOf(database, user.email)).toMatchObject([{ action: 'user.recovery_codes_made' }]);
  });

  it.each([
    ['without the password', { currentPassword: '' }, 'currentPassword'],
    ['with a wrong password', { currentPassword: 'wrong' }, 'currentPassword'],
    ['without a code', { code: '' }, 'code'],
    ['with a wrong code', { code: 'wrong' }, 'code'],
  ])('are refused %s', async (_name, changes, field) => {
    const { browser, user, app } = await secured();
    const form = { currentPassword: PASSWORD, code: app.code(), ...changes };
    const answer = await post(browser, `${FACTOR}/recovery-codes`, form);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(`id="field-${field}-error"`);
    expect(answer.text).not.toContain('id="recovery-codes"');
    expect(await logOf(database, user.email)).toEqual([]);
  });

  it('are refused with a used code', async () => {
    const { browser, app } = await secured();
    const form = { currentPassword: PASSWORD, code: app.code() };
    expect((await post(browser, `${FACTOR}/recovery-codes`, form)).status).toBe(200);
    expect((await post(browser, `${FACTOR}/recovery-codes`, form)).status).toBe(400);
  });

  it('are recommended when few are left', async () => {
    const { browser, user } = await secured();
    await database.db.orm
      .update(recoveryCodes)
      .set({ usedAt: new Date() })
      .where(eq(recoveryCodes.userId, user.id));
    const page = await open(browser, FACTOR);
    expect(page.text).toContain('0 codes left');
    expect(page.text).toContain('You have no recovery codes left');
  });
});

describe('turning the second factor off', () => {
  it.each(['an app code', 'a recovery code'])('requires the password and %s', async (kind) => {
    const { browser, user, app } = await secured();
    const code = kind === 'a recovery code' ? await app.recoveryCode() : app.code();
    const other = new Browser(service.url);
    await other.signIn(user.email);
    await other.send('POST', '/login/code', { form: { code: app.code(-1) } });
    expect(await isSignedIn(other)).toBe(true);
    const answer = await post(browser, `${FACTOR}/off`, { currentPassword: PASSWORD, code });
    expect((await follow(browser, answer)).text).toContain('The second factor is off');
    expect(await isSignedIn(other)).toBe(false);
    expect(await isSignedIn(browser)).toBe(true);
    expect(await factorOf(user.id)).toBeUndefined();
    expect(await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, user.id))).toBe(0);
    expect((await other.signIn(user.email)).headers.get('location')).toBe('/dashboard');
    expect(await logOf(database, user.email)).toMatchObject([
      { action: 'user.second_factor_turned_off', details: { sessionsEnded: 1 } },
    ]);
    // The second request finds nothing to turn off.
    const again = await post(browser, `${FACTOR}/off`, { currentPassword: PASSWORD, code });
    expect(again.headers.get('location')).toBe(`${ACCOUNT}/second-factor`);
  });

  it.each([
    ['a wrong password', { currentPassword: 'wrong' }, 'currentPassword'],
    ['a wrong code', { code: 'wrong' }, 'code'],
    ['no code', { code: '' }, 'code'],
  ])('is refused with %s, and the code remains unused', async (_name, changes, field) => {
    const { browser, user, app } = await secured();
    const form = { currentPassword: PASSWORD, code: app.code() };
    const answer = await post(browser, `${FACTOR}/off`, { ...form, ...changes });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(`id="field-${field}-error"`);
    expect((await factorOf(user.id))!.confirmedAt).not.toBeNull();
    expect((await post(browser, `${FACTOR}/off`, form)).status).toBe(303);
  });

  it('is refused after ten wrong codes, even with the right one', async () => {
    const own = await start();
    const { browser, app } = await secured(own);
    for (let i = 0; i < 10; i++) {
      const form = { currentPassword: PASSWORD, code: wrongCodeOf(app.code()) };
      expect((await post(browser, `${FACTOR}/off`, form)).status).toBe(400);
    }
    const form = { currentPassword: PASSWORD, code: app.code() };
    expect((await post(browser, `${FACTOR}/off`, form)).status).toBe(429);
  });

  it('has no page while the factor is off', async () => {
    const { browser } = await signedIn(database.db, service.url);
    for (const path of [`${FACTOR}/off`, `${FACTOR}/recovery-codes`])
      expect((await open(browser, path)).headers.get('location')).toBe(`${ACCOUNT}/second-factor`);
  });
});

it('never accepts another person’s code', async () => {
  const { user } = await secured();
  const stranger = await createUser(database.db);
  const browser = new Browser(service.url);
  expect((await browser.signIn(stranger.email)).headers.get('location')).toBe('/dashboard');
  expect((await open(browser, FACTOR)).text).toContain('name="currentPassword"');
  expect((await factorOf(user.id))!.confirmedAt).not.toBeNull();
});
