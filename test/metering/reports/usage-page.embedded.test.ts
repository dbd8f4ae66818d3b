import { parse } from 'csv-parse/sync';
import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { beforeAll, describe, expect, it } from 'vitest';
import { creditEntries } from '../../../src/metering/credits/table.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { entitlements, products } from '../../../src/metering/entitlements/table.js';
import { usageTotals } from '../../../src/metering/ingestion/table.js';
import type { roles } from '../../../src/accounts/organizations/table.js';
import { signedIn } from '../../support/accounts.js';
import { ANY_QUANTITY, createProduct, grant } from '../support/products.js';
import { createKey } from '../../support/fixtures.js';
import { addGrant } from '../support/credits.js';
import { fillUsage } from '../support/usage-events.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const NOW = '2031-03-15T12:00:00Z';
const html = { accept: 'text/html' };

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set(NOW);
});

/** Creates a person whose Organization has a product and a live key. */
async function arrive(unitCap: string | null = null, role: (typeof roles)[number] = 'owner') {
  const { db } = database;
  const { organization, browser } = await signedIn(db, service.url, role);
  const product = await createProduct(db, { unitCap, maxQuantity: ANY_QUANTITY });
  await grant(db, organization.id, product.id);
  const key = await createKey(db, organization.id, { name: 'the runtime' });
  const open = (query = '') => browser.get(`/dashboard/usage${query}`, html);
  const csv = async (query = '') => {
    const answer = await browser.get(`/dashboard/usage.csv${query}`);
    expect(answer.status, answer.text).toBe(200);
    return parse<Record<string, string>>(answer.text, { columns: true });
  };
  return { db, orgId: organization.id, browser, product, key, open, csv };
}

const byModel = {
  creditPrice: '0.5',
  creditDimension: 'model',
  creditPrices: { large: '5' },
  creditEnforcement: 'warn' as const,
};

const textOf = (page: string) =>
  page
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();

it('of a product without a metric are none: the pages say that it has only features', async () => {
  const { db, orgId, open } = await arrive();
  const product = await createProduct(db, { name: 'Sign-on', usageMetric: '' });
  await grant(db, orgId, product.id);
  const page = textOf((await open(`?product=${product.slug}`)).text);
  expect(page).toContain('Sign-on has features and no usage.');
  expect(page).not.toContain('Cap None');
  await db.orm.insert(usageTotals).values({
    orgId,
    period: '2031-03-01',
    livemode: true,
    productId: product.id,
    metric: 'old calls',
    quantity: '7',
    events: 1,
  });
  expect(textOf((await open(`?product=${product.slug}`)).text)).toContain('Sign-on');
});

describe('the numbers', () => {
  it('match the totals digit by digit', async () => {
    const { db, orgId, product, key, open, csv } = await arrive();
    await sendUsage(service.url, key.secret, [
      usageEvent(product.slug, 'a', { quantity: 0.1 }),
      usageEvent(product.slug, 'b', { quantity: 0.2, occurredAt: '2031-03-10T00:00:00Z' }),
      usageEvent(product.slug, 'c', {
        quantity: 9007199254740991,
        occurredAt: '2031-03-10T23:59:59.999999Z',
      }),
      usageEvent(product.slug, 'd', { quantity: 1e-20, occurredAt: '2031-03-11T00:00:00Z' }),
    ]);
    const [total] = await db.orm.select().from(usageTotals).where(eq(usageTotals.orgId, orgId));
    expect(total!.quantity).toBe('9007199254740991.30000000000000000001');
    expect(await csv()).toMatchObject([
      { day_utc: '2031-03-10', quantity: '9007199254740991.2', events: '2', api_key_id: key.id },
      { day_utc: '2031-03-11', quantity: '0.00000000000000000001' },
      { day_utc: '2031-03-15', quantity: '0.1' },
    ]);
    const page = textOf((await open()).text);
    expect(page).toMatch(/Used 9, ?007, ?199, ?254, ?740, ?991\.30 calls in 4 events/);
    expect(page).toContain('0.00000000000000000001');
    // No month before the first event is drawn, and days without usage are left out.
    expect(page).not.toContain('February');
    expect(page).toMatch(
      /Day \(UTC\) calls .* 10 Mar 2031 9,007,199,254,740,991\.20{19} 11 Mar 2031 0\.0{19}1 15 Mar 2031 0\.10{19}/,
    );
    const summed = textOf((await open('?sum=1')).text);
    expect(summed).toContain('calls by day, cumulative, March 2031');
    expect(textOf(summed)).toContain('calls , cumulative Download CSV');
    expect(summed).toContain(`15 Mar 2031 9,007,199,254,740,991.30000000000000000001`);
  });

  it('belong to the day, the hour and the month in UTC', async () => {
    const { orgId, db, product, key, csv } = await arrive();
    const event = { orgId, productId: product.id, apiKeyId: key.id, count: 1, everyMs: 1 };
    await fillUsage(db, { ...event, prefix: 'a', from: '2031-02-28T23:59:59.999999Z' });
    await fillUsage(db, { ...event, prefix: 'b', from: '2031-03-01T00:00:00Z' });
    await fillUsage(db, { ...event, prefix: 'c', from: '2031-03-01T23:59:59.999999Z' });
    const used = (rows: Record<string, string>[]) =>
      rows.filter((row) => row.events !== '0').map((row) => [Object.values(row)[0], row.events]);
    expect(used(await csv('?range=month&month=2031-02'))).toEqual([['2031-02-28', '1']]);
    expect(used(await csv('?range=month&month=2031-03'))).toEqual([['2031-03-01', '2']]);
    expect(used(await csv('?range=day&date=2031-03-01'))).toEqual([
      ['2031-03-01T00:00:00.000Z', '1'],
      ['2031-03-01T23:00:00.000Z', '1'],
    ]);
    expect(used(await csv('?range=custom&from=2031-02-28&to=2031-03-01'))).toEqual([
      ['2031-02-28', '1'],
      ['2031-03-01', '2'],
    ]);
  });

  it('are separate for live and test, for each API key and for each metric', async () => {
    const { db, orgId, product, key, open, csv } = await arrive('10');
    const other = await createKey(db, orgId, { name: 'the other' });
    const test = await createKey(db, orgId, { name: 'the tester', livemode: false });
    const send = (secret: string, id: string, quantity: number, metric = 'calls') =>
      sendUsage(service.url, secret, [usageEvent(product.slug, id, { quantity, metric })]);
    await send(key.secret, 'a', 1);
    await send(other.secret, 'b', 4);
    await send(test.secret, 'c', 99);
    await db.orm.update(products).set({ usageMetric: 'tokens' }).where(eq(products.id, product.id));
    await send(key.secret, 'd', 1000, 'tokens');
    const used = async (query = '') =>
      new Set(
        (await csv(query)).map(
          (row) => `${row.api_key_id} ${row.api_key_name}: ${row.quantity} ${row.metric}`,
        ),
      );
    expect(await used()).toEqual(new Set([`${key.id} the runtime: 1000 tokens`]));
    const ofOther = `${other.id} the other: 4 calls`;
    expect(await used('?metric=calls')).toEqual(new Set([`${key.id} the runtime: 1 calls`, ofOther]));
    expect(await used(`?metric=calls&key=${other.id}`)).toEqual(new Set([ofOther]));
    expect(await used('?mode=test')).toEqual(new Set([`${test.id} the tester: 99 calls`]));
    const page = await open('?metric=calls');
    expect(textOf(page.text)).toMatch(/tokens: 1,000 .*calls: 5 \(former metric\)/);
    // A metric that is no longer counted has no cap.
    expect(textOf(page.text)).not.toContain(' Left ');
    expect(page.text).toContain(`key=${other.id}`);
    const filtered = textOf((await open(`?metric=calls&key=${other.id}`)).text);
    expect(filtered).toMatch(/Only usage with API key: the other × \(remove\)/);
    expect(filtered).toMatch(/the other org_live_\w+… 4 1 80.0%/);
    expect(textOf((await open(`?key=${test.id}`)).text)).toContain('it has no live usage');
  });
});

