import type { Store } from 'express-rate-limit';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { memoryLimitStores, type LimitStores } from '../../src/core/http/limit-store.js';
import type { RouteDescription } from '../../src/core/reference/define-route.js';
import type { SentExample } from '../../src/core/reference/described.js';
import { exampleWorld } from '../../src/core/reference/example-world.js';
import { CLOCK_OFF } from '../../src/core/reference/problem-examples.js';
import type { Circumstance, Credential } from '../../src/core/reference/names.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import type { MarketAccess } from '../../src/accounts/organizations/table.js';
import { organizations } from '../../src/accounts/organizations/table.js';
import { tradingOrders } from '../../src/markets/ledger/orders-table.js';
import { openPaperAccount } from '../../src/markets/ledger/queries.js';
import { DOLLAR } from '../../src/markets/market/money.js';
import type { Snapshot } from '../../src/markets/snapshot/snapshot.js';
import { everything, leadingStations } from '../../src/markets/venue/simulation/world.js';
import { startFakeVenue } from '../markets/support/fake-venue.js';
import { liveSettings, member, removeKeys } from '../markets/support/live-account.js';
import { startTestService, type TestService, type TestServiceOptions } from '../support/service.js';
import { differences, expectDocumentedHeaders, expectDocumentedSchema } from './support/documented.js';
import { resetExampleWorld, restingOrder } from './support/example-rows.js';
import { connectionRefused, failingDatabase } from './support/failing-database.js';
import { presentCredential, sendExample } from './support/send-example.js';
import { useDatabase } from '../support/use.js';

const ofMarkets = new Set(['Market data', 'Trading', 'Operator']);
/** Only some stations, because a smaller simulated world is created faster. */
const selection = { ...everything, stations: leadingStations };

const database = useDatabase();

const running = new Map<Circumstance | 'healthy', TestService>();
const jar = new Map<Credential, Record<string, string>>();
const memory = memoryLimitStores();
const counters: Store[] = [];
/**
 * Keeps the rate-limit counters, so that a test can reset them; restarting the service would take fifty times as long.
 */
const limitStores: LimitStores = {
  ...memory,
  create(name) {
    const store = memory.create(name);
    counters.push(store);
    return store;
  },
};
let isWorldFresh = false;
let world: Snapshot | undefined;

// Failures are counted by IP address, and all examples come from the same IP address.
afterEach(async () => {
  for (const counter of counters) await counter.resetAll?.();
});
afterAll(async () => {
  for (const service of running.values()) await service.stop();
  removeKeys();
});

describe.each((await describeService(products)).routes)('$method $path answers as documented', (route) => {
  it.each(route.examples)('$name: $summary', async (example) => {
    if (!isWorldFresh) await resetWorld();
    isWorldFresh = !mayChangeTheWorld(route, example);
    await withdrawAccess(example.circumstance);
    await placeStandingOrder(example.circumstance);
    const { url } = await serviceIn(route, example.circumstance ?? 'healthy');
    // People always sign in on the healthy service, regardless of the example's circumstance.
    const credentials = presentCredential((await serviceIn(route, 'healthy')).url, jar);
    for (const earlier of example.before ?? []) await sendExample(url, route, earlier, credentials);
    const answer = await sendExample(url, route, example.request, credentials);

    const { status, body, headers } = example.response;
    expect(answer.status, answer.text).toBe(status);
    if (typeof body === 'string') expect(answer.text).toContain(body);
    else if (body !== undefined) expect(differences(JSON.parse(answer.text), body)).toEqual([]);
    else if (headers?.location === undefined) expect(answer.text).toBe('');
    expect(answer.headers).toMatchObject(headers ?? {});
    expectDocumentedHeaders(route, answer);
    expectDocumentedSchema(route, answer);
  });
});

async function resetWorld(): Promise<void> {
  await resetExampleWorld(database.db);
  jar.clear();
}

const accessIn: Partial<Record<Circumstance, MarketAccess>> = {
  no_market_access: 'none',
  read_market_access: 'read',
};

async function withdrawAccess(circumstance: Circumstance | undefined): Promise<void> {
  if (circumstance === 'no_corrections') {
    isWorldFresh = false;
    await database.db.orm.update(organizations).set({ mayCorrect: false });
  }
  const marketAccess = circumstance && accessIn[circumstance];
  if (!marketAccess) return;
  isWorldFresh = false;
  await database.db.orm.update(organizations).set({ marketAccess });
}

