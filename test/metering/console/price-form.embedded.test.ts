import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { monthOf } from '../../../src/core/time.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { usageHours, usageTotals } from '../../../src/metering/ingestion/table.js';
import { createKey, createOrganization, past } from '../../support/fixtures.js';
import { signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { createProduct, grant } from '../support/products.js';
import { fillUsage } from '../support/usage-events.js';
import { operatorLogOf } from '../../support/audit.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };

/** Returns the first day of last month. */
function lastMonth(): string {
  const at = new Date(`${monthOf(service.clock.now())}T00:00:00Z`);
  at.setUTCMonth(at.getUTCMonth() - 1);
  return monthOf(at.getTime());
}

interface Usage {
  name: string;
  dimensions: string;
  quantity: string;
  metric?: string;
  livemode?: boolean;
  hour?: Date;
}

/** Creates a product with the dimensions `region` and `model`, and customers who used the product last month. */
async function scene(usages: Usage[] = []) {
  const product = await createProduct(database.db, { dimensions: ['region', 'model'] });
  const path = `/console/products/${product.slug}/price`;
  const { orm } = database.db;
  for (const { name, dimensions, quantity, metric = 'calls', livemode = true, hour } of usages) {
    const organization = await createOrganization(database.db, { name });
    const key = await createKey(database.db, organization.id);
    const row = { orgId: organization.id, productId: product.id, livemode, metric, quantity, events: 1 };
    await orm.insert(usageTotals).values({ ...row, period: lastMonth() });
    const at = hour ?? new Date(`${lastMonth()}T07:00:00Z`);
    await orm.insert(usageHours).values({ ...row, hour: at, apiKeyId: key.id, dimensions });
  }
  const post = (form: Record<string, string>) => operator.browser.send('POST', path, { form, headers: html });
  return {
    path,
    product,
    post,
    /** Submits the preview's form, as its button does. */
    save: async (form: Record<string, string>) => {
      const { text } = await post(form);
      const fields = [...text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)];
      const values = fields.map(([, name, value]) => [name!, unescape(value!)] as const);
      return post({ ...Object.fromEntries(values), step: 'save' });
    },
    stored: async () => (await orm.select().from(products).where(eq(products.id, product.id)))[0]!,
  };
}

const unescape = (text: string) =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&#34;', '"').replaceAll('&amp;', '&');

const price = { price: '0.5', enforcement: 'block' };
const rows = (...list: [value: string, price: string][]) =>
  Object.fromEntries(
    list.flatMap(([value, one], i) => [
      [`prices.${i}.value`, value],
      [`prices.${i}.price`, one],
    ]),
  ) as Record<string, string>;
const byModel = { ...price, dimension: 'model', ...rows(['large', '2'], ['small', '0.25']) };
/** Finds a field with its value. */
const field = (name: string, value: string) =>
  new RegExp(`name="${name}"\\s+type="text"\\s+value="${value}"`);

/** Returns a page's text without markup, with whitespace collapsed. */
const readText = (page: string) =>
  unescape(page.split('<main')[1]!.replaceAll(/<[^>]*>/g, ' ')).replaceAll(/\s+/g, ' ');

