import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { deleteExpiredSessions } from '../../../../src/accounts/identity/session/queries.js';
import { roleChanges } from '../../../../src/accounts/identity/single-sign-on/roles.js';
import { answerChallenge } from '../../../../src/accounts/identity/sign-in/sign-in.js';
import { findChallenge } from '../../../../src/accounts/identity/second-factor/queries.js';
import { createSecretBox } from '../../../../src/core/secret-box.js';
import {
  recoveryCodes,
  secondFactors,
  sessions,
  signInChallenges,
} from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { isEmbedded } from '../../../support/database.js';
import { addMember, Browser, createUser, PASSWORD, type TestUser } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { makeLink } from '../../../support/operators.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { type TestService } from '../../../support/service.js';
import { useService } from '../../../support/use.js';

const MINUTE = 60_000;
const html = { accept: 'text/html,*/*;q=0.8' };
const json = { accept: 'application/json' };

const withLimits = (limits = {}) => ({
  app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1, perAddress: 1000, ...limits } },
});
const { database, service, startAnother } = useService(withLimits());

const start = (limits = {}) => startAnother(withLimits(limits));

/** Creates a member with a second factor, and a browser that has already sent the correct password. */
async function challenged(on: TestService = service) {
  const user = await createUser(database.db);
  const organization = await createOrganization(database.db);
  await addMember(database.db, organization.id, user.id, 'owner');
  const app = await giveSecondFactor(database.db, user.id, on.clock);
  const browser = new Browser(on.url);
  const answer = await browser.signIn(user.email);
  expect(answer.headers.get('location')).toBe('/login/code?next=%2Fdashboard');
  return { user, app, browser, on };
}

const give = (browser: Browser, code: string, fields = {}, headers: Record<string, string> = html) =>
  browser.send('POST', '/login/code', { form: { code, ...fields }, headers });
const sessionsOf = (userId: string) =>
  database.db.orm.select().from(sessions).where(eq(sessions.userId, userId));
const challengesOf = (userId: string) =>
  database.db.orm.select().from(signInChallenges).where(eq(signInChallenges.userId, userId));
const isSignedIn = async (browser: Browser) => (await browser.get('/dashboard/session')).status === 200;
const wrongCodeOf = (right: string) => (right === '000000' ? '000001' : '000000');

describe.runIf(isEmbedded)('the right password of a User with a second factor', () => {
  it('starts no session: its cookie opens no page and no JSON route', async () => {
    const { user, browser } = await challenged();
    expect(await sessionsOf(user.id)).toEqual([]);
    expect(await browser.get('/dashboard/session')).toMatchObject({
      status: 401,
      body: { code: 'not_signed_in' },
    });
    for (const path of ['/dashboard', '/dashboard/account', '/dashboard/api-keys']) {
      const page = await browser.get(path, html);
      expect(page.headers.get('location'), path).toBe(`/login?next=${encodeURIComponent(path)}`);
    }
    const create = await browser.send('POST', '/dashboard/api-keys', { json: { name: 'x', livemode: true } });
    expect(create.status).toBe(401);
    expect((await browser.send('POST', '/dashboard/account/sign-out-everywhere')).status).toBe(401);
    const [row] = await challengesOf(user.id);
    const held = Buffer.from(browser.cookies.get('gauge_session')!, 'base64').toString();
    expect(row!.hashedToken).toMatch(/^[\da-f]{64}$/);
    expect(held).not.toContain(row!.hashedToken);
  });

  it('ends the browser’s previous session', async () => {
    const { user, app, browser } = await challenged();
    await give(browser, app.code());
    const copied = browser.copy();
    expect(await isSignedIn(copied)).toBe(true);
    await browser.signIn(user.email);
    expect(await isSignedIn(copied)).toBe(false);
    expect(await isSignedIn(browser)).toBe(false);
  });

  it('tells JSON clients what is due and where, and its cookie works there', async () => {
    const { user, app } = await challenged();
    const program = new Browser(service.url);
    const answer = await program.send('POST', '/login', {
      form: { email: user.email, password: PASSWORD },
      headers: json,
    });
    expect(answer).toMatchObject({
      status: 401,
      body: { code: 'not_signed_in', detail: expect.stringContaining('/login/code') },
    });
    expect(await isSignedIn(program)).toBe(false);
    const wrong = await give(program, wrongCodeOf(app.code()), {}, json);
    expect(wrong).toMatchObject({ status: 401, body: { code: 'not_signed_in' } });
    expect((await give(program, '', {}, json)).body).toMatchObject({ code: 'invalid_request' });
    expect((await give(program, app.code(), {}, json)).status).toBe(303);
    expect(await isSignedIn(program)).toBe(true);
  });

  it('is not a failure, however often it is given', async () => {
    const own = await start({ perAccount: 2 });
    const { user } = await challenged(own);
    for (let i = 0; i < 4; i++) {
      const answer = await new Browser(own.url).send('POST', '/login', {
        form: { email: user.email, password: PASSWORD },
        headers: json,
      });
      expect(answer.status).toBe(401);
    }
    expect((await new Browser(own.url).signIn(user.email)).status).toBe(303);
  });
});

