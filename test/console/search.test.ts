import { beforeAll, expect, it } from 'vitest';
import { createUser, type Browser } from '../support/accounts.js';
import { createProduct, grant } from '../metering/support/products.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator } from '../support/operators.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
const html = { accept: 'text/html' };
let operator: Browser;
beforeAll(async () => {
  operator = (await signedInOperator(service)).browser;
});

async function search(q: string) {
  const { status, text } = await operator.get(`/console/search?q=${encodeURIComponent(q)}`, html);
  const [, results = ''] = text.split('data-search-results');
  return { status, text, links: [...results.matchAll(/<li><a href="([^"]+)"/g)].map((match) => match[1]!) };
}

it('finds customers, people and pages by any part of their name', async () => {
  const { slug } = await createOrganization(database.db, { name: 'Nordic 100%_Weather' });
  const { id } = await createUser(database.db, { name: 'Nils Weatherby' });
  const both = [`/console/customers/${slug}`, `/console/people/${id}`];
  expect((await search('WEATHER')).links).toEqual(expect.arrayContaining(both));
  expect((await search('%_w')).links).toContain(both[0]);
  expect((await search('%%')).links).toEqual(['/docs/search?q=%25%25']);
  expect((await search('operators')).links[0]).toBe('/console/operators');
  for (const [q, page] of [
    ['rotate', '/console/service-keys'],
    ['alerts', '/console'],
    ['billing', '/console/plans'],
    ['invite', '/console/operators/invite'],
    ['statement', '/console'],
  ] as const)
    expect([q, (await search(q)).links]).toEqual([q, expect.arrayContaining([page])]);
  const call = operatorClient(() => service);
  await call('PUT', '/plans/gold-tier', { name: 'Golden', entitlements: [] });
  expect((await search('gold')).links[0]).toBe('/console/plans/gold-tier');
  const key = await createServiceKey(database.db, ['usage:read']);
  expect((await search('t service k')).links).toContain(`/console/service-keys/${key.id}`);
  expect((await search('')).links).toContain('/console/new-customer');
});

it('finds open invitations, and the pages and actions of a customer', async () => {
  const { slug } = await createOrganization(database.db, { name: 'Fjord & Partners' });
  await operator.send('POST', `/console/customers/${slug}/invite`, {
    form: { email: 'lars@fjord.example', role: 'owner', days: '7' },
    headers: html,
  });
  const { links, text } = await search('LARS@');
  expect([links.includes(`/console/customers/${slug}/people`), text.includes('invited to Fjord')]).toEqual([
    true,
    true,
  ]);
  const at = `/console/customers/${slug}`;
  expect((await search('fjord webhooks')).links).toContain(`${at}/webhooks`);
  expect((await search('Grant credits to Fjord')).links).toContain(`${at}/credits/grant`);
  expect((await search('webhooks')).links).toContain('/console?signal=webhooks');
  for (const [q, href, words] of [
    ['grant', '/console', 'Grant credits'],
    ['change plan', '/console', 'Change plan'],
    ['halt', '/console', 'Trading'],
    ['new plan', '/console/new-plan', 'New plan'],
    ['new product', '/console/new-product', 'New product'],
  ] as const) {
    const found = await search(q);
    expect(found.text).toContain(`<a href="${href}"><bdi>${words}</bdi>`);
    if (href === '/console') expect(found.text).toContain('choose the customer');
  }
  expect((await search('fjord halt')).links).toContain(`${at}/trading`);
  expect((await search('webhooks nobody')).links).not.toContain(`${at}/webhooks`);
});

it('asks for more of a key, and says what it finds', async () => {
  expect((await search('org_live')).text).toContain('Type more of the key');
  expect((await search('')).text).toMatch(/API keys and events by the start of their key/);
});

it('finds keys by the beginning of their secret, events by their key and people by their address', async () => {
  const { db } = database;
  const made = [];
  for (let i = 0; i < 2; i++) {
    const { id, slug } = await createOrganization(db, { name: `Finder ${i}` });
    const { id: productId, slug: product } = await createProduct(db);
    await grant(db, id, productId);
    const { secret } = await createKey(db, id, { name: `key of ${slug}` });
    await sendUsage(service.url, secret, [usageEvent(product, 'shared event')]);
    await sendUsage(service.url, secret, [usageEvent(product, `own_${i}`)]);
    made.push({ slug, secret });
  }
  const [first, second] = made as [(typeof made)[0], (typeof made)[0]];
  const eventOf = (slug: string, key: string) =>
    `/console/customers/${slug}/usage?mode=live&amp;event=${key}`;
  const byKey = await search(first.secret.slice(0, 12));
  expect(byKey.links[0]).toBe(`/console/customers/${first.slug}/keys`);
  expect(byKey.text).not.toContain(first.secret);
  for (const wild of ['org%live%%%', 'org_live', '__________'])
    expect((await search(wild)).text).not.toContain(`key of ${first.slug}`);
  const { links } = await search('shared event');
  for (const { slug } of made) expect(links).toContain(eventOf(slug, 'shared+event'));
  for (const { slug } of made)
    expect((await search('shared ev')).links).toContain(eventOf(slug, 'shared+event'));
  const own = (await search('own_1')).links;
  expect([own.includes(eventOf(second.slug, 'own_1')), own.includes(eventOf(first.slug, 'own_1'))]).toEqual([
    true,
    false,
  ]);
  const { id, email } = await createUser(db);
  expect((await search(email)).links[0]).toBe(`/console/people/${id}`);
});

it('refuses what it cannot search for', async () => {
  for (const q of ['x'.repeat(10_000), 'a\u0000b']) expect((await search(q)).status).toBe(400);
  for (const q of ["' or 1=1 --", '\\', '"><script>alert(1)</script>']) {
    const { status, text } = await search(q);
    expect([q, status]).toEqual([q, 200]);
    expect(text).not.toContain('<script>alert');
  }
});
