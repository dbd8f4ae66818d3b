import { describe, expect, it } from 'vitest';
import { addMember, createUser, openSession, signedIn } from '../support/accounts.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { hostileTexts } from '../support/hostile-texts.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
const html = { accept: 'text/html' };

type Signed = Pick<Awaited<ReturnType<typeof signedIn>>, 'browser'>;

async function search({ browser }: Signed, q: string) {
  const { status, text } = await browser.get(`/dashboard/search?q=${encodeURIComponent(q)}`, html);
  const [, results = ''] = text.split('data-search-results');
  return { status, text, links: [...results.matchAll(/<li><a href="([^"]+)"/g)].map((match) => match[1]!) };
}

async function memberOf(orgId: string, role: 'member' | 'owner', name = 'A person') {
  const user = await createUser(database.db, { name });
  await addMember(database.db, orgId, user.id, role);
  return { user, browser: await openSession(database.db, service.url, user.id, service.clock.now()) };
}

describe('the search of the dashboard', () => {
  it('finds keys by any part of their name or prefix, members and pages', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    const key = await createKey(database.db, owner.organization.id, { name: 'Nightly import' });
    const { user } = await memberOf(owner.organization.id, 'member', 'Ingrid Nightingale');
    expect((await search(owner, 'IGHT')).links).toEqual(
      expect.arrayContaining([`/dashboard/api-keys/${key.id}`, `/dashboard/members/${user.id}`]),
    );
    expect((await search(owner, key.secret.slice(0, 12))).links).toContain(`/dashboard/api-keys/${key.id}`);
    expect((await search(owner, 'audit')).links[0]).toBe('/dashboard/audit-log');
    expect((await search(owner, 'zzz')).links).toEqual(['/docs/search?q=zzz']);
  });

  it('puts words that begin with the query above words that contain it', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    const { user } = await memberOf(owner.organization.id, 'member', 'Fortuna Lind');
    const inside = await createKey(database.db, owner.organization.id, { name: 'before noon' });
    const begins = await createKey(database.db, owner.organization.id, { name: 'Old forecasts' });
    await createKey(database.db, owner.organization.id, { name: 'comfort' });
    expect((await search(owner, 'ORTUN')).links[0]).toBe(`/dashboard/members/${user.id}`);
    const { links } = await search(owner, 'for');
    expect(links[0]).toBe(`/dashboard/api-keys/${begins.id}`);
    expect(links).toContain(`/dashboard/api-keys/${inside.id}`);
    const only = await signedIn(database.db, service.url, 'owner');
    await createKey(database.db, only.organization.id, { name: 'comfort' });
    const { user: second } = await memberOf(only.organization.id, 'member', 'Fortuna Lind');
    expect((await search(only, 'for')).links[0]).toBe(`/dashboard/members/${second.id}`);
  });

  it('finds nothing of another Organization', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    const other = await createOrganization(database.db);
    const key = await createKey(database.db, other.id, { name: 'Foreign fjord' });
    const { user } = await memberOf(other.id, 'owner', 'Foreign person');
    for (const q of ['foreign', key.id, key.secret.slice(0, 12), user.email, other.slug, other.name])
      expect((await search(owner, q)).links.filter((link) => !link.startsWith('/docs/'))).toEqual([]);
  });

  it('leads each role only to pages that it may see', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    const member = await memberOf(owner.organization.id, 'member');
    for (const q of ['webhooks', 'audit', 'new api', 'rotate', 'invite', 'require', 'console']) {
      const hidden = (await search(member, q)).links.filter((link) => !link.startsWith('/docs/'));
      expect([q, hidden]).toEqual([q, []]);
    }
    const pages = ['a', 'e', 'i', 'o'].map((q) => search(member, q));
    for (const link of new Set((await Promise.all(pages)).flatMap(({ links }) => links)))
      expect([link, (await member.browser.get(link, html)).status]).toEqual([link, 200]);
  });

  it('leads from what a person wants to do to the page where it is done', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    const wants = [
      ['rotate', '/dashboard/api-keys'],
      ['alerts', '/dashboard/usage/alerts'],
      ['billing', '/dashboard/statement'],
      ['invite', '/dashboard/members/invite'],
      ['statement', '/dashboard/statement'],
      ['key create', '/dashboard/api-keys/new'],
      ['2fa', '/dashboard/account/second-factor'],
    ] as const;
    for (const [q, page] of wants) {
      const { links } = await search(owner, q);
      expect([q, links]).toEqual([q, expect.arrayContaining([page])]);
      for (const link of links)
        expect([link, (await owner.browser.get(link, html)).status]).toEqual([link, 200]);
    }
    expect((await search(owner, '')).links).toContain('/dashboard/members/invite');
    expect((await search(owner, 'otate xyz')).links).toEqual(['/docs/search?q=otate+xyz']);
  });

  it('never keeps a pasted secret in the address', async () => {
    const { organization, browser } = await signedIn(database.db, service.url, 'member');
    const { secret } = await createKey(database.db, organization.id);
    const answer = await browser.get(`/dashboard/search?q=${secret}`, html);
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/dashboard/search?q=${secret.slice(0, 12)}`,
    ]);
  });

  it('takes every text literally, and keeps what it refuses in the field', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    await createKey(database.db, owner.organization.id, { name: '100%_\\ "key"' });
    for (const [q, found] of [
      ['%_', 1],
      ['_\\ "', 1],
      ['%%', 0],
      ["' or 1=1 --", 0],
    ] as const)
      expect([q, (await search(owner, q)).links.length]).toEqual([q, found + 1]);
    for (const q of hostileTexts) {
      const { status, text } = await search(owner, q);
      expect([q, status]).toEqual([q, 200]);
      expect(text).not.toMatch(/<script>alert|<img src=x/);
    }
    for (const q of ['x'.repeat(10_000), 'a\u0000b']) {
      const { status, text } = await search(owner, q);
      expect(status).toBe(400);
      expect(text).toContain('Must be 1 to 255 characters without control characters.');
    }
    expect((await search(owner, `${'x'.repeat(255)}yz`)).text).toContain('xyz"');
    expect((await owner.browser.get('/dashboard/search?q=a&q=b', html)).status).toBe(400);
    expect((await owner.browser.get('/dashboard/search?q=', html)).status).toBe(200);
  });

  it('lists a few of each kind, however many there are', async () => {
    const owner = await signedIn(database.db, service.url, 'owner');
    for (let n = 0; n < 10; n++) await createKey(database.db, owner.organization.id, { name: `runner ${n}` });
    const { links } = await search(owner, 'runner');
    expect(links.filter((link) => link.startsWith('/dashboard/api-keys/'))).toHaveLength(6);
  });
});
