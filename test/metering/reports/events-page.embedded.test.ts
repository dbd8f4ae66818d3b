import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parse } from 'csv-parse/sync';
import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database, Orm } from '../../../src/core/db/client.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { archiveMonth, eachOpenMonth } from '../../../src/metering/archive/archive.js';
import type { roles } from '../../../src/accounts/organizations/table.js';
import { type Browser, signedIn } from '../../support/accounts.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createFolder, send } from '../commands/send/run-send.js';
import { createProduct, grant } from '../support/products.js';
import { fillUsage } from '../support/usage-events.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { until } from '../../support/until.js';
import { useDatabase, useServiceOn } from '../../support/use.js';

const NOW = '2031-03-15T12:00:00Z';
const PATH = '/dashboard/usage';
const FILE = '/dashboard/usage/events.csv';
const html = { accept: 'text/html' };

const database = useDatabase();
const service = useServiceOn(() => watched(database.db));

/** Number of event queries (reset before each CSV download), and a hook that runs before each one. */
const reads = { count: 0, before: () => undefined as void };
beforeAll(() => service.clock.set(NOW));

/** Wraps the database to count reads of events and optionally fail them. */
function watched(db: Database): Database {
  const execute = (query: Parameters<Orm['execute']>[0]) => {
    const { sql } = (
      db.orm as unknown as { dialect: { sqlToQuery(q: unknown): { sql: string } } }
    ).dialect.sqlToQuery(query);
    if (/from usage_events/.test(sql)) {
      reads.count++;
      reads.before();
    }
    return db.orm.execute(query);
  };
  const orm = new Proxy(db.orm, {
    get: (target, name) => (name === 'execute' ? execute : (Reflect.get(target, name) as unknown)),
  });
  return { ...db, orm };
}

async function arrive(role: (typeof roles)[number] = 'owner') {
  const { db } = database;
  const { organization, browser } = await signedIn(db, service.url, role);
  const product = await createProduct(db);
  await grant(db, organization.id, product.id);
  const key = await createKey(db, organization.id, { name: 'the runtime' });
  const open = (query: Record<string, string> = {}) =>
    browser.get(`${PATH}?${new URLSearchParams(query).toString()}`, html);
  const fill = (
    count: number,
    more: { prefix?: string; from?: string; everyMs?: number; livemode?: boolean } = {},
  ) =>
    fillUsage(db, {
      orgId: organization.id,
      productId: product.id,
      apiKeyId: key.id,
      count,
      prefix: 'event ',
      from: '2031-03-01T00:00:00Z',
      everyMs: 1,
      ...more,
    });
  return { db, orgId: organization.id, browser, product, key, open, fill };
}

const textOf = (page: string) => page.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
const keysOn = (page: string) =>
  [...page.matchAll(/<span class="visually-hidden"> <bdi>([^<]*)<\/bdi><\/span>/g)].map(([, key]) => key!);

