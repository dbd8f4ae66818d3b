import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eq, ne, notInArray, sql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { z } from 'zod';
import type { DemoData } from '../../src/demo/demo.js';
import { products } from '../../src/products.js';
import { readDemo, writeDemo } from '../../src/demo/demo.js';
import { describeDemo } from '../../src/greeting.js';
import { createDemoPortal, seedDemo } from '../../src/demo/seed.js';
import { seedDemoTrading } from '../../src/markets/demo/trading.js';
import { seedDemoUsage } from '../../src/metering/demo/usage.js';
import { codeAt } from '../../src/accounts/identity/second-factor/totp.js';
import { verifyPassword } from '../../src/accounts/identity/password.js';
import { apiKeyCalls, apiKeys, apiKeyScopeUse } from '../../src/accounts/api-keys/table.js';
import { readPeopleFacts } from '../../src/accounts/identity/users/queries.js';
import { organizations, users } from '../../src/accounts/organizations/table.js';
import { executionMarks } from '../../src/markets/execution/table.js';
import { readPriceHistory } from '../../src/markets/snapshot/price-history.js';
import { tradingFills, tradingOrders } from '../../src/markets/ledger/orders-table.js';
import { ledgerEntries, tradingAccounts } from '../../src/markets/ledger/portfolio-table.js';
import type { executionSchema } from '../../src/markets/execution/schema.js';
import { selectRows } from '../../src/core/db/sql.js';
import { readCredits } from '../../src/metering/credit-grants/credits.js';
import { DAY_MS } from '../../src/core/time.js';
import { usageEvents } from '../../src/metering/ingestion/table.js';
import { organizationPlans } from '../../src/metering/plans/table.js';
import { capNotices } from '../../src/metering/notices/table.js';
import { Browser, createUser, PASSWORD } from '../support/accounts.js';
import { createTestDatabase, isEmbedded, type TestDatabase } from '../support/database.js';
import { verify } from '../accounts/audit/support.js';
import { createOrganization } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';
import { startTestService, type TestService } from '../support/service.js';
import { findCreditDrift } from '../metering/support/credits.js';
import { readUsage } from '../metering/support/usage.js';

const inTrial = ['aurora-grid', 'tromso-robotics'];

const parts = products.map(({ demo }) => demo);

const run = promisify(execFile);

let database: TestDatabase;
let service: TestService;
let folder: string;
async function setUp(template?: string) {
  database = await createTestDatabase(template);
  folder = mkdtempSync(join(tmpdir(), 'gauge-demo-'));
  service = await startTestService(database.db, { env: { DATA_DIR: join(folder, 'data') } });
}
/** The demo is created once, and most tests start from a copy of it. */
let seeded: {
  template: string;
  demo: DemoData;
  /** The results of two concurrent attempts to create the demo. */
  results: (DemoData | undefined)[];
  /** File modes of the demo's file and folder, and the file's contents just after its creation. */
  modes: number[];
  remembered: DemoData | undefined;
  remove(): Promise<void>;
};
beforeAll(async () => {
  await setUp();
  const made = database;
  expect(await readDemo(service.context, parts)).toBeUndefined();
  const results = await Promise.all([seedDemo(service.context, parts), seedDemo(service.context, parts)]);
  const demo = results.find((each) => each !== undefined)!;
  const modes = [file(), join(folder, 'data')].map((path) => statSync(path).mode & 0o777);
  const remembered = await readDemo(service.context, parts);
  await service.stop();
  seeded = {
    demo,
    results,
    modes,
    remembered,
    template: await made.becomeTemplate(),
    remove: () => made.remove(),
  };
  rmSync(folder, { recursive: true, force: true });
});
afterAll(() => seeded.remove());
async function setUpSeeded() {
  await setUp(seeded.template);
  await writeDemo(service.context.config.dataDir, seeded.demo);
}
async function tearDown() {
  await service.stop();
  await database.remove();
  rmSync(folder, { recursive: true, force: true });
}
const call = operatorClient(() => service);

const file = () => join(folder, 'data', 'demo.json');

