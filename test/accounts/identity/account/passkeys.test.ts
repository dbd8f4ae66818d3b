import { request } from 'node:http';
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import {
  passkeyChallenges,
  passkeys,
  recoveryCodes,
  sessions,
} from '../../../../src/accounts/identity/table.js';
import { organizations } from '../../../../src/accounts/organizations/table.js';
import { isEmbedded } from '../../../support/database.js';
import { addMember, Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { forgetConfirmation, makeOperator } from '../../../support/operators.js';
import { givePasskey, SoftPasskey, type Deviations } from '../../../support/passkey.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { startTestService } from '../../../support/service.js';
import { ACCOUNT, html, isSignedIn, logOf, open, post } from './account.js';
import { useService } from '../../../support/use.js';
import { operatorLogOf } from '../../../support/audit.js';

const PASSKEYS = '/passkeys';
const MINUTE = 60_000;

const { database, service } = useService({
  app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1, perAddress: 1000 } },
});

/** Passkeys are bound to a domain name, so these tests use localhost instead of 127.0.0.1. */
const localUrl = () => service.url.replace('127.0.0.1', 'localhost');

const ask = async (browser: Browser, path: string) => {
  const answer = await browser.send('POST', path);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as { challenge: string; allowCredentials?: { id: string }[] };
};
const newOptions = (browser: Browser) => ask(browser, `${ACCOUNT}${PASSKEYS}/new-options`);
const useOptions = (browser: Browser) => ask(browser, `${ACCOUNT}${PASSKEYS}/options`);
const passkeysOf = (userId: string) =>
  database.db.orm.select().from(passkeys).where(eq(passkeys.userId, userId));
const lastEntry = async (target: string) => (await operatorLogOf(database.db, target)).at(-1);

async function add(browser: Browser, userId: string, name = 'Laptop', deviations: Deviations = {}) {
  const passkey = new SoftPasskey(service.url, userId);
  const field = passkey.create(await newOptions(browser), deviations);
  return { passkey, field, answer: await post(browser, PASSKEYS, { name, passkey: field }) };
}

/** Creates a member who has only a passkey, and a browser that is not signed in. */
async function withPasskey() {
  const user = await createUser(database.db);
  const organization = await createOrganization(database.db);
  await addMember(database.db, organization.id, user.id, 'owner');
  const passkey = await givePasskey(database.db, user.id, service.url);
  return { user, organization, passkey, browser: new Browser(service.url) };
}

async function halfSignedIn() {
  const person = await withPasskey();
  const answer = await person.browser.signIn(person.user.email);
  expect(answer.headers.get('location')).toBe('/login/code?next=%2Fdashboard');
  return person;
}

const sendCode = (browser: Browser, passkey: string) =>
  browser.send('POST', '/login/code', { form: { passkey }, headers: html });
const sendAlone = (browser: Browser, passkey: string, next = '/dashboard') =>
  browser.send('POST', '/login/passkey', { form: { passkey, next }, headers: html });