describe('an event', () => {
  it('is found by exactly its idempotency key, with everything that was recorded', async () => {
    const { product, key, open } = await arrive();
    const event = { quantity: 0.1, occurredAt: '2031-03-14T23:59:59.123456Z' };
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'Order 1,"é"', event)]);
    const page = await open({ event: 'Order 1,"é"' });
    expect(page.status).toBe(200);
    const text = textOf(page.text);
    for (const part of [
      'Recorded once',
      `0.1 calls , ${product.name}`,
      product.name,
      'the runtime',
      '14 Mar 2031, 23:59:59.123456 UTC',
      '15 Mar 2031, 12:00:00 UTC',
    ])
      expect(text).toContain(part);
    expect(page.text).toContain(`href="/dashboard/api-keys/${key.id}"`);
    for (const other of ['order 1,"é"', 'Order 1,"é" ', 'rder 1', '%'])
      expect(textOf((await open({ event: other })).text)).toContain('Not found');
    expect(textOf((await open({ event: 'Order 1,"é" ' })).text)).toContain('begins or ends with a space');
  });

  it('is found by the start of its key, and several are listed', async () => {
    const { fill, open } = await arrive();
    await fill(3, { prefix: 'of a job ' });
    await fill(25, { prefix: 'of another job ' });
    const page = await open({ event: 'of a j' });
    expect(textOf(page.text)).toContain('3 events Close');
    expect(textOf(page.text)).toContain('Their idempotency keys begin with of a j .');
    expect(
      page.text.match(/href="[^"]*event=of(%20|\+)a(%20|\+)job[^>]*><bdi>of a job 0000000[0-2]</g),
    ).toHaveLength(3);
    expect(textOf(page.text)).toMatch(
      /of a job 00000000 Product \S+ 1 Mar, [\d:]+ the runtime \d+ calls? of a job/,
    );
    expect(textOf((await open({ event: 'of a job 00000002' })).text)).toContain('Recorded once');
    const only = (await open({ event: 'of another job 00000024' })).text;
    expect(textOf(only)).toContain('of another job 00000024');
    expect(textOf(only)).toContain('Recorded once');
    expect(textOf((await open({ event: 'of another' })).text)).toMatch(
      /More than 20 events .* Enter more of the key/,
    );
    // The list shows the short keys, too.
    expect(textOf((await open()).text)).toContain('of another job 00000024 of another j…');
  });

  it('in test mode warns that a live event with the same key does not count', async () => {
    const { open, fill } = await arrive();
    await fill(1, { prefix: 'live ' });
    await fill(1, { prefix: 'test ', livemode: false });
    const warning = 'A live event with the same key is treated as a repeat';
    expect(textOf((await open({ event: 'test 00000000' })).text)).toContain(warning);
    expect(textOf((await open({ event: 'live 00000000' })).text)).not.toContain(warning);
  });

  it('keeps its own product and mode chosen in the filters below', async () => {
    const { db, orgId, product, key, open } = await arrive();
    const other = await createProduct(db);
    await grant(db, orgId, other.id);
    for (const { slug } of [product, other]) {
      await sendUsage(service.url, key.secret, [usageEvent(slug, `of ${slug}`)]);
      const { text } = await open({ event: `of ${slug}` });
      expect([...text.matchAll(/<option value="([^"]*)" selected/g)].map(([, value]) => value)).toContain(
        slug,
      );
    }
    const testKey = await createKey(db, orgId, { livemode: false });
    await sendUsage(service.url, testKey.secret, [usageEvent(product.slug, 'a test')]);
    expect((await open({ event: 'a test' })).text).toContain('name="mode" value="test"');
  });

  it('of another Organization is not found, and its existence is not revealed', async () => {
    const stranger = await arrive();
    await sendUsage(service.url, stranger.key.secret, [usageEvent(stranger.product.slug, 'theirs')]);
    const { open, browser } = await arrive();
    const page = await open({ event: 'theirs' });
    expect(textOf(page.text)).toContain('Not found');
    expect(page.text).not.toContain(stranger.product.name);
    expect((await open({ product: stranger.product.slug })).status).toBe(404);
    expect((await browser.get(`${FILE}?product=${stranger.product.slug}`)).status).toBe(404);
  });
});