describe('a month against its cap', () => {
  it('shows the used and remaining quantity, and a projection from the last seven days', async () => {
    const { db, orgId, product, key, open } = await arrive('1000');
    // 24 events a day from late February until now.
    const event = { orgId, productId: product.id, apiKeyId: key.id, prefix: 'e', everyMs: 3_600_000 };
    await fillUsage(db, { ...event, count: 24 * 22 + 12, from: '2031-02-21T00:00:00Z' });
    const page = textOf((await open()).text);
    // 14.5 days of the month have passed, and 16.5 remain.
    expect(page).toContain('Used 348 calls');
    expect(page).toContain('Left 652 of 1,000');
    expect(page).toContain('34.8%');
    expect(page).toContain('≈ 744 74.4% of the cap');
    expect(page).toContain('at the pace of the last 7 days');
    expect(textOf((await open('?range=custom&from=2031-03-01&to=2031-03-31')).text)).toContain(
      '≈ 744 74.4% of the cap',
    );
    // 12 more today, then 24 a day.
    expect(page).toMatch(/15 Mar 2031 12 0 24 16 Mar 2031 0 24 .* 31 Mar 2031 0 24/);
    const chart = (await open()).text;
    expect(chart).toContain('Even pace to the cap: 32.3 a day');
    expect(chart).not.toContain('data-passed');
    expect(chart).toContain('data-label="16 Mar 2031: estimated 24\nFebruary 2031 0"');
    const summed = (await open('?sum=1')).text;
    expect(summed).toContain('Cap 1K');
    expect(summed).toMatch(/data-label="31 Mar 2031: estimated 744/);
    expect(page).not.toContain('Over the cap');
    for (const range of ['last7', 'last30'])
      expect((await open(`?range=${range}`)).text).toContain(
        'data-label="15 Mar 2031: 12 calls\nestimated 24',
      );
    await db.orm.update(products).set({ unitCap: '400' }).where(eq(products.id, product.id));
    const ahead = (await open()).text;
    expect(ahead).toContain('<line class="cap" data-passed');
    expect(textOf(ahead)).toContain('has 52 of 400 calls left this month, at this pace until 17 Mar .');
    const ofEntitlement = eq(entitlements.productId, product.id);
    await db.orm.update(entitlements).set({ hasOwnCap: true, unitCap: '500' }).where(ofEntitlement);
    expect(textOf((await open()).text)).toContain('Left 152 of 500');
    const former = textOf((await open('?range=month&month=2031-02')).text);
    expect(former).toContain('Used 192 calls');
    expect(former).not.toContain('≈');
    // A Monday of 48 makes each Monday one.
    await fillUsage(db, { ...event, prefix: 'm', count: 24, from: '2031-03-10T00:00:00Z' });
    const weekly = textOf((await open()).text);
    expect(weekly).toMatch(/15 Mar 2031 12 0 24 16 Mar 2031 0 24 17 Mar 2031 0 48 18 Mar 2031 0 24/);
    expect(weekly).toContain('≈ 840');
    expect(weekly).toContain('reaches its cap of 500 calls around 19 Mar .');
  });

  it('estimates credits from those of each day, as the chart of credits and all products do', async () => {
    const { db, orgId, product, key, open } = await arrive();
    await db.orm
      .update(products)
      .set({ dimensions: ['model'], ...byModel })
      .where(eq(products.id, product.id));
    for (const day of ['08', '09', '10', '11', '12', '13', '14'])
      for (const model of day === '10' ? ['small', 'large'] : ['small']) {
        const occurredAt = `2031-03-${day}T13:00:00Z`;
        service.clock.set(occurredAt);
        const event = usageEvent(product.slug, uuid(), { quantity: 10, occurredAt, dimensions: { model } });
        await sendUsage(service.url, key.secret, [event]);
      }
    service.clock.set(NOW);
    // Until now 80 calls of 85 credits; then 195 calls, with three Mondays of 55 credits and other days of 5.
    expect(textOf((await open()).text)).toContain('By the end of the month ≈ 275 ≈ 318 credits');
    expect((await open('?measure=credits&sum=1')).text).toMatch(/31 Mar 2031: [^"]*estimated 318/);
    await grant(db, orgId, (await createProduct(db)).id);
    expect(textOf((await open()).text)).toContain('By the end of the month ≈ 318 ');
  });

  it('has no pace before a whole day, and one over fewer days after that', async () => {
    const { db, orgId, product, key, open } = await arrive('1000');
    const event = { orgId, productId: product.id, apiKeyId: key.id, everyMs: 3_600_000 };
    await fillUsage(db, { ...event, count: 12, prefix: 'a', from: '2031-03-15T00:00:00Z' });
    expect((await open()).text).not.toContain('estimate');
    await fillUsage(db, { ...event, count: 48, prefix: 'b', from: '2031-03-13T00:00:00Z' });
    expect(textOf((await open()).text)).toContain('≈ 456 45.6% of the cap');
  });

  it('says plainly that it is exceeded, by how much, and that events are still recorded', async () => {
    const { product, key, open } = await arrive('0.3');
    await sendUsage(service.url, key.secret, [
      usageEvent(product.slug, 'a', { quantity: 0.30000000000000004 }),
    ]);
    const page = textOf((await open()).text);
    expect(page).toContain('is 0.00000000000000004 calls above its cap of 0.3 this month.');
    expect(page).toContain('Events are still recorded');
    expect(page).toContain('Left 0 of 0.3');
  });
});

describe('the page', () => {
  it('tells a new Organization who grants products, and one without events how to send the first', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const empty = await browser.get('/dashboard/usage', html);
    expect(empty.status).toBe(200);
    expect(textOf(empty.text)).toContain('No products yet');
    expect((await browser.get('/dashboard/usage.csv', html)).status).toBe(404);
    const { open, product } = await arrive();
    const first = await open();
    expect(textOf(first.text)).toContain('No live events yet');
    expect(first.text).toContain('href="/dashboard/api-keys"');
    expect(first.text).toContain(product.slug);
  });

  it('asks for no events of a product that one may only read', async () => {
    const { db, orgId, open } = await arrive();
    const product = await createProduct(db);
    await grant(db, orgId, product.id, { kind: 'read_only' });
    const page = textOf((await open(`?product=${product.slug}`)).text);
    expect(page).toContain('This product accepts no events from you, so it has no usage.');
    expect(page).toContain('No live events here.');
    expect(page).not.toContain('Create a live key');
  });

  it('finds a product whose entitlement is gone', async () => {
    const { db, orgId, product, key, open } = await arrive();
    const another = await createProduct(db, { slug: `zz-${product.slug}` });
    await fillUsage(db, {
      orgId,
      productId: another.id,
      apiKeyId: key.id,
      count: 3,
      prefix: 'a',
      from: '2031-03-02T00:00:00Z',
      everyMs: 1,
    });
    const page = await open(`?product=${another.slug}`);
    expect(page.text).toMatch(new RegExp(`<option value="${another.slug}" selected>`));
    expect(textOf(page.text)).toContain('Used 3 calls');
    expect((await open()).text).toContain(`href="/dashboard/usage?product=${another.slug}&amp;mode=live`);
  });

  it('links to the latest usage from a period without any', async () => {
    const { product, key, open } = await arrive();
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]);
    const page = await open('?range=month&month=2031-01');
    expect(textOf(page.text)).toContain('The latest usage was on 15 Mar 2031');
    expect(page.text).toContain('month=2031-03');
  });

  it.each([
    ['?range=week', 'Must be day, last7, last30, month or custom.'],
    ['?mode=both', 'Must be live or test.'],
    ['?range=day&date=2031-02-30', 'February has only 28 days.'],
    ['?range=day&date=%00', 'Must be a date'],
    ['?range=month&month=March', 'Must be a month like 2026-01'],
    ['?range=custom&from=2031-01-01', 'Required.'],
    ['?range=custom&from=2031-01-02&to=2031-01-01', 'Must not be before the first day.'],
    ['?range=custom&from=2029-01-01&to=2031-01-01', 'at most 366 days, not 731'],
    ['?key=1', 'Must be an API key'],
    ['?product=%3Cscript%3E', 'Must be 1 to 64 of a-z'],
    ['?product=a&product=b', 'Must appear only once.'],
    [`?metric=${'x'.repeat(300)}`, 'Must be 1 to 255 characters'],
  ])('%s is refused beside its field, with no report in its place', async (query, message) => {
    const { open, browser } = await arrive('10');
    const page = await open(query);
    expect(page.status).toBe(400);
    expect(textOf(page.text).replaceAll('&#39;', "'")).toContain(message);
    expect(page.text).not.toContain('<svg class="plot"');
    expect(page.text).not.toContain('<script>alert');
    expect((await browser.get(`/dashboard/usage.csv${query}`)).status).toBe(400);
  });

  it("does not recognise another Organization's product or API key", async () => {
    const { open, browser } = await arrive();
    const stranger = await arrive();
    await sendUsage(service.url, stranger.key.secret, [usageEvent(stranger.product.slug, 'a')]);
    for (const query of [`?product=${stranger.product.slug}`, `?key=${stranger.key.id}`]) {
      const page = await open(query);
      expect(page.status).toBe(404);
      expect(page.text).toContain('of your Organization.');
      expect(page.text).not.toContain('the runtime');
      expect((await browser.get(`/dashboard/usage.csv${query}`)).status).toBe(404);
    }
  });

  it('neutralises formulas in the CSV', async () => {
    const { db, orgId, product, open } = await arrive();
    const name = `=cmd|'<script>alert(1)</script>"&‮ 🚀`;
    await db.orm.update(products).set({ name, usageMetric: name }).where(eq(products.id, product.id));
    const hostile = await createKey(db, orgId, { name });
    await fillUsage(db, {
      orgId,
      productId: product.id,
      apiKeyId: hostile.id,
      metric: name,
      count: 1,
      prefix: 'a',
      from: '2031-03-02T00:00:00Z',
      everyMs: 1,
    });
    const csv = await open('.csv');
    expect(csv.headers.get('content-type')).toContain('text/csv');
    expect(csv.headers.get('content-disposition')).toBe(
      `attachment; filename="usage-${product.slug}-live-2031-03.csv"`,
    );
    expect(parse<{ metric: string }>(csv.text, { columns: true })[0]!.metric).toBe(`'${name}`);
  });

  it('lists the twenty largest of many API keys and sums up all of them', async () => {
    const { db, orgId, product, open } = await arrive();
    const event = { orgId, productId: product.id, count: 1, from: '2031-03-02T00:00:00Z', everyMs: 1 };
    for (let i = 1; i <= 23; i++) {
      const { id } = await createKey(db, orgId, { name: `key number ${i}.` });
      await fillUsage(db, { ...event, apiKeyId: id, prefix: `${i}-`, quantity: String(i) });
    }
    const page = textOf((await open()).text);
    expect(page).toContain('3 smaller ones are not shown.');
    expect(page).toContain('Used 276 calls');
    const list = /By API key .* not shown/.exec(page)![0];
    expect(list).toContain('key number 4.');
    expect(list).not.toContain('key number 3.');
    expect(page).toMatch(/key number 23\. 23 18 other keys 171/);
    expect(list.indexOf('key number 23.')).toBeLessThan(list.indexOf('key number 22.'));
  });
});

