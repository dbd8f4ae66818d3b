import { parse } from 'csv-parse/sync';
import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { describe, expect, it } from 'vitest';
import { sumDecimals } from '../../../src/core/decimal.js';
import { creditEntries } from '../../../src/metering/credits/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { signedIn, type Browser } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage } from '../support/usage.js';

const { database, service } = useService();
const call = operatorClient(() => service);
const DAY_MS = 86_400_000;
const html = { accept: 'text/html' };

const unescape = (text: string) =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
/** Returns a page's text without markup, with whitespace collapsed. */
const readText = (page: string) =>
  unescape(page.split('<main')[1]!.replaceAll(/<[^>]*>/g, ' ')).replaceAll(/\s+/g, ' ');

/** Creates a customer with a priced product and keys of both modes. */
async function scene() {
  const { db } = database;
  const { browser, organization } = await signedIn(db, service.url, 'member');
  const product = await createProduct(db, {
    name: 'Tokens',
    dimensions: ['model'],
    subjectsSince: new Date(0),
  });
  await db.orm
    .update(products)
    .set({
      creditPrice: '0.5',
      creditDimension: 'model',
      creditPrices: { large: '2' },
      creditEnforcement: 'warn',
    })
    .where(eq(products.id, product.id));
  await grant(db, organization.id, product.id);
  const keys = {
    live: (await createKey(db, organization.id)).secret,
    test: (await createKey(db, organization.id, { livemode: false })).secret,
  };
  const path = `/organizations/${organization.slug}/credits`;
  return {
    browser,
    organization,
    product,
    open: async (query = '') => readText((await browser.get(`/dashboard/credits${query}`, html)).text),
    send: async (quantity: number, more: object = {}, key: keyof typeof keys = 'live') => {
      const event = { productSlug: product.slug, metric: 'calls', quantity, idempotencyKey: uuid(), ...more };
      const { status } = await sendUsage(service.url, keys[key], [event]);
      expect(status).toBe(202);
      return event.idempotencyKey;
    },
    give: async (key: string, body: object) =>
      expect(
        (await call('PUT', `${path}/grants/${encodeURIComponent(key)}`, { reason: 'Invoice', ...body }))
          .status,
      ).toBe(201),
    void: (key: string) => call('POST', `${path}/grants/${key}/void`, { reason: 'Mistake' }),
  };
}

const sections = async (browser: Browser) =>
  (await browser.get('/dashboard', html)).text.includes('href="/dashboard/credits"');

describe('the section', () => {
  it('is in the navigation only with credits, or an entitlement to a product that costs some', async () => {
    const { browser, organization } = await signedIn(database.db, service.url, 'billing');
    expect(await sections(browser)).toBe(false);
    const product = await createProduct(database.db);
    await grant(database.db, organization.id, product.id);
    expect(await sections(browser)).toBe(false);
    await database.db.orm
      .update(products)
      .set({ creditPrice: '1', creditEnforcement: 'warn' })
      .where(eq(products.id, product.id));
    expect(await sections(browser)).toBe(true);
    const other = await signedIn(database.db, service.url);
    await call('PUT', `/organizations/${other.organization.slug}/credits/grants/one`, {
      amount: 1,
      reason: 'One',
      livemode: false,
    });
    expect(await sections(other.browser)).toBe(true);
  });

  it('explains what it will show', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const page = readText((await browser.get('/dashboard/credits', html)).text);
    expect(page).toContain('Your products cost no live credits');
    const { open } = await scene();
    expect(await open()).toMatch(/No live credits yet .* usage of Tokens is recorded as an overdraft/);
  });
});

