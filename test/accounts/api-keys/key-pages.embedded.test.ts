import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { isAnyKeyWatched } from '../../../src/accounts/api-keys/queries.js';
import { apiKeyCalls, apiKeys } from '../../../src/accounts/api-keys/table.js';
import { addMember, signedIn, type Browser } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { createProduct, grant } from '../../metering/support/products.js';
import { sendUsage, usageEvent } from '../../metering/support/usage.js';
import { fieldOf, formsOf, getPage, linksOf, postForm, textOf } from './html.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();

const PATH = '/dashboard/api-keys';
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const keysOf = (orgId: string) => database.db.orm.select().from(apiKeys).where(eq(apiKeys.orgId, orgId));

/** Rotates a key. The returned `call` sends events with the old or the new secret. */
async function rotated(role: 'owner' | 'member' = 'owner', graceMinutes = 60) {
  const signed = await signedIn(database.db, service.url);
  const { browser, organization } = signed;
  const product = await createProduct(database.db);
  await grant(database.db, organization.id, product.id);
  const old = await createKey(database.db, organization.id, { name: 'worker' });
  const { apiKey, secret } = (
    await browser.send('POST', `${PATH}/${old.id}/rotate`, { json: { graceMinutes } })
  ).body;
  const next = { id: apiKey.id as string, secret: secret as string };
  let sent = 0;
  const call = async (secret: string, times: number) => {
    for (let i = 0; i < times; i++)
      await sendUsage(service.url, secret, [usageEvent(product.slug, `${sent++}`)]);
    await service.services.keyUse.flush();
  };
  const member = role === 'owner' ? signed : await signedIn(database.db, service.url, role);
  return { browser: member.browser, organization, old, next, call };
}

describe('a key’s page', () => {
  it('is HTML for browsers and JSON for all other clients', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const { id } = await createKey(database.db, organization.id, { name: 'worker' });
    expect((await getPage(browser, `${PATH}/${id}`)).headers.get('content-type')).toContain('text/html');
    expect((await browser.get(`${PATH}/${id}`)).body).toMatchObject({
      apiKey: { id, name: 'worker', state: 'active' },
    });
  });

  it('shows calls by scope, calls of the last day, and a link to its usage', async () => {
    const { browser, next, call } = await rotated();
    await call(next.secret, 3);
    service.clock.advance(2 * HOUR);
    await call(next.secret, 2);
    const page = await getPage(browser, `${PATH}/${next.id}`);
    const text = textOf(page);
    expect(text).toMatch(/Calls in the last 24 hours .*Accepted 5 The key/);
    expect(text).toMatch(/usage:write Send usage events\. [^.]*\. 5 just now/);
    expect(text).toMatch(/how much is left\. 0 Never/);
    expect(linksOf(page)).toContain(`/dashboard/usage?key=${next.id}&mode=live`);
    expect(textOf(await getPage(browser, `${PATH}/${next.id}?range=week`))).toMatch(
      /Calls in the last 7 days .*Accepted 5 The key/,
    );
    service.clock.advance(25 * HOUR);
    expect(textOf(await getPage(browser, `${PATH}/${next.id}`))).toContain('No calls in this period.');
    expect(textOf(await getPage(browser, `${PATH}/${next.id}?range=week`))).toContain('Accepted 5 The key');
  });

  it('links to predecessor and successor, and offers the possible actions', async () => {
    const { browser, organization, old, next } = await rotated();
    const page = await getPage(browser, `${PATH}/${old.id}`);
    expect(textOf(page)).toContain('In grace');
    expect(linksOf(page)).toEqual(
      expect.arrayContaining([
        `${PATH}/${next.id}`,
        `${PATH}/${next.id}/cut-over`,
        `${PATH}/${old.id}/revoke`,
      ]),
    );
    expect(linksOf(page)).not.toContain(`${PATH}/${old.id}/rotate`);
    expect(linksOf(await getPage(browser, `${PATH}/${next.id}`))).toEqual(
      expect.arrayContaining([`${PATH}/${old.id}`, `${PATH}/${next.id}/rotate`, `${PATH}/${next.id}/revoke`]),
    );
    const revoked = await createKey(database.db, organization.id, {
      revokedAt: new Date(service.clock.now()),
    });
    const links = linksOf(await getPage(browser, `${PATH}/${revoked.id}`));
    expect(links).toContain(`${PATH}/new?like=${revoked.id}`);
    expect(links.filter((href) => /rotate|revoke/.test(href))).toEqual([]);
  });
});