describe('the parts', () => {
  async function divided(creditPrice: string | null = null, prices: object = {}) {
    const scene = await arrive('1000');
    const { db, product, key, orgId } = scene;
    await db.orm
      .update(products)
      .set({
        dimensions: ['model', 'region'],
        subjectsSince: new Date(0),
        creditPrice,
        ...prices,
        ...(creditPrice !== null && { creditEnforcement: 'warn' as const }),
      })
      .where(eq(products.id, product.id));
    const send = (quantity: number, model: string, region: string, subject: string, secret = key.secret) =>
      sendUsage(service.url, secret, [
        usageEvent(product.slug, uuid(), { quantity, dimensions: { model, region }, subject }),
      ]);
    await send(5, 'large', 'eu', 'ada');
    await send(3, 'small', 'eu', 'ben');
    const successor = await createKey(db, orgId, { name: 'the runtime' });
    await db.orm.update(apiKeys).set({ rotatedFromId: key.id }).where(eq(apiKeys.id, successor.id));
    await send(2, 'small', 'us & ca', 'ben', successor.secret);
    const other = await createKey(db, orgId, { name: 'the other' });
    await send(1, 'small', 'eu', 'cleo', other.secret);
    return { ...scene, successor, other };
  }

  it('stack the chart by dimension, by subject, or by API key with its rotations', async () => {
    const { open, key, successor } = await divided();
    const byModel = await open('?by=model');
    expect(byModel.text).toMatch(/data-label="15 Mar 2031: 11 calls\nlarge 5\nsmall 6"/);
    expect(textOf(byModel.text)).toContain('calls by day Download CSV Stacked by');
    expect((await open('?by=subject')).text).toContain('15 Mar 2031: 11 calls\nada 5\nben 5\ncleo 1');
    const byKey = await open();
    expect(byKey.text).toContain('15 Mar 2031: 11 calls\nthe other 1\nthe runtime 10');
    expect(textOf(byKey.text)).toMatch(/By API key .* the runtime 10 3 90\.9% the other/);
    for (const { id } of [key, successor])
      expect(textOf((await open(`?key=${id}`)).text)).toContain('Used 10 calls');
  });

  it('of a priced product have their credits, also when they are narrowed or days are chosen', async () => {
    const { open, key } = await divided('0.5');
    const page = textOf((await open()).text);
    expect(page).toContain('Credits 5.50 0.5 credits per call');
    expect(page).toMatch(
      /By API key Name Quantity Credits Share of credits the runtime 10 5\.00 90\.9% the other/,
    );
    expect(page).toMatch(/By subject Name Quantity Credits Share of credits ada 5 2\.50 45\.5% /);
    const small = textOf(
      (await open('?dimension.model=small&range=custom&from=2031-03-14&to=2031-03-15')).text,
    );
    expect(small).toMatch(/Used 6 calls in 3 events Credits 3\.00 /);
    expect(small).toMatch(
      /By region Name Quantity Credits Share of credits eu 4 2 66\.7% us &amp; ca 2 1 33\.3% /,
    );
    // A filter keeps the other values beside the chosen one, with their own credits.
    expect(small).toMatch(
      /By model Name Quantity Credits Share of credits small 6 3\.00 54\.5% large 5 2\.50 45\.5% /,
    );
    const ofKey = textOf((await open(`?key=${key.id}`)).text);
    expect(ofKey).toContain('Credits 5.00 0.5');
    expect(ofKey).toMatch(/the runtime 10 5\.00 90\.9% the other org_live_\w+… 1 0\.50 9\.1%/);
    const ofBen = textOf((await open('?subject=ben')).text);
    expect(ofBen).toContain('Credits 2.50 0.5');
    expect(ofBen).toMatch(/By subject .* ada 5 2\.50 45\.5% ben 5 2\.50 45\.5% cleo 1 0\.50 9\.1%/);
  });

  it.each([null, '0.5'])(
    'of a subject combine with every other filter and stack at a price of %s',
    async (price) => {
      const { key, other, open, csv } = await divided(price);
      const numbers = (quantity: number, shown: string) =>
        `${quantity} ${price === null ? 1 : (quantity / 2).toFixed(2)} ${shown}`;
      const ofBen = await open('?subject=ben');
      const text = textOf(ofBen.text);
      expect(text).toContain('Used 5 calls in 2 events');
      expect(text).toMatch(/calls by day Download CSV Stacked by API key Model Region/);
      expect(text).toMatch(/By API key .* the runtime 5 2(\.50)? 100% By/);
      expect(text).toMatch(
        new RegExp(`By region .* eu ${numbers(3, '60.0%')} us &amp; ca ${numbers(2, '40.0%')}`),
      );
      expect((await open('?subject=ben&by=region')).text).toContain(
        '15 Mar 2031: 5 calls\neu 3\nus &amp; ca 2',
      );
      const both = textOf((await open('?subject=ben&dimension.region=eu')).text);
      expect(both).toContain('Used 3 calls in 1 event');
      expect(both).toContain('Subject: ben × (remove)');
      expect(both).toMatch(/By region .* eu 3 .* us &amp; ca 2 /);
      expect(both).toMatch(/By subject .* ben 3 .* cleo 1 /);
      const nextDay = '?range=day&date=2031-03-16&subject=ben&dimension.region=eu';
      expect(textOf((await open(nextDay)).text)).toContain('3 on 15 Mar');
      expect(await csv('?subject=ben&dimension.region=eu')).toMatchObject([{ quantity: '3', events: '1' }]);
      const ofKey = await open(`?key=${key.id}&by=subject`);
      expect(ofKey.text).toContain('15 Mar 2031: 10 calls\nada 5\nben 5');
      expect(textOf(ofKey.text)).toMatch(/By subject .* ada 5 .* ben 5 /);
      expect(textOf((await open(`?key=${other.id}&subject=cleo&dimension.model=small`)).text)).toContain(
        'Used 1 call',
      );
      const long = '&range=custom&from=2031-01-01&to=2031-12-31';
      expect(textOf((await open(`?subject=ben${long}`)).text)).toContain('Used 5 calls in 2 events');
      expect(textOf((await open(`?subject=ben${long}`)).text)).toContain(
        'Subjects cannot be combined with other parts in a period of more than 92 days.',
      );
      const refused = await open(`?subject=ben&dimension.region=eu${long}`);
      expect(refused.status).toBe(400);
      expect(textOf(refused.text)).toContain(
        'Cannot be combined with another filter in a period of more than 92 days',
      );
    },
  );

  it('of a priced product, and their chart, count credits by a switch that links and forms keep', async () => {
    const { open, key } = await divided('0.5', byModel);
    const counted = async (query: string) => {
      const { text } = await open(`?${query}`);
      return { text, page: textOf(text), bar: /data-label="15 Mar 2031: ([^"]*)"/.exec(text)?.[1] };
    };
    const whole = await counted('');
    expect(whole.bar).toBe('11 calls\nthe other 1\nthe runtime 10');
    expect(whole.page).toMatch(
      /Measure Calls Credits .*By model Name Quantity Credits Share of credits large 5 25 89\.3%/,
    );
    const href = /href="\/dashboard\/usage\?([^"]*)"><bdi>Credits</.exec(whole.text)![1]!;
    const credits = await counted(href.replaceAll('&amp;', '&'));
    expect(credits.bar).toBe('28 credits\nthe other 0.50\nthe runtime 27.50');
    expect(credits.page).toContain('credits by day Download CSV Stacked by');
    expect(credits.page).toMatch(/15 Mar 2031 0\.5 27\.5 28 By API key/);
    expect(credits.page).not.toContain('Even pace to the cap');
    expect(credits.page).toMatch(
      /By API key Name Quantity Credits Share of credits the runtime 10 27\.50 98\.2% the other/,
    );
    expect(credits.page).toMatch(
      /By model Name Quantity Credits Share of credits large 5 25 89\.3% small 6 3 10\.7%/,
    );
    expect(credits.text).toContain('<input type="hidden" name="measure" value="credits">');
    const links = credits.text.match(/href="\/dashboard\/usage[^"]*[?&;]product=[^"]*"/g)!;
    const dropped = links.filter((link) => !link.includes('measure=credits'));
    // The switch itself leads back to the metric.
    expect(dropped.filter((link) => !credits.text.includes(`${link}><bdi>Calls<`))).toEqual([]);
    expect((await counted('measure=credits&by=model')).bar).toBe('28 credits\nlarge 25\nsmall 3');
    expect((await counted('measure=credits&by=subject')).bar).toBe('28 credits\nada 25\nben 2.50\ncleo 0.50');
    const sum = await counted('measure=credits&by=model&sum=1');
    expect(sum.page).toContain('credits by day and model, cumulative, March 2031');
    const ofBen = await counted(`measure=credits&by=region&subject=ben&key=${key.id}`);
    expect(ofBen.bar).toBe('2.50 credits\neu 1.50\nus &amp; ca 1');
  });

  it('of many name the ones with the most credits, or the largest', async () => {
    const { open, product, key } = await divided('0.5', byModel);
    const events = Array.from({ length: 21 }, (_, i) =>
      usageEvent(product.slug, uuid(), {
        quantity: 20 + i,
        dimensions: { model: 'small' },
        subject: `of ${i}`,
      }),
    );
    await sendUsage(service.url, key.secret, events);
    const byCredits = await open('?measure=credits&by=subject');
    expect(textOf(byCredits.text)).toMatch(
      /By subject Name \S+ Credits Share of credits ada 5 25\.00 7\.\d% of 20/,
    );
    expect(byCredits.text).toMatch(/data-label="15 Mar 2031: 343 credits\n[^"]*ada 25\n/);
    // The chart counts what the switch says; the tables do not follow it.
    const bySize = await open('?by=subject');
    expect(textOf(bySize.text)).toMatch(/By subject Name \S+ Credits Share of credits ada 5 25\.00/);
    expect(bySize.text).not.toMatch(/data-label="15 Mar 2031: [^"]*ada/);
  });

  it.each(['', '&range=custom&from=2030-12-01&to=2031-03-31'])(
    'have no switch without a price, or where credits are unknown: %s',
    async (range) => {
      const { open } = await divided(range === '' ? null : '0.5');
      const page = await open(`?measure=credits${range}`);
      expect(textOf(page.text)).toContain('calls by day');
      expect(page.text).not.toContain('field-measure');
    },
  );

  it('narrow everything by a click, together with a key, until they are removed', async () => {
    const { open, key } = await divided();
    const whole = (await open()).text;
    const hrefOf = (text: string, value: string) =>
      new RegExp(`href="([^"]*)"><bdi>${value}</bdi>`).exec(text)![1]!.replaceAll('&amp;', '&');
    const small = hrefOf(whole, 'small');
    expect(small).toMatch(/^\/dashboard\/usage\?.*dimension\.model=small/);
    const page = (await open(small.slice('/dashboard/usage'.length))).text;
    expect(textOf(page)).toContain('Used 6 calls');
    expect(textOf(page)).toMatch(/Only usage with Model: small × \(remove\)/);
    expect(textOf(page)).toMatch(/By region .* eu 4 2 66\.7% us &amp; ca 2 1 33\.3%/);
    expect(page).toMatch(/href="[^"]*" aria-current="true"><bdi>small</);
    expect(hrefOf(page.replaceAll(' aria-current="true"', ''), 'small')).not.toContain('model');
    expect(hrefOf(page, 'large')).toContain('dimension.model=large');
    expect(textOf(page)).toContain('Left 989 of 1,000 for the whole product, 1.1% used');
    const both = hrefOf(page, 'us &amp; ca');
    expect(textOf((await open(both.slice('/dashboard/usage'.length))).text)).toContain('Used 2 calls');
    const ofKey = (await open(`?dimension.region=eu&by=model&key=${key.id}`)).text;
    expect(ofKey).toContain('15 Mar 2031: 8 calls\nlarge 5\nsmall 3');
    // Nothing was counted for `us & ca` and `large`, which says nothing about the product.
    const none = await open(`?dimension.region=us%20%26%20ca&dimension.model=large&key=${key.id}`);
    expect(textOf(none.text)).toMatch(
      /No usage with these filters in March 2031 Remove the filters By model/,
    );
    expect(textOf(none.text)).not.toMatch(/No live usage|The latest usage/);
    const without = /href="\/dashboard\/usage([^"]*)">Remove the filters/.exec(none.text)![1]!;
    expect(textOf((await open(without.replaceAll('&amp;', '&'))).text)).toContain('Used 11 calls');
    const subject = hrefOf(whole, 'ben');
    expect(textOf((await open(subject.slice('/dashboard/usage'.length))).text)).toContain('Used 5 calls');
    const typed = (await open('?subject=be&month=2031-02')).text;
    expect(typed).toMatch(
      /Did you mean <a href="\/dashboard\/usage\?[^"]*subject=ben"><bdi>ben<\/bdi><\/a>\?/,
    );
    for (const named of ['ben&dimension.model=none', 'nobody'])
      expect((await open(`?subject=${named}`)).text).not.toContain('Did you mean');
    expect((await open('?subject=e')).text).toMatch(
      /Did you mean <a [^>]*subject=ben"><bdi>ben<\/bdi><\/a> or <a [^>]*subject=cleo"><bdi>cleo</,
    );
    const only = await open('?subject=LEO&dimension.region=eu');
    expect([only.status, only.headers.get('location')]).toEqual([
      303,
      expect.stringMatching(/^\/dashboard\/usage\?product=.*&subject=cleo&dimension\.region=eu/),
    ]);
  });

  it('are offered as filters: listed values, and the API keys by name', async () => {
    const { db, orgId, open, key, other, product } = await divided();
    const whole = (await open()).text.replaceAll(/\s+/g, ' ');
    const keys = `<option value="" selected> Any </option> <option value="${key.id}"> the runtime </option> <option value="${other.id}"> the other org_live_`;
    const subjects = '<option value="ada"></option><option value="ben"></option><option value="cleo">';
    expect(whole).toContain(keys);
    expect(whole).toMatch(/name="subject"[^>]* list="add-subject-values"/);
    expect(whole).toContain(`<datalist id="add-subject-values">${subjects}`);
    expect(whole).toContain('<datalist id="add-dimension.model-values"><option value="small">');
    expect((await open(`?key=${key.id}`)).text).not.toContain('name="key">');
    await grant(db, orgId, (await createProduct(db)).id);
    const all = (await open()).text.replaceAll(/\s+/g, ' ');
    expect(all).toContain(keys);
    expect(all).toContain(
      '<datalist id="add-subject-values"><option value="ben"></option><option value="ada">',
    );
    // Without usage there is nothing to list.
    const before = (await open(`?product=${product.slug}&month=2030-01`)).text;
    expect(before).not.toMatch(/<datalist|<select[^>]* name="key"/);
    expect(before).toMatch(/name="subject"[^>]*placeholder="exact value"/);
  });

  it.each([
    ['measure=colour', 'Must be credits.'],
    ['by=colour', 'Must be key, model, region, subject.'],
    ['dimension.colour=red', 'Not a dimension of this product.'],
    ['dimension.model=', 'small'],
    ['dimension.model=%00', 'Must be 1 to 64 characters'],
    ['dimension.model=a&dimension.model=b', 'Must appear only once.'],
    ['dimension.__proto__=a', 'Not a dimension of this product.'],
    ['by=subject&key=00000000-0000-0000-0000-000000000000', 'of your Organization.'],
  ])('%s answers: %s', async (query, message) => {
    const { open } = await divided();
    const page = await open(`?${query}`);
    expect(page.status).toBe(message === 'small' ? 200 : message.startsWith('of') ? 404 : 400);
    expect(textOf(page.text)).toContain(message);
  });
});