describe.runIf(isEmbedded)('adding a passkey', () => {
  it('turns the second factor on, issues recovery codes and ends the other sessions', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const other = new Browser(service.url);
    await other.signIn(user.email);
    const { passkey, answer } = await add(browser, user.id, ' Work <i>laptop</i> ');
    expect(answer.status).toBe(200);
    expect(/<code id="recovery-codes">([^<]+)<\/code>/.exec(answer.text)![1]!.split('\n')).toHaveLength(10);
    expect(await isSignedIn(other)).toBe(false);
    expect(await isSignedIn(browser)).toBe(true);
    expect(await passkeysOf(user.id)).toMatchObject([
      { credentialId: passkey.id, name: 'Work <i>laptop</i>', counter: 0, lastUsedAt: null },
    ]);
    const page = await open(browser, PASSKEYS);
    expect(page.text).toContain('Work &lt;i&gt;laptop&lt;/i&gt;');
    expect(await logOf(database, user.email)).toMatchObject([
      { action: 'user.passkey_added', actor: user.id, details: { sessionsEnded: 1 } },
    ]);
    expect((await other.signIn(user.email)).headers.get('location')).toMatch(/^\/login\/code/);
    // Adding the second passkey ends no sessions and creates no recovery codes.
    const second = await add(browser, user.id, 'Phone');
    expect(second.answer.headers.get('location')).toBe(`${ACCOUNT}${PASSKEYS}?done=added`);
    expect(await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, user.id))).toBe(10);
  });

  const turnsOn = 'Your first passkey turns on the second factor';
  const turnsOff = 'Removing your last passkey turns off the second factor';

  it('explains beforehand what the first passkey changes and what removing the last one does', async () => {
    const { browser, user } = await signedIn(database.db, localUrl());
    const first = (await open(browser, PASSKEYS)).text;
    expect(first.indexOf(turnsOn)).toBeGreaterThan(0);
    expect(first.slice(first.indexOf(turnsOn))).toMatch(/signed out in every other browser[^]*data-passkey=/);
    expect(first).not.toContain(turnsOff);
    await givePasskey(database.db, user.id, localUrl());
    const last = (await open(browser, PASSKEYS)).text;
    expect(last).not.toContain(turnsOn);
    expect(last.slice(last.indexOf(turnsOff))).toMatch(
      /signed out in every other browser[^]*passkeys\/remove/,
    );
    await giveSecondFactor(database.db, user.id, service.clock);
    const beside = (await open(browser, PASSKEYS)).text;
    expect([beside.includes(turnsOn), beside.includes(turnsOff)]).toEqual([false, false]);
  });

  it('works on localhost from registration to sign-in, only for that origin', async () => {
    const url = localUrl();
    const { browser, user } = await signedIn(database.db, url);
    const sent = { ...html, origin: url };
    const options = await browser.send('POST', `${ACCOUNT}${PASSKEYS}/new-options`, { headers: sent });
    expect(options.body).toMatchObject({
      rp: { id: 'localhost' },
      pubKeyCredParams: [{ alg: -8 }, { alg: -7 }, { alg: -257 }],
    });
    const passkey = new SoftPasskey(url, user.id);
    const form = { name: 'Laptop', passkey: passkey.create(options.body as { challenge: string }) };
    const added = await browser.send('POST', `${ACCOUNT}${PASSKEYS}`, { form, headers: sent });
    expect([added.status, added.text.includes('recovery-codes')]).toEqual([200, true]);
    const again = new Browser(url);
    const { body } = await again.send('POST', '/login/passkey-options', { headers: sent });
    const used = passkey.use(body as { challenge: string });
    const foreign = { form: { passkey: used }, headers: { ...html, origin: service.url } };
    expect((await again.send('POST', '/login/passkey', foreign)).status).toBe(403);
    const signed = await again.send('POST', '/login/passkey', { form: { passkey: used }, headers: sent });
    expect([signed.status, await isSignedIn(again)]).toEqual([303, true]);
  });

  it('is not offered at an IP address: every page says so and links to localhost', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const there = (path: string) => `href="${localUrl()}${path}"`;
    const own = `${ACCOUNT}${PASSKEYS}`;
    for (const isConfirmed of [true, false]) {
      if (!isConfirmed) await forgetConfirmation(service, browser);
      const { text } = await open(browser, PASSKEYS);
      expect([text.includes('do not work at an IP address'), text.includes(there(own))]).toEqual([
        true,
        true,
      ]);
      expect(text).not.toContain('data-passkey=');
    }
    await givePasskey(database.db, user.id, localUrl());
    for (const path of ['/login?next=%2Fdashboard%2Fusage', '/confirm', `${ACCOUNT}/password`]) {
      const visitor = path.startsWith('/login') ? new Browser(service.url) : browser;
      const { text } = await visitor.get(path, html);
      expect([path, text.includes(there(path)), text.includes('data-passkey=')]).toEqual([path, true, false]);
      const local = await visitor.copy(localUrl()).get(path, html);
      expect([local.text.includes('do not work at'), local.text.includes('data-passkey=')]).toEqual([
        false,
        true,
      ]);
    }
  });

  it.each(['not a host', '[::1', '127.0.0.1:99999'])('survives an invalid Host header: %s', async (host) => {
    const { hostname, port } = new URL(service.url);
    const status = await new Promise((resolve, reject) => {
      request({ hostname, port, path: '/login', headers: { host, accept: 'text/html' } }, (answer) =>
        resolve(answer.resume().statusCode),
      )
        .on('error', reject)
        .end();
    });
    expect(status).toBe(200);
  });

  it.each([
    ['http://127.0.0.1:3000', false],
    ['http://[::1]:3000', false],
    ['https://gauge.example.com', true],
  ])('uses PUBLIC_URL if it is set: %s', async (PUBLIC_URL, works) => {
    const own = await startTestService(database.db, { env: { PUBLIC_URL } });
    try {
      const { text } = await new Browser(own.url).get('/login', html);
      expect([text.includes('data-passkey='), text.includes('do not work at an IP address')]).toEqual([
        works,
        !works,
      ]);
      expect(text).not.toContain('localhost');
    } finally {
      await own.stop();
    }
  });

  it('requires a confirmation in the last ten minutes', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const passkey = new SoftPasskey(service.url, user.id).create(await newOptions(browser));
    await forgetConfirmation(service, browser);
    expect((await open(browser, PASSKEYS)).text).toContain('/confirm?next=%2Fdashboard%2Faccount%2Fpasskeys');
    expect((await browser.send('POST', `${ACCOUNT}${PASSKEYS}/new-options`)).status).toBe(403);
    const refused = await post(browser, PASSKEYS, { name: 'Laptop', passkey });
    expect([refused.status, refused.text.includes('Confirm your identity')]).toEqual([403, true]);
    expect(await passkeysOf(user.id)).toEqual([]);
    await browser.send('POST', '/confirm', { form: { currentPassword: PASSWORD } });
    expect((await post(browser, PASSKEYS, { name: 'Laptop', passkey })).status).toBe(200);
  });

  it.each<[string, Deviations]>([
    ['for another origin', { origin: 'https://gauge.example.com' }],
    ['for another host', { rpId: 'gauge.example.com' }],
    ['with another challenge', { challenge: 'x'.repeat(43) }],
    ['without user presence', { isPresent: false }],
    ['with an algorithm that was not offered', { algorithm: -48 }],
  ])('rejects a passkey %s, and logs it', async (_name, deviations) => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { answer } = await add(browser, user.id, 'Laptop', deviations);
    expect([answer.status, answer.text.includes('could not be verified')]).toEqual([400, true]);
    expect(await passkeysOf(user.id)).toEqual([]);
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.passkey_refused',
      details: { at: 'adding' },
    });
  });

  it('rejects a replay, an old answer, another session’s challenge and another person’s passkey', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { field } = await add(browser, user.id);
    expect((await post(browser, PASSKEYS, { name: 'Again', passkey: field })).status).toBe(400);
    const late = new SoftPasskey(service.url, user.id).create(await newOptions(browser));
    service.clock.advance(5 * MINUTE + 1);
    expect((await post(browser, PASSKEYS, { name: 'Late', passkey: late })).status).toBe(400);
    const { browser: stranger, user: other } = await signedIn(database.db, service.url);
    const foreign = new SoftPasskey(service.url, user.id).create(await newOptions(stranger));
    expect((await post(browser, PASSKEYS, { name: 'Foreign', passkey: foreign })).status).toBe(400);
    // Another person's credential, registered again by the same authenticator.
    const taken = await givePasskey(database.db, other.id, service.url);
    const again = taken.create(await newOptions(browser));
    const answer = await post(browser, PASSKEYS, { name: 'Taken', passkey: again });
    expect(answer.text).toContain('has already been added');
    expect(await passkeysOf(user.id)).toHaveLength(1);
  });

  it.each([
    ['no name', { name: '' }],
    ['a blank name', { name: '  ' }],
    ['a long name', { name: 'x'.repeat(101) }],
    ['no passkey', { passkey: '' }],
    ['invalid JSON', { passkey: '{' }],
    ['JSON of another type', { passkey: '[]' }],
    ['NUL', { passkey: '"\0"' }],
    [
      'another shape',
      { passkey: '{"id":"a","rawId":"a","type":"public-key","response":{"clientDataJSON":"AA"}}' },
    ],
    [
      'undecodable bytes',
      {
        passkey:
          '{"id":"a","rawId":"a","type":"public-key","response":{"clientDataJSON":"AA","attestationObject":"AA"}}',
      },
    ],
  ])('rejects %s', async (_name, fields) => {
    const { browser, user } = await signedIn(database.db, service.url);
    const passkey = new SoftPasskey(service.url, user.id).create(await newOptions(browser));
    expect((await post(browser, PASSKEYS, { name: 'Laptop', passkey, ...fields })).status).toBe(400);
    expect(await passkeysOf(user.id)).toEqual([]);
  });

  it('stops at ten', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    for (let i = 0; i < 9; i++) await givePasskey(database.db, user.id, service.url);
    expect((await add(browser, user.id)).answer.status).toBe(303);
    const { answer } = await add(browser, user.id);
    expect([answer.status, answer.text.includes('You have 10 passkeys')]).toEqual([400, true]);
    expect(await passkeysOf(user.id)).toHaveLength(10);
  });
});

