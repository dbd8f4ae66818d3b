import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { apiKeys } from '../../../../src/accounts/api-keys/table.js';
import {
  recoveryCodes,
  secondFactors,
  sessions,
  signInChallenges,
} from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { verifyPassword } from '../../../../src/accounts/identity/password.js';
import { isEmbedded } from '../../../support/database.js';
import { Browser } from '../../../support/accounts.js';
import { createKey } from '../../../support/fixtures.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { hostileNames, operatorClient, unique, uniqueEmail } from '../../../support/operator.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);

const input = { name: 'Ada', password: 'correct horse battery' };

async function audit(email: string): Promise<any[]> {
  const { body } = await call('GET', '/audit-log?limit=500');
  return body.auditLog.filter((row: any) => row.target === email && row.action !== 'user.signed_in');
}

async function storedHash(email: string): Promise<string | undefined> {
  const [row] = await database.db.orm.select().from(users).where(eq(users.email, email));
  return row?.passwordHash;
}

async function signIn(userId: string): Promise<void> {
  const at = new Date();
  await database.db.orm.insert(sessions).values({
    hashedToken: uuid(),
    userId,
    createdAt: at,
    lastSeenAt: at,
    expiresAt: new Date(at.getTime() + 3_600_000),
    ip: '192.0.2.1',
    userAgent: 'test',
  });
}

const countSessions = (userId: string) => database.db.orm.$count(sessions, eq(sessions.userId, userId));

describe.runIf(isEmbedded)('PUT /operator/users/:email', () => {
  it('creates the user once, stores the password as a hash and never returns it', async () => {
    const email = uniqueEmail();
    const made = await call('PUT', `/users/${email}`, input);
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.any(String),
      email,
      name: 'Ada',
      createdAt: new Date(service.clock.now()).toISOString(),
    });
    const hash = await storedHash(email);
    expect(await verifyPassword(hash, input.password)).toBe('current');
    const again = await call('PUT', `/users/${email}`, input);
    expect(again).toMatchObject({ status: 200, body: made.body });
    expect(await storedHash(email)).toBe(hash);
    const log = await audit(email);
    expect(log).toMatchObject([{ action: 'user.created', details: { after: { name: 'Ada' } } }]);
    const read = [
      await call('GET', `/users/${email}`),
      await call('GET', '/users?limit=500'),
      { text: JSON.stringify(log) },
    ];
    for (const { text } of [made, again, ...read]) {
      expect(text).not.toContain(input.password);
      expect(text).not.toContain('argon2');
    }
  });

  it('accepts an address in any case and with surrounding spaces', async () => {
    const email = uniqueEmail();
    expect((await call('PUT', `/users/%20${email.toUpperCase()}%20`, input)).body.email).toBe(email);
    expect((await call('PUT', `/users/${email}`, input)).status).toBe(200);
    expect((await call('GET', `/users/${email.toUpperCase()}`)).body.email).toBe(email);
  });

  it('replaces the hash of a changed password and ends the sessions of that user only', async () => {
    const email = uniqueEmail();
    const { body: user } = await call('PUT', `/users/${email}`, input);
    const { body: other } = await call('PUT', `/users/${uniqueEmail()}`, input);
    for (const id of [user.id, user.id, other.id]) await signIn(id);
    const changed = await call('PUT', `/users/${email}`, { ...input, password: 'another long password' });
    expect(changed).toMatchObject({ status: 200, body: user });
    expect(await verifyPassword(await storedHash(email), 'another long password')).toBe('current');
    expect(await countSessions(user.id)).toBe(0);
    expect(await countSessions(other.id)).toBe(1);
    expect(await audit(email)).toMatchObject([
      { action: 'user.changed', details: { passwordChanged: true, sessionsEnded: 2 } },
      { action: 'user.created' },
    ]);
  });

  it('keeps password and sessions when the name changes', async () => {
    const email = uniqueEmail();
    const { body: user } = await call('PUT', `/users/${email}`, input);
    const hash = await storedHash(email);
    await signIn(user.id);
    const renamed = await call('PUT', `/users/${email}`, { ...input, name: 'Ada L.' });
    expect(renamed).toMatchObject({ status: 200, body: { name: 'Ada L.' } });
    expect(await storedHash(email)).toBe(hash);
    expect(await countSessions(user.id)).toBe(1);
    const [newest] = await audit(email);
    expect(newest.details).toEqual({ before: { name: 'Ada' }, after: { name: 'Ada L.' } });
  });

  it('creates or changes one user for two identical concurrent calls', async () => {
    const email = uniqueEmail();
    const puts = (body: object) =>
      Promise.all(Array.from({ length: 4 }, () => call('PUT', `/users/${email}`, body)));
    const made = (await puts(input)).map((answer) => answer.status).sort((a, b) => b - a);
    expect(made).toEqual([201, 200, 200, 200]);
    const changed = await puts({ ...input, password: 'another long password' });
    expect(changed.map((answer) => answer.status)).toEqual([200, 200, 200, 200]);
    expect(await audit(email)).toHaveLength(2);
  });

  it('accepts passwords of 12 to 256 characters in any script', async () => {
    for (const password of [
      'kq7Xw2pLm9Zt',
      '😀🎉🚀🌍🍕🎲🎻🧭🪁🧊🦊🐙',
      `${'kq7Xw2pL'.repeat(31)}mm9Zt3vR`,
      ' spaces at the ends ',
    ]) {
      const email = uniqueEmail();
      expect((await call('PUT', `/users/${email}`, { ...input, password })).status).toBe(201);
      expect(await verifyPassword(await storedHash(email), password)).toBe('current');
    }
    const refused = [
      '',
      'x'.repeat(11),
      '😀'.repeat(11),
      'Password2026!',
      'x'.repeat(257),
      'nul\u0000 in the middle',
      'half \ud83d of a pair',
      5,
      null,
    ];
    for (const password of refused) {
      const email = uniqueEmail();
      const answer = await call('PUT', `/users/${email}`, { ...input, password });
      expect(answer.status).toBe(400);
      expect(answer.body.errors).toMatchObject([{ pointer: '/password' }]);
      if (typeof password === 'string' && password !== '') expect(answer.text).not.toContain(password);
      expect((await call('GET', `/users/${email}`)).status).toBe(404);
    }
  });

  it('rejects malformed names, fields and addresses', async () => {
    const path = `/users/${uniqueEmail()}`;
    for (const name of hostileNames) expect((await call('PUT', path, { ...input, name })).status).toBe(400);
    expect((await call('PUT', path, { ...input, isAdmin: true })).status).toBe(400);
    const hostile = [
      'ada',
      '%00@example.com',
      'a%00@example.com',
      'a@b',
      `${'x'.repeat(250)}@example.com`,
      '__proto__',
      '%3Cscript%3E@example.com',
      'a b@example.com',
      '%ED%A0%80@example.com',
      '😀@example.com',
    ];
    for (const email of hostile) {
      for (const [method, body] of [['PUT', input], ['GET'], ['DELETE']] as const) {
        const answer = await call(method, `/users/${email}`, body);
        expect(answer.status, email).toBe(400);
        expect(answer.body.code).toBe('invalid_request');
      }
      expect((await call('DELETE', `/users/${email}/sessions`)).status).toBe(400);
    }
  });
});