describe.runIf(isEmbedded)('the second step', () => {
  it('is a labelled form that names the account and also takes recovery codes', async () => {
    const { user, browser } = await challenged();
    const page = await browser.get('/login/code?next=/dashboard/usage', html);
    expect(page.status).toBe(200);
    expect(page.text).toContain(user.email);
    expect(page.text).toMatch(/<label for="field-code">/);
    expect(page.text).toContain('autocomplete="one-time-code"');
    expect(page.text).toContain('name="next" value="/dashboard/usage"');
    const other = /href="([^"]+with=recovery-code[^"]*)"/.exec(page.text)![1]!.replaceAll('&amp;', '&');
    const second = await browser.get(other, html);
    expect(second.text).toContain('Recovery code');
    expect(second.text).toContain('name="next" value="/dashboard/usage"');
  });

  it('keeps the destination, even through wrong codes', async () => {
    const { user, app } = await challenged();
    const browser = new Browser(service.url);
    const next = '/dashboard/usage?from=1';
    const first = await browser.send('POST', '/login', {
      form: { email: user.email, password: PASSWORD, next },
    });
    const step = first.headers.get('location')!;
    expect(new URL(step, service.url).searchParams.get('next')).toBe(next);
    const wrong = await give(browser, wrongCodeOf(app.code()), { next });
    expect(wrong.text).toContain(`name="next" value="${next}"`);
    expect((await give(browser, app.code(), { next })).headers.get('location')).toBe(next);
  });

  it.each(['//evil.example', 'https://evil.example', '/\\evil.example'])(
    'never redirects to %j',
    async (next) => {
      const { app, browser } = await challenged();
      expect((await browser.get(`/login/code?next=${encodeURIComponent(next)}`, html)).text).not.toContain(
        'evil',
      );
      expect((await give(browser, app.code(), { next })).headers.get('location')).toBe('/dashboard');
    },
  );

  it('creates a session with a new token and ends the challenge', async () => {
    const { user, app, browser } = await challenged();
    const before = browser.copy();
    const answer = await give(browser, ` ${app.code().slice(0, 3)} ${app.code().slice(3)} `);
    expect(answer.status).toBe(303);
    expect(await isSignedIn(browser)).toBe(true);
    expect(browser.cookies.get('gauge_session')).not.toBe(before.cookies.get('gauge_session'));
    expect(await isSignedIn(before)).toBe(false);
    expect(await challengesOf(user.id)).toEqual([]);
    const again = await browser.get('/login/code?next=/dashboard/session', html);
    expect(again.headers.get('location')).toBe('/dashboard/session');
  });

  it('redirects to the sign-in without a challenge', async () => {
    const stranger = new Browser(service.url);
    const page = await stranger.get('/login/code?next=/dashboard/usage', html);
    expect(page.headers.get('location')).toBe('/login?next=%2Fdashboard%2Fusage');
    expect((await give(stranger, '123456')).headers.get('location')).toMatch(/^\/login\?/);
    expect(await give(stranger, '123456', {}, json)).toMatchObject({
      status: 401,
      body: { code: 'not_signed_in' },
    });
  });

  it.each([
    ['nothing', '', 400],
    ['a NUL', '12345\0', 400],
    ['300 characters', '1'.repeat(300), 400],
    ['a script', '<script>alert(1)</script>', 401],
    ['right-to-left text', '\u202e123456', 401],
    ['an emoji', '😀', 401],
    ['five digits', '12345', 401],
  ])('rejects %s with the form and echoes none of it', async (_name, code, status) => {
    const { browser } = await challenged();
    const answer = await give(browser, code);
    expect(answer.status).toBe(status);
    expect(answer.text).toContain('name="code"');
    expect(answer.text).not.toContain('<script>alert');
    if (code !== '') expect(answer.text).not.toContain(code);
  });

  it('rejects unknown fields', async () => {
    const { app, browser } = await challenged();
    expect((await give(browser, app.code(), { role: 'owner' })).status).toBe(400);
    expect(await isSignedIn(browser)).toBe(false);
  });
});