describe('the credits page', () => {
  it('shows the balance and the grants in burning order, and the usage page what burned them', async () => {
    const { open, give, send, browser, product } = await scene();
    await give('plan', {
      amount: 100,
      expiresAt: '2126-01-01T00:00:00Z',
      rollover: { percent: 25, for: 'P30D' },
    });
    await give('welcome', { amount: 10, priority: 1 });
    const soon = new Date(service.clock.now() + DAY_MS / 2).toISOString();
    await give('soon', { amount: 7, startsAt: soon, priority: 60 });
    await give('later', { amount: 7, startsAt: new Date(service.clock.now() + DAY_MS).toISOString() });
    await send(30, { dimensions: { model: 'large' }, subject: 'ada' });
    await send(10, { dimensions: { model: 'small' }, subject: 'ben' });
    const page = await open();
    expect(page).toContain('Balance 45 live credits Next expiry 1 Jan 2126 45 left in Invoice ; next grant ');
    expect(page).toMatch(
      /Open Invoice Key plan .*Scheduled Invoice Key soon .*Scheduled Invoice Key later .*Closed grants/,
    );
    expect(page).toMatch(/Open Invoice Key plan ?, priority 50 45 of 100 left All products/);
    expect(page).toContain('then 25% rolls over for 30 days');
    expect(page).toMatch(/Scheduled Invoice Key later/);
    const byCredits = `/dashboard/usage?product=${product.slug}&measure=credits`;
    const usage = readText((await browser.get(byCredits, html)).text);
    expect(usage).toMatch(
      /By model Name Quantity Credits Share of credits large 30 60 92\.3% small 10 5 7\.7% /,
    );
    expect(usage).toMatch(
      /By subject Name Quantity Credits Share of credits ada 30 60 92\.3% ben 10 5 7\.7% /,
    );
    // The grant is spent, so it is listed as closed.
    expect(page).toMatch(/Closed grants .*Spent Invoice Key welcome/);
    expect(page).not.toContain('At the pace');
    expect((await browser.get('/dashboard/credits', html)).text).not.toContain('data-zoned>');
  });

  it('adds up the grants that end next, and hides the keys that plans give', async () => {
    const { open, give } = await scene();
    const expiresAt = new Date(service.clock.now() + 20 * DAY_MS).toISOString();
    await give('plan:credits:2026', { amount: 1500, expiresAt });
    await give('plan:bonus:2026', { amount: 500, expiresAt });
    await give('later', { amount: 7, expiresAt: '2126-01-01T00:00:00Z' });
    const page = await open();
    expect(page).toMatch(/Next expiry \d+ \w+ \d{4} 2,000 left in 2 grants/);
    expect(page).toMatch(/Open Invoice, January 2026 Priority 50 1,500 of 1,500 left/);
    expect(page).not.toContain('plan:');
  });

  it('agrees with the usage of all products: chart, sum and growth count credits', async () => {
    const { browser, organization, send } = await scene();
    const free = await createProduct(database.db, { name: 'Free calls' });
    await grant(database.db, organization.id, free.id);
    await send(30, { dimensions: { model: 'large' } });
    await send(4, { productSlug: free.slug });
    const { text } = await browser.get('/dashboard/usage', html);
    expect(readText(text)).toMatch(/Credits burned 60 .*credits by day and product/);
    expect(text).toMatch(/data-label="[^"]*: 60 credits/);
    expect(text).toMatch(/data-label="Share of credits">100%<svg class="meter"/);
    expect(readText(text)).toMatch(
      /Name Quantity Credits Share of credits Tokens 30 calls 60 100% Free calls 4 calls Free/,
    );
    const { apiKeys } = (await browser.get('/dashboard/api-keys')).body;
    const apiKey = apiKeys.find(({ livemode }: { livemode: boolean }) => livemode);
    const unused = await createKey(database.db, organization.id);
    const ofKey = async (id: string) => readText((await browser.get(`/dashboard/api-keys/${id}`, html)).text);
    expect(await ofKey(apiKey.id)).toContain('with this key : 60 credits this month, 100% of all');
    expect(await ofKey(unused.id)).toMatch(/with this key : 0 credits this month (?!,)/);
    const day = readText((await browser.get('/dashboard/usage?range=last7', html)).text);
    expect(day).toContain('Credits burned 60');
    expect(day).not.toContain('this month so far');
    const key = await send(1, { productSlug: free.slug });
    expect(readText((await browser.get(`/dashboard/usage?event=${key}`, html)).text)).toContain(
      'Credits Free',
    );
  });

  it('keeps live and test credits apart, and says how much is held', async () => {
    const { open, give, send } = await scene();
    await give('live', { amount: 5 });
    await give('test', { amount: 20, livemode: false });
    await send(4, {}, 'test');
    expect(await open()).toContain('Balance 5 live credits');
    expect(await open('?mode=test')).toContain('Balance 18 test credits');
  });

  it('explains an overdraft, and what a correction gave back', async () => {
    const { open, send, organization } = await scene();
    await send(7);
    expect(await open()).toMatch(/Balance −3\.50 live credits .* Tokens is overdrawn by 3\.5 credits\./);
    expect((await open('/ledger')).match(/Burned \S+ Overdraft −3\.5/)).not.toBeNull();
    const [entry] = await database.db.orm
      .select()
      .from(creditEntries)
      .where(eq(creditEntries.orgId, organization.id));
    await database.db.orm.insert(creditEntries).values({ ...entry!, kind: 'return', amount: '1.25' });
    const corrected =
      /A correction has the time of the usage that it corrects.* Corrected Tokens Overdraft \+1\.25/;
    expect(await open('/ledger')).toMatch(corrected);
    const page = await open();
    expect(page).toMatch(corrected);
    // No entry says that a correction was made at the time that it counts from.
    expect(page).toContain('Counts from What');
    expect(page).not.toContain('Booked');
    expect(page).toContain('Credits by day and product How credits work');
  });

  it('projects how long the balance lasts once a day has burned credits, counting the ends of grants', async () => {
    const today = new Date(service.clock.now());
    service.clock.set(
      new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1, 13, 12)).toISOString(),
    );
    const { browser, open, give, send } = await scene();
    await give('all', { amount: 100 });
    await send(20);
    service.clock.advance(2.25 * DAY_MS);
    const day = (days: number) =>
      new Intl.DateTimeFormat('en-GB', {
        timeZone: 'UTC',
        day: 'numeric',
        month: 'short',
        year: 'numeric',
      }).format(service.clock.now() + days * DAY_MS);
    // 10 credits from noon to the end of the next day are 6.7 a day. Today counts as such a day, and 83.3 last 12.5 more.
    const estimate = `At the pace of the last 1 day, the balance lasts until about ${day(13)}.`;
    expect(await open()).toContain(estimate);
    const month = readText((await browser.get('/dashboard/usage?range=month', html)).text);
    const [, calls, credits] = /By the end of the month ≈ ([\d.,]+) ≈ ([\d.,]+) credits/.exec(month) ?? [];
    expect(Number(credits) / Number(calls)).toBeCloseTo(0.5, 1);
    const warning = 'At this pace, credits run out around';
    const overview = async () => readText((await browser.get('/dashboard', html)).text);
    expect(await overview()).toMatch(
      new RegExp(`${warning} ${day(13).slice(0, -5)} , ≈ [\\d.]+ short of 1 \\w{3}\\.`),
    );
    expect(await open()).toMatch(/Burned in the 7 days before today 10 Tokens At/);
    await send(10);
    expect(await open()).toMatch(/Burned in the 7 days before today 10 Tokens ; today 5 so far/);
    service.clock.advance(DAY_MS / 8);
    // Within a day, only more usage than on an average day changes the estimate.
    expect(await open()).toContain(estimate);
    await give('ending', {
      amount: 1_000,
      priority: 0,
      expiresAt: new Date(service.clock.now() + 4 * DAY_MS).toISOString(),
    });
    expect(await open()).toContain(`lasts until about ${day(16.75)}.`);
    expect(await overview()).not.toContain(warning);
    await give('many', { amount: 100_000 });
    expect(await open()).toContain('the balance lasts for more than a year.');
    const startsAt = new Date(service.clock.now() + DAY_MS);
    await give('next', { amount: 2_000, startsAt: startsAt.toISOString() });
    const refill = `, with 2,000 more on ${day(1).slice(0, -5)}`;
    expect(await overview()).toContain(`for more than a year${refill}`);
    await give('other', { amount: 5, productSlugs: [(await scene()).product.slug] });
    expect(await open()).toContain('the balance lasts for more than a year.');
  });

  it('shows costs by subject only for periods of at most 92 days', async () => {
    const { browser, give, send, product } = await scene();
    await give('all', { amount: 100 });
    await send(2, { subject: 'ada' });
    const to = new Date(service.clock.now() + DAY_MS).toISOString().slice(0, 10);
    const from = new Date(service.clock.now() - 100 * DAY_MS).toISOString().slice(0, 10);
    const page = await browser.get(
      `/dashboard/usage?product=${product.slug}&range=custom&from=${from}&to=${to}`,
      html,
    );
    expect(readText(page.text)).toMatch(/By subject Name Quantity Events Share ada 2 /);
  });

  it('answers ?mode=both with 400', async () => {
    const { browser } = await scene();
    const answer = await browser.get('/dashboard/credits?mode=both', html);
    expect([answer.status, readText(answer.text)]).toEqual([
      400,
      expect.stringContaining('Must be live or test.'),
    ]);
  });
});

