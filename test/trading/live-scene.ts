import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { vi } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { ledgerEntries, tradingAccounts, tradingOrders } from '../../src/tables.js';
import { parseDollars } from '../../src/trading/market/money.js';
import type { LiveExecutor, LiveOrder, OrderInput, Trade } from '../../src/trading/orders/order.js';
import { createOrders } from '../../src/trading/orders/orders.js';
import type { LiveTrading } from '../../src/trading/live/live.js';
import { createKey, createOrganization, type TestKey, type TestOrganization } from '../support/fixtures.js';
import { startTestService, type TestService } from '../support/service.js';
import { startFakeVenue, wireMarket, type FakeVenue } from './fake-venue.js';
import { plentyOfTokens } from './venue-tokens.js';

export const EVENT = 'KXHIGHNY-26JUL04';
export const TICKER = `${EVENT}-B80.5`;
const NOW = '2026-07-04T15:00:00.000Z';

/** One key of the member for all tests: making one takes a while. */
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const other = generateKeyPairSync('rsa', { modulusLength: 2048 });
let folder: string | undefined;

/** The member's key, and another one, as files. They are there until `removeKeys`. */
export function keyFile(name: 'member' | 'other'): string {
  if (!folder) {
    folder = mkdtempSync(join(tmpdir(), 'gauge-live-'));
    const pem = { type: 'pkcs8', format: 'pem' } as const;
    writeFileSync(join(folder, 'member.pem'), privateKey.export(pem), { mode: 0o600 });
    writeFileSync(join(folder, 'other.pem'), other.privateKey.export(pem), { mode: 0o600 });
  }
  return join(folder, `${name}.pem`);
}

export function removeKeys(): void {
  if (folder) rmSync(folder, { recursive: true, force: true });
  folder = undefined;
}

/** Whose requests the venue believes. */
export const member = { keyId: 'member-key', publicKey };

/** A service that trades live for an Organization at a venue, without pauses. */
export const liveSettings = (venue: FakeVenue, slug: string) => ({
  env: {
    MARKET_SOURCE: 'kalshi',
    KALSHI_BASE_URL: venue.url,
    // Out of reach: without it books are those of the last read.
    KALSHI_WS_URL: 'ws://127.0.0.1:9/trade-api/ws/v2',
    KALSHI_SERIES: 'KXHIGHNY',
    KALSHI_KEY_ID: 'member-key',
    KALSHI_PRIVATE_KEY_FILE: keyFile('member'),
    LIVE_TRADING: 'on',
    LIVE_TRADING_ORG: slug,
  },
  trading: {
    weather: { name: 'none', freshMs: 0, read: () => Promise.reject(new Error('no weather')) },
    venueBudget: plentyOfTokens(),
    liveTimings: {
      timeoutMs: 150,
      backoffMs: 1,
      fillPausesMs: [1, 1, 1],
      lookUpPausesMs: [1, 10],
      confirmPausesMs: [1],
      secondLookMs: 1,
    },
  },
});

/** An Organization that trades live, at a venue of its own. */
export interface LiveScene {
  venue: FakeVenue;
  organization: TestOrganization;
  apiKey: TestKey;
  service: TestService;
  live: LiveTrading;
  /** Another instance of the service on the same database and venue, as after a restart. */
  start(options?: { keyFile?: 'other' }): Promise<TestService>;
  place(order?: Partial<OrderInput>): Promise<Trade>;
  /** An order as it is when the process ends between persisting and sending. */
  persist(order?: Partial<OrderInput>): Promise<Trade>;
  find(id: string): Promise<Trade>;
  /** Orders of ours that arrived at the venue, by name. */
  arrived(): string[];
  books(): Promise<Books>;
  stop(): Promise<void>;
}

export interface Books {
  cash: bigint;
  reserved: bigint;
  /** Of the ledger: by account. */
  sums: { cash: bigint; positions: bigint; fees: bigint; realised: bigint; capital: bigint };
  pending: number;
}

export interface SceneOptions {
  /** Do not open the account and compare yet. */
  isClosed?: boolean;
}

