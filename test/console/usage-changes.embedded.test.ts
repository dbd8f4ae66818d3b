import { v7 as uuid } from 'uuid';
import { beforeAll, expect, it } from 'vitest';
import { createKey, createOrganization } from '../support/fixtures.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
const api = operatorClient(() => service);
beforeAll(async () => {
  service.clock.set('2026-03-04T00:00:00.000Z');
  operator = await signedInOperator(service);
  const { db } = database;
  const calls = await createProduct(db, { slug: 'calls', creditPrice: '1', creditEnforcement: 'warn' });
  for (const slug of ['acme', 'initech']) {
    const { id } = await createOrganization(db, { slug });
    await grant(db, id, calls.id);
    await addGrant(db, id, { amount: '1000' }, new Date(service.clock.now()));
    const { secret } = await createKey(db, id);
    const event = { ...usageEvent('calls', `of ${slug}`), quantity: 12.5 };
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  }
});

const html = { accept: 'text/html' };
const post = (path: string, form: Record<string, string> = {}) =>
  operator.browser.send('POST', `/console/customers/acme/usage${path}`, { headers: html, form });
const totalOf = async (month: string) => {
  const { body } = await api(
    'GET',
    `/usage?from=${month}-01&to=${month}-28&granularity=total&organization=acme`,
  );
  return body.usage.map(({ quantity }: { quantity: number }) => quantity);
};

it('corrects an event beside its list after showing the effect, and reports errors beside their fields', async () => {
  const correction = { quantity: '2.5', reason: 'Counted five times', correctionKey: uuid() };
  const get = (path: string) => operator.browser.get(`/console/customers/acme/usage${path}`, html);
  const list = await get('');
  expect([list.status, list.text.includes('event=of+acme')]).toEqual([200, true]);
  expect(list.text).toMatch(/<th[^>]*>Subject<\/th>/);
  const found = await get('?idempotencyKey=of');
  expect([found.text.includes('of acme'), found.text.includes('of initech')]).toEqual([true, false]);
  const place = 'product=calls&mode=live&from=2026-03-04&to=2026-03-04';
  const row = `?${place}&event=of+acme`;
  expect((await get('?from=2026-03-04&to=2026-03-04')).text).toContain(row.replaceAll('&', '&amp;'));
  const panel = (await get(row)).text.split('<aside')[1]!;
  for (const fact of ['Sent as|Quantity', 'Credits', 'Received', 'API key', 'correct=void', '/acme/credits'])
    expect(panel).toMatch(new RegExp(fact));
  expect((await get(`${row}&correct=amend`)).text).toContain('value="12.5"');
  for (const other of ['of+initech', '%27+or+1%3D1+--'])
    expect((await get(`?event=${other}&correct=amend`)).text).toMatch(/This customer has no event/);
  expect((await post('?event=of+initech', correction)).status).toBe(404);
  const amend = `${row}&correct=amend`;
  for (const [field, value, problem] of [
    ['quantity', '-1', 'Must not be below 0.'],
    ['quantity', '12.50', 'Already 12.5.'],
    ['quantity', '1e30', 'Correct quantity'],
    ['reason', '', 'Reason'],
  ] as const) {
    const { status, text } = await post(amend, { ...correction, [field]: value });
    expect([field, status]).toEqual([field, 400]);
    expect(text).toContain(`href="#field-${field}"`);
    expect(text).toContain(problem);
  }
  for (const step of [{}, { step: 'edit' }]) {
    const { status, text } = await post(amend, { ...correction, ...step });
    const cells = [...text.matchAll(/data-label="(?:Now|Then)"><div>([^ ]+)/g)].map(([, value]) => value);
    expect([status, cells]).toEqual([
      200,
      'step' in step ? [] : ['12.5', '2.5', '12.5', '2.5', '12.5', '2.5', '12.5', '2.5', '987.5', '997.5'],
    ]);
  }
  expect(await totalOf('2026-03')).toEqual(['12.5']);
  for (let time = 0; time < 2; time++) {
    const { status, headers } = await post(amend, { ...correction, step: 'save' });
    expect([status, headers.get('location')]).toEqual([
      303,
      `/console/customers/acme/usage?done=corrected&${place}&event=of+acme`,
    ]);
  }
  expect(await totalOf('2026-03')).toEqual(['2.5']);
  const saved = (await get(`?done=corrected&${place}&event=of+acme`)).text;
  expect(saved.match(/is corrected\./g)).toHaveLength(1);
  expect(saved).toMatch(/class="side-panel".*role="status">\s*<p>The event is corrected\./s);
  expect((await get(row)).text).toMatch(/Sent as.*12\.5.*Counted five times/s);
});

it('narrows the events to an API key or a subject, and names both', async () => {
  const get = (path: string) => operator.browser.get(`/console/customers/acme/usage${path}`, html);
  const key = /[?&]key=[\w-]{36}/.exec((await get('')).text.replaceAll('&amp;', '&'))![0].slice(1);
  const own = (await get(`?${key}`)).text;
  expect([own.includes('event=of+acme'), /Only events with.*API key/s.test(own)]).toEqual([true, true]);
  expect((await get('?subject=nobody')).text).toMatch(/Subject: <bdi>nobody.*No events match/s);
});

it('lists the events of some days and of all products, and downloads those of one product', async () => {
  const { db } = database;
  const { id } = await createOrganization(db, { slug: 'two-products' });
  const { secret } = await createKey(db, id);
  for (const slug of ['maps', 'rain']) {
    await grant(db, id, (await createProduct(db, { slug })).id);
    await sendUsage(service.url, secret, [usageEvent(slug, `from ${slug}`)]);
  }
  const path = '/console/customers/two-products/usage';
  const keysOn = async (query: string) =>
    [...(await operator.browser.get(path + query, html)).text.matchAll(/<bdi>(from \w+)</g)].map(
      ([, key]) => key,
    );
  expect(new Set(await keysOn(''))).toEqual(new Set(['from maps', 'from rain']));
  expect(await keysOn('?product=maps')).toEqual(['from maps']);
  expect(await keysOn('?from=2026-03-04&to=2026-03-04')).toHaveLength(2);
  expect(await keysOn('?to=2026-03-03')).toEqual([]);
  const file = await operator.browser.get(`${path}.csv?product=maps`, html);
  expect([file.status, file.text.trim().split('\r\n').length]).toEqual([200, 2]);
  for (const query of ['', '?product=maps&to=2026-02-30'])
    expect([query, (await operator.browser.get(`${path}.csv${query}`, html)).status]).toEqual([query, 400]);
});
