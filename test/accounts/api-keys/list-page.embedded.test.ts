import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { apiKeyCalls, apiKeys, apiKeyScopeUse } from '../../../src/accounts/api-keys/table.js';
import { memberships } from '../../../src/accounts/organizations/table.js';
import { addMember, createUser, signedIn } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { getPage, linksOf, textOf } from './html.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const PATH = '/dashboard/api-keys';
const DAY = 86_400_000;
const ago = (ms: number) => new Date(service.clock.now() - ms);
const keyOf = (orgId: string, values: Record<string, unknown> = {}) => createKey(database.db, orgId, values);

describe('the list page', () => {
  it('is HTML for browsers and JSON for all other clients', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    await keyOf(organization.id, { name: 'edge proxy' });
    const page = await getPage(browser, PATH);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toContain('text/html');
    expect(page.headers.get('ratelimit')).toBe('"key-changes";r=10;t=3600');
    const json = await browser.get(PATH);
    expect(json.body.apiKeys).toMatchObject([{ name: 'edge proxy' }]);
    expect((await browser.get(PATH, { accept: 'application/json' })).body).toEqual(json.body);
  });

  it('shows each key and its creator, but never its secret', async () => {
    const { browser, organization, user } = await signedIn(database.db, service.url);
    const gone = await createUser(database.db, { name: 'Gone Person' });
    await addMember(database.db, organization.id, gone.id, 'admin');
    const values = { lastUsedAt: ago(3 * 3_600_000), createdAt: ago(2 * DAY) };
    const mine = await keyOf(organization.id, {
      ...values,
      name: 'mine',
      createdBy: user.id,
      livemode: false,
    });
    await keyOf(organization.id, { ...values, name: 'theirs', createdBy: gone.id });
    await keyOf(organization.id, {
      ...values,
      name: 'made here',
      expiresAt: new Date(service.clock.now() + 40 * DAY),
    });
    await database.db.orm.delete(memberships).where(eq(memberships.userId, gone.id));
    const page = await getPage(browser, PATH);
    const text = textOf(page);
    expect(text).not.toContain('left this hour');
    for (const part of [
      `mine Active Test ${mine.secret.slice(0, 12)}… usage:write entitlements:read None 3 hours ago Never 2 days ago by ${user.name}`,
      '2 days ago by a former member',
      'in 40 days 2 days ago by the service',
    ])
      expect(text).toContain(part);
    expect(page.text).not.toContain(mine.secret.slice(0, 14));
    expect(linksOf(page)).toEqual(expect.arrayContaining([`${PATH}/${mine.id}`, `${PATH}/new`]));
  });

  it("shows each key's calls of the last 24 hours", async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const { id } = await keyOf(organization.id, { name: 'called' });
    const stranger = await signedIn(database.db, service.url);
    const other = await keyOf(stranger.organization.id);
    const row = { orgId: organization.id, apiKeyId: id };
    await database.db.orm.insert(apiKeyCalls).values([
      { ...row, minute: ago(0), calls: 2 },
      { ...row, minute: ago(22 * 3_600_000), calls: 1_000 },
      { ...row, minute: ago(25 * 3_600_000), calls: 7 },
      { orgId: stranger.organization.id, apiKeyId: other.id, minute: ago(0), calls: 5 },
    ]);
    const page = await getPage(browser, PATH);
    expect(page.text).toContain('aria-label="1,002 calls in the last 24 hours, by hour"');
    expect(page.text.match(/class="trend"/g)).toHaveLength(1);
  });

  it('lists keys that no longer work after all others, over its pages', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const names = Array.from({ length: 52 }, (_, i) => `key ${i}`);
    for (const [i, name] of names.entries()) {
      const ended = i === 0 ? { revokedAt: ago(DAY) } : i === 1 ? { expiresAt: ago(DAY) } : {};
      await keyOf(organization.id, { name, createdAt: ago((i + 3) * DAY), ...ended });
    }
    const listed = (text: string) =>
      [...text.matchAll(/"><bdi>(key \d+)<\/bdi><\/a>/g)].map((match) => match[1]!);
    const first = await getPage(browser, PATH);
    const next = /rel="next" href="([^"]+)"|href="([^"]+)"[^>]*rel="next"/.exec(first.text)!;
    const second = await getPage(browser, (next[1] ?? next[2])!.replaceAll('&amp;', '&'));
    expect([...listed(first.text), ...listed(second.text)]).toEqual([
      ...names.slice(2),
      ...names.slice(0, 2),
    ]);
    expect(textOf(second)).toContain('51–52 of 52');
    const back = /href="([^"]+)"[^>]*rel="prev"|rel="prev" href="([^"]+)"/.exec(second.text)!;
    const again = await getPage(browser, (back[1] ?? back[2])!.replaceAll('&amp;', '&'));
    expect(listed(again.text)).toEqual(names.slice(2));
  });

  it('shows how many changes are left and when the next one is freed, once few are left', async () => {
    const { browser } = await signedIn(database.db, service.url);
    for (let i = 0; i < 7; i++) await browser.send('POST', PATH, { json: { name: 'x', livemode: true } });
    expect(textOf(await getPage(browser, PATH))).toContain(
      '3 of 10 key changes left this hour; the next one becomes available in 1 hour.',
    );
  });

  it('shows the newest first, 50 per page, each key once', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    for (let i = 0; i < 102; i++)
      await keyOf(organization.id, { name: `number ${i}.`, createdAt: ago(i * 1000) });
    const seen: string[] = [];
    let path: string | undefined = PATH;
    for (let pages = 0; path !== undefined; pages++) {
      expect(pages).toBeLessThan(3);
      const page = await getPage(browser, path);
      seen.push(...[...textOf(page).matchAll(/number (\d+)\. \w+ \w+ org_/g)].map(([, number]) => number!));
      path = linksOf(page).find((href) => href.includes('cursor='));
    }
    expect(seen).toEqual(Array.from({ length: 102 }, (_, i) => String(i)));
  });

  it('shows the total and pages in both directions', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    for (let i = 0; i < 70; i++) await keyOf(organization.id, { name: `key-${i}`, createdAt: ago(i * 1000) });
    for (let i = 0; i < 52; i++)
      await keyOf(organization.id, { name: 'other', livemode: false, createdAt: ago(i * 1000 + 500) });
    const go = async (path: string, to: string) => {
      const page = await getPage(browser, path);
      return { text: textOf(page), href: linksOf(page).find((href) => href.includes(`${to}=`)) };
    };
    const first = await go(PATH, 'cursor');
    expect(first.text).toContain('1–50 of 122');
    expect(first.text).not.toContain('Previous page');
    const second = await go(first.href!, 'cursor');
    expect(second.text).toContain('51–100 of 122');
    const third = await go(second.href!, 'before');
    expect(third.text).toContain('101–122 of 122');
    const back = await go(third.href!, 'before');
    expect(back.text).toBe(second.text);
    expect((await go(back.href!, 'cursor')).text).toBe(first.text);
    expect((await go(`${PATH}?mode=live`, 'cursor')).text).toContain('1–50 of 70');
    const other = await signedIn(database.db, service.url);
    const foreign = textOf(await getPage(other.browser, second.href!));
    expect(foreign).not.toContain('key-');
  });

  it('can be filtered by state, mode and name, and keeps the filter across pages', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const at = { createdAt: ago(DAY) };
    const shown = async (query: string) =>
      [...textOf(await getPage(browser, `${PATH}?${query}`)).matchAll(/key-(\w+) \w+( \w+)* org_/g)].map(
        ([, name]) => name,
      );
    await keyOf(organization.id, { ...at, name: 'key-active' });
    await keyOf(organization.id, { ...at, name: 'key-test', livemode: false });
    await keyOf(organization.id, { ...at, name: 'key-expired', expiresAt: ago(1000) });
    await keyOf(organization.id, { ...at, name: 'key-revoked', revokedAt: ago(1000), expiresAt: ago(1000) });
    const old = await keyOf(organization.id, { ...at, name: 'key-rotated' });
    await browser.send('POST', `${PATH}/${old.id}/rotate`, { json: {} });
    expect(new Set(await shown('state=active'))).toEqual(new Set(['active', 'rotated', 'test']));
    expect(await shown('state=grace')).toEqual(['rotated']);
    expect(await shown('state=expired&mode=&q=')).toEqual(['expired']);
    expect(await shown('state=revoked')).toEqual(['revoked']);
    expect(await shown('mode=test')).toEqual(['test']);
    expect(await shown('q=KEY-EXP')).toEqual(['expired']);
    expect(await shown(`q=${old.secret.slice(0, 12)}&state=grace`)).toEqual(['rotated']);
    expect(await shown('q=%25')).toEqual([]);
    const none = await getPage(browser, `${PATH}?q=nothing+like+it`);
    expect(textOf(none)).toContain('No API keys match');
    for (let i = 0; i < 51; i++) await keyOf(organization.id, { name: 'key-many' });
    const next = linksOf(await getPage(browser, `${PATH}?q=many&mode=live`)).find((href) =>
      /cursor/.test(href),
    );
    expect(next).toContain('mode=live&q=many&cursor=');
    expect(await shown(next!.split('?')[1]!)).toEqual(['many']);
  });

  it('removes a secret pasted into the search from the address', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const { secret } = await keyOf(organization.id);
    const answer = await getPage(browser, `${PATH}?state=active&q=${secret}`);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe(`${PATH}?state=active&q=${secret.slice(0, 12)}`);
  });

  it.each(['state=x', 'mode=x', 'cursor=x', 'before=x', 'q=%00', `q=${'x'.repeat(101)}`, 'q=1&q=2'])(
    'returns an error page for ?%s',
    async (query) => {
      const { browser } = await signedIn(database.db, service.url);
      const answer = await getPage(browser, `${PATH}?${query}`);
      expect(answer.status).toBe(400);
      expect(answer.headers.get('content-type')).toContain('text/html');
    },
  );

  it('shows nothing of other Organizations', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const other = await signedIn(database.db, service.url);
    const { id } = await keyOf(other.organization.id, { name: 'foreign' });
    const cursor = Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');
    for (const path of [PATH, `${PATH}?q=foreign`, `${PATH}?cursor=${cursor}`])
      expect((await getPage(browser, path)).text).not.toContain(id);
  });
});

