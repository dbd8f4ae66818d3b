import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { operatorClient, unique } from '../support/operator.js';
import { addMember, Browser, createUser, signedIn } from '../support/accounts.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { silent } from '../support/lent-database.js';
import { createPostgresProxy, type Fault, type PostgresProxy } from '../support/postgres-proxy.js';
import { createPostgresServer, type PostgresServer } from '../support/postgres-server.js';
import { createProduct } from '../metering/support/products.js';
import { createTenant, sendUsage, usageEvent } from '../metering/support/usage.js';
import { createTrader, postTrade, startTradingTest, type TradingTest } from '../markets/support/trade.js';

/** A separate Postgres, a proxy that can inject faults at any statement, and the service behind it. */
let server: PostgresServer;
let proxy: PostgresProxy;
let db: Database;
/** A connection without the proxy, for preparing rows with statements that do not count as steps. */
let direct: Database;
let service: TradingTest;
let admin: pg.Pool;
const uncaught: unknown[] = [];
const onUncaught = (error: unknown) => void uncaught.push(error);

beforeAll(async () => {
  server = await createPostgresServer({ fsync: 'off' });
  proxy = await createPostgresProxy(server.url('postgres'));
  db = await openDatabase({ databaseUrl: proxy.url, dataDir: '' }, silent);
  direct = await openDatabase({ databaseUrl: server.url('postgres'), dataDir: '' }, silent);
  service = await startTradingTest(db, { env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000000' } });
  admin = new pg.Pool({ connectionString: server.url('postgres'), max: 1 });
  admin.on('error', () => undefined);
  admin.on('connect', (client) => client.on('error', () => undefined));
  process.on('uncaughtException', onUncaught);
  for (const [name, prepare] of Object.entries(kinds)) prepared.set(name, await prepare());
});
afterAll(async () => {
  process.off('uncaughtException', onUncaught);
  await service.stop();
  await admin.end();
  await direct.close();
  await db.close();
  await proxy.close();
  await server.remove();
});

/** Does one piece of work per call. Resolves to an HTTP status, or to true if the work is not a request. */
type Work = () => Promise<number | true>;
const prepared = new Map<string, Work>();
const operator = operatorClient(() => service);

/** Covers every way in which the service uses the database: single statements and each kind of transaction. */
const kinds: Record<string, () => Promise<Work>> = {
  // Runs first, because each account with a position adds a statement.
  'markets are settled': () =>
    Promise.resolve(async () => {
      await service.trading.settlement.settle();
      await service.trading.settlement.recordHistory();
      return true as const;
    }),
  async 'events are recorded'() {
    const { product, key } = await createTenant(db);
    return async () =>
      (await sendUsage(service.url, key.secret, [usageEvent(product.slug, unique('e'))])).status;
  },
  async 'events are rehearsed'() {
    const { product, key } = await createTenant(db);
    return async () =>
      (await sendUsage(service.url, key.secret, [usageEvent(product.slug, unique('e'))], { dryRun: true }))
        .status;
  },
  'an order is filled': () =>
    Promise.resolve(async () => {
      // Creates a new account each time, so that it can always buy.
      const { secret } = await createTrader(direct);
      return (await postTrade(service.url, secret, { contracts: 1 })).status;
    }),
  async 'a portfolio is read in one snapshot'() {
    const { secret } = await createTrader(db);
    await postTrade(service.url, secret);
    return async () =>
      (await fetch(`${service.url}/portfolio`, { headers: { authorization: `Bearer ${secret}` } })).status;
  },
  async 'a person signs in'() {
    const organization = await createOrganization(db);
    const { email, id } = await createUser(db);
    await addMember(db, organization.id, id, 'owner');
    return async () => (await new Browser(service.url).signIn(email)).status;
  },
  async 'a key is made'() {
    const { browser } = await signedIn(db, service.url);
    const json = { name: 'a key', livemode: true };
    return async () => (await browser.send('POST', '/dashboard/api-keys', { json })).status;
  },
  async 'a key is exchanged'() {
    const { browser, organization } = await signedIn(db, service.url);
    return async () => {
      const { id } = await createKey(direct, organization.id);
      return (await browser.send('POST', `/dashboard/api-keys/${id}/rotate`, { json: {} })).status;
    };
  },
  async 'a key is revoked'() {
    const { browser, organization } = await signedIn(db, service.url);
    return async () => {
      const { id } = await createKey(direct, organization.id);
      return (await browser.send('DELETE', `/dashboard/api-keys/${id}`)).status;
    };
  },
  'the operator creates an Organization': () =>
    Promise.resolve(
      async () =>
        (await operator('PUT', `/organizations/${unique('org')}`, { name: 'An Organization' })).status,
    ),
  'the operator creates a product': () =>
    Promise.resolve(async () => {
      const body = { name: 'A product', usageMetric: 'calls' };
      return (await operator('PUT', `/products/${unique('product')}`, body)).status;
    }),
  'the operator grants a product': () =>
    Promise.resolve(async () => {
      const { slug: organization } = await createOrganization(direct);
      const { slug: product } = await createProduct(direct);
      const path = `/organizations/${organization}/entitlements/${product}`;
      return (await operator('PUT', path, { kind: 'live' })).status;
    }),
  async 'a page is shown'() {
    const { browser } = await signedIn(db, service.url);
    return async () => (await browser.get('/dashboard', { accept: 'text/html' })).status;
  },
};

/** Injects the fault at the first and then every `stride`th statement. The run after each fault must succeed. */
async function injectFaultAtEachStep(
  work: Work,
  makeFault: (step: number) => Fault,
  { recover = (): Promise<unknown> => setTimeout(20), first = 1, stride = 1 } = {},
) {
  let faultCount = 0;
  for (let step = first; ; step += stride) {
    proxy.arm(step, makeFault(step));
    const outcome = await work().catch((error: unknown) => error);
    if (!proxy.hasStruck) break;
    faultCount++;
    const where = `step ${step}: ${proxy.steps[step - 1]?.sql.slice(0, 80)}`;
    // The service retries the request or refuses it with a 503, so that the caller can retry. A job's error goes to its
    // scheduler.
    if (typeof outcome === 'number')
      expect(outcome === 503 || outcome < 400, `${where}: ${outcome}`).toBe(true);
    expect(uncaught, where).toEqual([]);
    await recover();
    proxy.arm(0);
    const after = await work();
    expect(after === true || after < 400, `after ${where}: ${String(after)}`).toBe(true);
  }
  return faultCount;
}

const terminate = async ({ pid }: { pid: number }) => {
  await admin.query('select pg_terminate_backend($1, 2000)', [pid]);
};

describe.each(Object.keys(kinds))('%s', (name) => {
  it.each<[string, (step: number) => Fault]>([
    ['its backend is killed before a statement', () => ({ when: 'before', act: () => undefined })],
    [
      'its backend is killed, or the wire is cut, between two statements',
      (step) =>
        step % 2 ? { when: 'after', act: terminate } : { when: 'after', act: () => undefined, isCut: true },
    ],
  ])(
    '%s, at every one of them: at worst 503, and the same process continues',
    { timeout: 120_000 },
    async (_, fault) => {
      expect(await injectFaultAtEachStep(prepared.get(name)!, fault)).toBeGreaterThan(0);
    },
  );
});

describe('Postgres ends', () => {
  it.each([
    ['by a crash', 'immediate', 1],
    ['by SIGKILL', 'kill', 2],
  ] as const)(
    '%s between the statements of a transaction, and the same process continues',
    { timeout: 240_000 },
    async (_, mode, first) => {
      const crash = (): Fault => ({ when: 'after', act: () => server.stop(mode) });
      const recover = () => server.start();
      // Each of the two modes stops Postgres only at every other statement, because Postgres starts slowly.
      for (const name of ['events are rehearsed', 'an order is filled', 'a person signs in'])
        await injectFaultAtEachStep(prepared.get(name)!, crash, { recover, first, stride: 2 });
    },
  );
});

it('no connection leaks: after one failure per pooled connection, everything still works', async () => {
  for (const [name, work] of prepared) {
    for (let i = 0; i < 12; i++) {
      proxy.arm(1, { when: 'before', act: () => undefined });
      await work().catch(() => undefined);
    }
    proxy.arm(0);
    const after = await work();
    expect(after === true || after < 400, `${name}: ${String(after)}`).toBe(true);
  }
});