describe('the ledger', () => {
  it('has every entry with its effect on the balance, filters and pages', async () => {
    const { open, give, send, browser, product, organization } = await scene();
    await give('=1+1', { amount: 10, reason: 'Pack' });
    await give('other', { amount: 1, priority: 60, reason: 'Other' });
    await send(2);
    await call('POST', `/organizations/${organization.slug}/credits/grants/other/void`, {
      reason: 'Mistake',
    });
    const page = await open('/ledger');
    expect(page).toMatch(/Forfeited Other −1/);
    expect(page).toMatch(/Burned Tokens Pack −1 /);
    const { text } = await browser.get('/dashboard/credits/ledger', html);
    expect(text).toMatch(
      new RegExp(
        `<a href="/dashboard/usage\\?product=${product.slug}&amp;range=day&amp;date=[^"]*&amp;hour=\\d\\d&amp;mode=live#events">\\s*<time `,
      ),
    );
    const onlyVoid = await open('/ledger?kind=void');
    expect(onlyVoid).toMatch(/Forfeited Other −1/);
    expect(onlyVoid).not.toMatch(/Burned Tokens/);
    expect(await open(`/ledger?grant=${encodeURIComponent('=1+1')}`)).not.toMatch(/Forfeited Other −1/);
    const tomorrow = new Date(service.clock.now() + DAY_MS).toISOString().slice(0, 10);
    expect(await open(`/ledger?from=${tomorrow}`)).toContain('No entries match.');
    const wrong = await browser.get('/dashboard/credits/ledger?from=2026-02-02&to=2026-02-01', html);
    expect([wrong.status, readText(wrong.text)]).toEqual([
      400,
      expect.stringContaining('Must not be before the first day.'),
    ]);
    expect((await browser.get('/dashboard/credits/ledger?cursor=nonsense', html)).status).toBe(400);

    const csv = await browser.get(`/dashboard/credits/ledger.csv?kind=burn`, html);
    const [head, row, end] = csv.text.split('\r\n');
    expect(head).toBe('at,hour,kind,product,grant_key,amount,mode');
    // A spreadsheet would evaluate the key as a formula.
    expect(row).toMatch(new RegExp(`^"\\S+Z","\\S+Z","burn","${product.slug}","'=1\\+1",1,"live"$`));
    expect(end).toBe('');
  });

  it('has the balance after each entry and grant, on every page and in the file', async () => {
    const { open, give, send, void: voidGrant, browser, organization, product } = await scene();
    const ends = new Date(service.clock.now() + DAY_MS).toISOString();
    await send(3);
    service.clock.advance(1_000);
    await give('first', { amount: 10, reason: 'first' });
    service.clock.advance(1_000);
    const expiresAt = `${ends.slice(0, 13)}:00:00Z`;
    await give('ending', { amount: 4, expiresAt, priority: 0, reason: 'ending' });
    const startsAt = new Date(service.clock.now() + 9 * DAY_MS).toISOString();
    await give('unused', { amount: 7, startsAt, reason: 'unused' });
    await voidGrant('unused');
    service.clock.advance(1_000);
    await send(5);
    const today = new Date(service.clock.now()).toISOString().slice(0, 10);
    const oneDay = `/ledger?from=${today}&to=${today}`;
    expect(await open(oneDay)).toMatch(
      /Credits Balance .* Burned Tokens ending −2\.5 10\.0 .*Forfeited unused −7\.0 12\.5 .*Granted unused.* \+7\.0 19\.5 .*Granted ending \+4\.0 12\.5 .*Overdraft paid Tokens first 1\.5 8\.5 .*Granted first \+10\.0 8\.5 .*Burned Tokens Overdraft −1\.5 −1\.5 /,
    );
    service.clock.advance(2 * DAY_MS);
    const read = async (query = '') => open(`/ledger${query}`);
    expect(await read()).toContain('1.5 credits have expired but are still in this balance');
    const before = new Date(service.clock.now() + DAY_MS).toISOString().slice(0, 10);
    // Each day has a heading with its effect on the balance and the balance at its end.
    expect(await read(`?to=${before}`)).toMatch(/Balance \d+ \w+ \d{4} \+10\.0 10 .*ending −2\.5 /);
    expect(await read('?kind=burn')).toContain('A filtered ledger has no running balance.');
    const rows = Array.from({ length: 60 }, (_, i) => ({
      orgId: organization.id,
      livemode: true,
      productId: product.id,
      grantId: product.id,
      kind: 'return' as const,
      hour: new Date(service.clock.now()),
      amount: '1',
      at: new Date(service.clock.now() + i - 1_000),
    }));
    await database.db.orm.insert(creditEntries).values(rows);
    const after = rows[0]!.at.toISOString().slice(0, 10);
    const { text } = await browser.get(`/dashboard/credits/ledger?from=${after}&to=${after}`, html);
    const next = /rel="next" href="[^"]*(\?[^"]*)"/.exec(text)![1]!.replaceAll('&amp;', '&');
    expect(await read(next)).toMatch(/Corrected .* \+1 −40 /);
    expect(await read()).toMatch(/60 entries Corrected Tokens Overdraft \+60\.0 .* −50 .*ending −2\.5 /);
    const file = parse<Record<string, string>>(
      (await browser.get('/dashboard/credits/ledger.csv', html)).text,
      {
        columns: true,
      },
    );
    expect(file.at(-1)).toMatchObject({ kind: 'burn', amount: '1.5', balance: '-61.5' });
    expect(file.filter(({ kind }) => kind === 'grant')).toHaveLength(3);
  });

  it('sums up a day by product and grant, leads to its entries, and names a month’s grant by its month', async () => {
    const { open, give, send, browser, product } = await scene();
    await give('once', { amount: 100, reason: 'once' });
    const [startsAt, expiresAt] = ['2046-03-01T00:00:00Z', '2046-04-01T00:00:00Z'];
    await give(`plan:credits:${startsAt}`, { amount: 100, startsAt, expiresAt, reason: 'Monthly plan' });
    for (const quantity of [1, 2, 3]) {
      await send(quantity);
      service.clock.advance(2_000);
    }
    const { text } = await browser.get('/dashboard/credits/ledger', html);
    expect(readText(text)).toMatch(/ \+97 97 \S+ Granted once \+100 3 entries Burned Tokens once −3 /);
    const own = /href="\/dashboard\/credits([^"]*)">3 entries/.exec(text)![1]!.replaceAll('&amp;', '&');
    expect(own).toMatch(new RegExp(`product=${product.slug}&grant=once&kind=burn`));
    expect(await open(own)).toMatch(/ −1\.5 .* −1\.0 .* −0\.5 /);
    expect(await open()).toContain('Monthly plan, March 2046');
  });

  it('has whole days on each page, however many entries they have', async () => {
    const { organization, product, browser, open } = await scene();
    const rows = Array.from({ length: 20 * 150 }, (_, i) => ({
      orgId: organization.id,
      livemode: true,
      productId: product.id,
      grantId: product.id,
      kind: 'burn' as const,
      at: new Date(Date.parse('2026-01-20T23:59:59.999Z') - Math.floor(i / 150) * DAY_MS - (i % 150)),
      hour: new Date('2026-01-05T10:00:00Z'),
      amount: '1',
    }));
    await database.db.orm.insert(creditEntries).values(rows);
    const { text } = await browser.get('/dashboard/credits/ledger', html);
    expect(text.match(/150 entries/g)).toHaveLength(14);
    expect(readText(text)).toMatch(/20 Jan 2026 −150 0 150 entries .* 7 Jan 2026 −150 1,950 150 entries/);
    const next = /rel="next" href="\/dashboard\/credits([^"]*)"/.exec(text)![1]!;
    expect(next).toBe('/ledger?cursor=2026-01-07');
    expect(await open(next)).toMatch(
      /6 Jan 2026 −150 2,100 150 entries .* 1 Jan 2026 −150 2,850 150 entries/,
    );
    expect((await browser.get('/dashboard/credits/ledger?cursor=2026-02-31', html)).status).toBe(400);
  });

  it('continues over pages, and the file has all entries', async () => {
    const { organization, product, browser } = await scene();
    const at = Date.parse('2026-01-05T10:00:00Z');
    const rows = Array.from({ length: 2_100 }, (_, i) => ({
      orgId: organization.id,
      livemode: true,
      productId: product.id,
      grantId: product.id,
      kind: 'burn' as const,
      at: new Date(at + i),
      hour: new Date(at),
      amount: `0.${String(i + 1).padStart(12, '0')}`,
    }));
    await database.db.orm.insert(creditEntries).values(rows);
    const csv = (await browser.get('/dashboard/credits/ledger.csv', html)).text
      .trimEnd()
      .split('\r\n')
      .slice(1);
    expect(csv.map((line) => line.split(',')[5])).toEqual(
      rows.map(({ amount }) => amount.replace(/0+$/, '')).toReversed(),
    );
    // Without a grant, the balance after the oldest entry lies above today's by all later entries.
    expect(csv.at(-1)!.split(',')[7]).toBe(sumDecimals(rows.slice(1).map(({ amount }) => amount)));
    const seen: string[] = [];
    let path: string | undefined = '/dashboard/credits/ledger?kind=burn&from=2026-01-05&to=2026-01-05';
    while (path !== undefined && seen.length < 200) {
      const { text: page } = await browser.get(path, html);
      seen.push(
        ...[...page.matchAll(/−(?:<span class="nowrap">)?(0\.\d+)</g)].map(([, amount]) =>
          amount!.replace(/0+$/, ''),
        ),
      );
      path = /rel="next" href="([^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&');
    }
    expect(seen).toEqual(
      rows
        .map(({ amount }) => amount.replace(/0+$/, ''))
        .toReversed()
        .slice(0, seen.length),
    );
    expect(seen.length).toBe(200);
  });
});