it('a wrong day is named beside its field, and no other period is shown', async () => {
  const { open, product, key } = await arrive();
  await sendUsage(service.url, key.secret, [usageEvent(product.slug, uuid(), { quantity: 7 })]);
  const page = await open('?range=custom&from=2031-13-45&to=2031-03-15');
  expect(page.text).toContain('placeholder="15 Mar 2031" title="For example 2031-03-15, 15 Mar');
  expect(page.status).toBe(400);
  expect(textOf(page.text)).toContain('Must be a date like 29 Nov 2026');
  expect(textOf(page.text)).not.toMatch(/Used 7 calls|March 2031/);
});

it('of all products warns of a product near its cap, and its row has the share', async () => {
  const { db, orgId, open, product, key } = await arrive('10');
  await grant(db, orgId, (await createProduct(db)).id);
  await sendUsage(service.url, key.secret, [usageEvent(product.slug, uuid(), { quantity: 9 })]);
  const page = textOf((await open()).text);
  const warning = /Near the cap: .* has 1 of 10 calls left this month/;
  expect(page).toMatch(warning);
  expect(page).toContain('90.0% of the cap');
  expect(textOf((await open(`?product=${product.slug}`)).text)).toMatch(warning);
  for (const range of ['day', 'last7', 'last30', 'custom&from=2031-03-01&to=2031-03-15']) {
    const whole = textOf((await open(`?range=${range}`)).text);
    expect(whole).toMatch(warning);
    expect(whole).toContain('90.0% of March’s cap');
    const own = textOf((await open(`?product=${product.slug}&range=${range}`)).text);
    expect(own).toMatch(warning);
    expect(own).toContain('Left 1 of 10 this month, 90.0% used');
  }
  expect(textOf((await open('?range=day&date=2031-03-14')).text)).not.toContain('Near the cap');
});

