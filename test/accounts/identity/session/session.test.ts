import { and, eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { MAX_FORM_BYTES } from '../../../../src/core/http/body.js';
import { deleteExpiredSessions } from '../../../../src/accounts/identity/session/queries.js';
import { signIn } from '../../../../src/accounts/identity/sign-in/sign-in.js';
import { createSecretBox } from '../../../../src/core/secret-box.js';
import { keptForms, sessions } from '../../../../src/accounts/identity/table.js';
import { memberships, users } from '../../../../src/accounts/organizations/table.js';
import { isEmbedded } from '../../../support/database.js';
import { addMember, Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { useService } from '../../../support/use.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const { database, service, startAnother: start } = useService();

const startAnother = (env: Record<string, string> = {}) => start({ env });

const notSignedIn = { status: 401, body: { code: 'not_signed_in' } };
const rowsOf = (userId: string) => database.db.orm.select().from(sessions).where(eq(sessions.userId, userId));
const html = { accept: 'text/html,*/*;q=0.8' };

describe.runIf(isEmbedded)('a request without a session', () => {
  it('gets a 401 problem for a fetch and a redirect through the sign-in for a page', async () => {
    const stranger = new Browser(service.url);
    expect(await stranger.get('/dashboard/api-keys')).toMatchObject(notSignedIn);
    expect(await stranger.get('/dashboard/api-keys', { accept: 'application/json' })).toMatchObject(
      notSignedIn,
    );
    const page = await stranger.get('/dashboard/api-keys?limit=5', html);
    expect(page.status).toBe(303);
    expect(page.headers.get('location')).toBe('/login?next=%2Fdashboard%2Fapi-keys%3Flimit%3D5');
    const post = await stranger.send('POST', '/dashboard/organization', { headers: html });
    expect(post.status).toBe(401);
    expect(post.text).toContain('Sign in first');
    const form = await stranger.send('POST', '/dashboard/organization', {
      headers: { ...html, referer: `${service.url}/dashboard/members?search=a` },
    });
    expect(form.text).toContain('href="/login?next=%2Fdashboard%2Fmembers%3Fsearch%3Da"');
  });

  it('does not learn which addresses exist', async () => {
    expect(await new Browser(service.url).get('/dashboard/nothing-here')).toMatchObject(notSignedIn);
  });
});

describe.runIf(isEmbedded)('a session', () => {
  it('that the server ended is rejected on its next request', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    await database.db.orm.delete(sessions).where(eq(sessions.userId, user.id));
    expect(await browser.get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('is rejected if its cookie or signature was changed', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const change = (name: string, value: string) => {
      const copy = browser.copy();
      copy.cookies.set(name, value);
      return copy.get('/dashboard/session');
    };
    const other = Buffer.from(JSON.stringify({ sid: 'A'.repeat(43) })).toString('base64');
    expect(await change('gauge_session', other)).toMatchObject(notSignedIn);
    expect(await change('gauge_session', 'junk')).toMatchObject(notSignedIn);
    expect(await change('gauge_session.sig', 'A'.repeat(43))).toMatchObject(notSignedIn);
    expect(await change('gauge_session.sig', '')).toMatchObject(notSignedIn);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
  });

  it('needs a signature with one of this service’s keys', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const stranger = await startAnother({ SESSION_KEYS: 'another-key-altogether' });
    expect(await browser.copy(stranger.url).get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('survives a rotation of SESSION_KEYS while the old key is listed, and is then signed with the new one', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const rotated = await startAnother({ SESSION_KEYS: 'brand-new-session-key,session-key-of-the-tests' });
    const afterwards = await startAnother({ SESSION_KEYS: 'brand-new-session-key' });
    const onRotated = browser.copy(rotated.url);
    rotated.clock.advance(MINUTE);
    const answer = await onRotated.get('/dashboard/session');
    expect(answer.status).toBe(200);
    const signature = answer.headers.getSetCookie().find((line) => line.startsWith('gauge_session.sig='));
    expect(signature).toMatch(/expires=.*httponly/i);
    expect(signature).toMatch(/samesite=lax/i);
    expect((await onRotated.copy(afterwards.url).get('/dashboard/session')).status).toBe(200);
    expect(await browser.copy(afterwards.url).get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('lasts as long as the process if no keys are configured', async () => {
    const first = await startAnother({ SESSION_KEYS: '' });
    const second = await startAnother({ SESSION_KEYS: '' });
    const { browser } = await signedIn(database.db, first.url);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    expect(await browser.copy(second.url).get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('ends after 7 idle days', async () => {
    const own = await startAnother();
    const { browser } = await signedIn(database.db, own.url);
    own.clock.advance(7 * DAY - 1);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    own.clock.advance(7 * DAY);
    expect(await browser.get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('ends after 30 days, however much it is used', async () => {
    const own = await startAnother();
    const { browser } = await signedIn(database.db, own.url);
    for (let day = 6; day < 30; day += 6) {
      own.clock.advance(6 * DAY);
      expect((await browser.get('/dashboard/session')).status).toBe(200);
    }
    own.clock.advance(6 * DAY - 1);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    own.clock.advance(1);
    expect(await browser.get('/dashboard/session')).toMatchObject(notSignedIn);
  });

  it('records its last use at most once a minute', async () => {
    const own = await startAnother();
    const { browser, user } = await signedIn(database.db, own.url);
    const lastSeen = async () => (await rowsOf(user.id))[0]!.lastSeenAt.getTime();
    const signedInAt = own.clock.now();
    own.clock.advance(MINUTE - 1);
    await browser.get('/dashboard/session');
    expect(await lastSeen()).toBe(signedInAt);
    own.clock.advance(1);
    await browser.get('/dashboard/session');
    expect(await lastSeen()).toBe(signedInAt + MINUTE);
  });

  it('uses a plain cookie on a plain connection and a __Host- one on a secure connection', async () => {
    const proxied = await startAnother({ TRUST_PROXY: '1' });
    const user = await createUser(database.db);
    const organization = await createOrganization(database.db);
    await addMember(database.db, organization.id, user.id, 'member');
    const secure = { 'x-forwarded-proto': 'https' };
    const browser = new Browser(proxied.url);
    const answer = await browser.send('POST', '/login', {
      form: { email: user.email, password: PASSWORD },
      headers: secure,
    });
    const lines = answer.headers.getSetCookie();
    expect(lines.map((line) => line.split('=', 1)[0])).toEqual([
      '__Host-gauge_device',
      '__Host-gauge_session',
      '__Host-gauge_session.sig',
    ]);
    for (const line of lines) {
      expect(line).toMatch(/; path=\/;/i);
      expect(line).toMatch(/; secure/i);
      expect(line).toMatch(/; httponly/i);
      expect(line).toMatch(/; samesite=lax/i);
      expect(line).not.toMatch(/domain/i);
    }
    expect((await browser.get('/dashboard/session', secure)).status).toBe(200);
    // Over plain HTTP, the secure cookie is ignored.
    expect(await browser.get('/dashboard/session')).toMatchObject(notSignedIn);
    const plain = await new Browser(proxied.url).signIn(user.email);
    expect(plain.headers.getSetCookie().join('\n')).toMatch(/^gauge_session=/m);
    expect(plain.headers.getSetCookie().join()).not.toMatch(/; secure/i);
  });

  it('does not open the key API', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const answer = await browser.send('POST', '/api/usage/events', { json: { events: [] } });
    expect(answer).toMatchObject({ status: 400, body: { code: 'session_cookie_not_allowed' } });
  });
});

describe('a change made elsewhere', () => {
  it('of the role takes effect on the next request', async () => {
    const { browser, user } = await signedIn(database.db, service.url, 'owner');
    expect((await browser.get('/dashboard/session')).body.role).toBe('owner');
    await database.db.orm.update(memberships).set({ role: 'member' }).where(eq(memberships.userId, user.id));
    expect((await browser.get('/dashboard/session')).body.role).toBe('member');
    const answer = await browser.send('POST', '/dashboard/api-keys', { json: { name: 'x', livemode: true } });
    expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden_role' } });
  });

  it('that ends the last membership takes effect on the next request', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    await database.db.orm.delete(memberships).where(eq(memberships.userId, user.id));
    const answer = await browser.get('/dashboard/session');
    expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden_role' } });
    expect(answer.body.detail).toContain('do not belong to an Organization');
    const page = await browser.get('/dashboard/session', html);
    expect(page.status).toBe(403);
    expect(page.text).toContain('do not belong to an Organization');
    // The sign-in form does not redirect back, so the person can sign in as somebody else.
    expect((await browser.get('/login', html)).status).toBe(200);
  });

  it('that ends the current membership takes effect on the next request and keeps the others', async () => {
    const { browser, user, organization } = await signedIn(database.db, service.url);
    const second = await createOrganization(database.db);
    await addMember(database.db, second.id, user.id, 'billing', new Date('2021-01-01T00:00:00Z'));
    expect((await browser.get('/dashboard/session')).body.organization.id).toBe(organization.id);
    await database.db.orm
      .delete(memberships)
      .where(and(eq(memberships.userId, user.id), eq(memberships.orgId, organization.id)));
    expect((await browser.get('/dashboard/session')).body).toMatchObject({
      organization: { id: second.id },
      role: 'billing',
      organizations: [{ id: second.id }],
    });
  });

  it('never makes a request change another Organization', async () => {
    const { browser, user, organization } = await signedIn(database.db, service.url, 'owner');
    const second = await createOrganization(database.db);
    await addMember(database.db, second.id, user.id, 'owner', new Date('2021-01-01T00:00:00Z'));
    const create = () => browser.send('POST', '/dashboard/api-keys', { json: { name: 'x', livemode: true } });
    expect((await create()).status).toBe(201);
    await database.db.orm
      .delete(memberships)
      .where(and(eq(memberships.userId, user.id), eq(memberships.orgId, organization.id)));
    for (let i = 0; i < 2; i++)
      expect(await create()).toMatchObject({ status: 403, body: { code: 'forbidden_role' } });
    // Once the person has viewed the other Organization, changes apply to that Organization.
    expect((await browser.get('/dashboard/api-keys')).body.apiKeys).toEqual([]);
    expect((await create()).status).toBe(201);
    expect((await browser.get('/dashboard/api-keys')).body.apiKeys).toHaveLength(1);
  });

  it('of the password prevents a session from a concurrent sign-in', async () => {
    const user = await createUser(database.db);
    const { orm } = database.db;
    // The password changes after it was verified but before the session is written.
    const transaction: typeof orm.transaction = async (work) => {
      await orm.update(users).set({ passwordHash: 'changed' }).where(eq(users.id, user.id));
      return orm.transaction(work);
    };
    const db = {
      ...database.db,
      orm: Object.create(orm, { transaction: { value: transaction } }) as typeof orm,
    };
    const token = await signIn(
      { db, clock: service.clock },
      { email: user.email, password: PASSWORD },
      { at: new Date(), formerToken: undefined, ip: '', userAgent: '', gone: new AbortController().signal },
    );
    expect(token).toBeUndefined();
    expect(await rowsOf(user.id)).toEqual([]);
  });
});

it('ended sessions are kept for a day; then only they are deleted', async () => {
  const own = await startAnother();
  const { user: idle } = await signedIn(database.db, own.url);
  own.clock.advance(2 * DAY);
  const { user: fresh, browser } = await signedIn(database.db, own.url);
  own.clock.advance(6 * DAY);
  await deleteExpiredSessions(database.db, new Date(own.clock.now()));
  expect(await rowsOf(idle.id)).toEqual([]);
  expect(await rowsOf(fresh.id)).toHaveLength(1);
  expect((await browser.get('/dashboard/session')).status).toBe(200);
  await deleteExpiredSessions(database.db, new Date(own.clock.now() + 31 * DAY));
  expect(await rowsOf(fresh.id)).toEqual([]);
});

describe('an unknown address', () => {
  it('gets a page for a browser and a problem for others', async () => {
    const { browser } = await signedIn(database.db, service.url);
    expect(await browser.get('/dashboard/<script>')).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
    const page = await browser.get('/dashboard/nothing', { ...html, 'x-request-id': 'find-me' });
    expect(page.status).toBe(404);
    expect(page.headers.get('content-type')).toContain('text/html');
    expect(page.text).toContain('Page not found');
    expect(page.text).toContain('find-me');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    // A path that cannot be decoded gets 400.
    const broken = await browser.get('/dashboard/%E0%A4%A', html);
    expect(broken.status).toBe(400);
    expect(broken.headers.get('content-type')).toContain('text/html');
  });
});

describe('a form sent after its session ended', () => {
  const path = '/dashboard/members/invite';
  const typed = { id: 'x', email: 'guest@example.com', role: 'billing', days: '30', password: 'of someone' };
  const sendFrom = (browser: Browser, referer: string | undefined, form: Record<string, string> = typed) =>
    browser.send('POST', path, { form, headers: { ...html, ...(referer === undefined ? {} : { referer }) } });

  async function expired() {
    const { browser, user, organization } = await signedIn(database.db, service.url);
    const expiresAt = new Date(service.clock.now() - 1);
    await database.db.orm.update(sessions).set({ expiresAt }).where(eq(sessions.userId, user.id));
    return { browser, user, organization };
  }

  it('returns after the sign-in as typed, once, and without its secrets', async () => {
    const { browser, user } = await expired();
    const sent = await sendFrom(browser, service.url + path);
    const login = sent.headers.get('location')!;
    expect([sent.status, login]).toEqual([303, `/login?next=${encodeURIComponent(path)}&again=kept`]);
    expect(sent.headers.getSetCookie().join()).toMatch(/gauge_form=[^;]+; .*HttpOnly; SameSite=Lax/);
    const [kept] = await database.db.orm.select().from(keptForms).where(eq(keptForms.userId, user.id));
    expect(JSON.stringify(kept)).not.toContain('guest@example.com');
    const opened = createSecretBox(service.context.config.secretKeys, 'kept form').open(
      user.id,
      kept!.values as string,
    );
    expect(opened).toContain('guest@example.com');
    expect(opened).not.toContain('of someone');
    expect(kept!.hashedToken).not.toBe(browser.cookies.get('gauge_form'));
    expect((await browser.get(login, html)).text).toContain('the form comes back with what you typed');
    const form = { email: user.email, password: PASSWORD, next: path };
    const back = await browser.send('POST', '/login', { form, headers: html });
    expect(back.headers.get('location')).toBe(path);
    expect((await browser.get('/dashboard/account', html)).text).not.toContain('guest@example.com');
    const again = (await browser.get(path, html)).text;
    expect(again).toContain('Check the form below');
    expect(again).toMatch(/name="email"[^>]*value="guest@example.com"/);
    expect(again).toMatch(/value="billing"[^>]* checked/);
    expect(browser.cookies.has('gauge_form')).toBe(false);
    expect((await browser.get(path, html)).text).not.toContain('guest@example.com');
  });

  it('is shown only to its own person, and not kept if somebody ended the session', async () => {
    const { browser } = await expired();
    await sendFrom(browser, service.url + path);
    const other = await signedIn(database.db, service.url);
    await browser.signIn(other.user.email);
    const shown = (await browser.get(path, html)).text;
    expect(shown).toContain('Invite');
    expect(shown).not.toContain('guest@example.com');

    const ended = await signedIn(database.db, service.url);
    await database.db.orm.delete(sessions).where(eq(sessions.userId, ended.user.id));
    expect((await sendFrom(ended.browser, service.url + path)).status).toBe(401);
    expect(ended.browser.cookies.has('gauge_form')).toBe(false);
  });

  it('is rejected if its page is not one of ours', async () => {
    for (const referer of [undefined, 'https://elsewhere.example/form', 'no address']) {
      const { browser } = await expired();
      expect((await sendFrom(browser, referer)).status).toBe(401);
      expect(browser.cookies.has('gauge_form')).toBe(false);
    }
  });

  it('returns even if it was kept before an upgrade, unsealed', async () => {
    const { browser, user } = await expired();
    await sendFrom(browser, service.url + path);
    const kept = eq(keptForms.userId, user.id);
    const values = { email: 'earlier@example.com', role: 'member' };
    await database.db.orm.update(keptForms).set({ values }).where(kept);
    await browser.signIn(user.email);
    expect((await browser.get(path, html)).text).toContain('earlier@example.com');
  });

  it('is shown only in the browser where it was typed, for 15 minutes', async () => {
    const { browser, user } = await expired();
    await sendFrom(browser, service.url + path);
    const elsewhere = new Browser(service.url);
    await elsewhere.signIn(user.email);
    for (const token of [undefined, 'a'.repeat(43), 'a'.repeat(3_000), "';--"]) {
      if (token !== undefined) elsewhere.cookies.set('gauge_form', token);
      const { status, text } = await elsewhere.get(path, html);
      expect([status, text.includes('guest@example.com')]).toEqual([200, false]);
    }
    await database.db.orm
      .update(keptForms)
      .set({ expiresAt: new Date(service.clock.now()) })
      .where(eq(keptForms.userId, user.id));
    await browser.signIn(user.email);
    expect((await browser.get(path, html)).text).not.toContain('guest@example.com');
    await deleteExpiredSessions(database.db, new Date(service.clock.now()));
    expect(await database.db.orm.select().from(keptForms).where(eq(keptForms.userId, user.id))).toEqual([]);
  });

  it('returns whole, whatever its length and content, until a newer one replaces it', async () => {
    const { browser, user } = await expired();
    const email = `"><script>alert(1)</script>\u0000👩‍👩‍👧‍👦${'x'.repeat(MAX_FORM_BYTES - 500)}`;
    await sendFrom(browser, service.url + path);
    expect((await sendFrom(browser, service.url + path, { ...typed, email })).status).toBe(303);
    await browser.signIn(user.email);
    const { text } = await browser.get(path, html);
    expect(text).not.toContain('<script>alert(1)');
    expect(text).toContain('x'.repeat(MAX_FORM_BYTES - 500));
  });
});
