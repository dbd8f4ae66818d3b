import { describe, expect, it } from 'vitest';
import { createKey } from '../../../support/fixtures.js';
import { hostileNames, hostileSlugs, operatorClient, unique } from '../../../support/operator.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);

describe('PUT /operator/organizations/:slug', () => {
  it('creates the Organization once, renames it, and logs both', async () => {
    const slug = unique('org');
    const made = await call('PUT', `/organizations/${slug}`, { name: 'Ümlaut 😀 <b>' });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.any(String),
      slug,
      name: 'Ümlaut 😀 <b>',
      requireSecondFactor: false,
      requireSingleSignOn: false,
      archivedAt: null,
      marketAccess: 'trade',
      mayCorrect: false,
      creditThresholds: null,
      stripeCustomerId: null,
      stripeSince: null,
      createdAt: new Date(service.clock.now()).toISOString(),
    });
    expect(await call('PUT', `/organizations/${slug}`, { name: 'Ümlaut 😀 <b>' })).toMatchObject({
      status: 200,
      body: made.body,
    });
    const renamed = await call(
      'PUT',
      `/organizations/${slug}`,
      { name: 'Plain' },
      { 'x-request-id': 'again' },
    );
    expect(renamed).toMatchObject({ status: 200, body: { ...made.body, name: 'Plain' } });
    expect((await call('GET', `/organizations/${slug}`)).body).toEqual(renamed.body);
    const { body } = await call('GET', `/organizations/${slug}/audit-log`);
    expect(body).toMatchObject({
      auditLog: [
        {
          action: 'organization.updated',
          actor: 'operator',
          target: slug,
          details: { before: { name: 'Ümlaut 😀 <b>' }, after: { name: 'Plain' } },
          ip: '127.0.0.1',
          requestId: 'again',
        },
        { action: 'organization.created', details: { after: { name: 'Ümlaut 😀 <b>' } } },
      ],
      nextCursor: null,
    });
    expect(body.auditLog).toHaveLength(2);
  });

  it('archives and restores it, which suspends its own keys only', async () => {
    const slug = unique('org');
    const { body } = await call('PUT', `/organizations/${slug}`, { name: 'Archived' });
    const key = await createKey(database.db, body.id);
    const ask = async () => {
      const headers = { authorization: `Bearer ${key.secret}` };
      const answer = await fetch(`${service.url}/api/key`, { headers });
      return [answer.status, ((await answer.json()) as { code?: string }).code];
    };
    const archived = await call('PUT', `/organizations/${slug}`, { name: 'Archived', archived: true });
    expect(archived.body.archivedAt).toBe(new Date(service.clock.now()).toISOString());
    expect(await ask()).toEqual([401, 'key_revoked']);
    // Omitted fields keep their values, and repeating the call changes nothing.
    const again = await call('PUT', `/organizations/${slug}`, { name: 'Archived' });
    expect(again.body).toEqual(archived.body);
    await call('PUT', `/organizations/${slug}`, { name: 'Archived', archived: false });
    expect(await ask()).toEqual([200, undefined]);
    const log = await call('GET', `/organizations/${slug}/audit-log`);
    expect(log.body.auditLog.map(({ action }: { action: string }) => action)).toEqual([
      'organization.restored',
      'organization.archived',
      'organization.created',
    ]);
    const bad = await call('PUT', `/organizations/${slug}`, { name: 'n', archived: 1 });
    expect([bad.status, bad.body.errors[0].pointer]).toEqual([400, '/archived']);
  });

  it('creates one Organization and one audit row for two identical concurrent calls', async () => {
    const slug = unique('org');
    const puts = Array.from({ length: 4 }, () => call('PUT', `/organizations/${slug}`, { name: 'Twice' }));
    const statuses = (await Promise.all(puts)).map((answer) => answer.status).sort((a, b) => b - a);
    expect(statuses).toEqual([201, 200, 200, 200]);
    const { body } = await call('GET', `/organizations/${slug}/audit-log`);
    expect(body.auditLog).toHaveLength(1);
  });

  it('rejects malformed bodies and slugs', async () => {
    const path = `/organizations/${unique('org')}`;
    for (const name of hostileNames) expect((await call('PUT', path, { name })).status).toBe(400);
    expect((await call('PUT', path, { name: 'n', slug: 's' })).body.errors).toMatchObject([
      { pointer: '/slug' },
    ]);
    expect((await call('PUT', path, '[]')).status).toBe(400);
    for (const slug of hostileSlugs) {
      expect((await call('PUT', `/organizations/${slug}`, { name: 'n' })).status, slug).toBe(400);
      expect((await call('GET', `/organizations/${slug}`)).status, slug).toBe(400);
      expect((await call('GET', `/organizations/${slug}/audit-log`)).status, slug).toBe(400);
    }
    expect((await call('GET', path)).status).toBe(404);
  });
});