function mayChangeTheWorld({ method }: RouteDescription, { response, before }: SentExample): boolean {
  return method !== 'get' && (response.status < 400 || before !== undefined);
}

async function placeStandingOrder(circumstance: Circumstance | undefined): Promise<void> {
  if (circumstance !== 'order_rests') return;
  isWorldFresh = false;
  const { orgId, createdAt: at } = restingOrder;
  await openPaperAccount(database.db.orm, { orgId, cash: 10_000n * DOLLAR, at });
  await database.db.orm.insert(tradingOrders).values(restingOrder).onConflictDoNothing();
}

async function serviceIn(
  { tag }: RouteDescription,
  circumstance: Circumstance | 'healthy',
): Promise<TestService> {
  const service = running.get(circumstance) ?? (await startIn(circumstance));
  running.set(circumstance, service);
  if (circumstance !== 'no_market_data' && ofMarkets.has(tag)) await giveMarkets(service);
  return service;
}

async function startIn(circumstance: Circumstance | 'healthy'): Promise<TestService> {
  const { context, ...settings } = settingsOf(circumstance);
  const started = await (circumstance === 'trading_live'
    ? startLive()
    : startTestService(database.db, {
        trading: { selection },
        ...settings,
        context: { ...context, limitStores },
      }));
  started.clock.set(exampleWorld.now);
  if (circumstance === 'clock_off')
    started.context.lifecycle.refusal = { code: 'clock_off', detail: CLOCK_OFF };
  if (circumstance === 'draining') started.context.lifecycle.state = 'draining';
  if (circumstance === 'old_market_data') started.clock.advance(61_000);
  if (circumstance === 'old_event') started.clock.advance(10 * 86_400_000);
  return started;
}

/** Gives every service the same simulated world, which is created only once. */
async function giveMarkets({ clock, trading: { refresher, snapshots } }: TestService): Promise<void> {
  if (snapshots.current) return;
  if (world) return snapshots.replace(world);
  const now = clock.now();
  clock.set(exampleWorld.now);
  await refresher.refresh();
  clock.advance(now - clock.now());
  world = snapshots.current;
}

/** Connects the example's Organization to a fake venue whose balance differs from the recorded one by ten dollars. */
async function startLive(): Promise<TestService> {
  const venue = await startFakeVenue();
  const { exchange } = venue;
  const started = await startTestService(database.db, liveSettings(venue, 'acme'));
  started.clock.set(exampleWorld.now);
  exchange.member = member;
  exchange.now = started.clock.now;
  exchange.balanceCents = 100_000;
  await started.trading.live!.reconcile();
  exchange.balanceCents = 99_000;
  return {
    ...started,
    async stop() {
      await started.stop();
      await venue.stop();
    },
  };
}

function settingsOf(circumstance: Circumstance | 'healthy'): TestServiceOptions {
  switch (circumstance) {
    case 'limit_used_up':
      return {
        env: {
          LIMIT_USAGE_PER_MINUTE: '1',
          LIMIT_SERVICE_PER_MINUTE: '1',
          LIMIT_READS_PER_MINUTE: '1',
          LIMIT_ENTITLEMENTS_PER_MINUTE: '1',
          LIMIT_TRADING_PER_MINUTE: '1',
          LIMIT_KEY_CHANGES_PER_HOUR: '1',
          LIMIT_DOCUMENTS_PER_MINUTE: '1',
          // One more than the limit on key changes, so that key changes reach their own limit first.
          LIMIT_DASHBOARD_PER_MINUTE: '2',
        },
        app: { signInLimits: { perAccount: 1 } },
      };
    case 'small_account':
      return { env: { PAPER_CASH: '1.00' } };
    case 'metrics_protected':
      return { env: { METRICS_TOKEN: 'metrics-token-of-the-tests-0123456789' } };
    case 'database_unreachable':
      return { context: { db: failingDatabase(database.db, connectionRefused()) } };
    case 'defect':
      return { context: { db: failingDatabase(database.db, new TypeError('a defect')) } };
    default:
      return { env: { PAPER_LATENCY_MS: '250' } };
  }
}
