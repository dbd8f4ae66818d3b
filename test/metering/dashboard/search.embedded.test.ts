import { eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { products } from '../../../src/metering/entitlements/table.js';
import { addMember, createUser, openSession } from '../../support/accounts.js';
import { useService } from '../../support/use.js';
import { createProduct } from '../support/products.js';
import { createKey } from '../../support/fixtures.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';

const { database, service } = useService();

async function openTenant(keys: string[]) {
  const tenant = await createTenant(database.db);
  const { id } = await createUser(database.db);
  await addMember(database.db, tenant.organization.id, id, 'member');
  const browser = await openSession(database.db, service.url, id, service.clock.now());
  const events = keys.map((key) => usageEvent(tenant.product.slug, key));
  expect((await sendUsage(service.url, tenant.key.secret, events)).status).toBe(202);
  return {
    ...tenant,
    browser,
    search: async (q: string) => {
      const { text } = await browser.get(`/dashboard/search?q=${encodeURIComponent(q)}`, {
        accept: 'text/html',
      });
      const [, results = ''] = text.split('data-search-results');
      return [...results.matchAll(/<li><a href="(\/dashboard[^"]+)"/g)].map((match) =>
        decodeURIComponent(match[1]!),
      );
    },
  };
}

const event = (key: string) => `/dashboard/usage?event=${key}`;

it('events are found by their whole key or its beginning, byte by byte, and only in one’s own Organization', async () => {
  const keys = ['qx-1', 'qx-10', 'qx-2', 'Qx-1', 'qxs%', 'qx\u{10fffd}'];
  const own = await openTenant(keys);
  const other = await openTenant(['qx-1', 'qx-3']);
  expect(await own.search('qx-1')).toEqual([event('qx-1'), event('qx-10')]);
  expect(await own.search('qx')).toHaveLength(5);
  expect(await own.search('x-1')).toEqual([]);
  expect(await own.search('qxs%')).toEqual([event('qxs%')]);
  expect(await own.search('%')).toEqual([]);
  expect(await own.search('qx-3')).toEqual([]);
  expect(await other.search('qx-3')).toEqual([event('qx-3')]);
});

it('subjects are found by the beginning of their name, with the month of their last live usage', async () => {
  const own = await openTenant(['x']);
  const other = await openTenant(['x']);
  const { slug, id } = own.product;
  await database.db.orm
    .update(products)
    .set({ subjectsSince: new Date(0) })
    .where(eq(products.id, id));
  const send = async (subject: string, key: string, secret = own.key.secret) => {
    const event = usageEvent(slug, key, { subject });
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  };
  for (const [i, subject] of ['planning', 'planning', 'plans', 'other', 'Planet'].entries())
    await send(subject, `s-${i}`);
  const month = new Date(service.clock.now()).toISOString().slice(0, 7);
  const hrefs = ['planning', 'plans'].map((name) => `/dashboard/usage?subject=${name}&amp;month=${month}`);
  expect((await own.search('plan')).slice(0, 2)).toEqual(hrefs);
  expect(await own.search('lanning')).toEqual([]);
  expect(await other.search('planning')).toEqual([]);
});

it('products are found by any part of name or slug, if the Organization has an entitlement to them', async () => {
  const { product, search } = await openTenant(['a']);
  const hidden = await createProduct(database.db, { slug: 'unreleased-maps' });
  const href = `/dashboard/usage?product=${product.slug}`;
  expect(await search(product.slug.slice(2).toUpperCase())).toContain(href);
  expect(await search(product.name.slice(1))).toContain(href);
  for (const q of ['unreleased', hidden.slug]) expect(await search(q)).toEqual([]);
});

it('a corrected event is found with the quantity that counts', async () => {
  const { organization, product, browser } = await openTenant(['corrected-1']);
  const { secret } = await createKey(database.db, organization.id, { scopes: ['usage:correct'] });
  const correction = {
    correctionKey: 'c',
    idempotencyKey: 'corrected-1',
    quantity: 16,
    reason: 'Counted twice.',
  };
  const answer = await fetch(`${service.url}/api/usage/corrections`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ corrections: [correction] }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.anything()]);
  const { text } = await browser.get('/dashboard/search?q=corrected-1', { accept: 'text/html' });
  expect(text).toContain(`16 calls of ${product.name}`);
});
