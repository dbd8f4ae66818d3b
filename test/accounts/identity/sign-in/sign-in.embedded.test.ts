import { randomUUID } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { sessions } from '../../../../src/accounts/identity/table.js';
import { Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { cpuMsOf } from '../../../support/cpu.js';
import { hashPassword } from '../../../../src/accounts/identity/password.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const signInTo = async (next: string) => {
  const user = await createUser(database.db);
  return new Browser(service.url).send('POST', '/login', {
    form: { email: user.email, password: PASSWORD, next },
  });
};

describe('GET /login', () => {
  it('is a labelled form that loads only our own files and cannot be framed by another site', async () => {
    const answer = await new Browser(service.url).get('/login?next=/dashboard/session', html);
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('<label for="email">');
    expect(answer.text).toContain('name="next" value="/dashboard/session"');
    const policy = answer.headers.get('content-security-policy')!;
    const nonce = /style-src 'nonce-([^']+)'/.exec(policy)![1]!;
    expect(answer.text).toContain(`/gauge.css" nonce="${nonce}">`);
    expect(answer.text).toContain(`/gauge.js" nonce="${nonce}">`);
    expect(policy.split(';').toSorted()).toEqual([
      "base-uri 'none'",
      "connect-src 'self'",
      "default-src 'none'",
      "font-src 'self'",
      "form-action 'self'",
      "frame-ancestors 'none'",
      "img-src 'self'",
      `script-src 'nonce-${nonce}'`,
      `style-src 'nonce-${nonce}'`,
    ]);
    expect(answer.headers.get('referrer-policy')).toBe('same-origin');
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  it('escapes its query parameters', async () => {
    const answer = await new Browser(service.url).get(
      `/login?next=${encodeURIComponent('/"><script>')}`,
      html,
    );
    expect(answer.text).not.toContain('<script>');
  });

  it('redirects people who are already signed in', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const answer = await browser.get('/login?next=/dashboard/session', html);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/dashboard/session');
  });
});

