import type { Store } from 'express-rate-limit';
import { afterEach } from 'vitest';
import type { MarketAccess } from '../../../src/accounts/organizations/table.js';
import { organizations } from '../../../src/accounts/organizations/table.js';
import type { Database } from '../../../src/core/db/client.js';
import { memoryLimitStores, type LimitStores } from '../../../src/core/http/limit-store.js';
import type { RouteDescription } from '../../../src/core/reference/define-route.js';
import type { SentExample } from '../../../src/core/reference/described.js';
import { exampleWorld } from '../../../src/core/reference/example-world.js';
import type { Circumstance, Credential } from '../../../src/core/reference/names.js';
import { CLOCK_OFF } from '../../../src/core/reference/problem-examples.js';
import { tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import { openPaperAccount } from '../../../src/markets/ledger/queries.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { exampleWorld as tradingWorld } from '../../../src/markets/reference/example-world.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { everything, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { startFakeVenue } from '../../markets/support/fake-venue.js';
import { liveSettings, member, removeKeys } from '../../markets/support/live-account.js';
import { startTestService, type TestService, type TestServiceOptions } from '../../support/service.js';
import { use } from '../../support/use.js';
import { resetExampleWorld, restingOrder } from './example-rows.js';
import { connectionRefused, failingDatabase } from './failing-database.js';
import { exchange, presentCredential, toHttpRequest, type HttpRequest } from './send-example.js';

const ofMarkets = new Set(['Market data', 'Trading', 'Operator']);
/** Only some stations, because a smaller simulated world is created faster. */
const selection = { ...everything, stations: leadingStations };
const accessIn: Partial<Record<Circumstance, MarketAccess>> = {
  no_market_access: 'none',
  read_market_access: 'read',
};

/** The documented examples, each with the service and the rows that it was written for. */
export function useExamples(db: () => Database): Examples {
  const examples = use(
    () => new Examples(db()),
    (started) => started.stop(),
  );
  // Failures are counted by IP address, and all examples come from the same IP address.
  afterEach(() => examples.resetLimits());
  return examples;
}

class Examples {
  private readonly running = new Map<Circumstance | 'healthy', TestService>();
  private readonly jar = new Map<Credential, Record<string, string>>();
  private readonly counters: Store[] = [];
  private readonly db: Database;
  private isWorldFresh = false;
  private markets: Snapshot | undefined;

  constructor(db: Database) {
    this.db = db;
  }

  /** Restores the example world, sends the earlier requests, and returns what remains to be sent. */
  async prepare(
    route: RouteDescription,
    example: SentExample,
  ): Promise<{ service: TestService; request: HttpRequest }> {
    if (!this.isWorldFresh) {
      await resetExampleWorld(this.db);
      this.jar.clear();
    }
    this.isWorldFresh = !mayChangeTheWorld(route, example);
    await this.withdrawAccess(example.circumstance);
    await this.placeStandingOrder(example.circumstance);
    const service = await this.serviceIn(route, example.circumstance ?? 'healthy');
    if (example.circumstance === 'position_held') await this.buy(service);
    // People always sign in on the healthy service, regardless of the example's circumstance.
    const credentials = presentCredential((await this.serviceIn(route, 'healthy')).url, this.jar);
    for (const earlier of example.before ?? [])
      await exchange(service.url, await toHttpRequest(route, earlier, credentials));
    return { service, request: await toHttpRequest(route, example.request, credentials) };
  }

  /** Resets the rate limits; restarting the service would take fifty times as long. */
  async resetLimits(): Promise<void> {
    for (const counter of this.counters) await counter.resetAll?.();
  }

  async stop(): Promise<void> {
    for (const service of this.running.values()) await service.stop();
    removeKeys();
  }

  private async withdrawAccess(circumstance: Circumstance | undefined): Promise<void> {
    if (circumstance === 'no_corrections') {
      this.isWorldFresh = false;
      await this.db.orm.update(organizations).set({ mayCorrect: false });
    }
    const marketAccess = circumstance && accessIn[circumstance];
    if (!marketAccess) return;
    this.isWorldFresh = false;
    await this.db.orm.update(organizations).set({ marketAccess });
  }

  private async placeStandingOrder(circumstance: Circumstance | undefined): Promise<void> {
    if (circumstance !== 'order_rests') return;
    this.isWorldFresh = false;
    const { orgId, createdAt: at } = restingOrder;
    await openPaperAccount(this.db.orm, { orgId, cash: 10_000n * DOLLAR, at });
    await this.db.orm.insert(tradingOrders).values(restingOrder).onConflictDoNothing();
  }

  private async buy({ url }: TestService): Promise<void> {
    this.isWorldFresh = false;
    const { keys, markets } = tradingWorld;
    const { ticker } = markets.today.traded;
    const response = await fetch(`${url}/trade`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${keys.traderKey.secret}`,
        'content-type': 'application/json',
        'idempotency-key': 'ny-jan31-1',
      },
      body: JSON.stringify({ ticker, side: 'yes', action: 'buy', contracts: 12, limitPrice: '0.3700' }),
    });
    if (response.status !== 201) throw new Error(await response.text());
  }

  private async serviceIn(
    { tag }: RouteDescription,
    circumstance: Circumstance | 'healthy',
  ): Promise<TestService> {
    const service = this.running.get(circumstance) ?? (await this.startIn(circumstance));
    this.running.set(circumstance, service);
    if (circumstance !== 'no_market_data' && ofMarkets.has(tag)) await this.giveMarkets(service);
    return service;
  }

  private async startIn(circumstance: Circumstance | 'healthy'): Promise<TestService> {
    const { context, ...settings } = settingsOf(circumstance, this.db);
    const started = await (circumstance === 'trading_live'
      ? startLive(this.db)
      : startTestService(this.db, {
          trading: { selection },
          ...settings,
          context: { ...context, limitStores: this.limitStores() },
        }));
    started.clock.set(exampleWorld.now);
    if (circumstance === 'clock_off')
      started.context.lifecycle.refusal = { code: 'clock_off', detail: CLOCK_OFF };
    if (circumstance === 'draining') started.context.lifecycle.state = 'draining';
    if (circumstance === 'old_market_data') started.clock.advance(61_000);
    if (circumstance === 'old_event') started.clock.advance(10 * 86_400_000);
    return started;
  }

  private limitStores(): LimitStores {
    const memory = memoryLimitStores();
    return {
      ...memory,
      create: (name) => {
        const store = memory.create(name);
        this.counters.push(store);
        return store;
      },
    };
  }

  /** Gives every service the same simulated world, which is created only once. */
  private async giveMarkets({ clock, trading: { refresher, snapshots } }: TestService): Promise<void> {
    if (snapshots.current) return;
    if (this.markets) return snapshots.replace(this.markets);
    const now = clock.now();
    clock.set(exampleWorld.now);
    await refresher.refresh();
    clock.advance(now - clock.now());
    this.markets = snapshots.current;
  }
}

function mayChangeTheWorld({ method }: RouteDescription, { response, before }: SentExample): boolean {
  return method !== 'get' && (response.status < 400 || before !== undefined);
}

/** Connects the example's Organization to a fake venue whose balance differs from the recorded one by ten dollars. */
async function startLive(db: Database): Promise<TestService> {
  const venue = await startFakeVenue();
  const { exchange } = venue;
  const started = await startTestService(db, liveSettings(venue, 'acme'));
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

function settingsOf(circumstance: Circumstance | 'healthy', db: Database): TestServiceOptions {
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
      return { context: { db: failingDatabase(db, connectionRefused()) } };
    case 'defect':
      return { context: { db: failingDatabase(db, new TypeError('a defect')) } };
    default:
      return { env: { PAPER_LATENCY_MS: '250' } };
  }
}