describe('GET /operator/users', () => {
  it('lists all users in order, each once', async () => {
    const made = [uniqueEmail(), uniqueEmail(), uniqueEmail()];
    for (const email of made) await call('PUT', `/users/${email}`, input);
    const seen: string[] = [];
    let query = '?limit=2';
    while (query !== '') {
      const { body } = await call('GET', `/users${query}`);
      seen.push(...body.users.map((user: any) => user.email));
      query = body.nextCursor === null ? '' : `?limit=2&cursor=${body.nextCursor}`;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((email) => made.includes(email))).toEqual(made);
  });

  it('rejects a malformed cursor', async () => {
    const cursor = Buffer.from('not-an-address').toString('base64url');
    expect((await call('GET', `/users?cursor=${cursor}`)).status).toBe(400);
  });
});

describe('DELETE /operator/users/:email', () => {
  it('ends memberships and sessions, and keeps API keys without their creator’s name', async () => {
    const email = uniqueEmail();
    const slug = unique('org');
    const { body: organization } = await call('PUT', `/organizations/${slug}`, { name: 'Keeps its keys' });
    const { body: user } = await call('PUT', `/users/${email}`, input);
    await call('PUT', `/organizations/${slug}/members/${email}`, { role: 'owner' });
    await signIn(user.id);
    const key = await createKey(database.db, organization.id, { scopes: ['entitlements:read'] });
    await database.db.orm.update(apiKeys).set({ createdBy: user.id }).where(eq(apiKeys.id, key.id));

    expect((await call('DELETE', `/users/${email}`)).status).toBe(204);

    expect((await call('GET', `/users/${email}`)).status).toBe(404);
    expect(await countSessions(user.id)).toBe(0);
    expect((await call('GET', `/organizations/${slug}/members`)).body.members).toEqual([]);
    const [stored] = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.id, key.id));
    expect(stored).toMatchObject({ createdBy: null, revokedAt: null, expiresAt: null });
    expect(await audit(email)).toMatchObject([{ action: 'user.removed' }, { action: 'user.created' }]);
    const log = await call('GET', `/organizations/${slug}/audit-log`);
    expect(log.body.auditLog[0]).toMatchObject({
      action: 'member.removed',
      target: email,
      details: { before: { role: 'owner' } },
    });
    const second = await call('DELETE', `/users/${email}`);
    expect(second.status).toBe(404);
    expect(second.body.detail).toContain(email);
    expect(await audit(email)).toHaveLength(2);
  });

  it('leaves no partial state if the user becomes a member concurrently', async () => {
    const slug = unique('org');
    await call('PUT', `/organizations/${slug}`, { name: 'Contended' });
    for (let i = 0; i < 10; i++) {
      const email = uniqueEmail();
      await call('PUT', `/users/${email}`, input);
      const member = `/organizations/${slug}/members/${email}`;
      const answers = await Promise.all([
        call('PUT', member, { role: 'admin' }),
        call('DELETE', `/users/${email}`),
        call('PUT', member, { role: 'billing' }),
      ]);
      for (const { status } of answers) expect([200, 201, 204, 404]).toContain(status);
      expect(answers[1]?.status).toBe(204);
      expect((await call('GET', `/users/${email}`)).status).toBe(404);
    }
    expect((await call('GET', `/organizations/${slug}/members`)).body.members).toEqual([]);
  });
});