describe('removing a passkey', () => {
  it('turns the second factor off if it was the last, and logs that', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { passkey } = await add(browser, user.id);
    const second = await givePasskey(database.db, user.id, service.url);
    const remove = (id: string) => post(browser, `${PASSKEYS}/remove`, { id });
    expect((await remove(second.id)).headers.get('location')).toBe(`${ACCOUNT}${PASSKEYS}?done=removed`);
    expect(await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, user.id))).toBe(10);
    expect((await remove(second.id)).status).toBe(404);
    expect((await remove(passkey.id)).headers.get('location')).toContain('done=last-removed');
    expect(await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, user.id))).toBe(0);
    expect((await logOf(database, user.email)).map(({ action }) => action)).toEqual([
      'user.passkey_removed',
      'user.passkey_removed',
      'user.passkey_added',
    ]);
    expect((await new Browser(service.url).signIn(user.email)).headers.get('location')).toBe('/dashboard');
  });

  it('is independent of turning the app off, after which the passkey remains the second factor', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    await add(browser, user.id);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const off = await post(browser, '/second-factor/off', { currentPassword: PASSWORD, code: app.code() });
    expect(off.headers.get('location')).toBe(`${ACCOUNT}/second-factor?done=app-off`);
    const { text } = await open(browser, '/second-factor?done=app-off');
    expect(text).toContain('The authenticator app is off.');
    expect((await new Browser(service.url).signIn(user.email)).headers.get('location')).toContain(
      '/login/code',
    );
  });

  it('fails for another person’s passkey and ten minutes after the confirmation', async () => {
    const { passkey, user } = await withPasskey();
    const { browser } = await signedIn(database.db, service.url);
    expect((await post(browser, `${PASSKEYS}/remove`, { id: passkey.id })).status).toBe(404);
    await forgetConfirmation(service, browser);
    expect((await post(browser, `${PASSKEYS}/remove`, { id: passkey.id })).status).toBe(403);
    expect(await passkeysOf(user.id)).toHaveLength(1);
  });

  it('fails for the last factor of a person who must have one, as does turning the app off', async () => {
    const { browser, user, organization } = await signedIn(database.db, service.url);
    const { passkey } = await add(browser, user.id);
    await database.db.orm
      .update(organizations)
      .set({ requireSecondFactor: true })
      .where(eq(organizations.id, organization.id));
    expect((await browser.get('/dashboard', html)).status).toBe(200);
    const refused = await post(browser, `${PASSKEYS}/remove`, { id: passkey.id });
    expect([refused.status, refused.text.includes('requires you to have a second factor')]).toEqual([
      403,
      true,
    ]);
    expect(await passkeysOf(user.id)).toHaveLength(1);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    expect((await post(browser, `${PASSKEYS}/remove`, { id: passkey.id })).status).toBe(303);
    const off = await post(browser, '/second-factor/off', { currentPassword: PASSWORD, code: app.code() });
    expect([off.status, off.text.includes('requires you to have a second factor')]).toEqual([403, true]);
  });

  it('fails for the last factor of an operator', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    await makeOperator(service, user.id);
    expect((await browser.send('POST', '/set-up/product', { form: {} })).status).toBe(403);
    const { passkey } = await add(browser, user.id);
    expect((await browser.send('POST', '/set-up/product', { form: {} })).status).toBe(400);
    expect((await post(browser, `${PASSKEYS}/remove`, { id: passkey.id })).status).toBe(403);
  });
});