describe('a seeded database', () => {
  beforeAll(setUpSeeded);
  afterAll(tearDown);

  describe('the demo data', () => {
    const members = () => seeded.demo.logins.filter(({ role }) => role !== 'operator');

    it('are created once, even if two instances start together', async () => {
      expect(seeded.results.filter((demo) => demo !== undefined)).toHaveLength(1);
      expect(await seedDemo(service.context, parts)).toBeUndefined();
      expect(await database.db.orm.$count(organizations)).toBe(7);
    });

    it('have every role, a person in two Organizations and every kind of product', async () => {
      expect(new Set(seeded.demo.logins.map((login) => login.role))).toEqual(
        new Set(['owner', 'admin', 'member', 'billing', 'operator']),
      );
      expect(new Set(members().map((login) => login.organization)).size).toBe(6);
      const people = new Set(members().map((login) => login.email));
      expect(people.size).toBe(members().length - 1);
      expect(seeded.demo.products.some((p) => p.kind === 'live' && p.unitCap !== null)).toBe(true);
      expect(seeded.demo.products.some((p) => p.kind === 'live' && p.unitCap === null)).toBe(true);
      expect(seeded.demo.products.some((p) => p.kind === 'read_only')).toBe(true);
      expect(seeded.demo.database).toBe(isEmbedded ? 'embedded' : 'postgres');
    });

    it('have grants of plans until the next period, so that the console names no earlier refill', async () => {
      const plans = await database.db.orm.select().from(organizationPlans);
      expect(plans.length).toBeGreaterThan(3);
      const now = Date.now() - DAY_MS;
      for (const { trialEndsAt, grantedUntil } of plans)
        if (!trialEndsAt) expect(grantedUntil.getTime()).toBeGreaterThan(now);
    });

    it('are in an audit chain without a gap for each Organization', async () => {
      const ids = (await database.db.orm.select().from(organizations)).map(({ id }) => id);
      for (const id of ids) {
        const { seq, problems } = await verify(database.db, id);
        expect([seq >= 4, problems]).toEqual([true, []]);
      }
    });

    it('have a recent entry in the audit log of the main Organization', async () => {
      const { body } = await call('GET', '/organizations/northwind-labs/audit-log');
      const { auditLog } = body as { auditLog: { at: string }[] };
      const newest = Math.max(...auditLog.map(({ at }) => Date.parse(at)));
      expect(service.clock.now() - newest).toBeLessThan(3 * DAY_MS);
    });

    it('have signed in within the last days', async () => {
      const people = await database.db.orm.select().from(users);
      const since = new Date(service.clock.now() - 4 * DAY_MS);
      const facts = await readPeopleFacts(
        database.db.orm,
        people.map(({ id }) => id),
        service.clock.now(),
      );
      const unseen = people.filter(({ id }) => Number(facts.get(id)!.lastSeenAt) < since.getTime());
      expect(unseen.map(({ email }) => email)).toEqual(['dev@northwind.example']);
    });

    it('match the operator API, and the passwords open the accounts', async () => {
      const { body } = await call('GET', '/organizations');
      const seen = [];
      for (const { slug, name } of body.organizations) {
        const { members } = (await call('GET', `/organizations/${slug}/members`)).body;
        for (const member of members) seen.push(`${member.email} ${name} ${member.role}`);
      }
      const printed = members().map((login) => `${login.email} ${login.organization} ${login.role}`);
      expect(seen).toHaveLength(printed.length);
      expect(new Set(seen)).toEqual(new Set(printed));
      for (const { email, password } of seeded.demo.logins) {
        const [user] = await database.db.orm.select().from(users).where(eq(users.email, email));
        expect(await verifyPassword(user?.passwordHash, password)).toBe('current');
      }
    });

    it('can be declared again through the operator API without a change', async () => {
      const { body } = await call('GET', '/organizations');
      for (const { slug, name } of body.organizations) {
        expect((await call('PUT', `/organizations/${slug}`, { name })).status).toBe(200);
        const { entitlements } = (await call('GET', `/organizations/${slug}/entitlements`)).body;
        const byHand = { 'northwind-labs': ['climate-archive'], 'kestrel-drones': ['forecast-api'] };
        // A plan gave the others.
        const own = byHand[slug as keyof typeof byHand] ?? [];
        for (const { productSlug, kind, limits } of entitlements.filter((each: { productSlug: string }) =>
          own.includes(each.productSlug),
        )) {
          const path = `/organizations/${slug}/entitlements/${productSlug}`;
          expect((await call('PUT', path, { kind, limits })).status).toBe(200);
        }
      }
      for (const { email, name, password } of seeded.demo.logins)
        expect((await call('PUT', `/users/${email}`, { name, password })).status).toBe(200);
      const actions = [];
      for (const path of ['', ...body.organizations.map((o: any) => `/organizations/${o.slug}`)]) {
        const { auditLog } = (await call('GET', `${path}/audit-log`)).body;
        actions.push(...auditLog.map((row: any) => row.action));
        const granted = auditLog.filter((row: { actor: string }) => row.actor === 'system');
        // The service grants a month's credits two days before it.
        for (const { action, at, details } of granted)
          expect([action, Date.parse(at)]).toEqual([
            'credits.granted',
            Date.parse(details.after.startsAt) - 2 * DAY_MS,
          ]);
        expect([path, granted.length > 0]).toEqual([path, /northwind|helios|solara|fjordline/.test(path)]);
      }
      expect(
        actions.filter((action) => !/\.(created|added|granted|started|signed_in|invited)$/.test(action)),
      ).toEqual([]);
      expect(actions.filter((action) => action === 'api_key.created')).toHaveLength(8);
    });

    it('have a live and a test key, created by the owner and stored as hashes', async () => {
      expect(seeded.demo.keys.live).toMatch(/^org_live_[0-9A-Za-z]{32}$/);
      expect(seeded.demo.keys.test).toMatch(/^org_test_[0-9A-Za-z]{32}$/);
      const rows = await database.db.orm.select().from(apiKeys);
      expect(new Set(rows.map((row) => row.livemode))).toEqual(new Set([false, true]));
      const owners = await database.db.orm.select({ email: users.email, id: users.id }).from(users);
      const names = new Map(owners.map(({ id, email }) => [id, email.split('@')[0]]));
      expect(rows.map((row) => `${row.name}: ${names.get(row.createdBy!)}`).sort()).toEqual([
        'eu-west worker: ada',
        'flight desk: sam',
        'forecast importer: elena',
        'paper trader: ada',
        'roof planner: lucia',
        'route planner: ingrid',
        'staging runtime: ada',
        'us-east worker: ada',
      ]);
      expect(JSON.stringify(rows)).not.toContain(seeded.demo.keys.live);
    });
  });

  describe('the operator of the demo', () => {
    const html = { accept: 'text/html' };
    let operator: DemoData['logins'][number];
    let pages: TestService;
    beforeAll(async () => {
      operator = seeded.demo.logins.find(({ role }) => role === 'operator')!;
      const { config } = service.context;
      pages = await startTestService(database.db, {
        env: { DATA_DIR: config.dataDir },
        app: { listDemoLogins: () => seeded.demo.logins },
      });
    });
    afterAll(() => pages.stop());

    it('is offered on the sign-in page and reaches the console with the code that the page fills in', async () => {
      const browser = new Browser(pages.url);
      const { text } = await browser.get('/login', html);
      expect(text).toContain(`name="email" value="${operator.email}"`);
      expect(text).toContain('name="next" value="/console"');
      const { email, password } = operator;
      const form = { email, password, next: '/console' };
      const { headers } = await browser.send('POST', '/login', { form });
      const asked = await browser.get(headers.get('location')!, html);
      const code = /name="code"[^>]*value="(\d{6})"/s.exec(asked.text)?.[1];
      const done = await browser.send('POST', '/login/code', { form: { code: code!, next: '/console' } });
      expect([done.status, done.headers.get('location')]).toEqual([303, '/console']);
      const console = await browser.get('/console', html);
      expect(console.status).toBe(200);
      expect(console.text).toContain('Northwind Labs');
    });

    it('can confirm its identity later with what the page fills in, but only for its own account', async () => {
      const { email, password } = operator;
      const signIn = async (url: string) => {
        const browser = new Browser(url);
        pages.clock.advance(60_000);
        service.clock.advance(60_000);
        const { headers } = await browser.signIn(email, password);
        const code = codeAt(operator.factorSecret!, pages.clock.now());
        expect(headers.get('location')).toContain('/login/code');
        await browser.send('POST', '/login/code', { form: { code } });
        return browser;
      };
      const plain = await (await signIn(service.url)).get('/confirm?next=/console/service-keys/new', html);
      expect(plain.text).toContain('href="/console">Cancel');
      expect(plain.text).not.toMatch(/Continue as|type="hidden" name="currentPassword"/);

      const browser = await signIn(pages.url);
      pages.clock.advance(11 * 60_000);
      const to = '/console/service-keys/new';
      const asked = await browser.get(to, html);
      expect(asked.headers.get('location')).toBe(`/confirm?next=${encodeURIComponent(to)}`);
      const { text } = await browser.get(asked.headers.get('location')!, html);
      expect(text).toContain(`Continue as <bdi>${operator.name}</bdi>`);
      const hidden = (name: string) =>
        new RegExp(`type="hidden" name="${name}" value="([^"]*)"`).exec(text)![1]!;
      const form = { currentPassword: hidden('currentPassword'), code: hidden('code'), next: hidden('next') };
      const wrong = await browser.send('POST', '/confirm', {
        form: { ...form, code: '000000' },
        headers: html,
      });
      expect(wrong.status).toBe(400);
      const done = await browser.send('POST', '/confirm', { form, headers: html });
      expect([done.status, done.headers.get('location')]).toEqual([303, to]);
      expect((await browser.get(to, html)).status).toBe(200);

      const stranger = await createUser(database.db, { email: 'stranger@example.com' });
      const other = new Browser(pages.url);
      await other.signIn(stranger.email, PASSWORD);
      expect((await other.get('/confirm', html)).text).not.toContain('Continue as');
    });

    it('signs in three times within a minute, each time with a code that has not been used', async () => {
      const { email, password } = operator;
      const codes: string[] = [];
      for (const steps of [2, 0, 1]) {
        pages.clock.advance(steps * 30_000);
        const browser = new Browser(pages.url);
        const form = { email, password, next: '/console' };
        const { headers } = await browser.send('POST', '/login', { form });
        const asked = await browser.get(headers.get('location')!, html);
        const code = /name="code"[^>]*value="(\d{6})"/s.exec(asked.text)![1]!;
        const done = await browser.send('POST', '/login/code', { form: { code, next: '/console' } });
        expect(done.headers.get('location')).toBe('/console');
        codes.push(code);
      }
      expect(new Set(codes).size).toBe(3);
    });

    it('gets no code from a service that does not show the demo’s logins', async () => {
      const browser = new Browser(service.url);
      expect((await browser.get('/login', html)).text).not.toContain(operator.email);
      const { headers } = await browser.signIn(operator.email, operator.password);
      const asked = await browser.get(headers.get('location')!, html);
      expect(asked.text).toContain('name="code"');
      expect(asked.text).not.toMatch(/value="\d{6}"/);
    });
  });

  describe.runIf(isEmbedded)('the greeting of the demo', () => {
    let demo: DemoData;
    beforeAll(async () => {
      demo = seeded.demo;
      await service.trading.refresher.refresh();
    });

    const lines = (text: string) => text.split('\n').map((line) => line.trim());

    it('shows the address, every login and the keys', async () => {
      const text = describeDemo(demo, service.url, service.running.products);
      expect(text).toContain(`${service.url}/login`);
      for (const { email, password, role, organization } of demo.logins) {
        const row = lines(text).find((line) => line.startsWith(email) && line.endsWith(organization));
        expect(row?.split(/ {2,}/)).toEqual([email, password, role, organization]);
      }
      expect(text).toContain(demo.keys.live);
      expect(text).toContain(demo.keys.test);
      expect(text).toContain(demo.keys.trading);
      const tableRows = text.split('\n').filter((line) => / (owner|admin|member|billing) /.test(line));
      const column = (line: string) => line.search(/ (owner|admin|member|billing) /);
      expect(new Set(tableRows.map(column)).size).toBe(1);
    });

    it('shows the operator token that the service made for itself', () => {
      const text = describeDemo(demo, service.url, service.running.products, {
        operatorToken: 'the-token',
        portalPath: '/portal/open?token=x',
      });
      expect(lines(text)).toContain('export OPERATOR_TOKEN=the-token');
      expect(lines(text)).toContain(`${service.url}/portal/open?token=x`);
    });

    it('has a link to the portal, and an Organization in a trial', async () => {
      const path = await createDemoPortal(service.context);
      const opened = await new Browser(service.url).get(path!, { accept: 'text/html' });
      expect([opened.status, opened.headers.get('location')]).toEqual([303, '/portal']);
      expect((await call('GET', '/organizations/aurora-grid/plan')).body).toMatchObject({
        plan: 'starter',
        state: 'trial',
      });
    });

    it('states the limits of the embedded database, and only there', async () => {
      const embedded = describeDemo({ ...demo, database: 'embedded' }, service.url, service.running.products);
      expect(embedded).toMatch(/for trying, and for one process/);
      expect(embedded.replaceAll('\n', ' ')).toMatch(
        /does not fsync.*survives a killed process, not a power cut/,
      );
      expect(
        describeDemo({ ...demo, database: 'postgres' }, service.url, service.running.products),
      ).not.toContain('fsync');
    });

    it('has curl lines that work when pasted, the first one twice', async () => {
      const text = describeDemo(demo, service.url, service.running.products);
      const [send = '', reserve = '', read = '', other = '', trade = '', portfolio = '', ...more] = lines(
        text,
      ).filter((line) => line.startsWith('curl '));
      expect(more).toEqual([]);
      const paste = async (line: string) => {
        const { stdout } = await run('sh', ['-c', `${line} -w '\\n%{http_code}'`]);
        const [body = '', status] = stdout.split('\n');
        return { status, body: JSON.parse(body) };
      };
      expect(await paste(send)).toMatchObject({ status: '202', body: { accepted: 1, deduped: 0 } });
      expect(await paste(send)).toMatchObject({
        status: '202',
        body: { accepted: 0, deduped: 1, warnings: [] },
      });
      expect(await paste(reserve)).toMatchObject({
        status: '201',
        body: {
          reservation: { status: 'held', productSlug: 'map-tiles', quantity: 500 },
          limits: [{ window: 'calendar_day' }, { window: 'PT5H', enforcement: 'block', held: 500 }],
        },
      });
      expect((await paste(reserve)).status).toBe('200');
      const answer = await paste(read);
      expect(answer.status).toBe('200');
      expect(answer.body.entitlements).toContainEqual(
        expect.objectContaining({ productSlug: 'forecast-api', kind: 'live', unitCap: 10_000, used: 1 }),
      );
      const ofOther = await paste(other);
      expect(ofOther.status).toBe('200');
      expect(ofOther.body.entitlements).toContainEqual(
        expect.objectContaining({ productSlug: 'forecast-api', kind: 'live' }),
      );
      const placed = await paste(trade);
      expect(placed).toMatchObject({
        status: '201',
        body: { trade: { status: 'filled', filledContracts: 5 } },
      });
      expect(await paste(trade)).toEqual({ ...placed, status: '200' });
      expect((await paste(portfolio)).body.portfolio.positions).toEqual([
        expect.objectContaining({ ticker: placed.body.trade.ticker, side: 'yes', contracts: 5 }),
      ]);
    });
  });

  describe('an existing demo', () => {
    it('is ignored if its file is damaged', async () => {
      const whole = readFileSync(file(), 'utf8');
      for (const damaged of ['', '{', '{}', 'null', whole.slice(0, -10)]) {
        writeFileSync(file(), damaged);
        expect(await readDemo(service.context, parts)).toBeUndefined();
      }
      writeFileSync(file(), whole);
    });

    it('is not shown for another database, for a key that no longer works, or in production', async () => {
      expect(await readDemo(service.context, parts)).toEqual(seeded.demo);
      const config = { ...service.context.config, production: true };
      expect(await readDemo({ ...service.context, config }, parts)).toBeUndefined();
      const now = new Date(service.clock.now());
      const cases = [
        { revokedAt: now },
        { revokedAt: null, expiresAt: now },
        { expiresAt: null, hashedSecret: 'another' },
      ];
      for (const values of cases) {
        await database.db.orm.update(apiKeys).set(values).where(eq(apiKeys.name, 'eu-west worker'));
        expect(await readDemo(service.context, parts)).toBeUndefined();
      }
    });
  });
});

