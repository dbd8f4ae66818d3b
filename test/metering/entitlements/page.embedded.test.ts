import { beforeAll, expect, it } from 'vitest';
import type { roles } from '../../../src/accounts/organizations/table.js';
import { signedIn } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const PATH = '/dashboard/entitlements';
const html = { accept: 'text/html' };

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set('2031-03-15T12:00:00Z');
});

async function arrive(role: (typeof roles)[number] = 'owner') {
  const { organization, browser } = await signedIn(database.db, service.url, role);
  const open = (query = '') => browser.get(PATH + query, html);
  return { db: database.db, orgId: organization.id, browser, open };
}

const textOf = (page: string) => page.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
const rowOf = (page: string, slug: string) =>
  textOf(page.split('<tr role="row">').find((row) => row.includes(`<bdi>${slug}</bdi>`)) ?? '');

it('shows the same numbers as the API, live and test separately', async () => {
  const { db, orgId, open } = await arrive();
  const product = await createProduct(db, { unitCap: '1000.5' });
  await grant(db, orgId, product.id);
  const key = await createKey(db, orgId);
  const test = await createKey(db, orgId, { livemode: false });
  await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a', { quantity: 333.3 })]);
  await sendUsage(service.url, test.secret, [usageEvent(product.slug, 'b', { quantity: 1000.75 })]);
  const answer = await fetch(`${service.url}/api/entitlements/${product.slug}`, {
    headers: { authorization: `Bearer ${key.secret}` },
  });
  expect(await answer.json()).toMatchObject({ used: 333.3, remaining: 667.2, unitCap: 1000.5 });
  const row = rowOf((await open()).text, product.slug);
  expect(row).toContain('333.3 of 1,000.5 calls Warns');
  expect(row).toContain('667.2 remaining · 33.3%');
  expect(row).toContain('Test, counted separately: 1,000.75 used, over the cap by 0.25');
  expect(textOf((await open()).text)).toContain('still recorded, with the warning');
  await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'c', { quantity: 1000 })]);
  expect(rowOf((await open()).text, product.slug)).toContain('Over the cap by 332.8');
});

it('distinguishes live, read-only, future, ended, capped and uncapped entitlements', async () => {
  const { db, orgId, open } = await arrive();
  const make = async (values: Parameters<typeof grant>[3], unitCap: string | null = null) => {
    const product = await createProduct(db, { unitCap });
    await grant(db, orgId, product.id, values);
    return product.slug;
  };
  const live = await make({});
  const readOnly = await make({ kind: 'read_only' }, '0');
  const upcoming = await make({ startsAt: new Date('2031-03-15T12:00:00.001Z') });
  const ended = await make({ endsAt: new Date('2031-03-15T12:00:00Z') });
  const own = await make({ hasOwnCap: true, unitCap: '7.5' }, '5');
  const ownNone = await make({ hasOwnCap: true, unitCap: null }, '5');
  const ending = await make({ endsAt: new Date('2031-03-16T00:00:00Z') });
  const page = (await open()).text;
  expect(rowOf(page, live)).toMatch(/Live .*Since 1 Jan 2020, 00:00 UTC ?, no end date.*no cap/);
  expect(rowOf(page, readOnly)).toMatch(/Read-only .*New events are refused.*0 of 0/);
  expect(rowOf(page, own)).toContain('0 of 7.5');
  // Entitlements without a use follow those with one.
  expect(page.indexOf(readOnly)).toBeGreaterThan(page.indexOf(own));
  expect(rowOf(page, ownNone)).toContain('no cap');
  expect(rowOf(page, upcoming)).toMatch(/Upcoming .*Starts 15 Mar 2031, 12:00 UTC/);
  expect(rowOf(page, ended)).toMatch(/Ended .*ended 15 Mar 2031, 12:00 UTC/);
  expect(rowOf(page, ending)).toMatch(/Live .*until 16 Mar 2031, 00:00 UTC/);
  expect(page).toContain('<span class="quiet nowrap">no end date');
  // Billing has one zone.
  expect(page).not.toContain('data-zoned');
  expect(page).toContain(`href="/dashboard/usage?product=${live}"`);
});

it('pages through many entitlements by slug', async () => {
  const { db, orgId, browser, open } = await arrive();
  const slugs: string[] = [];
  for (let i = 0; i < 103; i++) {
    const product = await createProduct(db, { slug: `many-${String(i * 7919).padStart(7, '0')}` });
    await grant(db, orgId, product.id);
    slugs.push(product.slug);
  }
  const seen: string[] = [];
  let page = await open();
  for (;;) {
    seen.push(...[...page.text.matchAll(/<bdi>(many-\d+)<\/bdi>/g)].map(([, slug]) => slug!));
    const next = /rel="next" href="([^"]*)"/.exec(page.text)?.[1];
    if (next === undefined) break;
    page = await browser.get(next, html);
  }
  expect(seen).toEqual(slugs);
});

it('shows nothing of another Organization, and names who grants entitlements', async () => {
  const stranger = await arrive();
  const product = await createProduct(stranger.db);
  await grant(stranger.db, stranger.orgId, product.id);
  const { open } = await arrive();
  const page = await open();
  expect(page.status).toBe(200);
  expect(page.text).not.toContain(product.slug);
  expect(textOf(page.text)).toContain('No entitlements yet');
});

it.each(['?cursor=%00', '?cursor=a&cursor=b', `?cursor=${'x'.repeat(300)}`])(
  '%s is refused with a link back',
  async (query) => {
    const { open } = await arrive();
    const page = await open(query);
    expect(page.status).toBe(400);
    expect(page.text).toContain(`href="${PATH}"`);
    expect(textOf(page.text)).toMatch(/The page: Must (be|appear only once)/);
  },
);