describe('POST /login', () => {
  it('starts a session whose token the database stores only as a hash', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const held = JSON.parse(
      Buffer.from(browser.cookies.get('gauge_session')!, 'base64').toString(),
    ) as object;
    expect(held).toEqual({ sid: expect.stringMatching(/^[\w-]{43}$/) });
    const [row] = await database.db.orm.select().from(sessions).where(eq(sessions.userId, user.id));
    expect(row!.hashedToken).toMatch(/^[\da-f]{64}$/);
    expect(JSON.stringify(row)).not.toContain((held as { sid: string }).sid);
    expect((await browser.get('/dashboard/session')).body.user.email).toBe(user.email);
  });

  it('accepts the address in any case and with surrounding spaces', async () => {
    const user = await createUser(database.db);
    const answer = await new Browser(service.url).signIn(` ${user.email.toUpperCase()} `);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/dashboard');
  });

  it('shows the same form again for an unknown address and a wrong password', async () => {
    const user = await createUser(database.db);
    const attempt = (email: string) =>
      new Browser(service.url).send('POST', '/login', {
        form: { email, password: 'wrong', next: '/dashboard/session' },
        headers: { ...html, 'x-request-id': 'same' },
      });
    const unknownEmail = `${randomUUID()}@example.com`;
    const [wrong, unknown] = [await attempt(user.email), await attempt(unknownEmail)];
    expect(wrong.status).toBe(401);
    expect(unknown.status).toBe(401);
    const shape = (text: string, email: string) =>
      text.replaceAll(email, 'EMAIL').replaceAll(/nonce="[^"]+"/g, 'nonce');
    expect(shape(wrong.text, user.email)).toBe(shape(unknown.text, unknownEmail));
    expect(wrong.text).toContain(`value="${user.email}"`);
    expect(wrong.text).toContain('value="/dashboard/session"');
    expect(wrong.text).toContain('role="alert"');
    expect(wrong.headers.getSetCookie()).toEqual([]);
    expect(wrong.headers.get('content-security-policy')).toContain("default-src 'none'");
  });

  it('takes as long for an unknown address as for a wrong password', async () => {
    const user = await createUser(database.db, { passwordHash: await hashPassword(PASSWORD) });
    const msOf = (email: () => string) => cpuMsOf(() => new Browser(service.url).signIn(email(), 'wrong'));
    const unknown = () => `${randomUUID()}@example.com`;
    await new Browser(service.url).signIn(unknown(), 'wrong');
    // Without hashing, an unknown address would take a tenth of the time.
    expect(await msOf(unknown)).toBeGreaterThan((await msOf(() => user.email)) / 3);
  });

  it('returns a problem to JSON clients', async () => {
    const answer = await new Browser(service.url).send('POST', '/login', {
      form: { email: 'nobody@example.com', password: 'wrong' },
      headers: { accept: 'application/json' },
    });
    expect(answer).toMatchObject({ status: 401, body: { code: 'not_signed_in', status: 401 } });
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
  });

  it.each([
    ['missing fields', {}],
    ['an unknown field', { email: 'a@example.com', password: 'x', role: 'owner' }],
    ['a NUL in the address', { email: 'a\0@example.com', password: 'x' }],
    ['a NUL in the password', { email: 'a@example.com', password: 'x\0' }],
    ['an endless address', { email: `${'a'.repeat(400)}@example.com`, password: 'x' }],
    ['an endless password', { email: 'a@example.com', password: 'x'.repeat(2000) }],
  ])('rejects %s with 400, as a form and as JSON', async (_name, form) => {
    const browser = new Browser(service.url);
    const json = await browser.send('POST', '/login', {
      form,
      headers: { accept: 'application/json' },
    });
    expect(json).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    const page = await browser.send('POST', '/login', {
      form,
      headers: html,
    });
    expect(page.status).toBe(400);
    expect(page.text).toContain('<form method="post" action="/login"');
  });

  it('ignores a field called __proto__', async () => {
    const response = await fetch(`${service.url}/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: '__proto__=x&__proto__[email]=a&constructor=x',
    });
    expect(response.status).toBe(400);
  });

  it('escapes a hostile address', async () => {
    const email = '"><script>alert(1)</script>👾';
    const answer = await new Browser(service.url).send('POST', '/login', {
      form: { email, password: 'x' },
      headers: html,
    });
    expect(answer.status).toBe(401);
    expect(answer.text).not.toContain('<script>');
    expect(answer.text).toContain('👾');
  });

  it('accepts only forms, of limited size', async () => {
    const browser = new Browser(service.url);
    const json = await browser.send('POST', '/login', { json: { email: 'a@example.com', password: 'x' } });
    expect(json).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
    const large = await browser.send('POST', '/login', {
      form: { email: 'a'.repeat(20_000), password: 'x' },
    });
    expect(large).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
    const fields = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`f${i}`, '']));
    const many = await browser.send('POST', '/login', { form: fields });
    expect(many).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
  });

  it.each(['/dashboard/session', '/dashboard/api-keys?limit=5#x'])('redirects to %s', async (next) => {
    expect((await signInTo(next)).headers.get('location')).toBe(next);
  });

  it.each([
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/.//evil.example',
    '/x/..//evil.example',
    'https:evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    'evil.example',
    '',
    `/${'a'.repeat(3000)}`,
  ])('never redirects to %j', async (next) => {
    const answer = await signInTo(next);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/dashboard');
  });

  it('issues a new token for every sign-in and ends the previous session', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const planted = browser.copy();
    await browser.signIn(user.email);
    expect(browser.cookies.get('gauge_session')).not.toBe(planted.cookies.get('gauge_session'));
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    expect((await planted.get('/dashboard/session')).status).toBe(401);
  });
});

describe('POST /logout', () => {
  it('ends the session for every copy of the cookie and clears the cookie', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const copied = browser.copy();
    const answer = await browser.send('POST', '/logout');
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/login?done=signed-out');
    expect((await browser.get('/login?done=signed-out', html)).text).toContain('You are signed out.');
    expect([...browser.cookies.keys()]).toEqual(['gauge_device']);
    expect(await copied.get('/dashboard/session')).toMatchObject({
      status: 401,
      body: { code: 'not_signed_in' },
    });
  });

  it('does nothing for signed-out people, and nothing on GET', async () => {
    const browser = new Browser(service.url);
    expect((await browser.send('POST', '/logout')).status).toBe(303);
    expect(await browser.get('/logout')).toMatchObject({
      status: 405,
      body: { code: 'method_not_allowed' },
    });
  });
});