describe('a new price', () => {
  it('is shown on the live usage of last month before anything changes', async () => {
    const { post, stored } = await scene([
      { name: 'Acme', dimensions: 'eu\u001flarge', quantity: '10.5' },
      { name: 'Globex', dimensions: 'eu\u001fsmall', quantity: '100' },
      { name: 'Initech', dimensions: 'eu', quantity: '3' },
      { name: 'Others', dimensions: '\u001e', quantity: '7' },
      { name: 'Test mode', dimensions: '', quantity: '1000', livemode: false },
      { name: 'Former metric', dimensions: '', quantity: '1000', metric: 'bytes' },
      { name: 'Before', dimensions: '', quantity: '1000', hour: new Date(Date.parse(lastMonth()) - 1) },
    ]);
    const { status, text } = await post(byModel);
    const page = readText(text);
    expect(status).toBe(200);
    expect(page).toContain('Nothing has changed yet.');
    expect(page).toMatch(/At the new price 51 credits for 120\.5 calls At today’s price 0 no price today/);
    expect(page).toMatch(/7 calls have combinations of values that are not counted separately/);
    expect(page).toMatch(/Globex 100 0 25 – Acme 10\.5 0 21 – Others 7 0 3\.5 – Initech 3 0 1\.5/);
    expect(page).toMatch(/small 0\.25 100 25 large 2 10\.5 21 All other values 0\.5 10 5/);
    expect(page).not.toMatch(/Test mode|Former metric/);
    expect(await stored()).toMatchObject({ creditPrice: null });
  });

  it('is saved with all its digits, and the audit log says so', async () => {
    const { save, stored, product, path } = await scene();
    const tiny = {
      ...byModel,
      price: '0.000000000001',
      ...rows(['large', '1,000.5'], ['', ''], ['small', '0.25']),
    };
    const { status, headers } = await save(tiny);
    expect([status, headers.get('location')]).toEqual([303, `/console/products/${product.slug}?done=priced`]);
    expect(await stored()).toMatchObject({
      name: product.name,
      dimensions: ['region', 'model'],
      creditPrice: '0.000000000001',
      creditDimension: 'model',
      creditPrices: { large: '1000.5', small: '0.25' },
      creditEnforcement: 'block',
    });
    const [entry] = await operatorLogOf(database.db, product.slug);
    expect(entry).toMatchObject({ action: 'product.changed', details: { before: { credits: 'none' } } });
    const list = readText((await operator.browser.get('/console/products', html)).text);
    expect(list).toContain('0.000000000001 to 1,000.5');
    const form = (await operator.browser.get(path, html)).text;
    expect(form).toContain('value="0.000000000001"');
    expect(form).toMatch(field('prices.0.value', 'large'));
    expect(form).toMatch(field('prices.0.price', '1000.5'));
    expect(form).toMatch(field('prices.1.value', 'small'));
  });

  it('can be changed again from the preview, which keeps what was typed', async () => {
    const { post, stored } = await scene();
    const { text } = await post({ ...byModel, price: '', step: 'edit' });
    expect(text).toMatch(field('prices.1.price', '0.25'));
    expect(text).not.toContain('Required.');
    expect(await stored()).toMatchObject({ creditPrice: null });
  });

  it('is compared with today’s price', async () => {
    const { save, post } = await scene([{ name: 'Acme', dimensions: 'eu\u001flarge', quantity: '10' }]);
    await save(byModel);
    const page = readText((await post({ price: '3', enforcement: 'warn' })).text);
    expect(page).toMatch(/30 credits for 10 calls ?, \+50\.0% At today’s price 20 /);
    expect(page).toContain('Acme 10 20 30 +50.0%');
  });

  it('can be removed, after the same preview', async () => {
    const { save, post, stored } = await scene([{ name: 'Acme', dimensions: '', quantity: '10' }]);
    await save(price);
    expect(readText((await post({ ...price, price: '' })).text)).toContain('Acme 10 5 0');
    expect(await stored()).toMatchObject({ creditPrice: '0.5' });
    expect((await save({ ...price, price: '' })).headers.get('location')).toMatch(/\?done=unpriced$/);
    expect(await stored()).toMatchObject({ creditPrice: null, creditEnforcement: null });
  });

  it('is not saved once the product has changed since the preview', async () => {
    const { post, save, stored } = await scene();
    const { text } = await post(price);
    const [, seen] = /name="seen" value="([^"]*)"/.exec(text)!;
    await save({ ...price, price: '9' });
    const late = await post({ ...price, seen: seen!, step: 'save' });
    expect([late.status, readText(late.text)]).toEqual([
      400,
      expect.stringContaining('has changed since the preview'),
    ]);
    expect(await stored()).toMatchObject({ creditPrice: '9' });
    // A form without the previewed version is refused too.
    expect((await post({ ...price, step: 'save' })).status).toBe(400);
  });

  it.each([
    [{ price: '' }, 'price', 'Required.'],
    [{ price: '0.1234567890123' }, 'price', 'Must have at most 12 decimal places.'],
    [{ price: '-1' }, 'price', 'Must be a number from 0, like 12 or 0.5.'],
    [{ enforcement: 'refuse' }, 'enforcement', 'Must be one of the options.'],
    [{ dimension: 'colour' }, 'dimension', 'Must be one of the options.'],
    [{ dimension: '' }, 'dimension', 'Must be chosen to set prices for individual values.'],
    [rows(['', ''], ['', '']), 'prices', 'Required for prices by a dimension.'],
    [rows(['large', '2'], ['', ''], ['large', '3']), 'prices.1.value', 'Has a price already.'],
    [rows(['x'.repeat(65), '2']), 'prices.0.value', 'Must be 1 to 64 characters'],
    [rows(['large', ''], ['small', '1']), 'prices.0.price', 'Required.'],
    [rows(['', '1'], ['small', '1']), 'prices.0.value', 'Required.'],
    [rows(['large', 'much']), 'prices.0.price', 'Must be a number'],
    [rows(['a', '1'], ['large', '0.1234567890123']), 'prices.1.price', 'Must have at most 12'],
    [
      rows(...Array.from({ length: 201 }, (_, i): [string, string] => [`v${i}`, '1'])),
      'prices',
      'Must have at most 200',
    ],
    [{ edit: 'add __proto__' }, 'edit', 'Not a known button'],
  ] as [Record<string, string>, string, string][])(
    '%o is refused beside its field, and what was typed stays',
    async (wrong, name, message) => {
      const { post, stored } = await scene();
      const { status, text } = await post({ ...byModel, ...wrong });
      expect(status).toBe(400);
      expect(text).toMatch(
        name === 'prices' || name === 'edit'
          ? new RegExp(`href="#field-${name}">\\w+</a>: ${message}`)
          : new RegExp(`id="(field-)?${name}-error">${message}`),
      );
      expect(text).toMatch(field('price', wrong.price ?? '0.5'));
      expect(await stored()).toMatchObject({ creditPrice: null });
    },
  );

  it.each(['__proto__', '<script>alert(1)</script>', '"quoted"', 'constructor', 'a = b', 'a"b'])(
    'can be set for the value %s',
    async (value) => {
      const { post, save, stored } = await scene([
        { name: 'Acme', dimensions: `\u001f${value}`, quantity: '10' },
      ]);
      const form = {
        ...price,
        dimension: 'model',
        ...rows([value, '7']),
      };
      const { text } = await post(form);
      expect(text).not.toContain('<script>alert');
      expect(readText(text)).toContain('Acme 10 0 70');
      await save(form);
      expect(Object.entries((await stored()).creditPrices!)).toEqual([[value, '7']]);
    },
  );
});