describe('an app code', () => {
  it('works once', async () => {
    const { user, app, browser } = await challenged();
    expect((await give(browser, app.code())).status).toBe(303);
    const second = new Browser(service.url);
    await second.signIn(user.email);
    const reused = await give(second, app.code());
    expect(reused.status).toBe(401);
    expect(reused.text).toContain('used before');
    // A code from the previous time step is older than the used code, so it fails; the next step's code works.
    expect((await give(second, app.code(-1))).status).toBe(401);
    expect((await give(second, app.code(1))).status).toBe(303);
  });

  it('from the previous step works once', async () => {
    const { user, app, browser } = await challenged();
    const code = app.code(-1);
    expect((await give(browser, code)).status).toBe(303);
    const second = new Browser(service.url);
    await second.signIn(user.email);
    expect((await give(second, code)).status).toBe(401);
    expect((await give(second, app.code())).status).toBe(303);
  });

  it('from two steps before or after is refused', async () => {
    const { app, browser } = await challenged();
    expect((await give(browser, app.code(-2))).status).toBe(401);
    expect((await give(browser, app.code(2))).status).toBe(401);
  });

  it('used concurrently in two browsers signs one in', async () => {
    for (let i = 0; i < 5; i++) {
      const { user, app, browser } = await challenged();
      const other = new Browser(service.url);
      await other.signIn(user.email);
      const answers = await Promise.all([give(browser, app.code()), give(other, app.code())]);
      expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 401]);
      expect(await sessionsOf(user.id)).toHaveLength(1);
    }
  });

  it('used twice concurrently with one challenge creates one session', async () => {
    const { user, app, browser } = await challenged();
    await Promise.all(Array.from({ length: 4 }, () => give(browser.copy(), app.code())));
    expect(await sessionsOf(user.id)).toHaveLength(1);
  });

  it('of another User is refused', async () => {
    const { browser } = await challenged();
    const other = await challenged();
    expect((await give(browser, other.app.code())).status).toBe(401);
    expect((await give(browser, await other.app.recoveryCode())).status).toBe(401);
    expect((await give(other.browser, other.app.code())).status).toBe(303);
  });

  it('is not required before the second factor is confirmed', async () => {
    const { user } = await challenged();
    await database.db.orm
      .update(secondFactors)
      .set({ confirmedAt: null })
      .where(eq(secondFactors.userId, user.id));
    const browser = new Browser(service.url);
    await browser.signIn(user.email);
    expect(await isSignedIn(browser)).toBe(true);
  });
});

describe('a recovery code', () => {
  it('works once, however it is typed, and only its hash is stored', async () => {
    const { user, app, browser } = await challenged();
    const [code, another] = [await app.recoveryCode(), await app.recoveryCode()];
    const answer = await give(browser, code.toLowerCase().replaceAll('-', ' '));
    expect(answer.status).toBe(303);
    const second = new Browser(service.url);
    await second.signIn(user.email);
    expect((await give(second, code)).status).toBe(401);
    expect((await give(second, another)).status).toBe(303);
    const rows = await database.db.orm.select().from(recoveryCodes).where(eq(recoveryCodes.userId, user.id));
    expect(rows.filter(({ usedAt }) => usedAt !== null)).toHaveLength(2);
    for (const plain of [code, another])
      expect(JSON.stringify(rows)).not.toContain(plain.replaceAll('-', ''));
  });

  it('used concurrently in two browsers signs one in', async () => {
    const { user, app, browser } = await challenged();
    const other = new Browser(service.url);
    await other.signIn(user.email);
    const code = await app.recoveryCode();
    const answers = await Promise.all([browser, other].map((each) => give(each, code)));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 401]);
  });
});