it('of all products warns of a product whose pace leads above its cap', async () => {
  const { db, orgId, open, product, key } = await arrive('700');
  await grant(db, orgId, (await createProduct(db)).id);
  const event = { orgId, productId: product.id, apiKeyId: key.id, prefix: 'e', everyMs: 3_600_000 };
  await fillUsage(db, { ...event, count: 24 * 22 + 12, from: '2031-02-21T00:00:00Z' });
  const warning =
    /Pace above the cap: .* reaches its cap of 700 calls around 30 Mar \. Events above it are still recorded/;
  expect(textOf((await open()).text)).toMatch(warning);
  expect(textOf((await open(`?product=${product.slug}`)).text)).toMatch(warning);
  expect(textOf((await open('?range=month&month=2031-02')).text)).not.toContain('Pace above');
});

it('of a product near the limit of a subject warns of it, and the subject’s row and the limits show it', async () => {
  const { db, orgId, browser, open, product, key } = await arrive();
  await db.orm
    .update(products)
    .set({ subjectsSince: new Date(0) })
    .where(eq(products.id, product.id));
  const limits = [
    { quantity: '100', window: 'P7D', enforcement: 'warn' },
    { quantity: '10', window: 'P7D', enforcement: 'warn', per: 'subject' },
  ];
  await db.orm
    .update(entitlements)
    .set({ limits: limits as never })
    .where(eq(entitlements.orgId, orgId));
  const send = (subject: string, quantity: number) =>
    sendUsage(service.url, key.secret, [usageEvent(product.slug, uuid(), { quantity, subject })]);
  await send('ada', 3);
  const calm = textOf((await open()).text);
  expect(calm).toMatch(
    /Current limits Rolling 7 days: 3 used of 100 calls .* ada , rolling 7 days: 3 used of 10 calls/,
  );
  expect(calm).not.toMatch(/Near the limit|10 in the rolling/);
  await send('ben', 9);
  const page = (await open()).text;
  expect(textOf(page)).toContain('Near the limit: ben has 1 of 10 calls left in the rolling 7 days.');
  expect(page).toMatch(
    /product=[^"]*&amp;subject=ben[^"]*"><bdi>ben<[^]*data-tone="warn">9 of 10 in the rolling 7/,
  );
  expect(page).not.toContain('3 of 10 in');
  // Regardless of the period, and of how much each subject used in it.
  const both = /Current limits .* ben , rolling 7 days: 9 used .* ada , rolling 7 days: 3 used/;
  for (const range of ['day', 'last7', 'month'])
    expect(textOf((await open(`?range=${range}`)).text)).toMatch(both);
  // Over all products and on the Overview, too.
  await grant(db, orgId, (await createProduct(db)).id);
  const ofBen = 'Near the limit: ben has 1 of 10 calls left in the rolling 7 days.';
  expect(textOf((await open('?range=last7')).text)).toContain(ofBen);
  const days = '?range=custom&from=2031-03-13&to=2031-03-14';
  for (const query of [days, `${days}&product=${product.slug}`])
    expect(textOf((await open(query)).text)).not.toMatch(/Near the limit/);
  const overview = textOf((await browser.get('/dashboard', html)).text);
  expect(overview).toContain(ofBen);
  expect(overview).toContain('ben : 1 left of 10, rolling 7 days');
  await send('ben', 2);
  expect(textOf((await open(`?product=${product.slug}&subject=ben`)).text)).toContain(
    'Over the limit: ben is 1 call above its limit of 10 in the rolling 7 days. Events are still recorded.',
  );
});