describe.runIf(isEmbedded)('a passkey after the password', () => {
  it('replaces the code', async () => {
    const { browser, user, passkey } = await halfSignedIn();
    const options = await ask(browser, '/login/code/passkey-options');
    expect(options.allowCredentials).toMatchObject([{ id: passkey.id }]);
    // User verification is not required after the password.
    const answer = await sendCode(browser, passkey.use(options, { isVerified: false, userHandle: null }));
    expect(answer.headers.get('location')).toBe('/dashboard');
    expect(await isSignedIn(browser)).toBe(true);
    expect(browser.cookies.has('gauge_device')).toBe(true);
    expect(await passkeysOf(user.id)).toMatchObject([
      { counter: 1, lastUsedAt: new Date(service.clock.now()) },
    ]);
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.signed_in',
      details: { secondFactor: 'passkey' },
    });
  });

  it.each<[string, string, Deviations]>([
    ['for another origin', 'not_verified', { origin: 'https://gauge.example.com' }],
    ['for another host', 'not_verified', { rpId: 'gauge.example.com' }],
    ['for another challenge', 'unknown_challenge', { challenge: 'x'.repeat(43) }],
    ['for a malformed challenge', 'unknown_challenge', { challenge: '\0' }],
    ['with the same counter', 'counter', { counter: 7 }],
    ['with a lower counter', 'counter', { counter: 6 }],
    ['without a counter', 'counter', { counter: 0 }],
    ['with another person’s handle', 'unknown_passkey', { userHandle: 'AAAA' }],
    ['from an unknown passkey', 'unknown_passkey', { id: 'unknown' }],
  ])('is refused %s, counted and logged', async (_name, reason, deviations) => {
    const { browser, user, passkey } = await halfSignedIn();
    await database.db.orm.update(passkeys).set({ counter: 7 }).where(eq(passkeys.userId, user.id));
    passkey.counter = 7;
    const options = await ask(browser, '/login/code/passkey-options');
    const answer = await sendCode(browser, passkey.use(options, deviations));
    expect([answer.status, answer.text.includes('was not accepted. 4 tries are left.')]).toEqual([401, true]);
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.passkey_refused',
      details: { at: 'sign_in', tries: 1, reason },
    });
    expect(await isSignedIn(browser)).toBe(false);
    // A refused signature has consumed its challenge.
    if (reason !== 'unknown_challenge')
      expect((await sendCode(browser, passkey.use(options))).status).toBe(401);
    expect(
      (await sendCode(browser, passkey.use(await ask(browser, '/login/code/passkey-options')))).status,
    ).toBe(303);
  });

  it('is refused for another person, another sign-in’s challenge, and a second use', async () => {
    const first = await halfSignedIn();
    const second = await halfSignedIn();
    const options = await ask(first.browser, '/login/code/passkey-options');
    expect((await sendCode(first.browser, second.passkey.use(options, { userHandle: null }))).status).toBe(
      401,
    );
    const foreign = await ask(second.browser, '/login/code/passkey-options');
    expect((await sendCode(first.browser, first.passkey.use(foreign))).status).toBe(401);
    const used = second.passkey.use(await ask(second.browser, '/login/code/passkey-options'));
    expect((await sendCode(second.browser, used)).status).toBe(303);
    await second.browser.signIn(second.user.email);
    expect((await sendCode(second.browser, used)).status).toBe(401);
  });

  it('blocks the sign-in after five failures; a new sign-in accepts a recovery code', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { answer } = await add(browser, user.id);
    const code = /<code id="recovery-codes">([^<\n]+)/.exec(answer.text)![1]!;
    const other = new Browser(service.url);
    await other.signIn(user.email);
    const stranger = new SoftPasskey(service.url, user.id);
    for (let i = 0; i < 4; i++)
      expect((await sendCode(other, stranger.use({ challenge: 'x' }))).status).toBe(401);
    expect((await sendCode(other, stranger.use({ challenge: 'x' }))).headers.get('location')).toContain(
      'exhausted',
    );
    await other.signIn(user.email);
    expect((await other.send('POST', '/login/code', { form: { code } })).status).toBe(303);
  });
});