/** YES is sold at 0.45 and 0.46, and bought at 0.42 and 0.40. */
export const newBook = () => ({
  yes_dollars: [
    ['0.4200', '30.00'],
    ['0.4000', '50.00'],
  ] as [string, string][],
  no_dollars: [
    ['0.5500', '6.00'],
    ['0.5400', '20.00'],
  ] as [string, string][],
});

export async function setLiveScene(db: Database, { isClosed }: SceneOptions = {}): Promise<LiveScene> {
  const venue = await startFakeVenue();
  const organization = await createOrganization(db);
  const apiKey = await createKey(db, organization.id, { scopes: ['trading:read', 'trading:write'] });
  venue.markets = [
    wireMarket(EVENT, { cap: 80 }),
    wireMarket(EVENT, { floor: 80, cap: 81 }),
    wireMarket(EVENT, { floor: 81 }),
  ];
  venue.books.set(TICKER, newBook());
  const running: TestService[] = [];
  async function start({ keyFile: which }: { keyFile?: 'other' } = {}): Promise<TestService> {
    const service = await startTestService(db, {
      ...liveSettings(venue, organization.slug),
      env: {
        ...liveSettings(venue, organization.slug).env,
        KALSHI_PRIVATE_KEY_FILE: keyFile(which ?? 'member'),
      },
    });
    service.clock.set(running[0] ? new Date(running[0].clock.now()).toISOString() : NOW);
    running.push(service);
    await service.trading.refresher.refresh();
    return service;
  }
  const service = await start();
  venue.exchange.member = member;
  venue.exchange.now = () => service.clock.now();
  const live = service.trading.live!;
  if (!isClosed) await live.reconcile();

  const inputOf = (order: Partial<OrderInput>): OrderInput => ({
    orgId: organization.id,
    mode: 'live',
    by: { kind: 'key', orgId: organization.id, keyId: apiKey.id, scope: 'trading:write' },
    idempotencyKey: uuid(),
    ticker: TICKER,
    side: 'yes',
    action: 'buy',
    contracts: 10,
    limitPrice: parseDollars('0.4700'),
    timeInForce: 'immediate_or_cancel',
    ...order,
  });
  return {
    venue,
    organization,
    apiKey,
    service,
    live,
    start,
    place: async (order = {}) => (await service.trading.orders.place(inputOf(order))).trade,
    persist: (order = {}) => persist(service, inputOf(order)),
    find: async (id) => (await service.trading.orders.find(organization.id, id))!,
    arrived: () => venue.exchange.received.map((body) => String(body.client_order_id)),
    books: () => readBooks(db, organization.id),
    async stop() {
      for (const one of running) await one.stop();
      await venue.stop();
    },
  };
}

async function readBooks(db: Database, orgId: string): Promise<Books> {
  const [account] = await db.orm.select().from(tradingAccounts).where(eq(tradingAccounts.orgId, orgId));
  const entries = await db.orm.select().from(ledgerEntries).where(eq(ledgerEntries.orgId, orgId));
  const orders = await db.orm.select().from(tradingOrders).where(eq(tradingOrders.orgId, orgId));
  const sum = (name: 'cash' | 'positions' | 'fees' | 'realised' | 'capital') =>
    entries.reduce((total, entry) => total + entry[name], 0n);
  return {
    cash: account?.cash ?? 0n,
    reserved: orders.reduce((total, { reserved }) => total + reserved, 0n),
    sums: {
      cash: sum('cash'),
      positions: sum('positions'),
      fees: sum('fees'),
      realised: sum('realised'),
      capital: sum('capital'),
    },
    pending: orders.filter(({ status }) => status === 'pending').length,
  };
}

/** The process ends before the order is sent: what places it never comes back from the last step. */
async function persist(service: TestService, input: OrderInput): Promise<Trade> {
  const { context, trading } = service;
  let persisted: LiveOrder | undefined;
  const live: LiveExecutor = {
    assertOpen: () => undefined,
    send: (order) => {
      persisted = order;
      return new Promise(() => undefined);
    },
  };
  const orders = createOrders(context, { snapshots: trading.snapshots, live });
  void orders.place(input).catch(() => undefined);
  await vi.waitUntil(() => persisted !== undefined, { timeout: 5_000, interval: 5 });
  return (await trading.orders.find(input.orgId, persisted!.id))!;
}