describe.runIf(isEmbedded)('a challenge', () => {
  it('ends after five wrong codes; then even the right one fails', async () => {
    const { app, browser } = await challenged();
    const wrong = wrongCodeOf(app.code());
    for (let i = 4; i >= 1; i--) {
      const answer = await give(browser, wrong);
      expect(answer.status).toBe(401);
      expect(answer.text).toMatch(i === 1 ? /One try is left/ : new RegExp(`${i} tries are left`));
    }
    const last = await give(browser, wrong, { next: '/dashboard/usage' });
    expect(last.headers.get('location')).toBe('/login?again=exhausted&next=%2Fdashboard%2Fusage');
    const page = await browser.get(last.headers.get('location')!, html);
    expect(page.text).toContain('Too many codes were wrong');
    expect(page.text).toContain('value="/dashboard/usage"');
    expect((await give(browser, app.code())).headers.get('location')).toMatch(/again=expired/);
    expect(await isSignedIn(browser)).toBe(false);
  });

  it('allows a burst no more than five tries', async () => {
    const { user, app, browser } = await challenged();
    const wrong = wrongCodeOf(app.code());
    await Promise.all(Array.from({ length: 9 }, () => give(browser.copy(), wrong)));
    expect((await challengesOf(user.id))[0]!.attempts).toBe(5);
  });

  it('lasts ten minutes', async () => {
    const own = await start();
    const { app, browser } = await challenged(own);
    own.clock.advance(10 * MINUTE - 1);
    expect((await browser.get('/login/code', html)).status).toBe(200);
    own.clock.advance(1);
    const page = await browser.get('/login/code?next=/dashboard/usage', html);
    expect(page.headers.get('location')).toBe('/login?again=expired&next=%2Fdashboard%2Fusage');
    expect((await give(browser, app.code())).headers.get('location')).toMatch(/again=expired/);
    expect((await browser.get('/login?again=expired', html)).text).toContain('has expired');
    expect(await isSignedIn(browser)).toBe(false);
  });

  it('ends when its person signs out of it', async () => {
    const { user, app, browser } = await challenged();
    const copied = browser.copy();
    await browser.send('POST', '/logout');
    expect(await challengesOf(user.id)).toEqual([]);
    expect((await give(copied, app.code())).headers.get('location')).toMatch(/again=expired/);
  });

  it('starts no session if the password changes meanwhile, and the code remains unused', async () => {
    const { user, app } = await challenged();
    const { orm } = database.db;
    const [row] = await challengesOf(user.id);
    const now = new Date(service.clock.now());
    const challenge = (await findChallenge(orm, row!.hashedToken, now))!;
    await orm.update(users).set({ passwordHash: 'changed' }).where(eq(users.id, user.id));
    const secrets = createSecretBox(service.context.config.secretKeys);
    const deps = { db: database.db, clock: service.clock, secrets, roleChanges };
    const { signal: gone } = new AbortController();
    const arrival = { at: now, ip: '', userAgent: '', formerToken: undefined, gone };
    const site = { origin: service.url, rpId: '127.0.0.1' };
    const given = { code: app.code(), site, hashedToken: challenge.hashedToken };
    const answer = await answerChallenge(deps, challenge, given, arrival);
    expect(answer).toEqual({ outcome: 'over' });
    expect(await sessionsOf(user.id)).toEqual([]);
    const [factor] = await orm.select().from(secondFactors).where(eq(secondFactors.userId, user.id));
    expect(factor!.lastStep).toBeNull();
  });
});