describe('DELETE /operator/users/:email/sessions', () => {
  it('signs the user out everywhere, once', async () => {
    const email = uniqueEmail();
    const { body: user } = await call('PUT', `/users/${email}`, input);
    await signIn(user.id);
    await signIn(user.id);
    expect((await call('DELETE', `/users/${email}/sessions`)).status).toBe(204);
    expect(await countSessions(user.id)).toBe(0);
    expect((await call('DELETE', `/users/${email}/sessions`)).status).toBe(404);
    expect((await call('GET', `/users/${email}`)).status).toBe(200);
    expect(await audit(email)).toMatchObject([
      { action: 'user.signed_out', details: { sessionsEnded: 2 } },
      { action: 'user.created' },
    ]);
    expect((await call('DELETE', `/users/${uniqueEmail()}/sessions`)).status).toBe(404);
  });
});

describe('DELETE /operator/users/:email/second-factor', () => {
  /** Creates a user with a second factor and a session, and a browser with a pending sign-in. */
  async function secured() {
    const email = uniqueEmail();
    const { body: user } = await call('PUT', `/users/${email}`, input);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    await signIn(user.id);
    const browser = new Browser(service.url);
    await browser.signIn(email, input.password);
    return { email, user, app, browser };
  }
  const countOf = async (userId: string) => [
    await database.db.orm.$count(secondFactors, eq(secondFactors.userId, userId)),
    await database.db.orm.$count(recoveryCodes, eq(recoveryCodes.userId, userId)),
    await database.db.orm.$count(signInChallenges, eq(signInChallenges.userId, userId)),
    await countSessions(userId),
  ];

  it('lets a User who lost app and codes sign in with the password alone, and ends every session', async () => {
    const { email, user } = await secured();
    expect(await countOf(user.id)).toEqual([1, 10, 1, 1]);
    const answer = await call('DELETE', `/users/${email}/second-factor`);
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(await countOf(user.id)).toEqual([0, 0, 0, 0]);
    const login = await new Browser(service.url).signIn(email, input.password);
    expect(login.headers.get('location')).toBe('/dashboard');
    expect(await audit(email)).toMatchObject([
      { action: 'user.second_factor_removed', actor: 'operator', details: { sessionsEnded: 1 } },
      { action: 'user.created' },
    ]);
  });

  it('returns 404 if there is none, also the second time, and writes nothing', async () => {
    const { email } = await secured();
    await call('DELETE', `/users/${email}/second-factor`);
    const again = await call('DELETE', `/users/${email}/second-factor`);
    expect(again).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect(again.body.detail).toContain('has no second factor');
    expect(await audit(email)).toHaveLength(2);
    expect((await call('DELETE', `/users/${uniqueEmail()}/second-factor`)).status).toBe(404);
    expect((await call('DELETE', '/users/%00@example.com/second-factor')).status).toBe(400);
  });

  it('removes it once for two concurrent calls', async () => {
    const { email } = await secured();
    const answers = await Promise.all(
      Array.from({ length: 3 }, () => call('DELETE', `/users/${email}/second-factor`)),
    );
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([204, 404, 404]);
    expect(await audit(email)).toHaveLength(2);
  });

  it.each([
    ['a new password', 'PUT', '', { ...input, password: 'another long password' }],
    ['signing out everywhere', 'DELETE', '/sessions', undefined],
    ['removing the user', 'DELETE', '', undefined],
  ])('%s also ends pending sign-ins', async (_name, method, path, body) => {
    const { email, app, browser } = await secured();
    expect((await call(method, `/users/${email}${path}`, body)).status).toBeLessThan(300);
    const late = await browser.send('POST', '/login/code', { form: { code: app.code() } });
    expect(late.headers.get('location')).toMatch(/again=expired/);
    expect((await browser.get('/dashboard/session')).status).toBe(401);
  });
});