describe('creating the demo data', () => {
  beforeAll(() => setUp());
  afterAll(tearDown);

  it('does not happen if there is an Organization, nor in production', async () => {
    const config = { ...service.context.config, production: true };
    expect(await seedDemo({ ...service.context, config }, parts)).toBeUndefined();
    expect(await database.db.orm.$count(organizations)).toBe(0);
    await createOrganization(database.db);
    expect(await seedDemo(service.context, parts)).toBeUndefined();
    expect(await database.db.orm.$count(users)).toBe(0);
    expect(existsSync(file())).toBe(false);
  });
});

// Recording events on Postgres has its own tests; these tests check which events the demo has.
describe.runIf(isEmbedded)('the usage of the demo', () => {
  beforeEach(setUpSeeded);
  afterEach(tearDown);

  it('is ten weeks of both products, live and test, recorded once like any events', async () => {
    const { orm } = database.db;
    const now = service.clock.now();
    for (let i = 0; i < 2; i++) await seedDemoUsage(service.context, seeded.demo);
    const used = await orm.select().from(apiKeys).where(ne(apiKeys.name, 'paper trader'));
    const begun = await orm.select().from(organizations).where(notInArray(organizations.slug, inTrial));
    for (const { id, slug } of begun) {
      const { events, drift } = await readUsage(database.db, id);
      expect(drift).toEqual([]);
      const times = events.map(({ occurredAt }) => Date.parse(occurredAt));
      expect(Math.max(...times)).toBeLessThanOrEqual(now);
      expect(now - Math.min(...times)).toBeGreaterThan(68 * DAY_MS);
      expect(await findCreditDrift(database.db, id)).toEqual([]);
      if (slug === 'northwind-labs') {
        const notices = await orm.select().from(capNotices).where(eq(capNotices.orgId, id));
        expect(notices.some(({ at }) => now - at.getTime() > 3 * DAY_MS)).toBe(true);
      }
      // A correction uses an event's time of receipt to find the credits that the event burned, so each burn entry
      // needs an event received at the entry's time.
      const [stray] = await selectRows(
        orm,
        sql`select e.at from credit_entries e where e.org_id = ${id}::uuid and e.kind = 'burn' and not exists (
          select from usage_events v where v.org_id = e.org_id and v.product_id = e.product_id and v.received_at = e.at
        ) limit 1`,
      );
      expect(stray).toBeUndefined();
      const [early] = await selectRows(
        orm,
        sql`select e.at, g.starts_at from credit_entries e join credit_grants g on g.org_id = e.org_id and g.id = e.grant_id
          where e.org_id = ${id}::uuid and e.kind = 'burn' and e.at < g.starts_at limit 1`,
      );
      expect(early).toBeUndefined();
      const { balance, overdrafts, grants } = await readCredits(
        orm,
        { orgId: id, livemode: true },
        new Date(now),
      );
      expect(Number(balance)).toBeGreaterThan(0);
      if (slug === 'kestrel-drones') expect(Number(balance)).toBeLessThan(50);
      expect(overdrafts).toEqual([]);
      if (slug !== 'northwind-labs') continue;
      expect(Number(grants.find(({ grantKey }) => grantKey === 'pack')!.burned)).toBeGreaterThan(0);
      expect(events.length).toBeGreaterThan(1_200);
      expect(events.length).toBeLessThan(4_000);
      expect(new Set(events.map(({ productId, livemode }) => `${productId} ${livemode}`)).size).toBe(4);
    }
    const recorded = await orm.select().from(usageEvents);
    // Apart from weekends, when there are fewer events, the number grows gradually.
    const perDay = new Map<number, number>();
    for (const { occurredAt } of recorded) {
      const day = Math.floor(occurredAt.getTime() / DAY_MS);
      if (![0, 6].includes(occurredAt.getUTCDay())) perDay.set(day, (perDay.get(day) ?? 0) + 1);
    }
    const whole = [...perDay].toSorted(([a], [b]) => a - b).slice(1, -1);
    for (const [i, [, count]] of whole.entries()) if (i > 0) expect(count).toBeLessThan(3 * whole[i - 1]![1]);
    const sumOf = (days: typeof whole) => days.reduce((total, [, count]) => total + count, 0);
    expect(sumOf(whole.slice(-20))).toBeLessThan(2 * sumOf(whole.slice(-40, -20)));
    expect(new Set(recorded.map(({ apiKeyId }) => apiKeyId)).size).toBe(7);
    for (const { idempotencyKey, occurredAt, receivedAt } of recorded) {
      expect(idempotencyKey).toMatch(/^req_[0-9a-f]{20}$/);
      const delayMs = receivedAt.getTime() - occurredAt.getTime();
      expect([delayMs >= 1_000, delayMs <= 4_000]).toEqual([true, true]);
    }
    const calls = await orm.select().from(apiKeyCalls);
    for (const { id, lastUsedAt } of used.filter((key) => key.lastUsedAt !== null)) {
      const events = recorded.filter(({ apiKeyId }) => apiKeyId === id);
      expect(lastUsedAt!.getTime()).toBe(Math.max(...events.map(({ occurredAt }) => occurredAt.getTime())));
      const ofKey = calls.filter(({ apiKeyId, calls: count }) => apiKeyId === id && count > 0);
      const last = Math.max(...ofKey.map(({ minute }) => minute.getTime()));
      expect(last).toBe(lastUsedAt!.getTime() - (lastUsedAt!.getTime() % 60_000));
    }
    const sum = (field: 'calls' | 'limited' | 'unscoped') =>
      calls.reduce((total, row) => total + row[field], 0);
    expect(sum('calls')).toBeGreaterThan(2_000);
    expect(sum('calls')).toBeLessThan(20_000);
    expect(sum('limited') + sum('unscoped')).toBeGreaterThan(0);
  });
});