describe('the cut-over page', () => {
  it('follows both keys until the cut-over ends', async () => {
    const { browser, old, next, call } = await rotated();
    await call(old.secret, 4);
    service.clock.advance(20 * MINUTE);
    await call(old.secret, 1);
    await call(next.secret, 1_200 / 100);
    const path = `${PATH}/${next.id}/cut-over`;
    const page = await getPage(browser, path);
    const text = textOf(page);
    expect(text).toContain('Grace period left 40 minutes');
    expect(text).toContain('Calls with the old key 5 last just now');
    expect(text).toContain('Calls with the new key 12 last just now');
    expect(text).toContain('Each bar is 1 minute.');
    expect(page.text).toMatch(/calls-scale[^>]*>12</);
    expect(page.text.match(/data-live="3"/g)!.length).toBeGreaterThan(2);
    expect(linksOf(page)).toContain(`${PATH}/${old.id}/revoke`);

    const question = await getPage(browser, `${PATH}/${old.id}/revoke`);
    expect(textOf(question)).toContain('It is in use: 1 call in the last 15 minutes.');
    expect(linksOf(question)).toContain(path);
    const answer = await postForm(browser, formsOf(question)[0]!, {});
    expect(answer.headers.get('location')).toBe(path);
    const done = await getPage(browser, path);
    expect(textOf(done)).toContain('Switched worker to the new key');
    expect(textOf(done)).toContain(
      'The old key was revoked just now: calls with it fail. The new key is active.',
    );
    expect(done.text).not.toContain('data-live');
    expect(linksOf(done)).not.toContain(`${PATH}/${old.id}/revoke`);
    expect((await sendUsage(service.url, old.secret, [])).status).not.toBe(202);
  });

  it('recommends to revoke the old key only once the new one works and the old one is quiet', async () => {
    const { browser, old, next, call } = await rotated();
    await call(old.secret, 1);
    const read = async () => (await getPage(browser, `${PATH}/${next.id}/cut-over`)).text;
    const revoke = (tone: string) => `<a class="button${tone}" href="${PATH}/${old.id}/revoke">`;
    const unused = await read();
    expect([unused.includes('The new key has made no call yet.'), unused.includes(revoke(''))]).toEqual([
      true,
      true,
    ]);
    await call(next.secret, 1);
    const both = await read();
    expect([both.includes('The old key is still in use.'), both.includes(revoke(''))]).toEqual([true, true]);
    service.clock.advance(15 * MINUTE);
    const ready = await read();
    expect([ready.includes('The new key works'), ready.includes(revoke(' primary'))]).toEqual([true, true]);
    service.clock.advance(HOUR);
  });

  it('shows the end once the grace period has passed', async () => {
    const { browser, old, next } = await rotated();
    const canRevoke = async () =>
      linksOf(await getPage(browser, `${PATH}/${old.id}`)).includes(`${PATH}/${old.id}/revoke`);
    expect(await canRevoke()).toBe(true);
    service.clock.advance(HOUR);
    const page = await getPage(browser, `${PATH}/${next.id}/cut-over`);
    expect(textOf(page)).toContain('The old key expired just now: calls with it fail.');
    expect(page.text).not.toContain('data-live');
    expect(await canRevoke()).toBe(false);
  });

  it('is linked from the old key, and missing for a key that replaced none', async () => {
    const { browser, organization, old, next } = await rotated();
    const answer = await getPage(browser, `${PATH}/${old.id}/cut-over`);
    expect(answer.headers.get('location')).toBe(`${PATH}/${next.id}/cut-over`);
    const single = await createKey(database.db, organization.id);
    const none = await getPage(browser, `${PATH}/${single.id}/cut-over`);
    expect(none.status).toBe(404);
    expect(textOf(none)).toContain('did not replace another key');
  });

  it('draws few bars however long the cut-over takes, and counts every call', async () => {
    const { browser, organization, old, next } = await rotated('owner', 10_080);
    const start = service.clock.now() - (service.clock.now() % MINUTE);
    const minutes = Array.from({ length: 7 * 24 * 4 - 4 }, (_, i) => new Date(start + i * 15 * MINUTE));
    await database.db.orm
      .insert(apiKeyCalls)
      .values(minutes.map((minute) => ({ orgId: organization.id, apiKeyId: old.id, minute, calls: 3 })));
    service.clock.advance(7 * 24 * HOUR - HOUR / 2);
    const page = await getPage(browser, `${PATH}/${next.id}/cut-over`);
    expect(textOf(page)).toContain('Old key 2,004 calls');
    expect(textOf(page)).toContain('Each bar is 3 hours');
    expect(page.text.match(/class="bar"/g)!.length).toBeLessThanOrEqual(2 * 60);
  });

  it('says so once the calls are no longer kept', async () => {
    const { browser, old, next } = await rotated();
    await database.db.orm
      .update(apiKeys)
      .set({ createdAt: new Date(service.clock.now() - 9 * 24 * HOUR) })
      .where(eq(apiKeys.id, next.id));
    const page = await getPage(browser, `${PATH}/${next.id}/cut-over`);
    expect(textOf(page)).toContain('no longer available for this cut-over');
    expect(linksOf(page)).toContain(`${PATH}/${old.id}`);
  });

  it('is read-only for members and hidden from other Organizations', async () => {
    const { organization, next } = await rotated();
    const stranger = await signedIn(database.db, service.url, 'member');
    expect((await getPage(stranger.browser, `${PATH}/${next.id}/cut-over`)).status).toBe(404);
    await addMember(database.db, organization.id, stranger.user.id, 'member');
    await stranger.browser.send('POST', '/dashboard/organization', {
      form: { organization: organization.slug },
    });
    const page = await getPage(stranger.browser, `${PATH}/${next.id}/cut-over`);
    expect(page.status).toBe(200);
    expect(linksOf(page).filter((href) => /revoke|rotate/.test(href))).toEqual([]);
  });
});

