import { randomUUID } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { sessions } from '../../../../src/accounts/identity/table.js';
import { Browser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { ACCOUNT, follow, html, isSignedIn, logOf, open, post } from './account.js';
import { useService } from '../../../support/use.js';

const DAY = 24 * 60 * 60_000;
const iPhone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';

const { database, service } = useService({ env: { TRUST_PROXY: '1' } });

const rowsOf = (userId: string) => database.db.orm.select().from(sessions).where(eq(sessions.userId, userId));

/** Signs a person in with this browser and with a phone. */
async function onTwoDevices(userAgent = iPhone) {
  const person = await signedIn(database.db, service.url);
  const phone = new Browser(service.url);
  await phone.send('POST', '/login', {
    form: { email: person.user.email, password: PASSWORD },
    headers: { 'user-agent': userAgent, 'x-forwarded-for': '203.0.113.7' },
  });
  const rows = await rowsOf(person.user.id);
  const phoneId = rows.find((row) => row.userAgent === userAgent.slice(0, 255))!.id;
  const ownId = rows.find(({ id }) => id !== phoneId)!.id;
  return { ...person, phone, phoneId, ownId };
}

async function fill(userId: string, count: number, now: Date) {
  await database.db.orm.insert(sessions).values(
    Array.from({ length: count }, (_, i) => ({
      hashedToken: randomUUID(),
      userId,
      createdAt: now,
      lastSeenAt: new Date(now.getTime() - i * 60_000),
      expiresAt: new Date(now.getTime() + DAY),
      ip: '192.0.2.1',
      userAgent: iPhone,
    })),
  );
}

describe('the list of sessions', () => {
  it('shows browser, address, start and last use, and marks the current one', async () => {
    const { browser, phoneId, ownId } = await onTwoDevices();
    const page = await open(browser, '/sessions');
    expect(page.status).toBe(200);
    expect(page.text).toContain('Safari on iOS');
    expect(page.text).toContain('203.0.113.7');
    expect(page.text.match(/This browser/g)).toHaveLength(1);
    expect(page.text.indexOf(ownId)).toBeLessThan(page.text.indexOf(phoneId));
    expect(page.text).toContain(new Date(service.clock.now()).toISOString());
    expect(page.text).toContain('2 sessions');
  });

  it('shows neither tokens nor ended sessions', async () => {
    const { browser, user } = await onTwoDevices();
    const past = new Date(service.clock.now() - 8 * DAY);
    await fill(user.id, 1, past);
    const page = await open(browser, '/sessions');
    const rows = await rowsOf(user.id);
    expect(rows).toHaveLength(3);
    for (const { hashedToken } of rows) expect(page.text).not.toContain(hashedToken);
    expect(page.text).toContain('2 sessions');
  });

  it.each([
    '<script>alert(1)</script>',
    'x'.repeat(300),
    `"><img src=x onerror=alert(1)>`,
    'Mozilla/5.0 (<b>bold</b>)',
  ])('escapes a user agent like %s', async (userAgent) => {
    const { browser } = await onTwoDevices(userAgent);
    const page = await open(browser, '/sessions');
    expect(page.status).toBe(200);
    expect(page.text).not.toMatch(/<script>alert|<img|<b>bold/);
    expect(page.text).not.toContain('x'.repeat(50));
  });

  it('is capped: of 150 it shows the current one and the most recently used', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    await fill(user.id, 150, new Date(service.clock.now() + 1000));
    const page = await open(browser, '/sessions');
    expect(page.text.match(/\/end"/g)).toHaveLength(100);
    expect(page.text).toContain('This browser');
    expect(page.text).toContain('151 sessions');
    expect(page.text).toContain('most recently used');
  });
});

describe('ending a session', () => {
  it('takes effect on its next request and leaves the others', async () => {
    const { browser, phone, phoneId } = await onTwoDevices();
    const answer = await post(browser, `/sessions/${phoneId}/end`);
    expect((await follow(browser, answer)).text).toContain('The session has ended');
    expect(await isSignedIn(phone)).toBe(false);
    expect(await isSignedIn(browser)).toBe(true);
    const again = await post(browser, `/sessions/${phoneId}/end`);
    expect(again.status).toBe(404);
    expect(again.text).toContain('It may already have ended');
  });

  it('works for the current one', async () => {
    const { browser, ownId } = await onTwoDevices();
    const copied = browser.copy();
    const answer = await post(browser, `/sessions/${ownId}/end`);
    expect(answer.headers.get('location')).toBe('/login?done=signed-out');
    expect([...browser.cookies.keys()]).toEqual(['gauge_device']);
    expect(await isSignedIn(copied)).toBe(false);
  });
});

describe('signing out everywhere', () => {
  it('ends every session and pending sign-in, and confirms it', async () => {
    const { browser, phone, user } = await onTwoDevices();
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const waiting = new Browser(service.url);
    await waiting.signIn(user.email);
    const copied = browser.copy();
    const answer = await post(browser, '/sign-out-everywhere');
    expect(answer.headers.get('location')).toBe('/login?done=signed-out-everywhere');
    expect((await browser.get(answer.headers.get('location')!, html)).text).toContain('everywhere else');
    expect([...browser.cookies.keys()]).toEqual(['gauge_device']);
    for (const each of [copied, phone]) expect(await isSignedIn(each)).toBe(false);
    const late = await waiting.send('POST', '/login/code', { form: { code: app.code() } });
    expect(late.headers.get('location')).toMatch(/again=expired/);
    expect(await rowsOf(user.id)).toEqual([]);
    expect(await logOf(database, user.email)).toMatchObject([
      { action: 'user.signed_out', actor: user.id, details: { sessionsEnded: 2 } },
    ]);
    expect((await copied.send('POST', `${ACCOUNT}/sign-out-everywhere`)).status).toBe(401);
  });

  it('leaves other people signed in', async () => {
    const other = await signedIn(database.db, service.url);
    const { browser } = await signedIn(database.db, service.url);
    await post(browser, '/sign-out-everywhere');
    expect(await isSignedIn(other.browser)).toBe(true);
  });
});