describe('the list page without keys', () => {
  it('explains keys and offers to create one', async () => {
    const { browser } = await signedIn(database.db, service.url, 'admin');
    const page = await getPage(browser, PATH);
    expect(textOf(page)).toContain('No keys yet');
    expect(linksOf(page)).toContain(`${PATH}/new`);
  });

  it('tells a member whom to ask', async () => {
    const { browser, organization } = await signedIn(database.db, service.url, 'member');
    const person = async (name: string, role: 'owner' | 'admin' | 'billing') =>
      addMember(database.db, organization.id, (await createUser(database.db, { name })).id, role);
    await person('Anna Admin', 'admin');
    await person('Olga Owner', 'owner');
    await person('Bert Billing', 'billing');
    const page = await getPage(browser, PATH);
    expect(textOf(page)).toContain('Ask Olga Owner (owner) or Anna Admin (admin)');
    expect(linksOf(page)).toEqual([]);
  });
});

describe('hints', () => {
  const hintsFor = async (values: Record<string, unknown>, usedScopes: string[] = []) => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const key = await keyOf(organization.id, { createdAt: ago(100 * DAY), lastUsedAt: ago(DAY), ...values });
    for (const scope of usedScopes)
      await database.db.orm
        .insert(apiKeyScopeUse)
        .values({ orgId: organization.id, apiKeyId: key.id, scope, calls: 1, lastUsedAt: ago(DAY) });
    const page = await getPage(browser, PATH);
    const own = await getPage(browser, `${PATH}/${key.id}`);
    return { text: textOf(page), own: textOf(own), links: linksOf(page), key };
  };
  const both = ['usage:write', 'entitlements:read'];

  it('point out a key that was not used for 90 days, and offer to revoke it', async () => {
    const { text, own, links, key } = await hintsFor({ lastUsedAt: ago(90 * DAY) }, both);
    expect(text).toContain('Not used for 90 days.');
    expect(own).toContain('Not used for 90 days.');
    expect(links).toContain(`${PATH}/${key.id}/revoke`);
    expect((await hintsFor({ lastUsedAt: ago(90 * DAY - 1000) }, both)).text).not.toContain('Not used');
    expect((await hintsFor({ lastUsedAt: null, createdAt: ago(91 * DAY) })).text).toContain(
      'Never used since it was created 91 days ago.',
    );
    expect((await hintsFor({ lastUsedAt: null, createdAt: ago(89 * DAY) })).text).not.toContain('Never used');
  });

  it('point out a key that expires within 14 days, and offer to duplicate it', async () => {
    const inDays = (days: number) => ({ expiresAt: new Date(service.clock.now() + days * DAY) });
    const { text, links, key } = await hintsFor(inDays(14), both);
    expect(text).toContain('Expires in 14 days.');
    expect(links).toContain(`${PATH}/new?like=${key.id}`);
    expect((await hintsFor(inDays(14.1), both)).text).not.toContain('Ends in');
  });

  it('point out a scope that an old key has never used', async () => {
    expect((await hintsFor({}, ['usage:write'])).text).toContain('Never used entitlements:read in 100 days.');
    expect((await hintsFor({}, both)).text).not.toContain('Never used');
    expect((await hintsFor({ createdAt: ago(80 * DAY) }, [])).text).not.toContain('Never used');
  });

  it('point out calls near the end of a grace period, and stop once no runtime calls', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const old = await keyOf(organization.id, { createdAt: ago(100 * DAY) });
    const { apiKey } = (await browser.send('POST', `${PATH}/${old.id}/rotate`, { json: {} })).body;
    const use = (at: Date) =>
      database.db.orm.update(apiKeys).set({ lastUsedAt: at }).where(eq(apiKeys.id, old.id));
    await use(ago(0));
    expect(textOf(await getPage(browser, PATH))).not.toContain('was called');
    service.clock.advance(50 * 60_000);
    await use(ago(2 * 60_000));
    const page = await getPage(browser, PATH);
    expect(textOf(page)).toContain('Expires in 10 minutes and was called 2 minutes ago.');
    expect(linksOf(page)).toContain(`${PATH}/${apiKey.id}/cut-over`);
    await use(ago(45 * 60_000));
    expect(textOf(await getPage(browser, PATH))).not.toContain('was called');
  });

  it('are not shown for keys that have ended', async () => {
    const old = { lastUsedAt: null, createdAt: ago(200 * DAY) };
    for (const ended of [{ revokedAt: ago(DAY) }, { expiresAt: ago(DAY) }])
      expect((await hintsFor({ ...old, ...ended })).text).not.toContain('Never used');
  });
});