describe.runIf(isEmbedded)('wrong codes', () => {
  it('block the account after ten, across challenges and networks', async () => {
    const own = await start();
    const { user, app } = await challenged(own);
    const wrong = wrongCodeOf(app.code());
    for (let challenge = 0; challenge < 2; challenge++) {
      const browser = new Browser(own.url);
      await browser.signIn(user.email);
      for (let i = 0; i < 4; i++) expect((await give(browser, wrong)).status).toBe(401);
    }
    const browser = new Browser(own.url);
    await browser.signIn(user.email);
    expect((await give(browser, wrong)).status).toBe(401);
    expect((await give(browser, wrong)).status).toBe(401);
    const blocked = await give(browser, app.code());
    expect(blocked.status).toBe(429);
    expect(blocked.text).toContain('Too many wrong passwords or codes');
    expect(Number(blocked.headers.get('retry-after'))).toBeGreaterThan(880);
    expect(await give(browser, app.code(), {}, json)).toMatchObject({
      status: 429,
      body: { code: 'rate_limited' },
    });
    expect(await isSignedIn(browser)).toBe(false);
  });

  it('count even if they end the challenge', async () => {
    const own = await start({ perAccount: 5 });
    const { user, app, browser } = await challenged(own);
    for (let i = 0; i < 5; i++) await give(browser, wrongCodeOf(app.code()));
    const next = new Browser(own.url);
    await next.signIn(user.email);
    expect((await give(next, app.code())).status).toBe(429);
  });

  const newPassword = 'a long phrase of my own';
  /** Opens a password-reset link in a new browser. */
  async function withLink(own: TestService, user: TestUser) {
    const browser = new Browser(own.url);
    const link = await makeLink(own, 'password_reset', user);
    await browser.send('POST', '/reset/open', { form: { link }, headers: html });
    const reset = async (code: string) => {
      const form = { newPassword, newPasswordAgain: newPassword, code };
      return (await browser.send('POST', '/reset', { form, headers: html })).status;
    };
    return { browser, reset };
  }

  it('share one count between the sign-in and every password link', async () => {
    const own = await start();
    const { user, app, browser } = await challenged(own);
    const wrong = wrongCodeOf(app.code());
    for (let i = 0; i < 4; i++) expect((await give(browser, wrong)).status).toBe(401);
    for (let link = 0; link < 2; link++) {
      const { reset } = await withLink(own, user);
      for (let i = 0; i < 3; i++) expect(await reset(wrong)).toBe(401);
    }
    expect((await give(browser, app.code())).status).toBe(429);
    const { reset, browser: last } = await withLink(own, user);
    expect(await reset(app.code())).toBe(429);
    expect((await last.get('/reset', html)).status).toBe(200);
    // Other accounts are not affected.
    const other = await challenged(own);
    expect(await (await withLink(own, other.user)).reset(other.app.code())).toBe(303);
  });

  it('share one count between the sign-in and confirmations of signed-in people', async () => {
    const own = await start();
    const user = await createUser(database.db);
    const known = new Browser(own.url);
    await known.signIn(user.email);
    const signedIn = known.copy();
    const app = await giveSecondFactor(database.db, user.id, own.clock);
    const wrong = wrongCodeOf(app.code());
    const confirm = async (form: Record<string, string>) =>
      (await signedIn.send('POST', '/confirm', { form, headers: html })).status;
    // The password is checked first, so a code sent with a wrong password does not count as a guess.
    for (let i = 0; i < 2; i++) expect(await confirm({ currentPassword: 'wrong', code: wrong })).toBe(400);
    for (let i = 0; i < 5; i++) expect(await confirm({ currentPassword: PASSWORD, code: wrong })).toBe(400);
    const guesser = new Browser(own.url);
    guesser.cookies.set('gauge_device', known.cookies.get('gauge_device')!);
    await guesser.signIn(user.email);
    for (let i = 0; i < 4; i++) expect((await give(guesser, wrong)).status).toBe(401);
    expect((await give(guesser, wrong)).headers.get('location')).toMatch(/again=exhausted/);
    await guesser.signIn(user.email);
    expect((await give(guesser, app.code())).status).toBe(429);
    const change = { currentPassword: PASSWORD, newPassword, newPasswordAgain: newPassword };
    for (const [path, form] of [
      ['/confirm', { currentPassword: PASSWORD }],
      ['/dashboard/account/second-factor/recovery-codes', { currentPassword: PASSWORD }],
      ['/dashboard/account/password', change],
    ] as const) {
      const { status, text } = await signedIn.send('POST', path, {
        form: { ...form, code: app.code() },
        headers: html,
      });
      expect([path, status, text.includes('Too many wrong')]).toEqual([path, 429, true]);
    }
    // A browser that is not recognized for the account has a separate counter.
    const stranger = new Browser(own.url);
    await stranger.signIn(user.email);
    expect((await give(stranger, app.code())).status).toBe(303);
  });

  it('are answered more slowly after the first three', async () => {
    const own = await start({ firstDelayMs: 400, maxDelayMs: 400 });
    const { app, browser } = await challenged(own);
    for (let i = 0; i < 3; i++) await give(browser, wrongCodeOf(app.code()));
    const startedAt = performance.now();
    await give(browser, wrongCodeOf(app.code()));
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(395);
  });

  it('are the only codes counted', async () => {
    const own = await start({ perAccount: 2 });
    const { user, app } = await challenged(own);
    for (let i = 0; i < 4; i++) {
      const browser = new Browser(own.url);
      await browser.signIn(user.email);
      expect((await give(browser, await app.recoveryCode())).status).toBe(303);
    }
  });
});

it('expired challenges and abandoned set-ups are deleted, and nothing else', async () => {
  const own = await start();
  const { user } = await challenged(own);
  const pending = await createUser(database.db);
  await database.db.orm.insert(secondFactors).values({
    userId: pending.id,
    secret: 'A',
    setupSession: '',
    createdAt: new Date(own.clock.now()),
  });
  const setups = () =>
    database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, pending.id));
  await deleteExpiredSessions(database.db, new Date(own.clock.now() + 9 * MINUTE));
  expect(await challengesOf(user.id)).toHaveLength(1);
  expect(await setups()).toHaveLength(1);
  await deleteExpiredSessions(database.db, new Date(own.clock.now() + 24 * 60 * MINUTE));
  expect(await challengesOf(user.id)).toEqual([]);
  expect(await setups()).toEqual([]);
  const kept = await database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, user.id));
  expect(kept).toMatchObject([{ userId: user.id, confirmedAt: expect.any(Date) }]);
});
