import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { recordAudit } from '../../src/accounts/audit/audit.js';
import { apiKeys } from '../../src/accounts/api-keys/table.js';
import { entitlements } from '../../src/metering/entitlements/table.js';
import { addMember, Browser, createUser, signedIn } from '../support/accounts.js';
import { inChange } from '../support/change.js';
import { createKey } from '../support/fixtures.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { fillUsage } from '../metering/support/usage-events.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const html = { accept: 'text/html' };
const DAY_MS = 24 * 60 * 60 * 1000;

const { database, service } = useService();
beforeAll(async () => {
  // Avoids the beginning of a month, when yesterday would belong to the previous month.
  service.clock.set('2031-03-15T12:00:00Z');
});

const textOf = (page: string) =>
  page
    .replace(/<(script|style)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/\s+/g, ' ');

async function openOverview(browser: Browser, query = '') {
  const answer = await browser.get(`/dashboard${query}`, html);
  expect(answer.status).toBe(200);
  return { ...answer, seen: textOf(answer.text) };
}

describe('the overview of a new Organization', () => {
  it('asks for a product, then a key, then an event, and updates automatically when the event arrives', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const empty = await openOverview(browser);
    expect(empty.seen).toContain('This Organization has no entitlement yet');
    expect(empty.text).toMatch(/id="overview-now"[^>]* data-live="2"/);

    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const entitled = await openOverview(browser);
    expect(entitled.text).toContain('href="/dashboard/api-keys/new"');
    expect(entitled.seen).toContain(`"productSlug":"${product.slug}"`.replaceAll('"', '&#34;'));

    const key = await createKey(db, organization.id);
    expect((await openOverview(browser)).seen).toContain('Waiting for the first event');

    const sent = await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'first')]);
    expect(sent.status).toBe(202);
    const arrived = await openOverview(browser);
    expect(arrived.seen).toContain('Your first event has arrived and is counted.');
    expect(arrived.seen).not.toContain('Waiting for the first event');
    // Same id as the section that said it was waiting, so the live update replaces that section on the open page.
    expect(arrived.text).toMatch(/id="overview-now"/);
  });

  it('names a product for which the Organization can send, however many it can only read', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    for (let i = 0; i < 14; i++) {
      const product = await createProduct(db, { slug: `a-${i}-${uuid()}`, name: 'Archive of maps' });
      await grant(db, organization.id, product.id, { kind: 'read_only' });
    }
    const reading = await openOverview(browser);
    expect(reading.seen).toContain('This Organization can only read Archive of maps');
    expect(reading.seen).not.toContain('curl');

    const product = await createProduct(db, { slug: `z-${uuid()}` });
    await grant(db, organization.id, product.id);
    expect((await openOverview(browser)).text).toContain(product.slug);
  });

  it('asks for a key that can send if the keys only read or have ended', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    await createKey(db, organization.id, { revokedAt: new Date(service.clock.now() - DAY_MS) });
    await createKey(db, organization.id, { expiresAt: new Date(service.clock.now() - DAY_MS) });
    const ended = await openOverview(browser);
    expect(ended.text).toContain('href="/dashboard/api-keys/new"');
    expect(ended.seen).not.toContain('none has the scope');
    await createKey(db, organization.id, { scopes: ['usage:read', 'entitlements:read'] });
    const reading = await openOverview(browser);
    expect(reading.seen).toContain('Your keys cannot send usage: none has the scope usage:write');
    expect(reading.text).toContain('href="/dashboard/api-keys/new"');
    await createKey(db, organization.id, { scopes: ['usage:write'] });
    expect((await openOverview(browser)).text).not.toContain('href="/dashboard/api-keys/new"');
  });

  it('leads from the mode without usage to the mode of the first events', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const key = await createKey(db, organization.id, { livemode: false });
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'first')]);
    const live = await openOverview(browser);
    expect(live.seen).toContain('Your first event arrived in test mode. View test usage');
    expect(live.text).toContain('<a href="/dashboard?mode=test">View test usage</a>');
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'second')]);
    expect((await openOverview(browser)).seen).toContain('Your first events arrived in test mode.');
    const test = await openOverview(browser, '?mode=test');
    expect(test.seen).toContain('Your first events have arrived and are counted.');
  });

  it('sends people who may not create keys to those who may', async () => {
    for (const role of ['member', 'billing'] as const) {
      const { browser } = await signedIn(database.db, service.url, role);
      const page = await openOverview(browser);
      expect(page.text).not.toContain('/dashboard/api-keys/new');
      expect(page.seen).toContain('Ask an owner or admin');
    }
  });
});