describe('a passkey alone', () => {
  it('signs in and ends the browser’s previous session', async () => {
    const { user, passkey } = await withPasskey();
    const { browser } = await signedIn(database.db, service.url);
    const before = browser.copy();
    const options = await ask(browser, '/login/passkey-options');
    expect(options.allowCredentials ?? []).toEqual([]);
    const answer = await sendAlone(browser, passkey.use(options), '/dashboard/members');
    expect(answer.headers.get('location')).toBe('/dashboard/members');
    expect(await isSignedIn(browser)).toBe(true);
    expect(await isSignedIn(before)).toBe(false);
    const [session] = await database.db.orm.select().from(sessions).where(eq(sessions.userId, user.id));
    expect(session!.confirmedAt).toEqual(new Date(service.clock.now()));
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.signed_in',
      details: { passkey: true },
    });
  });

  it.each<[string, string, Deviations]>([
    ['without user verification', 'not_verified', { isVerified: false }],
    ['for another origin', 'not_verified', { origin: 'https://gauge.example.com' }],
    ['without a user handle', 'unknown_passkey', { userHandle: null }],
    ['with another person’s handle', 'unknown_passkey', { userHandle: 'AAAA' }],
    ['for another challenge', 'unknown_challenge', { challenge: 'x'.repeat(43) }],
    ['without a counter after earlier uses', 'counter', { counter: 0 }],
  ])('is refused %s, and logged', async (_name, reason, deviations) => {
    const { browser, user, passkey } = await withPasskey();
    await database.db.orm.update(passkeys).set({ counter: 1 }).where(eq(passkeys.userId, user.id));
    passkey.counter = 1;
    const answer = await sendAlone(
      browser,
      passkey.use(await ask(browser, '/login/passkey-options'), deviations),
    );
    expect([answer.status, answer.text.includes('was not accepted')]).toEqual([401, true]);
    expect(await isSignedIn(browser)).toBe(false);
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.passkey_refused',
      actor: 'unknown',
      details: { at: 'sign_in', reason },
    });
  });

  it('is refused a second time, after five minutes, and after its removal', async () => {
    const { browser, user, passkey } = await withPasskey();
    const used = passkey.use(await ask(browser, '/login/passkey-options'));
    expect((await sendAlone(browser, used)).status).toBe(303);
    expect((await sendAlone(new Browser(service.url), used)).status).toBe(401);
    const late = passkey.use(await ask(browser, '/login/passkey-options'));
    service.clock.advance(5 * MINUTE + 1);
    expect((await sendAlone(browser, late)).status).toBe(401);
    const removed = passkey.use(await ask(browser, '/login/passkey-options'));
    await database.db.orm.delete(passkeys).where(eq(passkeys.userId, user.id));
    expect((await sendAlone(browser, removed)).status).toBe(401);
    expect(await lastEntry('unknown')).toMatchObject({
      action: 'user.passkey_refused',
      details: { reason: 'unknown_passkey' },
    });
  });

  it('signs in once when used twice concurrently', async () => {
    const { browser, passkey } = await withPasskey();
    const used = passkey.use(await ask(browser, '/login/passkey-options'));
    const answers = await Promise.all([1, 2, 3].map(() => sendAlone(new Browser(service.url), used)));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 401, 401]);
  });

  it('is refused after ten wrong attempts, even if right, and also with a session’s challenge', async () => {
    const { browser, user, passkey } = await withPasskey();
    for (let i = 0; i < 10; i++)
      expect((await sendAlone(browser, passkey.use({ challenge: 'x' }))).status).toBe(401);
    const right = passkey.use(await ask(browser, '/login/passkey-options'));
    expect((await sendAlone(browser, right)).status).toBe(429);
    expect(await isSignedIn(browser)).toBe(false);
    expect(await passkeysOf(user.id)).toMatchObject([{ counter: 0 }]);
    const other = await halfSignedIn();
    const bound = other.passkey.use(await ask(other.browser, '/login/code/passkey-options'));
    expect((await sendAlone(other.browser, bound)).status).toBe(401);
  });

  it('gives strangers a limited number of challenges', async () => {
    const { browser } = await withPasskey();
    service.clock.advance(MINUTE);
    const before = await database.db.orm.$count(passkeyChallenges);
    for (let i = 0; i < 60; i++) await ask(browser, '/login/passkey-options');
    expect((await browser.send('POST', '/login/passkey-options')).status).toBe(429);
    expect(await database.db.orm.$count(passkeyChallenges)).toBe(before + 60);
  });
});

