import { sql } from 'drizzle-orm';
import { beforeAll, expect, it, vi } from 'vitest';
import { signedIn } from '../../../support/accounts.js';
import { html } from './support.js';
import { useService } from '../../../support/use.js';

const MEMBERS = 10_000;

const { database, service } = useService();
let owner: Awaited<ReturnType<typeof signedIn>>;
beforeAll(async () => {
  owner = await signedIn(database.db, service.url);
  const { orm } = database.db;
  await orm.execute(sql`insert into users (id, email, name, password_hash, created_at)
    select md5(n::text)::uuid, 'crowd-' || lpad(n::text, 5, '0') || '@example.com', 'Person Nr' || n, 'x', now()
    from generate_series(1, 20000) as n`);
  await orm.execute(sql`insert into memberships (org_id, user_id, role, created_at)
    select ${owner.organization.id}::uuid, md5(n::text)::uuid, 'member', now()
    from generate_series(1, ${sql.raw(String(MEMBERS - 1))}) as n`);
  await orm.execute(sql`analyze`);
});

const emailsIn = (text: string) =>
  [...text.matchAll(/data-label="E-mail"><bdi>([^<]+)</g)].map(([, email]) => email!);

it('10,000 members are counted and paginated in order, each shown once', async () => {
  const seen: string[] = [];
  let path: string | undefined = '/dashboard/members';
  for (let pages = 0; path !== undefined; pages++) {
    const { text } = await owner.browser.get(path, html);
    if (pages === 0) expect(text).toContain('10,000 members');
    const emails = emailsIn(text);
    expect(emails.length).toBeLessThanOrEqual(50);
    seen.push(...emails);
    path = /rel="next" href="([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
    // After the first two pages, skips to the last pages.
    if (pages === 2)
      path = `/dashboard/members?cursor=${Buffer.from('crowd-09900@example.com').toString('base64url')}`;
  }
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen.slice(0, 50)).toEqual(
    Array.from({ length: 50 }, (_, i) => `crowd-${String(i + 1).padStart(5, '0')}@example.com`),
  );
  expect(seen.at(-1)).toBe(owner.user.email);
});

it('a page of 10,000 members and a search among them need few queries', async () => {
  const session = (database.db.orm as any).session;
  for (const path of [
    '/dashboard/members',
    `/dashboard/members?cursor=${Buffer.from('crowd-05000@example.com').toString('base64url')}`,
    '/dashboard/members?search=nr99',
    '/dashboard/members?search=nobody-at-all',
  ]) {
    await owner.browser.get(path, html);
    const queries = vi.spyOn(session, 'prepareQuery');
    expect((await owner.browser.get(path, html)).status).toBe(200);
    expect(queries.mock.calls.length).toBeLessThanOrEqual(8);
    queries.mockRestore();
  }
  const wrong = await owner.browser.get(`/dashboard/members?search=${'x'.repeat(255)}`, html);
  expect([wrong.status, wrong.text]).toEqual([
    400,
    expect.stringMatching(/field-search-error">Must be 1 to 254/),
  ]);
  const { text } = await owner.browser.get('/dashboard/members?search=NR99', html);
  expect(emailsIn(text)).toHaveLength(50);
  expect(text).toContain('search=NR99&amp;cursor=');
});