describe('the list', () => {
  it('pages through all events newest first, live and test separately', async () => {
    const { open, fill, browser } = await arrive();
    // Creates ten events with each timestamp, so that the idempotency key decides the order.
    for (let i = 0; i < 12; i++)
      await fill(10, { prefix: `${'abcdefghijkl'[i]!}-`, everyMs: 0, from: `2031-03-01T00:00:0${i % 4}Z` });
    await fill(1, { prefix: 'test-', livemode: false });
    const seen: string[] = [];
    let page = await open();
    for (;;) {
      seen.push(...keysOn(page.text));
      const next = /rel="next" href="([^"#]*)/.exec(page.text)?.[1];
      if (next === undefined) break;
      page = await browser.get(next.replaceAll('&amp;', '&'), html);
      expect(page.status).toBe(200);
    }
    expect(seen).toHaveLength(120);
    expect(new Set(seen).size).toBe(120);
    const second = (key: string) => 'abcdefghijkl'.indexOf(key[0]!) % 4;
    expect(seen).toEqual(seen.toSorted((a, b) => second(b) - second(a) || (a < b ? 1 : -1)));
    expect(keysOn((await open({ mode: 'test' })).text)).toEqual(['test-00000000']);
  });

  it('contains the events of the period, of its hour, and of all products', async () => {
    const { db, orgId, key, product, open, fill } = await arrive();
    await fill(2, { prefix: 'now ', from: '2031-03-15T07:59:59.999Z' });
    await fill(1, { prefix: 'before ', from: '2031-02-28T23:59:59Z' });
    expect(keysOn((await open()).text)).toEqual(['now 00000001', 'now 00000000']);
    const day = { range: 'day', date: '2031-03-15' };
    expect(keysOn((await open({ ...day, hour: '08' })).text)).toEqual(['now 00000001']);
    expect(keysOn((await open({ ...day, hour: '09' })).text)).toEqual([]);
    expect(keysOn((await open({ range: 'month', month: '2031-02' })).text)).toEqual(['before 00000000']);
    const other = await createProduct(db);
    await grant(db, orgId, other.id);
    await sendUsage(service.url, key.secret, [usageEvent(other.slug, 'of the other')]);
    expect(keysOn((await open()).text)).toEqual(['of the other', 'now 00000001', 'now 00000000']);
    expect(keysOn((await open({ product: product.slug })).text)).toEqual(['now 00000001', 'now 00000000']);
  });

  it('is refreshed by a script while the period runs, and can be paused', async () => {
    const { open, fill } = await arrive();
    await fill(1);
    const { text } = await open();
    expect(text).toMatch(/id="events"[^>]* data-live="5"/);
    expect(text).toContain('data-pause');
    expect(text).toMatch(/<noscript><a [^>]*href="[^"]*#events">Refresh/);
    expect((await open({ range: 'month', month: '2031-02' })).text).not.toContain('data-live');
  });

  it('is open on a phone if the address chooses among events', async () => {
    const { open, fill } = await arrive();
    await fill(11);
    const isOpen = async (query?: Record<string, string>) =>
      /id="events"[^]*?<details class="card fold" open>/.test((await open(query)).text);
    expect(await isOpen()).toBe(false);
    expect(await isOpen({ event: 'none' })).toBe(true);
  });

  it('explains how to send the first event, and tells a new Organization who grants products', async () => {
    const { open } = await arrive();
    expect(textOf((await open()).text)).toContain('No live events yet');
    const { browser } = await signedIn(database.db, service.url);
    expect(textOf((await browser.get(PATH, html)).text)).toContain('No products yet');
  });

  it.each([
    [{ mode: 'x' }, 'Must be live or test.'],
    [{ range: 'day', hour: '24' }, 'Must be an hour from 00 to 23.'],
    [{ event: 'a\u0000' }, 'Must be 1 to 255 characters without control characters.'],
    [{ event: 'x'.repeat(300) }, 'Must be 1 to 255 characters'],
    [{ cursor: 'AAAA' }, 'Not a cursor from this list.'],
    [
      { cursor: Buffer.from('2031-02-30T00:00:00.000000Z x').toString('base64url') },
      'Not a cursor from this list.',
    ],
    [{ product: "' or 1=1" }, 'Must be 1 to 64 of a-z'],
  ])('%j is refused beside its field', async (query, message) => {
    const { open } = await arrive();
    const page = await open(query);
    expect(page.status).toBe(400);
    expect(textOf(page.text)).toContain(message);
    expect(page.text).not.toContain('id="events"');
    expect(page.text).not.toContain('AppError');
  });
});