// Orders, fills and marks are tested on Postgres elsewhere; these tests check how the demo uses them.
describe.runIf(isEmbedded)('the paper trades of the demo', () => {
  /** The records that existed when the first run was killed. */
  let before: Awaited<ReturnType<typeof read>>;
  const read = async () => {
    const { orm } = database.db;
    return {
      orders: await orm.select().from(tradingOrders),
      fills: await orm.select().from(tradingFills),
      entries: await orm.select().from(ledgerEntries),
    };
  };
  beforeAll(async () => {
    await setUpSeeded();
    const { orm } = database.db;
    // Viewing the portfolio opens an account if none exists.
    const headers = { authorization: `Bearer ${seeded.demo.keys.trading}` };
    expect((await fetch(`${service.url}/portfolio`, { headers })).status).toBe(200);
    const useFits = vi.fn();
    const killed = seedDemoTrading(service.context, seeded.demo, useFits, AbortSignal.abort());
    await expect(killed).rejects.toMatchObject({ name: 'AbortError' });
    const kill = new AbortController();
    const interrupted = seedDemoTrading(service.context, seeded.demo, useFits, kill.signal).catch(
      (error: unknown) => error,
    );
    await vi.waitFor(
      async () =>
        expect(await orm.$count(ledgerEntries, eq(ledgerEntries.kind, 'settlement'))).toBeGreaterThan(0),
      {
        timeout: 600_000,
        interval: 100,
      },
    );
    kill.abort();
    expect(await interrupted).toMatchObject({ name: 'AbortError' });
    before = await read();
    // Simulates the lease that a killed process leaves behind.
    await orm.execute(sql`insert into job_leases (name, holder, until)
      values ('settlement', gen_random_uuid(), now() + interval '2 seconds')
      on conflict (name) do update set holder = excluded.holder, until = excluded.until`);
    const { config } = service.context;
    const trading = { ...config.trading, tapeFile: join(folder, 'day.tape.gz') };
    await seedDemoTrading({ ...service.context, config: { ...config, trading } }, seeded.demo, useFits);
    // Simulated prices follow the forecast, so the live ones must follow the same fits as the recorded ones.
    expect(useFits).toHaveBeenCalledWith(expect.objectContaining({ madeAt: expect.any(Date) }));
  });
  afterAll(tearDown);

  it('have an account that was opened before them, even if somebody looked at it earlier', async () => {
    const { orm } = database.db;
    const [account] = await orm.select().from(tradingAccounts);
    const orders = await orm.select().from(tradingOrders);
    for (const { createdAt } of orders)
      expect(createdAt.getTime()).toBeGreaterThanOrEqual(account!.openedAt.getTime());
  });

  it('follow the signals of the last days, and are settled and booked to the last digit', async () => {
    const orders = await database.db.orm.select().from(tradingOrders);
    expect(orders.length).toBeGreaterThan(3);
    const since = service.clock.now() - 31 * 24 * 60 * 60 * 1000;
    for (const { createdAt, status, timeInForce } of orders) {
      expect(createdAt.getTime()).toBeGreaterThan(since);
      expect(createdAt.getTime()).toBeLessThan(service.clock.now());
      // Every resting order has been filled or cancelled.
      expect(status).toMatch(timeInForce === 'good_till_time' ? /filled$|^cancelled$/ : /filled$/);
    }
    const entries = await database.db.orm.select().from(ledgerEntries);
    expect(entries.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['deposit', 'fill', 'settlement']),
    );
    const [account] = await database.db.orm.select().from(tradingAccounts);
    expect(account!.cash).toBe(entries.reduce((sum, { cash }) => sum + cash, 0n));
    expect(account!.cash % 100n).toBe(0n);
  });

  it('include orders that waited for prints and their post-mortems, so a first start shows examples of both', async () => {
    const { orm } = database.db;
    const waited = await orm
      .select()
      .from(tradingOrders)
      .where(eq(tradingOrders.timeInForce, 'good_till_time'));
    expect(waited.some(({ filledContracts }) => filledContracts > 0)).toBe(true);
    for (const { postOnly, createdAt, expiresAt, finishedAt, reserved } of waited) {
      expect([postOnly, reserved]).toEqual([true, 0n]);
      expect(expiresAt!.getTime() - createdAt.getTime()).toBe(15 * 60_000);
      expect(finishedAt!.getTime() - createdAt.getTime()).toBeLessThanOrEqual(17 * 60_000);
    }
    const marks = await orm.select().from(executionMarks);
    expect(marks).toHaveLength(await orm.$count(tradingFills));
    expect(marks.every(({ markedAt, at }) => markedAt!.getTime() - at.getTime() >= 65_000)).toBe(true);
    const response = await fetch(`${service.url}/scores/execution`, {
      headers: { authorization: `Bearer ${seeded.demo.keys.trading}` },
    });
    const { paper } = (await response.json()) as z.output<typeof executionSchema>;
    // The response covers only the last few days.
    expect(paper.fills).toBeGreaterThan(0);
    expect(paper.fills).toBeLessThanOrEqual(marks.length);
    expect(paper.judged).toBeGreaterThan(0);
    expect(paper.after.map(({ seconds, move }) => [seconds, typeof move])).toEqual([
      [15, 'string'],
      [30, 'string'],
      [60, 'string'],
    ]);
    const browser = new Browser(service.url);
    const { email, password } = seeded.demo.logins[0]!;
    await browser.signIn(email, password);
    const page = await browser.get('/dashboard/scores/execution');
    expect(page.text).toContain('After a fill');
    expect(page.text).not.toContain('Nothing to compare');
  });

  it('begin before the service in the charts, whose prices join those of now without a jump', async () => {
    await service.trading.refresher.refresh();
    const snapshot = service.trading.snapshots.current!;
    const { marketSource, asOf } = snapshot;
    const open = snapshot.events.filter(
      ({ kind, markets }) => kind !== 'hourly' && markets.some(({ status }) => status === 'active'),
    );
    const steps: number[] = [];
    for (const { eventTicker, markets, station } of open) {
      const { points } = await readPriceHistory(database.db.orm, { marketSource, eventTicker });
      const { at, prices } = points.findLast((point) => point.at <= asOf)!;
      const openMs = Math.max(markets[0]!.openTime.getTime(), asOf.getTime() - 11 * 3_600_000);
      expect(points[0]!.at.getTime() - openMs).toBeLessThan(30 * 60_000);
      expect(asOf.getTime() - at.getTime()).toBeLessThan(30 * 60_000);
      for (const { ticker, yesBid } of markets) {
        const before = prices[ticker]![0];
        // This service has learned nothing, so its traders in the other cities have no forecast to follow.
        if (before !== null && yesBid !== null && ['KNYC', 'KMDW', 'KAUS', 'KDEN'].includes(station.id))
          steps.push(Math.abs(Number(yesBid) - before) / 10_000);
      }
    }
    expect(steps.length).toBeGreaterThan(5);
    expect(Math.max(...steps)).toBeLessThan(15);
  });

  it('are counted as calls of the key that placed them', async () => {
    const { orm } = database.db;
    const [key] = await orm.select().from(apiKeys).where(eq(apiKeys.name, 'paper trader'));
    const times = (await orm.select().from(tradingOrders)).map(({ createdAt }) => createdAt.getTime());
    const [scope] = await orm.select().from(apiKeyScopeUse).where(eq(apiKeyScopeUse.apiKeyId, key!.id));
    expect(scope).toMatchObject({ scope: 'trading:write', calls: times.length });
    expect([key!.lastUsedAt!.getTime(), scope!.lastUsedAt.getTime()]).toEqual([
      Math.max(...times),
      Math.max(...times),
    ]);
    const calls = await orm.select().from(apiKeyCalls).where(eq(apiKeyCalls.apiKeyId, key!.id));
    const kept = times.filter((ms) => ms >= Math.min(...calls.map(({ minute }) => minute.getTime())));
    expect(calls.reduce((sum, row) => sum + row.calls, 0)).toBe(kept.length);
  });

  it('continue where a killed start left them, and repeat nothing', async () => {
    expect(before.fills.length).toBeGreaterThan(0);
    const now = await read();
    expect(now.orders.length).toBeGreaterThan(before.orders.length);
    expect(now.fills).toEqual(expect.arrayContaining(before.fills));
    expect(now.entries).toEqual(expect.arrayContaining(before.entries));
    const keys = now.orders.map(({ idempotencyKey }) => idempotencyKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(now.entries.filter(({ kind }) => kind === 'deposit')).toHaveLength(1);
    // No tape is recorded while the demo's history is being created.
    expect(existsSync(join(folder, 'day.tape.gz'))).toBe(false);
  });
});

describe('the demo file', () => {
  it('is readable only by its owner and is read again by later starts', () => {
    expect(seeded.modes).toEqual([0o600, 0o700]);
    expect(seeded.remembered).toEqual(seeded.demo);
  });
});