describe('GET /operator/organizations', () => {
  it('lists all Organizations in order, each once', async () => {
    const made = [unique('page'), unique('page'), unique('page')];
    for (const slug of made) await call('PUT', `/organizations/${slug}`, { name: slug });
    const seen: string[] = [];
    let query = '?limit=1';
    while (query !== '') {
      const { body } = await call('GET', `/organizations${query}`);
      seen.push(...body.organizations.map((organization: any) => organization.slug));
      query = body.nextCursor === null ? '' : `?limit=1&cursor=${body.nextCursor}`;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((slug) => made.includes(slug))).toEqual(made);
  });

  it('names the missing Organization in a 404, for sublists too', async () => {
    for (const path of ['', '/members', '/entitlements', '/audit-log']) {
      const answer = await call('GET', `/organizations/no-such-org${path}`);
      expect(answer.status).toBe(404);
      expect(answer.body.detail).toContain('Organization "no-such-org"');
    }
  });
});

describe('audit logs', () => {
  it('are listed newest first, in pages, for this Organization only', async () => {
    const slug = unique('org');
    const other = unique('org');
    await call('PUT', `/organizations/${other}`, { name: 'Other' });
    for (const name of ['1', '2', '3']) await call('PUT', `/organizations/${slug}`, { name });
    const first = await call('GET', `/organizations/${slug}/audit-log?limit=2`);
    expect(first.body.auditLog.map((row: any) => row.details.after.name)).toEqual(['3', '2']);
    const second = await call(
      'GET',
      `/organizations/${slug}/audit-log?limit=2&cursor=${first.body.nextCursor}`,
    );
    expect(second.body.auditLog.map((row: any) => row.details.after.name)).toEqual(['1']);
    expect(second.body.nextCursor).toBeNull();
    expect((await call('GET', `/organizations/${other}/audit-log`)).body.auditLog).toHaveLength(1);
  });

  it('of the operator are paginated in the same way', async () => {
    const made = [unique('product'), unique('product')];
    for (const slug of made) await call('PUT', `/products/${slug}`, { name: 'n', usageMetric: 'm' });
    const first = await call('GET', '/audit-log?limit=1');
    const second = await call('GET', `/audit-log?limit=1&cursor=${first.body.nextCursor}`);
    expect([...first.body.auditLog, ...second.body.auditLog].map((row: any) => row.target)).toEqual(
      made.toReversed(),
    );
  });

  it('reject a malformed cursor', async () => {
    const slug = unique('org');
    await call('PUT', `/organizations/${slug}`, { name: 'n' });
    const cursor = Buffer.from('not-an-id').toString('base64url');
    for (const path of ['/audit-log', `/organizations/${slug}/audit-log`]) {
      expect((await call('GET', `${path}?cursor=${cursor}`)).status).toBe(400);
      expect((await call('GET', `${path}?limit=501`)).status).toBe(400);
    }
  });
});
