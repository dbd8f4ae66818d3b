import { describe, expect, it } from 'vitest';
import { isEmbedded } from '../../../support/database.js';
import { createKey } from '../../../support/fixtures.js';
import { hostileSlugs, operatorClient, unique, uniqueEmail } from '../../../support/operator.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);

async function setUp() {
  const slug = unique('org');
  const email = uniqueEmail();
  const { body: organization } = await call('PUT', `/organizations/${slug}`, { name: 'Org' });
  const { body: user } = await call('PUT', `/users/${email}`, {
    name: 'Ada',
    password: 'correct horse battery',
  });
  return {
    slug,
    email,
    organization,
    user,
    members: `/organizations/${slug}/members`,
    path: `/organizations/${slug}/members/${email}`,
  };
}

const audit = async (slug: string): Promise<any[]> =>
  (await call('GET', `/organizations/${slug}/audit-log`)).body.auditLog;

describe.runIf(isEmbedded)('PUT /operator/organizations/:slug/members/:email', () => {
  it('adds a member once and changes the role', async () => {
    const { slug, email, user, path, members } = await setUp();
    const added = await call('PUT', path, { role: 'member' });
    expect(added.status).toBe(201);
    expect(added.body).toEqual({
      userId: user.id,
      email,
      name: 'Ada',
      role: 'member',
      createdAt: new Date(service.clock.now()).toISOString(),
    });
    expect(await call('PUT', path, { role: 'member' })).toMatchObject({ status: 200, body: added.body });
    const changed = await call('PUT', path, { role: 'owner' });
    expect(changed).toMatchObject({ status: 200, body: { ...added.body, role: 'owner' } });
    expect((await call('GET', path)).body).toEqual(changed.body);
    expect((await call('GET', members)).body).toEqual({ members: [changed.body], nextCursor: null });
    expect(await audit(slug)).toMatchObject([
      {
        action: 'member.role_changed',
        actor: 'operator',
        target: email,
        details: { before: { role: 'member' }, after: { role: 'owner' } },
        ip: '127.0.0.1',
      },
      { action: 'member.added', target: email, details: { after: { role: 'member' } } },
      { action: 'organization.created' },
    ]);
  });

  it('accepts each role and no other value', async () => {
    const { path } = await setUp();
    for (const role of ['owner', 'admin', 'member', 'billing'])
      expect([200, 201]).toContain((await call('PUT', path, { role })).status);
    for (const role of ['', 'root', 'Owner', '__proto__', null, 1, ['owner']]) {
      const answer = await call('PUT', path, { role });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/role' }] } });
    }
    expect((await call('PUT', path, { role: 'owner', orgId: 'x' })).status).toBe(400);
    expect((await call('GET', path)).body.role).toBe('billing');
  });

  it('adds one member and writes one audit row for two identical concurrent calls', async () => {
    const { slug, path } = await setUp();
    const puts = Array.from({ length: 4 }, () => call('PUT', path, { role: 'admin' }));
    const statuses = (await Promise.all(puts)).map((answer) => answer.status).sort((a, b) => b - a);
    expect(statuses).toEqual([201, 200, 200, 200]);
    expect(await audit(slug)).toHaveLength(2);
  });

  it('says whether the Organization or the user is missing', async () => {
    const { slug, email, path } = await setUp();
    const elsewhere = `/organizations/no-such-org/members/${email}`;
    const nobody = `/organizations/${slug}/members/nobody@example.com`;
    for (const [method, body] of [['PUT', { role: 'admin' }], ['GET'], ['DELETE']] as const) {
      expect((await call(method, elsewhere, body)).body).toMatchObject({
        code: 'not_found',
        detail: expect.stringContaining('Organization "no-such-org"'),
      });
      expect((await call(method, nobody, body)).body).toMatchObject({
        code: 'not_found',
        detail: expect.stringContaining('user "nobody@example.com"'),
      });
    }
    expect((await call('GET', path)).body.detail).toContain('not a member');
  });

  it('rejects malformed addresses', async () => {
    const { slug, email } = await setUp();
    for (const hostile of hostileSlugs) {
      for (const [method, body] of [['PUT', { role: 'admin' }], ['GET'], ['DELETE']] as const) {
        expect((await call(method, `/organizations/${hostile}/members/${email}`, body)).status).toBe(400);
        expect((await call(method, `/organizations/${slug}/members/${hostile}`, body)).status).toBe(400);
      }
      expect((await call('GET', `/organizations/${hostile}/members`)).status).toBe(400);
    }
  });
});

describe('GET /operator/organizations/:slug/members', () => {
  it('lists only this Organization, paginated by e-mail', async () => {
    const { slug, members, email } = await setUp();
    const other = await setUp();
    await call('PUT', other.path, { role: 'owner' });
    const emails = [email, uniqueEmail(), uniqueEmail()];
    for (const address of emails) {
      await call('PUT', `/users/${address}`, { name: 'P', password: 'correct horse battery' });
      await call('PUT', `/organizations/${slug}/members/${address}`, { role: 'member' });
    }
    const first = await call('GET', `${members}?limit=2`);
    const second = await call('GET', `${members}?limit=2&cursor=${first.body.nextCursor}`);
    const seen = [...first.body.members, ...second.body.members].map((member: any) => member.email);
    expect(seen).toEqual(emails);
    expect(second.body.nextCursor).toBeNull();
    expect((await call('GET', `${members}?limit=0`)).status).toBe(400);
  });
});

describe('DELETE /operator/organizations/:slug/members/:email', () => {
  it('ends the membership once, even the last owner’s, and keeps the API keys', async () => {
    const { slug, path, email, user, organization } = await setUp();
    await call('PUT', path, { role: 'owner' });
    const key = await createKey(database.db, organization.id);
    expect((await call('DELETE', path)).status).toBe(204);
    expect((await call('GET', path)).status).toBe(404);
    const second = await call('DELETE', path);
    expect(second).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect(second.body.detail).toContain('not a member');
    expect((await call('GET', `/users/${email}`)).body.id).toBe(user.id);
    expect(await audit(slug)).toMatchObject([
      { action: 'member.removed', target: email, details: { before: { role: 'owner' } } },
      { action: 'member.added' },
      { action: 'organization.created' },
    ]);
    const answer = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
      body: '{"events":[]}',
    });
    // The key is valid; only the batch is empty.
    expect(answer.status).toBe(400);
  });

  it('leaves other Organizations alone', async () => {
    const here = await setUp();
    const there = await setUp();
    await call('PUT', here.path, { role: 'owner' });
    const same = `${there.members}/${here.email}`;
    await call('PUT', same, { role: 'member' });
    expect((await call('DELETE', here.path)).status).toBe(204);
    expect((await call('GET', same)).body.role).toBe('member');
  });
});