describe('the CSV file', () => {
  it('of 20,000 events is complete and in order, compressed or not', async () => {
    const { browser, fill, product } = await arrive();
    // The two series share some timestamps, including across batch boundaries.
    for (let i = 0; i < 2; i++) await fill(10_000, { prefix: `${i}-`, everyMs: i === 0 ? 1 : 7 });
    for (const headers of [{}, { 'accept-encoding': 'identity' }]) {
      reads.count = 0;
      const answer = await browser.get(`${FILE}?from=2031-02-01T00:00`, headers);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-disposition')).toBe(
        `attachment; filename="events-${product.slug}-live-20310201T0000Z-to-20310315T1200Z.csv"`,
      );
      const rows = parse<{ occurred_at: string; idempotency_key: string }>(answer.text, { columns: true });
      expect(rows).toHaveLength(20_000);
      const order = rows.map((row) => `${row.occurred_at} ${row.idempotency_key}`);
      expect(order).toEqual(order.toSorted());
      expect(new Set(order).size).toBe(20_000);
      expect(reads.count).toBe(11);
    }
  });

  it('contains each event exactly, and no formulas', async () => {
    const { db, browser, key, product } = await arrive();
    await db.orm.update(products).set({ usageMetric: '@metric' }).where(eq(products.id, product.id));
    await db.orm.update(apiKeys).set({ name: '=name,"x"' }).where(eq(apiKeys.id, key.id));
    const [{ prefix } = { prefix: '' }] = await db.orm.select().from(apiKeys).where(eq(apiKeys.id, key.id));
    const sent = ['=cmd|calc', '+1', '-1', '@x', 'plain, with "quotes"'];
    await sendUsage(
      service.url,
      key.secret,
      sent.map((id, i) => ({
        ...usageEvent(product.slug, id, { metric: '@metric', quantity: 0.1 }),
        occurredAt: `2031-03-14T00:00:00.00000${i}Z`,
      })),
    );
    const rows = parse<Record<string, string>>((await browser.get(FILE)).text, { columns: true });
    expect(rows.map((row) => row.idempotency_key)).toEqual(["'=cmd|calc", "'+1", "'-1", "'@x", sent[4]]);
    expect(rows[1]).toEqual({
      idempotency_key: "'+1",
      occurred_at: '2031-03-14T00:00:00.000001Z',
      received_at: '2031-03-15T12:00:00.000000Z',
      quantity: '0.1',
      metric: "'@metric",
      product: product.slug,
      mode: 'live',
      api_key_id: key.id,
      api_key_name: `'=name,"x"`,
      api_key_prefix: prefix,
      counted_quantity: '0.1',
      corrected_at: '',
      corrected_by: '',
      correction_reason: '',
      subject: '',
      credits: '',
    });
  });

  it('has the credits that each event costs now', async () => {
    const { db, browser, key, product } = await arrive();
    await db.orm
      .update(products)
      .set({ creditPrice: '0.5', creditEnforcement: 'warn' })
      .where(eq(products.id, product.id));
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'priced', { quantity: 3 })]);
    const rows = parse<Record<string, string>>((await browser.get(FILE)).text, { columns: true });
    expect(rows).toMatchObject([{ idempotency_key: 'priced', credits: '1.5' }]);
  });

  it('counts nothing twice if it is sent back, and everything once elsewhere', async () => {
    const { db, browser, key, product } = await arrive();
    await db.orm
      .update(products)
      .set({ dimensions: ['model'], subjectsSince: new Date(0) })
      .where(eq(products.id, product.id));
    const keys = ['=cmd', '-1', "'-1", '\uff1d2', ' +3', "it's", 'a;=b,"c"'];
    const events = keys.map((id, i) => ({
      ...usageEvent(product.slug, id, { quantity: i + 0.5 }),
      occurredAt: '2031-03-14T00:00:00.000001Z',
      ...(i % 2 ? { subject: `-user ${i}`, dimensions: { model: `@m${i}` } } : {}),
    }));
    expect((await sendUsage(service.url, key.secret, events)).status).toBe(202);
    const folder = createFolder();
    const file = folder.path('events.csv');
    writeFileSync(file, (await browser.get(FILE)).text);
    const sendTo = async (secret: string) =>
      (await send([file, '--json'], { GAUGE_URL: service.url, GAUGE_API_KEY: secret })).summary;
    expect(await sendTo(key.secret)).toMatchObject({ accepted: 0, deduped: keys.length, warnings: [] });
    const other = await createOrganization(db);
    await grant(db, other.id, product.id);
    const otherKey = await createKey(db, other.id);
    expect(await sendTo(otherKey.secret)).toMatchObject({ accepted: keys.length, rejected: 0 });
    const again = await sendUsage(service.url, otherKey.secret, events);
    expect(again.body).toMatchObject({ accepted: 0, deduped: keys.length, warnings: [] });
    folder.remove();
  });

  it('has its header even without events', async () => {
    const { browser } = await arrive();
    const answer = await browser.get(`${FILE}?mode=test`);
    expect(answer.text).toMatch(/^idempotency_key,[a-z_,]+\r\n$/);
  });

  it('is read no faster than the client takes it, and stops once the client hangs up', async () => {
    const { browser, fill } = await arrive();
    // About 24 MB, more than the buffers between server and client hold.
    await fill(20_000, { prefix: '🚀'.repeat(240) });
    reads.count = 0;
    const response = await download(browser);
    await until(() => reads.count > 1);
    let before = 0;
    while (before !== reads.count) {
      before = reads.count;
      await setTimeout(400);
    }
    expect(reads.count).toBeLessThan(9);
    response.destroy();
    await setTimeout(300);
    expect(reads.count).toBeLessThanOrEqual(before + 1);
    expect((await browser.get(PATH, html)).status).toBe(200);
  });

  it('breaks off if the database fails, so that the client sees it is incomplete', async () => {
    const { browser, fill } = await arrive();
    await fill(10_000);
    let left = 3;
    reads.before = () => {
      if (left-- === 0) throw Object.assign(new Error('injected'), { code: '57P01' });
    };
    try {
      const response = await download(browser);
      let text = '';
      const ended = new Promise<string>((resolve) => {
        response.on('end', () => resolve('whole'));
        response.on('error', (error) => resolve((error as { code?: string }).code ?? 'broken'));
      });
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      expect(await ended).toBe('ECONNRESET');
      expect(text.split('\r\n').length).toBeLessThan(6_100);
      // If the export fails before the first byte, the response is an ordinary error.
      left = 0;
      expect((await browser.get(FILE)).status).toBe(503);
    } finally {
      reads.before = () => undefined;
    }
    expect((await browser.get(FILE)).status).toBe(200);
  });

  it('is not read at all for a HEAD request', async () => {
    const { browser, fill } = await arrive();
    await fill(5_000);
    reads.count = 0;
    expect((await browser.send('HEAD', FILE)).headers.get('content-type')).toContain('text/csv');
    expect(reads.count).toBe(1);
  });
});

