import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { answerPasswordRequests } from '../../../../src/accounts/identity/account/reset.js';
import { createMailSender } from '../../../../src/accounts/mail/sender.js';
import { oneTimeLinks, passwordRequests } from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { mails } from '../../../../src/accounts/mail/table.js';
import { isEmbedded } from '../../../support/database.js';
import { Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { mailEnv, startMailServer, type Received } from '../../../support/mail.js';
import { makeLink, signedInOperator } from '../../../support/operators.js';
import { operatorToken } from '../../../support/operator.js';
import { givePasskey, SoftPasskey } from '../../../support/passkey.js';
import { authenticator, giveSecondFactor } from '../../../support/second-factor.js';
import { startTestService } from '../../../support/service.js';
import { logOf } from './account.js';
import { use, useService } from '../../../support/use.js';
import { operatorLogOf } from '../../../support/audit.js';

const server = use(startMailServer, (mailServer) => mailServer.stop());
const { database, service } = useService(() => ({ env: mailEnv(server.port) }));

const html = { accept: 'text/html' };
const origin = mailEnv(0).PUBLIC_URL;
const post = (browser: Browser, path: string, form: Record<string, string>, headers = {}) =>
  browser.send('POST', path, { form, headers: { ...html, ...headers } });
const forgot = (email: string) => post(new Browser(service.url), '/forgot', { email });

/** Runs the jobs and returns the mail that they deliver to the address. */
async function deliver(to: string): Promise<Received[]> {
  const before = server.received.length;
  await answerPasswordRequests(service.context);
  await createMailSender(service.context)();
  return server.received.slice(before).filter(({ recipients }) => recipients.includes(to));
}

const linkIn = ({ text }: Received, path: string): string => {
  const link = new RegExp(`${origin}${path}#([\\w-]+)\\n`).exec(text!);
  if (!link) throw new Error(text);
  return link[1]!;
};

describe('a forgotten password', () => {
  it('can be replaced once with a mailed link', async () => {
    const user = await createUser(database.db);
    expect((await new Browser(service.url).get('/login', html)).text).toContain('href="/forgot"');
    const asked = await forgot(` ${user.email.toUpperCase()} `);
    expect(asked.status).toBe(303);
    const [mail, ...others] = await deliver(user.email);
    expect(others).toEqual([]);
    expect(mail!.subject).toBe('Choose a new password');
    const browser = new Browser(service.url);
    expect((await post(browser, '/reset/open', { link: linkIn(mail!, '/reset') })).status).toBe(303);
    const newPassword = 'a long phrase of my own';
    const chosen = { newPassword, newPasswordAgain: newPassword };
    expect((await post(browser, '/reset', chosen)).headers.get('location')).toBe('/dashboard');
    expect((await new Browser(service.url).signIn(user.email, newPassword)).status).toBe(303);
    const again = new Browser(service.url);
    await post(again, '/reset/open', { link: linkIn(mail!, '/reset') });
    expect((await again.get('/reset', html)).text).toContain('This link was already used');
    const [told] = await deliver(user.email);
    expect([told!.subject, told!.text]).toEqual([
      'Your password was changed',
      expect.stringMatching(/changed on .* UTC, from 127\.0\.0\.1\./),
    ]);
    const log = await operatorLogOf(database.db, user.email);
    expect(log.map(({ action }) => action)).toContain('link.created');
    // The mail texts have been erased, because they contained the links.
    const rows = await database.db.orm.select().from(mails).where(eq(mails.toAddress, user.email));
    expect(rows.map(({ text }) => text)).toEqual(['', '']);
  });

  it('gets the same answer after the same work whether or not the account exists', async () => {
    const user = await createUser(database.db);
    const answers = [];
    for (const email of [user.email, 'no-such-person@example.com']) {
      const before = await database.db.orm.select().from(passwordRequests);
      const { status, text, headers } = await forgot(email);
      const page = await new Browser(service.url).get(headers.get('location')!, html);
      const made = (await database.db.orm.select().from(passwordRequests)).length - before.length;
      const notice = /If there is an account with this address, a link is on its way/.exec(page.text)?.[0];
      answers.push({ status, text, location: headers.get('location'), made, notice });
    }
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]).toMatchObject({ status: 303, made: 1, notice: expect.any(String) as string });
    expect(await deliver('no-such-person@example.com')).toEqual([]);
    expect(await database.db.orm.select().from(passwordRequests)).toEqual([]);
  });

  const say = async (link: string) => {
    const browser = new Browser(service.url);
    await post(browser, '/reset/open', { link });
    return (await browser.get('/reset', html)).text;
  };

  it('gets a link that works for an hour and replaces earlier mailed ones', async () => {
    const user = await createUser(database.db);
    await forgot(user.email);
    const early = linkIn((await deliver(user.email))[0]!, '/reset');
    await forgot(user.email);
    const token = linkIn((await deliver(user.email))[0]!, '/reset');
    expect(await say(early)).toContain('This link does not exist');
    expect(await say(token)).toContain('Choose a new password');
    service.clock.advance(3_600_000);
    expect(await say(token)).toContain('This link has expired');
  });

  it('does not end an operator’s link, but a later operator’s link ends a mailed one', async () => {
    const user = await createUser(database.db);
    const { id } = await signedInOperator(service);
    for (const maker of [id, undefined]) {
      const handed = await makeLink(service, 'password_reset', user, maker);
      await forgot(user.email);
      const mailed = linkIn((await deliver(user.email))[0]!, '/reset');
      for (const link of [handed, mailed]) expect(await say(link)).toContain('Choose a new password');
      const later = await makeLink(service, 'password_reset', user, maker);
      for (const link of [handed, mailed]) expect(await say(link)).toContain('This link does not exist');
      expect(await say(later)).toContain('Choose a new password');
    }
  });

  it('can be replaced with only one link; the other links stop working', async () => {
    const user = await createUser(database.db);
    const handed = await makeLink(service, 'password_reset', user);
    await forgot(user.email);
    const browser = new Browser(service.url);
    await post(browser, '/reset/open', { link: linkIn((await deliver(user.email))[0]!, '/reset') });
    const newPassword = 'a long phrase of my own';
    const chosen = { newPassword, newPasswordAgain: newPassword };
    expect((await post(browser, '/reset', chosen)).status).toBe(303);
    expect(await say(handed)).toContain('This link does not exist');
  });

  it('gets one link per request, even with two instances', async () => {
    const user = await createUser(database.db);
    await forgot(user.email);
    await Promise.all([1, 2, 3].map(() => answerPasswordRequests(service.context)));
    const links = await database.db.orm.select().from(oneTimeLinks).where(eq(oneTimeLinks.userId, user.id));
    expect(links).toHaveLength(1);
    expect(await deliver(user.email)).toHaveLength(1);
  });

  it('gets no mail for a malformed address, or too often for one address', async () => {
    for (const email of ['', 'nobody', 'a@example.com, b@example.com', 'a@example.com\r\nbcc: b@example.com'])
      expect((await forgot(email)).status, email).toBe(400);
    const statuses = [];
    for (let n = 0; n < 6; n++) statuses.push((await forgot('often@example.com')).status);
    expect(statuses).toEqual([303, 303, 303, 303, 303, 429]);
    for (let n = 0; n < 15; n++) await forgot(`each-${n}@example.com`);
    expect((await forgot('another@example.com')).status).toBe(429);
  });

  it('is left to the operator if mail is not configured', async () => {
    const silent = await startTestService(database.db);
    const browser = new Browser(silent.url);
    const { status, text } = await browser.get('/forgot', html);
    expect([status, text.includes('name="email"')]).toEqual([200, false]);
    expect(text).toMatch(/Ask the operator of this service for a link[^]*<a href="\/reset">Paste it</);
    expect((await browser.get('/reset', html)).text).toContain(
      'You got it from the operator of this service.',
    );
    expect((await post(browser, '/forgot', { email: 'a@example.com' })).status).toBe(404);
    await silent.stop();
  });
});

