import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { SignInLimits } from '../../../../src/accounts/identity/sign-in/sign-in-limits.js';
import { Browser, createUser, PASSWORD } from '../../../support/accounts.js';
import { type TestService } from '../../../support/service.js';
import { useService } from '../../../support/use.js';

const { database, startAnother } = useService();

/** Gives each test its own service, and therefore its own rate-limit counters. */
const start = (signInLimits: Partial<SignInLimits>) =>
  startAnother({
    env: { TRUST_PROXY: '1' },
    app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1, ...signInLimits } },
  });

const attempt = (service: TestService, email: string, password: string, from = '192.0.2.1') =>
  new Browser(service.url).send('POST', '/login', {
    form: { email, password },
    headers: { accept: 'application/json', 'x-forwarded-for': from },
  });

const strangers = () => `${randomUUID()}@example.com`;

describe('failed sign-ins', () => {
  it('block the account after ten for their network, even with the right password', async () => {
    const service = await start({});
    const user = await createUser(database.db);
    for (let i = 0; i < 10; i++) expect((await attempt(service, user.email, 'wrong')).status).toBe(401);
    const blocked = await attempt(service, user.email.toUpperCase(), PASSWORD);
    expect(blocked).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(Number(blocked.headers.get('retry-after'))).toBeGreaterThan(880);
    expect(Number(blocked.headers.get('retry-after'))).toBeLessThanOrEqual(900);
    expect(blocked.headers.get('ratelimit')).toMatch(/"login-account"; r=0; t=\d+/);
    expect(blocked.headers.get('ratelimit-policy')).toMatch(/"login-account"; q=10; w=900/);
    const page = await new Browser(service.url).send('POST', '/login', {
      form: { email: user.email, password: PASSWORD },
      headers: { accept: 'text/html', 'x-forwarded-for': '192.0.2.1' },
    });
    expect(page.status).toBe(429);
    expect(page.text).toContain('Too many failed sign-ins');
    expect(page.headers.get('retry-after')).not.toBeNull();
  });

  it('from everywhere do not lock the account: its owner gets in elsewhere, later, and at once on a known device', async () => {
    const service = await start({ firstDelayMs: 2000, maxDelayMs: 2000 });
    const user = await createUser(database.db);
    const device = new Browser(service.url);
    expect((await device.signIn(user.email)).status).toBe(303);
    const guesses = Array.from({ length: 25 }, (_, i) =>
      attempt(service, user.email, 'wrong', `192.0.2.${i}`),
    );
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    // Only five attempts may wait at a time; the rest are refused.
    expect(statuses.filter((status) => status === 401)).toHaveLength(3 + 5);
    const timeOf = async (work: () => Promise<{ status: number }>) => {
      const startedAt = performance.now();
      expect((await work()).status).toBe(303);
      return performance.now() - startedAt;
    };
    const elsewhere = await timeOf(() => attempt(service, user.email, PASSWORD, '198.51.100.1'));
    expect(elsewhere).toBeGreaterThan(1990);
    expect(await timeOf(() => device.signIn(user.email))).toBeLessThan(elsewhere);
    // The device is recognized only for its own account, and a forged cookie is ignored.
    expect((await attempt(service, strangers(), 'wrong')).status).toBe(401);
    const forged = device.copy();
    forged.cookies.set(
      'gauge_device',
      forged.cookies.get('gauge_device')!.replace(/.$/, (c) => (c === 'A' ? 'B' : 'A')),
    );
    expect(await timeOf(() => forged.signIn(user.email))).toBeGreaterThan(1990);
  });

  it('on a known device are counted per device, whatever the address', async () => {
    const service = await start({ perAccount: 2 });
    const user = await createUser(database.db);
    const device = new Browser(service.url);
    await device.signIn(user.email);
    const guess = (from: string) =>
      device.send('POST', '/login', {
        form: { email: user.email, password: 'wrong' },
        headers: { accept: 'application/json', 'x-forwarded-for': from },
      });
    const answers = [await guess('192.0.2.1'), await guess('192.0.2.2'), await guess('192.0.2.3')];
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 429]);
    expect((await attempt(service, user.email, PASSWORD, '192.0.2.4')).status).toBe(303);
  });

  it('block an unknown account in the same way', async () => {
    const service = await start({ perAccount: 2 });
    const email = strangers();
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await attempt(service, email, 'wrong')).status);
    expect(statuses).toEqual([401, 401, 429]);
  });

  it('block the address and its IPv6 network, but no other', async () => {
    const service = await start({ perAddress: 3 });
    for (let i = 1; i <= 3; i++)
      expect((await attempt(service, strangers(), 'wrong', `2001:db8::${i}`)).status).toBe(401);
    const user = await createUser(database.db);
    expect((await attempt(service, user.email, PASSWORD, '2001:db8::ffff')).status).toBe(429);
    expect((await attempt(service, user.email, PASSWORD, '2001:db8:0:1::1')).status).toBe(303);
  });

  it('are all that counts: right passwords and unreadable forms do not', async () => {
    const service = await start({ perAccount: 2, perAddress: 2 });
    const user = await createUser(database.db);
    for (let i = 0; i < 4; i++) {
      expect((await attempt(service, user.email, PASSWORD)).status).toBe(303);
      expect((await attempt(service, user.email, '')).status).toBe(400);
    }
  });

  it('get no further in a burst than in sequence', async () => {
    const service = await start({ perAccount: 3 });
    const email = strangers();
    const answers = await Promise.all(Array.from({ length: 12 }, () => attempt(service, email, 'wrong')));
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(9);
  });

  it('are answered at once three times, then after a delay that doubles up to its maximum', async () => {
    const service = await start({ firstDelayMs: 300, maxDelayMs: 600 });
    const email = strangers();
    const took: number[] = [];
    for (let i = 0; i < 8; i++) {
      const startedAt = performance.now();
      expect((await attempt(service, email, 'wrong')).status).toBe(401);
      took.push(performance.now() - startedAt);
    }
    expect(Math.min(...took.slice(0, 3))).toBeLessThan(took[3]!);
    expect(took[3]).toBeGreaterThanOrEqual(295);
    expect(took[4]).toBeGreaterThanOrEqual(595);
    expect(took[7]).toBeGreaterThanOrEqual(595);
    // Without the maximum, the delay would have doubled to 4.8 s.
    expect(took[7]).toBeLessThan(4000);
  });

  it('are delayed only in limited numbers; the rest are refused at once, and undelayed ones go through', async () => {
    const service = await start({ quickFailures: 0, firstDelayMs: 1500, maxDelayMs: 1500, maxWaiting: 2 });
    const waiting = [strangers(), strangers()].map((email) => attempt(service, email, 'wrong'));
    await new Promise((resolve) => setTimeout(resolve, 500));
    const refused = await attempt(service, strangers(), 'wrong');
    expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(refused.headers.get('retry-after')).toBe('2');
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([401, 401]);
    // Completed requests free up room in the queue.
    expect((await attempt(service, strangers(), 'wrong')).status).toBe(401);
  });

  it('free their place when the client disconnects, and stay counted', async () => {
    const service = await start({
      quickFailures: 0,
      firstDelayMs: 60_000,
      maxDelayMs: 60_000,
      maxWaiting: 1,
      perAccount: 1,
    });
    const email = strangers();
    const hangUp = new AbortController();
    const waiting = fetch(`${service.url}/login`, {
      method: 'POST',
      body: new URLSearchParams({ email, password: 'wrong' }),
      headers: { 'x-forwarded-for': '192.0.2.1' },
      signal: hangUp.signal,
    }).catch((error: unknown) => error);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const full = await attempt(service, strangers(), 'wrong');
    expect(full.headers.get('retry-after')).toBe('60');
    hangUp.abort();
    await waiting;
    expect(await attempt(service, email, 'wrong')).toMatchObject({
      status: 429,
      body: { detail: expect.stringContaining('failed sign-ins') },
    });
    const next = new AbortController();
    const served = fetch(`${service.url}/login`, {
      method: 'POST',
      body: new URLSearchParams({ email: strangers(), password: 'wrong' }),
      signal: next.signal,
    }).then(
      () => 'answered',
      () => 'waited',
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    next.abort();
    expect(await served).toBe('waited');
  });
});