it('say which grants paid for a whole month, adding up to its credits', async () => {
  const { db, orgId, browser, product, key } = await arrive();
  await db.orm
    .update(products)
    .set({ creditPrice: '1', creditEnforcement: 'warn' })
    .where(eq(products.id, product.id));
  const other = await createProduct(db, { creditPrice: '2', creditEnforcement: 'warn' });
  await grant(db, orgId, other.id);
  const read = async (query: string) => textOf((await browser.get(`/dashboard/usage?${query}`, html)).text);
  const give = (amount: string, grantKey: string, priority: number) =>
    addGrant(db, orgId, { amount, grantKey, priority }, new Date(NOW));
  await give('19.335', 'plan:spring:2031-03-01T00:00:00.000Z', 1);
  await give('7', 'Invoice 1042', 2);
  await sendUsage(service.url, key.secret, [usageEvent(product.slug, uuid(), { quantity: 22 })]);
  await sendUsage(service.url, key.secret, [usageEvent(other.slug, uuid(), { quantity: 4.5 })]);
  expect(await read('')).toContain(
    'Credits burned 31 19.33 from the plan, 7.00 from other grants, 4.67 from the overdraft Statement',
  );
  expect(await read(`product=${product.slug}`)).toContain(
    'Credits 22 1 credits per call 19.33 from the plan, 2.67 from other grants Statement',
  );
  for (const query of [
    'range=last7',
    'month=2031-02',
    `key=${key.id}`,
    `product=${product.slug}&key=${key.id}`,
  ])
    expect(await read(query)).not.toContain('from the plan');
  for (const name of ['c', 'd', 'e']) await give('3', name, 3);
  await sendUsage(service.url, key.secret, [usageEvent(other.slug, uuid(), { quantity: 10 })]);
  expect(await read('')).toContain(
    'Credits burned 51 19.34 from the plan, 11.34 from other grants, 20.32 from the overdraft Statement',
  );
  // Late usage burns this month's credits and is part of another month's statement.
  const importer = await createKey(db, orgId, { scopes: ['usage:write', 'usage:backfill'] });
  const late = usageEvent(other.slug, uuid(), { quantity: 1, occurredAt: '2031-02-20T00:00:00Z' });
  await sendUsage(service.url, importer.secret, [late]);
  expect(await read('')).toMatch(/Credits burned 53 (?!.*from the plan)/);
  expect(await read(`product=${product.slug}`)).toContain('19.33 from the plan');
});