describe.runIf(isEmbedded)('a person gets mail', () => {
  it('after a change of their password and after their second factor is turned off', async () => {
    const { user, browser } = await signedIn(database.db, service.url);
    const newPassword = 'four unrelated words here';
    const fields = { currentPassword: PASSWORD, newPassword, newPasswordAgain: newPassword };
    expect((await post(browser, '/dashboard/account/password', fields)).status).toBe(303);
    expect((await deliver(user.email)).map(({ subject }) => subject)).toEqual(['Your password was changed']);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const off = { currentPassword: newPassword, code: app.code() };
    expect((await post(browser, '/dashboard/account/second-factor/off', off)).status).toBe(303);
    const [mail] = await deliver(user.email);
    expect(mail!.subject).toBe('Your second factor was turned off');
  });

  it('after an app is added, recovery codes are renewed, or the app is removed while a passkey remains', async () => {
    const { user, browser } = await signedIn(database.db, service.url);
    const subjects = async () => (await deliver(user.email)).map(({ subject }) => subject);
    const path = '/dashboard/account/second-factor';
    await givePasskey(database.db, user.id, origin);
    expect((await post(browser, path, { currentPassword: PASSWORD })).status).toBe(303);
    const { text } = await browser.get(`${path}/setup`, html);
    const code = authenticator(/secret=([A-Z2-7]{32})/.exec(text)![1]!, service.clock);
    expect(await subjects()).toEqual([]);
    expect((await post(browser, `${path}/setup`, { code: code() })).status).toBe(200);
    expect(await subjects()).toEqual(['An authenticator app was added to your account']);
    const proof = (steps: number) => ({ currentPassword: PASSWORD, code: code(steps) });
    expect((await post(browser, `${path}/recovery-codes`, proof(1))).status).toBe(200);
    expect(await subjects()).toEqual(['New recovery codes were created for your account']);
    service.clock.advance(60_000);
    expect((await post(browser, `${path}/off`, proof(0))).status).toBe(303);
    expect(await subjects()).toEqual(['The authenticator app was removed from your account']);
    expect((await logOf(database, user.email)).map(({ action }) => action)).toEqual([
      'user.authenticator_app_removed',
      'user.recovery_codes_made',
      'user.authenticator_app_added',
    ]);
  });

  it('after a passkey is added or removed, and when that turns the second factor off', async () => {
    const { user, browser } = await signedIn(database.db, service.url);
    const subjects = async () => (await deliver(user.email)).map(({ subject }) => subject);
    const kept = await givePasskey(database.db, user.id, origin);
    const path = '/dashboard/account/passkeys';
    const { body: options } = await browser.send('POST', `${path}/new-options`);
    const passkey = new SoftPasskey(origin, user.id);
    const added = { name: 'Laptop', passkey: passkey.create(options) };
    expect((await post(browser, path, added)).status).toBe(303);
    const [mail, ...others] = await deliver(user.email);
    expect([mail!.subject, others]).toEqual(['A passkey was added to your account', []]);
    expect(mail!.text).toMatch(/added to your account on .* UTC, from 127\.0\.0\.1\./);
    expect((await post(browser, path, added)).status).toBe(400);
    expect((await post(browser, `${path}/remove`, { id: 'unknown' })).status).toBe(404);
    expect(await subjects()).toEqual([]);
    expect((await post(browser, `${path}/remove`, { id: passkey.id })).status).toBe(303);
    expect(await subjects()).toEqual(['A passkey was removed from your account']);
    expect((await post(browser, `${path}/remove`, { id: kept.id })).status).toBe(303);
    expect(await subjects()).toEqual(['Your second factor was turned off']);
  });

  it('after a lost second factor is removed with a link', async () => {
    const user = await createUser(database.db);
    await giveSecondFactor(database.db, user.id, service.clock);
    const browser = new Browser(service.url);
    await post(browser, '/reset/open', { link: await makeLink(service, 'second_factor_reset', user) });
    expect((await post(browser, '/reset', { password: PASSWORD })).status).toBe(303);
    expect((await deliver(user.email)).map(({ subject }) => subject)).toEqual([
      'Your second factor was turned off',
    ]);
  });

  it('after a change by the operator', async () => {
    const user = await createUser(database.db);
    await giveSecondFactor(database.db, user.id, service.clock);
    const call = (method: string, path: string, body?: object) =>
      fetch(`${service.url}/operator/users/${user.email}${path}`, {
        method,
        headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
    expect((await call('PUT', '', { name: user.name, password: PASSWORD })).status).toBe(200);
    expect((await call('PUT', '', { name: user.name, password: 'one more long phrase' })).status).toBe(200);
    expect((await call('DELETE', '/second-factor')).status).toBe(204);
    const told = await deliver(user.email);
    expect(new Set(told.map(({ subject }) => subject))).toEqual(
      new Set(['Your password was changed', 'Your second factor was turned off']),
    );
    for (const { text } of told) expect(text).toContain('by the operator of this service');
  });

  it('but not after a refused change', async () => {
    const { user, browser } = await signedIn(database.db, service.url);
    const newPassword = 'four unrelated words here';
    const fields = { currentPassword: 'wrong', newPassword, newPasswordAgain: newPassword };
    expect((await post(browser, '/dashboard/account/password', fields)).status).toBe(400);
    expect(await deliver(user.email)).toEqual([]);
  });
});

describe.runIf(isEmbedded)('an invitation', () => {
  it('is mailed to the invited address, and its link is not shown to the inviter', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const email = 'invited@example.com';
    const id = '01900000-0000-7000-8000-000000000001';
    const invited = await post(browser, '/dashboard/members/invite', { id, email, role: 'admin', days: '7' });
    expect(invited.status).toBe(201);
    expect(invited.text).toContain('Sent to <bdi>invited@example.com</bdi>');
    const [mail, ...others] = await deliver(email);
    expect(others).toEqual([]);
    expect(mail!.subject).toBe(`Invitation to ${organization.name} on Gauge`);
    const token = linkIn(mail!, '/dashboard/join');
    expect(invited.text).not.toContain(token);
    expect(invited.text).not.toContain('invitation-link');
    const guest = new Browser(service.url);
    expect((await post(guest, '/dashboard/join/open', { invitation: token })).status).toBe(303);
    expect((await guest.get('/dashboard/join', html)).text).toContain(organization.name);
    const account = { invitation: token, name: 'Guest', password: 'four unrelated words here' };
    expect((await post(guest, '/dashboard/join/account', account)).status).toBe(303);
    const [made] = await database.db.orm.select().from(users).where(eq(users.email, email));
    expect(made!.provenAt).not.toBeNull();
  });

  it('for an owner is mailed by the set-up', async () => {
    const { browser } = await signedInOperator(service);
    const slug = `waits-${process.pid}`;
    const product = { productSlug: slug, productName: 'P', usageMetric: 'calls', unitCap: '' };
    await post(browser, '/set-up/product', { ...product, orgSlug: slug, orgName: 'Waits' });
    const { text } = await browser.get('/set-up/owner', html);
    const organization = /name="organization" value="([^"]+)"/.exec(text)![1]!;
    const invited = await post(browser, '/set-up/owner', {
      organization,
      owner: 'other',
      email: 'boss@example.com',
    });
    expect([invited.status, invited.text]).toEqual([
      201,
      expect.stringContaining('Sent to <bdi>boss@example.com</bdi>'),
    ]);
    expect(await deliver('boss@example.com')).toHaveLength(1);
  });
});