it('the file of usage has the credits of each day and key, for each part', async () => {
  const { browser, send } = await scene();
  await send(3, { dimensions: { model: 'large' }, subject: 'ada' });
  await send(5, { dimensions: { model: 'small' } });
  const rows = async (query: string) =>
    parse<Record<string, string>>((await browser.get(`/dashboard/usage.csv?${query}`)).text, {
      columns: true,
    });
  const [row, ...others] = await rows('');
  expect(others).toEqual([]);
  expect(row).toMatchObject({ quantity: '8', events: '2', credits: '8.5', api_key_name: 'test key' });
  expect(row!.api_key_id).toMatch(/^[\da-f-]{36}$/);
  expect(await rows('dimension.model=large')).toMatchObject([{ quantity: '3', credits: '6' }]);
  expect(await rows('subject=ada')).toMatchObject([{ quantity: '3', credits: '6', api_key_id: '' }]);
  expect(await rows('mode=test')).toEqual([]);
});

it('an event shows what it cost, and its product what it costs', async () => {
  const { browser, send, product } = await scene();
  const key = await send(3, { dimensions: { model: 'large' } });
  const event = readText((await browser.get(`/dashboard/usage?event=${key}`, html)).text);
  expect(event).toMatch(/Credits 6 at 2 for each call/);
  const list = readText((await browser.get(`/dashboard/usage?product=${product.slug}`, html)).text);
  expect(list).toMatch(/API key Quantity Credits .* 3 calls 6 credits /);
  expect(readText((await browser.get('/dashboard/usage', html)).text)).toMatch(
    /Credits 6 0\.5 credits per call; large 2 /,
  );
  expect(
    readText(
      (await browser.get(`/dashboard/usage?product=${product.slug}&dimension.model=large`, html)).text,
    ),
  ).toMatch(/Credits 6 2 credits per call (?!;)/);
  expect(readText((await browser.get('/dashboard/entitlements', html)).text)).toContain(
    '0.5 credits for each call ; large 2',
  );
});

it('another Organization sees none of it', async () => {
  const { give, send, product } = await scene();
  await give('secret-key', { amount: 10 });
  const key = await send(2);
  const { browser } = await signedIn(database.db, service.url);
  for (const path of [
    '',
    '?mode=live',
    `/ledger?product=${product.slug}`,
    '/ledger?grant=secret-key',
    '/ledger.csv',
  ])
    expect((await browser.get(`/dashboard/credits${path}`, html)).text).not.toMatch(
      /secret-key<|secret-key,|,burn,|−1</,
    );
  expect((await browser.get(`/dashboard/usage?event=${key}`, html)).text).not.toContain('for each unit');
});