describe('the last days', () => {
  it('end today, and are compared with the same number of days before', async () => {
    const { db, orgId, product, key, open, csv } = await arrive();
    const event = { orgId, productId: product.id, apiKeyId: key.id, everyMs: 1 };
    await fillUsage(db, { ...event, prefix: 'a', count: 3, from: '2031-03-09T00:00:00Z' });
    await fillUsage(db, { ...event, prefix: 'b', count: 2, from: '2031-03-08T12:59:59Z' });
    // Later in the day than now, so not part of the comparison.
    await fillUsage(db, { ...event, prefix: 'c', count: 9, from: '2031-03-08T13:00:00Z' });
    await fillUsage(db, { ...event, prefix: 'd', count: 5, from: '2031-02-13T23:59:59Z' });
    const week = await open('?range=last7');
    const text = textOf(week.text);
    expect(text).toContain('9 Mar 2031 – 15 Mar 2031');
    expect(text).toContain(
      'Used 3 ▲ 50.0% more than 2 in the previous period calls in 3 events 2 in the 7 days before, up to this time',
    );
    expect(week.text).toContain('data-label="9 Mar 2031: 3 calls\n2 Mar 2031 – 8 Mar 2031 0"');
    expect(await csv('?range=last7')).toHaveLength(1);
    expect(await csv('?range=last30')).toHaveLength(2);
    expect(textOf((await open('?range=last30')).text)).toMatch(/Used 14 (▲|calls)/);
    expect(textOf((await open('?range=month')).text)).toContain(
      'Used 14 ▲ 180.0% more than 5 in the previous period',
    );
    expect(week.text).toMatch(/rel="prev" href="[^"]*range=custom[^"]*from=2031-03-02[^"]*to=2031-03-08/);
    expect(week.text).not.toContain('rel="next"');
    expect(textOf((await open('?range=day&date=2031-03-09')).text)).toContain(' 11 on 8 Mar ');
    expect(textOf((await open('?range=custom&from=2031-03-09&to=2031-03-10')).text)).toContain(
      ' 11 in the 2 days before',
    );
  });

  it('say how each API key, dimension’s value and subject has changed since the same part of the period before', async () => {
    const { db, product, key, open } = await arrive();
    await db.orm
      .update(products)
      .set({ dimensions: ['model'], subjectsSince: new Date(0) })
      .where(eq(products.id, product.id));
    const send = (model: string, quantity: number, occurredAt: string) =>
      usageEvent(product.slug, uuid(), { quantity, occurredAt, dimensions: { model }, subject: model });
    const { status } = await sendUsage(service.url, key.secret, [
      send('large', 4, '2031-03-14T01:00:00Z'),
      send('small', 6, '2031-03-14T01:00:00Z'),
      // Later in the day than now, so not part of the comparison.
      send('large', 50, '2031-03-14T14:00:00Z'),
      send('large', 6, '2031-03-15T01:00:00Z'),
      send('small', 3, '2031-03-15T01:00:00Z'),
    ]);
    expect(status).toBe(202);
    const page = textOf((await open('?range=day')).text);
    expect(page).toMatch(/By API key .* 9 ▼ 10\.0% less than 10 in the previous period/);
    for (const part of ['model', 'subject'])
      expect(page).toMatch(
        new RegExp(`By ${part} Name Quantity Events Share large 6 ▲ 50\\.0% .* small 3 ▼ 50\\.0%`),
      );
    const ofSubject = textOf((await open('?range=day&subject=large')).text);
    expect(ofSubject).toMatch(/By API key .* 6 ▲ 50\.0% .*By model [^▲]* large 6 ▲ 50\.0% more than 4 in/);
    const ofKey = textOf((await open(`?range=day&key=${key.id}`)).text);
    expect(ofKey).toMatch(/By subject [^▲]* large 6 ▲ 50\.0% .* small 3 ▼ 50\.0%/);
    const ofBoth = textOf((await open(`?range=day&key=${key.id}&subject=small`)).text);
    expect(ofBoth).toMatch(/By model [^▼]* small 3 ▼ 50\.0% .*By subject [^▲]* large 6 ▲ 50\.0%/);
  });

  it('say how credits have changed, and the parts too where credits are the measure', async () => {
    const { db, product, key, open } = await arrive();
    await db.orm
      .update(products)
      .set({ dimensions: ['model'], subjectsSince: new Date(0), ...byModel })
      .where(eq(products.id, product.id));
    const send = (model: string, quantity: number, occurredAt: string) =>
      usageEvent(product.slug, uuid(), { quantity, occurredAt, dimensions: { model }, subject: 'ada' });
    const { status } = await sendUsage(service.url, key.secret, [
      send('large', 2, '2031-03-14T01:00:00Z'),
      send('small', 4, '2031-03-14T01:00:00Z'),
      // Later in the day than now, so not part of the comparison.
      send('large', 50, '2031-03-14T14:00:00Z'),
      send('large', 3, '2031-03-15T01:00:00Z'),
      send('small', 2, '2031-03-15T01:00:00Z'),
    ]);
    expect(status).toBe(202);
    const tile = /Used 5 ▼ 16\.7% .* Credits 16 ▲ 33\.3% more than 12 in the previous period/;
    const ofQuantity = textOf((await open('?range=day')).text);
    expect(ofQuantity).toMatch(tile);
    expect(ofQuantity).toMatch(/By model [^▲▼]* large 3 ▲ 50\.0% more than 2 /);
    expect(ofQuantity).toMatch(/By API key [^▲▼]* 5 ▼ 16\.7% less than 6 /);
    for (const filter of ['', `&key=${key.id}`, '&subject=ada']) {
      const page = textOf((await open(`?range=day&measure=credits${filter}`)).text);
      expect(page).toMatch(tile);
      expect(page).toMatch(/By API key [^▲▼]* 5 16 ▲ 33\.3% more than 12 /);
      expect(page).toMatch(
        /By model [^▲▼]* large 3 15 ▲ 50\.0% more than 10 .* small 2 1 ▼ 50\.0% less than 2 /,
      );
      expect(page).toMatch(/By subject [^▲▼]* ada 5 16 ▲ 33\.3% more than 12 /);
    }
    expect(textOf((await open('?range=day&measure=credits&dimension.model=large')).text)).toMatch(
      /Credits 15 ▲ 50\.0% .*By model .* small 2 1 ▼ 50\.0% less than 2 /,
    );
  });

  it('say over all products how usage without a subject has changed', async () => {
    const { db, orgId, browser, product, key } = await arrive();
    await grant(db, orgId, (await createProduct(db)).id);
    await db.orm
      .update(products)
      .set({ subjectsSince: new Date(0) })
      .where(eq(products.id, product.id));
    const send = (occurredAt: string, subject?: string) =>
      usageEvent(product.slug, uuid(), { occurredAt, ...(subject && { subject }) });
    const [before, today] = ['2031-03-14T01:00:00Z', '2031-03-15T01:00:00Z'];
    const events = [send(before), send(today), send(today), send(before, 'ada'), send(today, 'ada')];
    await sendUsage(service.url, key.secret, events);
    expect(textOf((await browser.get('/dashboard/usage?range=day', html)).text)).toMatch(
      /By subject .*No subject 2 ▲ 100\.0% more than 1 in the previous period/,
    );
  });

  it('link from a bar, and from the table, to the day and to the events of the hour', async () => {
    const { product, key, browser, open } = await arrive();
    await sendUsage(service.url, key.secret, [
      usageEvent(product.slug, 'from its bar', { occurredAt: '2031-03-14T07:30:00Z' }),
      usageEvent(product.slug, 'of another hour', { occurredAt: '2031-03-14T08:30:00Z' }),
      usageEvent(product.slug, 'of another day', { occurredAt: '2031-03-13T07:30:00Z' }),
    ]);
    const follow = async (text: string, part: string) => {
      const links = [...text.matchAll(/href="(\/dashboard\/usage\?[^"#]*)/g)].map(([, href]) => href!);
      const toStep = links.filter((href) => href.includes(part));
      expect(toStep.length, part).toBeGreaterThanOrEqual(2);
      return (await browser.get(toStep[0]!.replaceAll('&amp;', '&'), html)).text;
    };
    const day = await follow((await open('?range=last7')).text, 'date=2031-03-14');
    expect(day).not.toContain('of another day');
    const hour = await follow(day, 'hour=07');
    expect(hour).toContain('from its bar');
    expect(hour).not.toContain('of another hour');
  });
});

describe('all products', () => {
  const path = '/dashboard/usage';

  it('share one chart of their events, and a table of what each counts', async () => {
    const { db, orgId, browser, product, key } = await arrive();
    const stranger = await arrive();
    const event = { orgId, apiKeyId: key.id, everyMs: 1 };
    await fillUsage(db, {
      ...event,
      productId: product.id,
      prefix: 'a',
      count: 3,
      from: '2031-03-14T00:00:00Z',
    });
    await fillUsage(db, {
      ...event,
      productId: product.id,
      prefix: 'b',
      count: 2,
      from: '2031-02-14T00:00:00Z',
    });
    const others = [];
    for (let i = 0; i < 6; i++) {
      const other = await createProduct(db, { maxQuantity: ANY_QUANTITY });
      await grant(db, orgId, other.id);
      const of = { ...event, productId: other.id, prefix: `other ${i} `, quantity: '2.5' };
      await fillUsage(db, { ...of, count: 10 + i, from: '2031-03-14T05:00:00Z' });
      others.push(other);
    }
    const earlier = { ...event, productId: others[0]!.id, prefix: 'earlier ', count: 3 };
    await fillUsage(db, { ...earlier, from: '2031-02-14T00:00:00Z' });
    const page = await browser.get(path, html);
    const text = textOf(page.text);
    expect(page.status).toBe(200);
    // The month before is of all products, too.
    expect(page.text).toMatch(/data-label="14 Mar 2031: 78 events\n[^"]*\nFebruary 2031 5"/);
    expect(text).toMatch(
      /By API key .* the runtime org_live_\w+… 78 ▲ 1,460\.0% more than 5 in the previous/,
    );
    expect(text).toContain(`${product.name} 3 calls 3 ▲ 50.0% more than 2 in the previous period 3.8%`);
    expect(text).toContain(`${others[5]!.name} 37.50 calls 15 19.2%`);
    // Only the five products with the most usage have their own segment.
    expect(text).toContain('2 other products');
    expect(page.text).toMatch(
      /data-label="14 Mar 2031: 78 events\n(?=[^"]* 15\n)[^"]*\n2 other products 13\n/,
    );
    expect(text).not.toContain(stranger.product.name);
    const day = await browser.get(`${path}?range=day&date=2031-03-14`, html);
    expect(day.text).toMatch(/data-label="05:00: 75 events/);
    expect(textOf((await browser.get(`${path}?mode=test`, html)).text)).toContain(
      'No test usage of any product',
    );
    expect(textOf((await browser.get(`${path}?range=last7`, html)).text)).toContain(
      '9 Mar 2031 – 15 Mar 2031',
    );
  });

  it('are divided by API key, rotations together, and by subject, in credits if prices explain all of them', async () => {
    const { db, orgId, browser, product, key } = await arrive();
    const second = await createProduct(db);
    await grant(db, orgId, second.id);
    const prices = { creditPrice: '2', creditDimension: 'model', creditPrices: { large: '5' } };
    await db.orm
      .update(products)
      .set({ dimensions: ['model'], subjectsSince: new Date(0), creditEnforcement: 'warn', ...prices })
      .where(eq(products.id, product.id));
    const successor = await createKey(db, orgId, { name: 'the runtime' });
    await db.orm.update(apiKeys).set({ rotatedFromId: key.id }).where(eq(apiKeys.id, successor.id));
    const other = await createKey(db, orgId, { name: 'the other' });
    const send = (secret: string, slug: string, quantity: number, more = {}) =>
      sendUsage(service.url, secret, [usageEvent(slug, uuid(), { quantity, ...more })]);
    await send(key.secret, product.slug, 1, { dimensions: { model: 'large' }, subject: 'ada' });
    await send(successor.secret, product.slug, 1, { dimensions: { model: 'small' }, subject: 'ada' });
    await send(other.secret, product.slug, 4, { dimensions: { model: 'small' }, subject: 'ben' });
    await send(other.secret, second.slug, 9);
    const csvOf = async (href: string) =>
      parse<Record<string, string>>((await browser.get(href.replace(/usage/, 'usage.csv'))).text, {
        columns: true,
      });
    const page = await browser.get(path, html);
    const text = textOf(page.text);
    expect(text).toMatch(
      /By API key Name Credits Events Share of credits the other org_live_\w+… 8 2 53\.3% the runtime 7 2 46\.7%/,
    );
    expect(text).toContain(
      'By subject Name Credits Events Share of credits ben 8 1 53.3% ada 7 2 46.7% Alerts',
    );
    const chartBy = async (by: string) =>
      /data-label="(15 Mar 2031: [^"]*)"/.exec((await browser.get(`${path}?by=${by}`, html)).text)![1];
    expect(await chartBy('key')).toBe('15 Mar 2031: 15 credits\nthe other 8\nthe runtime 7');
    expect(await chartBy('subject')).toBe('15 Mar 2031: 15 credits\nada 7\nben 8');
    const stacked = await browser.get(`${path}?by=subject`, html);
    expect(textOf(stacked.text)).toContain(
      'credits by day Download CSV Stacked by Product API key Subject Days',
    );
    const ofSecond = await browser.get(`${path}?by=subject&product=${second.slug}`, html);
    expect(textOf(ofSecond.text)).toContain('Used 9 calls');
    const hrefOf = (html: string, name: string) =>
      new RegExp(`href="([^"]*)"(?: aria-current="true")?><bdi>${name}<`)
        .exec(html)![1]!
        .replaceAll('&amp;', '&');
    // A row stays on all products, and narrows everything to its key.
    const ofKey = await browser.get(hrefOf(page.text, 'the runtime'), html);
    const narrow = textOf(ofKey.text);
    expect(narrow).toContain('Only usage with API key: the runtime × (remove)');
    expect(narrow).toContain('Credits burned 7 ');
    expect(narrow).not.toMatch(/Credits left|By subject|Statement/);
    expect(narrow).toContain(`To filter by key and subject together, choose one product: ${product.name} .`);
    expect(hrefOf(ofKey.text, product.name)).toMatch(new RegExp(`product=${product.slug}.*key=${key.id}`));
    expect(text).not.toContain('To filter by key');
    expect(ofKey.text).toMatch(/data-label="15 Mar 2031: 7 credits/);
    expect(narrow).toMatch(new RegExp(`${product.name} 2 calls 7 100% By API key`));
    expect(narrow).toMatch(
      /By API key Name Credits Events Share of credits the other .* 8 2 53\.3% the runtime 7 2 46\.7%/,
    );
    expect(ofKey.text.match(/data-label="Occurred"/g)).toHaveLength(2);
    expect(hrefOf(ofKey.text, 'the runtime')).not.toContain('key=');
    expect(hrefOf(ofKey.text, product.name)).toMatch(/product=.*key=/);
    const ofProduct = { product: product.slug, day_utc: '2031-03-15' };
    expect(await csvOf(hrefOf(page.text, 'the runtime'))).toMatchObject([
      { ...ofProduct, api_key_name: 'the runtime', credits: '5' },
      { ...ofProduct, api_key_name: 'the runtime', credits: '2' },
    ]);
    expect((await csvOf(path)).map((row) => `${row['product']} ${row['credits']}`).toSorted()).toEqual(
      [`${product.slug} 2`, `${product.slug} 5`, `${product.slug} 8`, `${second.slug} 0`].toSorted(),
    );
    const ofAda = textOf((await browser.get(hrefOf(page.text, 'ada'), html)).text);
    expect(ofAda).toMatch(/Only usage with Subject: ada × \(remove\) .*Credits burned 7 /);
    expect(ofAda).toContain('By subject Name Credits Events Share of credits ben 8 1 53.3% ada 7 2 46.7%');
    expect(ofAda).not.toContain('By API key');
    expect(ofAda).toContain('To filter by key and subject together');
    expect(await csvOf(`${path}?by=subject`)).toContainEqual(
      expect.objectContaining({ product: product.slug, subject: 'ada', quantity: '2', credits: '7' }),
    );
    expect(
      (await csvOf(`${path}?by=subject`)).map((row) => row['subject']!).toSorted((a, b) => (a < b ? -1 : 1)),
    ).toEqual(['', 'ada', 'ben']);
    expect(await csvOf(`${path}?product=${product.slug}&by=model`)).toContainEqual(
      expect.objectContaining({ 'dimension.model': 'small', quantity: '5', credits: '10' }),
    );
    const events = await browser.get('/dashboard/usage/events.csv?range=month');
    expect(events.text.trimEnd().split('\r\n')).toHaveLength(5);
    expect(page.text).toContain('/dashboard/usage/events.csv?');
    expect(page.text).toContain('href="/dashboard/statement?month=2031-03&amp;mode=live"');
    const ofNobody = await browser.get(`${path}?subject=plan`, html);
    expect(textOf(ofNobody.text)).toMatch(
      /Credits burned 0 .*No usage with these filters in March 2031 Remove the filters By subject Name Credits Events Share of credits ben 8 1 53\.3%/,
    );
    // The events of a long period are not read.
    const year = 'range=custom&from=2031-01-01&to=2031-12-31';
    const ofYear = textOf((await browser.get(`${path}?${year}`, html)).text);
    expect(ofYear).toContain(
      'By subject Name Events Share of events ada 2 50.0% ben 1 25.0% No subject 1 25.0%',
    );
    expect(textOf((await browser.get(`${path}?${year}&subject=ada`, html)).text)).toContain('Events 2 ');
    const both = await browser.get(`${path}?key=${key.id}&subject=ada`, html);
    expect([both.status, textOf(both.text)]).toEqual([
      400,
      expect.stringMatching(
        /Cannot be combined with an API key over all products.* Only usage with API key: the runtime × \(remove\) Subject: ada × \(remove\) To filter by key/,
      ),
    ]);
    // A filter that only one product has ends with it.
    const former = await browser.get(`${path}?dimension.model=large&key=${key.id}`, html);
    expect(textOf(former.text)).toContain('Credits burned 7 ');
    expect(former.text).not.toContain('dimension.model');
    await send(other.secret, product.slug, 1, { dimensions: { model: 'small' } });
    await send(other.secret, product.slug, 1, { dimensions: { model: 'small' } });
    expect(textOf((await browser.get(path, html)).text)).toMatch(/ada 7 2 36\.8% No subject 4 3 21\.1%/);
    await db.orm.update(products).set({ creditPrice: '3' }).where(eq(products.id, product.id));
    expect(textOf((await browser.get(path, html)).text)).toContain('By API key Name Events Share of events');
    expect(await chartBy('key')).toBe('15 Mar 2031: 19 credits');
    await db.orm.delete(creditEntries).where(eq(creditEntries.orgId, orgId));
    expect(await chartBy('subject')).toBe('15 Mar 2031: 6 events\nada 2\nben 1\nNo subject 3');
  });

  it('say how many are shown if there are more', async () => {
    const { db, orgId, browser } = await arrive();
    for (let i = 0; i < 100; i++) await grant(db, orgId, (await createProduct(db)).id);
    expect(textOf((await browser.get(path, html)).text)).toContain('Only the first 100 products');
  });

  it('name the invalid field', async () => {
    const { browser } = await arrive();
    for (const query of ['range=year', 'mode=both', 'mode=live&mode=test', 'range=month&month=2031-13']) {
      const page = await browser.get(`${path}?${query}`, html);
      expect([query, page.status]).toEqual([query, 400]);
    }
  });
});