it('a value keeps its spaces, in the form as well', async () => {
  const { save, stored, path } = await scene();
  await save({ ...price, dimension: 'model', ...rows([' a ', '1']) });
  expect((await stored()).creditPrices).toEqual({ ' a ': '1' });
  expect((await operator.browser.get(path, html)).text).toMatch(field('prices.0.value', ' a '));
});

it('adds and removes rows of values, and keeps what was typed', async () => {
  const { post, stored } = await scene();
  const added = (await post({ ...byModel, edit: 'add prices' })).text;
  expect(added).toMatch(field('prices.1.value', 'small'));
  expect(added).toMatch(/name="prices\.2\.value"[^>]* autofocus/);
  const removed = (await post({ ...byModel, edit: 'remove prices.0' })).text;
  expect(removed).toMatch(field('prices.0.value', 'small'));
  expect(removed).not.toContain('name="prices.1.value"');
  expect(await stored()).toMatchObject({ creditPrice: null });
});

it('a product without dimensions has one price, and the page of the product shows it', async () => {
  const product = await createProduct(database.db);
  const path = `/console/products/${product.slug}`;
  expect((await operator.browser.get(`${path}/price`, html)).text).not.toContain('name="dimension"');
  const seen = past.toISOString();
  const form = { price: '0.002', enforcement: 'warn', step: 'save', seen };
  expect((await operator.browser.send('POST', `${path}/price`, { form, headers: html })).status).toBe(303);
  expect(readText((await operator.browser.get(path, html)).text)).toContain('Price 0.002 for each call');
  expect(readText((await operator.browser.get(`${path}/price`, html)).text)).toContain(
    'Credits per call. Up to 12',
  );
});

it('the page of a product begins with its usage by customer', async () => {
  const product = await createProduct(database.db);
  const { id: orgId, name } = await createOrganization(database.db);
  const { id: apiKeyId } = await createKey(database.db, orgId);
  const open = async () =>
    readText((await operator.browser.get(`/console/products/${product.slug}`, html)).text);
  expect(await open()).toContain('No customer is entitled to it.');
  const from = new Date(service.clock.now()).toISOString();
  const own = { orgId, productId: product.id, apiKeyId, prefix: 'a', everyMs: 0 };
  await fillUsage(database.db, { ...own, count: 3, from, quantity: '2.5' });
  expect(await open()).toMatch(
    new RegExp(
      `Usage and customers .*${name} 7\\.5 calls Not entitled 3 .*Price in credits .*Settings .*Maximum per event`,
    ),
  );
  await database.db.orm
    .update(products)
    .set({ creditPrice: '2', creditEnforcement: 'warn' })
    .where(eq(products.id, product.id));
  expect(await open()).toMatch(new RegExp(`Credits Events ${name} 7\\.5 calls Not entitled 0 3 `));
  await grant(database.db, orgId, product.id, { hasOwnCap: true, unitCap: '10' });
  const idle = await createOrganization(database.db);
  await grant(database.db, idle.id, product.id);
  const text = await open();
  expect(text).toContain(`${name} 7.5 calls 75.0% 0 3 `);
  expect(text).toContain(`${idle.name} 0 calls No cap 0 0 `);
});