describe('the overview', () => {
  it('shows the credits left of those who have any', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const key = await createKey(db, organization.id);
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]);
    expect((await openOverview(browser)).seen).not.toContain('Credits left');
    await addGrant(db, organization.id, { amount: '1234.5' }, new Date(service.clock.now()));
    expect((await openOverview(browser)).seen).toContain('Credits left 1,234.5');
  });

  it('shows today, yesterday and the month exactly, live and test separately', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url, 'billing');
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const live = await createKey(db, organization.id);
    const test = await createKey(db, organization.id, { livemode: false });
    const at = (time: string) => ({ occurredAt: time });
    await sendUsage(service.url, live.secret, [
      usageEvent(product.slug, 'a', { quantity: 1234567.25, ...at('2031-03-15T00:00:00Z') }),
      usageEvent(product.slug, 'b', { quantity: 40, ...at('2031-03-14T23:59:59.999999Z') }),
      usageEvent(product.slug, 'c', { quantity: 500, ...at('2031-03-13T12:00:00Z') }),
    ]);
    await sendUsage(service.url, test.secret, [usageEvent(product.slug, 'd', { quantity: 7 })]);
    const numbers = (seen: string) =>
      new RegExp(`Yesterday Product ${product.slug} ([\\d,.]+) calls No cap ([\\d,.]+) ([\\d,.]+)`)
        .exec(seen)
        ?.slice(1);
    expect(numbers((await openOverview(browser)).seen)).toEqual(['1,235,107.25', '1,234,567.25', '40']);
    expect(numbers((await openOverview(browser, '?mode=test')).seen)).toEqual(['7', '7', '0']);
    const limits = [
      { quantity: '2000000', window: 'calendar_month', enforcement: 'warn' },
      { quantity: '1500000', window: 'calendar_day', enforcement: 'block' },
    ] as const;
    await db.orm
      .update(entitlements)
      .set({ limits: [...limits], unitCap: '5000000', hasOwnCap: true })
      .where(eq(entitlements.orgId, organization.id));
    const { seen, text } = await openOverview(browser);
    expect(text).toContain('aria-label="1,234,567.25 of 1,500,000 used or held"');
    expect(seen).toContain(
      '3,764,892.75 left of 5,000,000 Warns 265,432.75 left of 1,500,000, today (UTC) Blocks 1,234,567.25 40',
    );
  });

  it('compares the month with the same days of the previous one, and draws each product’s days', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const [product, fresh] = [await createProduct(db), await createProduct(db)];
    await grant(db, organization.id, product.id);
    await grant(db, organization.id, fresh.id);
    const key = await createKey(db, organization.id);
    const own = { orgId: organization.id, productId: product.id, apiKeyId: key.id, everyMs: 1 };
    // The comparison includes the whole of the current hour; usage later last month does not count.
    await fillUsage(db, { ...own, prefix: 'a', count: 4, from: '2031-02-15T12:59:59Z' });
    await fillUsage(db, { ...own, prefix: 'b', count: 9, from: '2031-02-15T13:00:00Z' });
    // A day's usage is the sum over its keys.
    const other = await createKey(db, organization.id);
    const more = { apiKeyId: other.id, prefix: 'f', count: 2, from: '2031-02-15T14:00:00Z' };
    await fillUsage(db, { ...own, ...more });
    await fillUsage(db, { ...own, prefix: 'c', count: 5, from: '2031-03-02T00:00:00Z' });
    await fillUsage(db, { ...own, orgId: uuid(), prefix: 'd', count: 50, from: '2031-03-02T00:00:00Z' });
    await fillUsage(db, { ...own, productId: fresh.id, prefix: 'e', count: 3, from: '2031-03-14T00:00:00Z' });
    const { seen, text } = await openOverview(browser);
    expect(seen).toContain(
      'Events 8 ▲ 100.0% more than 4 in the previous period 4 at this point of February ',
    );
    expect(
      text.match(/aria-label="calls by day, 14 Feb 2031 – 15 Mar 2031: at most (15|3) a day"/g),
    ).toHaveLength(2);
    expect(seen).toMatch(/Yesterday Product \S+ 5 calls No cap 0 0 Product \S+ 3 calls No cap 0 3/);
  });

  it('leads with the credits burned and left, also by late usage', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const product = await createProduct(db, { creditPrice: '2', creditEnforcement: 'warn' });
    await grant(db, organization.id, product.id);
    const key = await createKey(db, organization.id);
    const yesterday = new Date(service.clock.now() - DAY_MS);
    await addGrant(db, organization.id, { amount: '100' }, yesterday);
    const used = { quantity: 3, occurredAt: yesterday.toISOString() };
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a', used)]);
    const unused = await createProduct(db);
    await grant(db, organization.id, unused.id);
    const { seen } = await openOverview(browser);
    expect(seen).toMatch(new RegExp(`${unused.name} 0 calls No usage`));
    expect(seen).toMatch(
      // Credits count on the day when they are burned, even if the usage is of yesterday.
      /Credits burned 6 .*Credits left 94 .*Last 30 days/,
    );
  });

  it('lists products near their cap, and separately those above it', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const key = await createKey(db, organization.id);
    const use = async (unitCap: string, quantity: number, ownCap?: string) => {
      const product = await createProduct(db, { unitCap });
      const own = ownCap === undefined ? {} : { hasOwnCap: true, unitCap: ownCap };
      await grant(db, organization.id, product.id, own);
      const sent = await sendUsage(service.url, key.secret, [usageEvent(product.slug, uuid(), { quantity })]);
      expect(sent.status).toBe(202);
      return product.slug;
    };
    const [far, near, above] = [await use('100', 79), await use('100', 80.5), await use('0', 3)];
    const [own, ownFar] = [await use('100', 9, '10'), await use('10', 9, '100')];
    const { seen } = await openOverview(browser);
    const [, over, warned] = /Over the cap(.*?)Near the cap(.*?)Usage in detail/.exec(seen)!;
    expect(warned).toContain(`Product ${near} has 19.5 of 100 calls left this month.`);
    expect(warned).not.toContain(above);
    expect(over).not.toContain(near);
    expect(over).toContain(`Product ${above} is 3 calls above its cap of 0 this month.`);
    expect(warned).toContain(`Product ${own} has 1 of 10 calls left this month.`);
    expect(warned).not.toContain(ownFar);
    expect(warned).not.toContain(far);
  });

  it('lists keys that expire within two weeks, and rotated keys with their cut-over', async () => {
    const { db } = database;
    const { browser, organization } = await signedIn(db, service.url);
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const inDays = (days: number) => new Date(service.clock.now() + days * DAY_MS);
    const soon = await createKey(db, organization.id, { name: 'ends soon', expiresAt: inDays(13) });
    await createKey(db, organization.id, { name: 'ends later', expiresAt: inDays(15) });
    await createKey(db, organization.id, { name: 'has ended', expiresAt: inDays(-1) });
    await createKey(db, organization.id, {
      name: 'was revoked',
      expiresAt: inDays(1),
      revokedAt: inDays(-1),
    });
    const next = await createKey(db, organization.id, { name: 'the next' });
    await db.orm.update(apiKeys).set({ rotatedFromId: soon.id }).where(eq(apiKeys.id, next.id));
    await sendUsage(service.url, next.secret, [usageEvent(product.slug, 'one')]);
    const { text, seen } = await openOverview(browser);
    const keys = /(Key expiring soon.*?)Products/.exec(seen)![1]!;
    expect(keys).toContain('Key expiring soon: ends soon expires in 13 days . It is rotated: Cut-over');
    expect(text).toContain(`href="/dashboard/api-keys/${next.id}/cut-over"`);
    for (const other of ['ends later', 'has ended', 'was revoked']) expect(keys).not.toContain(other);
    expect((await openOverview(browser, '?mode=test')).text).not.toContain('Key expiring soon');
  });

  it('shows the latest changes to owners and admins, and to no other role', async () => {
    const { db } = database;
    const { browser, organization, user } = await signedIn(db, service.url);
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const made = await browser.send('POST', '/dashboard/api-keys', {
      json: { name: 'a key of <b>mine</b>', livemode: true },
    });
    await sendUsage(service.url, made.body.secret, [usageEvent(product.slug, 'one')]);
    const byService = {
      at: new Date(service.clock.now()),
      action: 'organization.updated',
      actor: 'system',
      target: '',
    };
    await inChange(db, (tx) => recordAudit(tx, organization.id, byService));
    for (const action of ['customer.viewed', 'webhook.tested'])
      for (let i = 0; i < 3; i++)
        await inChange(db, (tx) =>
          recordAudit(tx, organization.id, { ...byService, action, target: organization.slug }),
        );
    const { seen, text } = await openOverview(browser);
    expect(seen).toContain('by the service , just now');
    expect(seen).toMatch(/Latest changes.*a key of &lt;b&gt;mine/);
    expect(seen).toContain(`by ${user.name} , just now`);
    expect(text).not.toContain('<b>mine');
    expect(seen).not.toMatch(/Viewed|Sent a test/);
    const log = (await browser.get('/dashboard/audit-log', { accept: 'text/html' })).text;
    expect(log.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ')).toContain(
      `Viewed the portal of ${organization.name} as the customer`,
    );
    const member = await createUser(db);
    await addMember(db, organization.id, member.id, 'member');
    const other = new Browser(service.url);
    await other.signIn(member.email);
    expect((await openOverview(other)).seen).not.toContain('Latest changes');
  });

  it('shows nothing of another Organization', async () => {
    const { db } = database;
    const { organization } = await signedIn(db, service.url);
    const product = await createProduct(db);
    await grant(db, organization.id, product.id);
    const key = await createKey(db, organization.id, {
      name: 'foreign key',
      expiresAt: new Date(service.clock.now() + DAY_MS),
    });
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'x')]);
    const { browser } = await signedIn(db, service.url);
    const { seen } = await openOverview(browser);
    expect(seen).not.toContain(product.slug);
    expect(seen).not.toContain('foreign key');
    expect(seen).not.toContain(organization.name);
  });

  it('sends a stranger to sign in and back', async () => {
    const answer = await new Browser(service.url).get('/dashboard?mode=test', html);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/login?next=%2Fdashboard%3Fmode%3Dtest');
  });
});