/** Starts downloading the CSV file of all events, without reading the response body yet. */
function download(browser: Browser): Promise<IncomingMessage> {
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  return new Promise((resolve, reject) => {
    get(`${browser.url}${FILE}`, { headers: { cookie } }, resolve).on('error', reject);
  });
}

describe('the filters', () => {
  it('by API key, dimension and subject show only matching events, on the page and in the file', async () => {
    const { db, orgId, browser, product, key, open } = await arrive();
    await db.orm
      .update(products)
      .set({ dimensions: ['region', 'model'], subjectsSince: new Date(0) })
      .where(eq(products.id, product.id));
    const other = await createKey(db, orgId, { name: 'the other' });
    const send = (secret: string, id: string, model: string, subject: string) =>
      sendUsage(service.url, secret, [
        usageEvent(product.slug, id, { dimensions: { model, region: 'eu' }, subject }),
      ]);
    await send(key.secret, 'a', 'large', 'ada');
    await send(key.secret, 'b', 'small', 'ben');
    await send(other.secret, 'c', 'small', 'ada');
    const shown = async (query: Record<string, string>) => {
      const list = keysOn((await open(query)).text);
      const text = (
        await browser.get(`${FILE}?${new URLSearchParams({ range: 'month', ...query }).toString()}`)
      ).text;
      const file = parse<{ idempotency_key: string }>(text, { columns: true });
      expect(list.toReversed()).toEqual(file.map((row) => row.idempotency_key));
      return list;
    };
    expect(await shown({ key: other.id })).toEqual(['c']);
    expect(await shown({ 'dimension.model': 'small' })).toEqual(['c', 'b']);
    expect(await shown({ 'dimension.model': 'small', key: key.id })).toEqual(['b']);
    expect(await shown({ subject: 'ada' })).toEqual(['c', 'a']);
    expect(await shown({ 'dimension.region': 'us' })).toEqual([]);
    const addable = async (query: Record<string, string>) =>
      [...(await open(query)).text.matchAll(/id="add-([^"]+)"\s+name="\1"/g)].map(([, name]) => name);
    expect(await addable({})).toEqual(['key', 'subject', 'dimension.region', 'dimension.model']);
    expect(await addable({ subject: 'ada', 'dimension.model': 'small' })).toEqual(['dimension.region']);
    const kept = (await open({ subject: 'ada', range: 'last7' })).text;
    expect(kept).toContain('<input type="hidden" name="subject" value="ada">');
    expect(kept).toContain('<input type="hidden" name="range" value="last7">');
    const namesOn = async (query: Record<string, string>) =>
      [...(await open(query)).text.matchAll(/data-panel data-row><bdi>([^<]*)</g)].map(([, name]) => name);
    expect(await namesOn({})).toEqual(['eu · small · ada', 'eu · small · ben', 'eu · large · ada']);
    expect(await namesOn({ subject: 'ada' })).toEqual(['eu · small', 'eu · large']);
    const unnamed = { 'dimension.model': 'small', 'dimension.region': 'eu' };
    expect(await namesOn({ ...unnamed, key: key.id })).toEqual(['ben']);
    await sendUsage(service.url, other.secret, [usageEvent(product.slug, 'd')]);
    expect(await namesOn({ key: other.id })).toEqual(['the other', 'eu · small · ada']);
    await grant(db, orgId, (await createProduct(db)).id);
    expect(textOf((await open()).text)).toMatch(new RegExp(`${product.name} c eu · small · ada c 12:00 `));
    expect(await addable({})).toEqual(['key', 'subject']);
    expect(await addable({ key: key.id })).toEqual([]);
  });

  it('examine a bounded number of events at a time, and the next page continues after them', async () => {
    const { db, orgId, product, key, open, fill } = await arrive();
    await fill(5_100, { everyMs: 60_000, from: '2031-03-10T00:00:00Z' });
    const other = await createKey(db, orgId, { name: 'seldom' });
    const event = { orgId, productId: product.id, apiKeyId: other.id, count: 1, everyMs: 1 };
    await fillUsage(db, { ...event, prefix: 'old ', from: '2031-03-10T00:00:30Z' });
    const first = await open({ key: other.id });
    expect(textOf(first.text)).toContain('No events found so far');
    const next = /rel="next" href="([^"#]+)/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    const second = await open(Object.fromEntries(new URLSearchParams(next.split('?')[1])));
    expect(keysOn(second.text)).toEqual(['old 00000000']);
    expect(second.text).not.toContain('rel="next"');
    const pages: string[] = [];
    for (let query: Record<string, string> | undefined = { key: key.id }; query;) {
      const { text } = await open(query);
      pages.push(...keysOn(text).map(String));
      const href = /rel="next" href="([^"#]+)/.exec(text)?.[1]?.replaceAll('&amp;', '&');
      query =
        href === undefined || pages.length > 160
          ? undefined
          : Object.fromEntries(new URLSearchParams(href.split('?')[1]));
    }
    expect(new Set(pages).size).toBe(pages.length);
    expect(pages[0]).toBe('event 00005099');
  });

  it('name an invalid field, and do not recognise a key of another Organization', async () => {
    const { open } = await arrive();
    const stranger = await arrive();
    for (const [query, says] of [[{ key: "x' or 1=1" }, 'Must be an API key']] as const) {
      const page = await open(query);
      expect([page.status, textOf(page.text)]).toEqual([400, expect.stringContaining(says)]);
    }
    const foreign = await open({ key: stranger.key.id });
    expect([foreign.status, textOf(foreign.text)]).toEqual([404, expect.stringContaining('Not an API key')]);
    expect(foreign.text).not.toContain('the runtime (');
  });

  it('are in UTC, like the times of the rows', async () => {
    const { open, fill } = await arrive();
    await fill(1);
    await fill(1, { prefix: 'a key that is too long ', from: '2031-03-15T11:58:59.999Z' });
    const list = await open();
    expect(list.text).not.toMatch(/data-label="Occurred"><time [^>]* data-zoned/);
    // The heading says UTC for all rows, and only days before today have a name.
    const rows = textOf(list.text).split('Events (UTC)').at(-1)!;
    expect(rows).toMatch(/ a key that i… 11:58 .* event 00000000 1 Mar, 00:00 /);
    expect(rows).not.toContain('UTC');
    const [, panel] = (await open({ event: 'event 00000000' })).text.split('class="side-panel"');
    expect(panel).toContain('1 Mar 2031, 00:00:00 UTC');
    expect(panel).not.toContain('data-zoned');
  });
});