describe('call counts', () => {
  it('separate refused calls from accepted ones, by reason', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const product = await createProduct(database.db);
    await grant(database.db, organization.id, product.id);
    const key = await createKey(database.db, organization.id, { scopes: ['usage:write'] });
    const headers = { authorization: `Bearer ${key.secret}` };
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'counted')]);
    for (let i = 0; i < 2; i++)
      expect((await fetch(`${service.url}/api/entitlements`, { headers })).status).toBe(403);
    await postForm(browser, `${PATH}/${key.id}/revoke`, {});
    for (let i = 0; i < 3; i++) expect((await fetch(`${service.url}/api/key`, { headers })).status).toBe(401);
    // A call with a guessed secret is not counted for any key.
    const guess = { authorization: `Bearer ${key.secret.slice(0, -4)}aaaa` };
    expect((await fetch(`${service.url}/api/key`, { headers: guess })).status).toBe(401);
    await service.services.keyUse.flush();
    const text = textOf(await getPage(browser, `${PATH}/${key.id}`));
    expect(text).toMatch(
      /Accepted 1 .*Refused: key revoked or expired 3 .*Refused: missing scope 2 .*Refused: rate limit 0 /,
    );
    const [row] = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.id, key.id));
    expect(row!.lastUsedAt).not.toBeNull();
  });

  it('of the first half minute are reported as pending, not as zero', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const key = await createKey(database.db, organization.id);
    await database.db.orm
      .update(apiKeys)
      .set({ createdAt: new Date(service.clock.now()) })
      .where(eq(apiKeys.id, key.id));
    const open = async () => textOf(await getPage(browser, `${PATH}/${key.id}`));
    const early = await open();
    expect(early).toContain('Accepted –');
    expect(early).toContain('Last used –');
    expect(early.match(/No calls yet/g)).toHaveLength(1);
    service.clock.advance(30_000);
    const late = await open();
    expect(late).toContain('Accepted 0');
    expect(late).toContain('Last used Never');
  });

  it('on an open cut-over page are fresh, on every instance', async () => {
    const { browser, next } = await rotated();
    const headers = { authorization: `Bearer ${next.secret}` };
    const path = `${PATH}/${next.id}/cut-over`;
    const now = () => new Date(service.clock.now());
    expect(await isAnyKeyWatched(database.db.orm, now())).toBe(false);
    const first = textOf(await getPage(browser, path));
    expect(first).toContain('Calls with the new key 0 none yet');
    expect((await fetch(`${service.url}/api/key`, { headers })).status).toBe(200);
    const page = await getPage(browser, path);
    expect(textOf(page)).toContain('Calls with the new key 1 last just now');
    expect(page.text).toContain('data-live="3"');
    expect(await isAnyKeyWatched(database.db.orm, now())).toBe(true);
    service.clock.advance(31_000);
    expect(await isAnyKeyWatched(database.db.orm, now())).toBe(false);
    const stranger = await signedIn(database.db, service.url);
    expect((await getPage(stranger.browser, path)).status).toBe(404);
    expect(await isAnyKeyWatched(database.db.orm, now())).toBe(false);
  });
});