describe.runIf(isEmbedded)('a passkey in place of a code', () => {
  it('confirms identity, changes the password and renews recovery codes', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { passkey } = await add(browser, user.id);
    await forgetConfirmation(service, browser);
    const proof = async () => ({
      currentPassword: PASSWORD,
      passkey: passkey.use(await useOptions(browser)),
    });
    const wrong = { ...(await proof()), currentPassword: 'wrong' };
    expect((await browser.send('POST', '/confirm', { form: wrong })).status).toBe(400);
    expect((await browser.send('POST', '/confirm', { form: { currentPassword: PASSWORD } })).status).toBe(
      400,
    );
    expect((await browser.send('POST', '/confirm', { form: await proof() })).status).toBe(303);
    expect((await post(browser, '/second-factor/recovery-codes', await proof())).status).toBe(200);
    const newPassword = 'four unrelated words here';
    const form = { ...(await proof()), newPassword, newPasswordAgain: newPassword };
    expect((await post(browser, '/password', form)).status).toBe(303);
    expect((await post(browser, '/password', form)).status).toBe(400);
  });

  it('is counted and logged when refused, with the error next to the field', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const { passkey } = await add(browser, user.id);
    const used = passkey.use(await useOptions(browser), { origin: 'https://gauge.example.com' });
    const form = { currentPassword: PASSWORD, passkey: used };
    const answer = await browser.send('POST', '/confirm', { form, headers: html });
    expect([answer.status, answer.text.includes('The passkey was not accepted')]).toEqual([400, true]);
    expect(await lastEntry(user.email)).toMatchObject({
      action: 'user.passkey_refused',
      details: { at: 'confirmation', reason: 'not_verified' },
    });
  });
});

it.runIf(isEmbedded)('needs a session to get its options', async () => {
  const stranger = new Browser(service.url);
  for (const path of ['/passkeys/options', '/passkeys/new-options'])
    expect((await stranger.send('POST', `${ACCOUNT}${path}`)).status).toBe(401);
});