it('archived events are mentioned, with their number and date, wherever they would have been listed', async () => {
  const { orgId, product, browser, open, fill } = await arrive();
  await fill(3, { prefix: 'old ', from: '2029-01-31T23:59:59.999Z' });
  const dir = mkdtempSync(join(tmpdir(), 'gauge-archived-pages-'));
  const { orm } = database.db;
  const options = { orm, clock: service.clock, dir, chunkSize: 10, rest: 0, onEvents: () => undefined };
  for await (const month of eachOpenMonth(orm, '2029-03-01', orgId))
    await archiveMonth({ ...options, signal: new AbortController().signal }, month);
  rmSync(dir, { recursive: true });
  const archiveNotice = (page: { text: string }) =>
    / [^.]* archived , the last on 15 Mar 2031/.exec(textOf(page.text))?.[0];

  const both = { product: product.slug, range: 'custom', from: '2029-01-01', to: '2029-02-28' };
  expect(archiveNotice(await open(both))).toContain(
    '3 events from January 2029 to February 2029 are archived',
  );
  expect(archiveNotice(await open({ ...both, to: '2029-01-31' }))).toContain('1 event of January 2029 is');
  expect(archiveNotice(await open({ product: product.slug }))).toBeUndefined();
  expect(archiveNotice(await open({ ...both, mode: 'test' }))).toBeUndefined();
  const one = await open({ event: 'old 00000000' });
  expect(textOf(one.text)).toMatch(/Not found .* 3 events from .* are archived .* it would count twice/);

  const month = { product: product.slug, range: 'month', month: '2029-02' };
  const usage = await browser.get(`/dashboard/usage?${new URLSearchParams(month).toString()}`, html);
  expect(archiveNotice(usage)).toContain('2 events of February 2029 are archived');
  expect(textOf(usage.text)).toMatch(/Used 2 (▲|▼|=|calls)/);
  const log = await browser.get('/dashboard/audit-log', html);
  expect(textOf(log.text)).toMatch(/Archived live 1 event of January 2029/);
  expect(archiveNotice(await (await arrive()).open({}))).toBeUndefined();
});