describe('a new name', () => {
  const rename = (browser: Browser, id: string, name?: string) =>
    postForm(browser, `${PATH}/${id}/rename`, name === undefined ? [] : { name });

  it('replaces the old one, is logged once, and leaves the key working', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const key = await createKey(database.db, organization.id, { name: 'old name' });
    const page = await getPage(browser, `${PATH}/${key.id}`);
    expect(linksOf(page)).toContain(`${PATH}/${key.id}/rename`);
    expect(fieldOf(await getPage(browser, `${PATH}/${key.id}/rename`), 'name')).toEqual(['old name']);
    for (let i = 0; i < 2; i++) {
      const answer = await rename(browser, key.id, '<b>new</b> name');
      expect([answer.status, answer.headers.get('location')]).toEqual([
        303,
        `${PATH}/${key.id}?done=renamed`,
      ]);
    }
    expect(await keysOf(organization.id)).toMatchObject([{ name: '<b>new</b> name' }]);
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      {
        action: 'api_key.renamed',
        target: key.id,
        details: { before: { name: 'old name' }, name: '<b>new</b> name' },
      },
    ]);
    const log = textOf(await getPage(browser, '/dashboard/audit-log'));
    expect(log).toContain('Renamed the live API key old name to <b>new</b> name');
    expect(
      (await fetch(`${service.url}/api/key`, { headers: { authorization: `Bearer ${key.secret}` } })).status,
    ).toBe(200);
  });

  it('is rejected next to its field if it is invalid', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const key = await createKey(database.db, organization.id, { name: 'old name' });
    for (const name of [undefined, '', '   ', 'x'.repeat(101), 'nul \u0000']) {
      const answer = await rename(browser, key.id, name);
      expect([name, answer.status]).toEqual([name, 400]);
      expect(answer.text).toContain('id="field-name-error"');
    }
    expect(await keysOf(organization.id)).toMatchObject([{ name: 'old name' }]);
  });
});
