import type { Server } from 'node:http';
import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import type { Clock } from '../../src/core/time.js';
import type { Database } from '../../src/core/db/client.js';
import { memoryLimitStores } from '../../src/core/http/limit-store.js';
import { createHttpServer, listen } from '../../src/core/http/server.js';
import { createLifecycle } from '../../src/core/http/context.js';
import { createMetrics } from '../../src/core/metrics.js';
import { createMeteringMetrics } from '../../src/metering/metrics.js';
import { createMarketMetrics } from '../../src/markets/metrics.js';
import { createApiServices, type ApiServices } from '../../src/mounts/api.js';
import type { DashboardOptions } from '../../src/mounts/dashboard.js';
import type { TradingContext } from '../../src/markets/config.js';
import {
  createTradingServices,
  type TradingOverrides,
  type TradingServices,
} from '../../src/markets/services/services.js';
import { leadingStations, type Selection } from '../../src/markets/venue/simulation/world.js';
import { createApp } from '../../src/app.js';
import { SESSION_KEY } from './accounts.js';

/** A clock that stands still until a test moves it. It starts at the current time, to the millisecond. */
export class TestClock implements Clock {
  private ms = Date.now();
  now = () => this.ms;
  advance(ms: number) {
    this.ms += ms;
  }
  set(time: string) {
    this.ms = Date.parse(time);
  }
}

export interface TestService {
  context: TradingContext;
  services: ApiServices;
  /** The snapshot is empty until a test calls `trading.refresher.refresh()`, because no job runs here. */
  trading: TradingServices;
  clock: TestClock;
  server: Server;
  url: string;
  stop(): Promise<void>;
}

export interface TestServiceOptions {
  env?: Record<string, string>;
  context?: Partial<TradingContext>;
  app?: DashboardOptions;
  trading?: TradingOverrides;
}

/** A few of the invented world's twenty-four cities with four kinds of market each. */
const fewMarkets: Selection = { stations: leadingStations, kinds: ['daily_maximum'] };

/** The whole app on a test database, with its own clock and limits too high to matter. */
export async function startTestService(db: Database, options: TestServiceOptions = {}): Promise<TestService> {
  const clock = new TestClock();
  const config = readConfig({
    NODE_ENV: 'test',
    OPERATOR_TOKEN: 'operator-token-of-the-tests-0123456789',
    SESSION_KEYS: SESSION_KEY,
    SECRET_KEYS: 'secret-key-of-the-tests',
    LIMIT_USAGE_PER_MINUTE: '1000000',
    LIMIT_ENTITLEMENTS_PER_MINUTE: '1000000',
    LIMIT_READS_PER_MINUTE: '1000000',
    LIMIT_TRADING_PER_MINUTE: '1000000',
    LIMIT_DOCUMENTS_PER_MINUTE: '1000000',
    LIMIT_DASHBOARD_PER_MINUTE: '1000000',
    PAPER_LATENCY_MS: '0',
    ...options.env,
  });
  const lifecycle = createLifecycle();
  lifecycle.state = 'ready';
  const context: TradingContext = {
    config,
    db,
    clock,
    log: pino({ level: 'silent' }),
    accessLog: pino({ level: 'silent' }),
    metrics: createMetrics([createMeteringMetrics, createMarketMetrics]),
    lifecycle,
    limitStores: memoryLimitStores(),
    ...options.context,
  };
  const services = createApiServices(context);
  const trading = createTradingServices(context, { selection: fewMarkets, ...options.trading });
  const app = createApp(context, services, config.hasMarkets ? trading : undefined, options.app);
  // As in production, each template is compiled only once.
  app.enable('view cache');
  const server = createHttpServer(app, { limits: config.limits.connections });
  await listen(server, { port: 0, host: '127.0.0.1' });
  const { port } = server.address() as { port: number };
  return {
    context,
    services,
    trading,
    clock,
    server,
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await trading.stop();
      await services.thresholds.drain();
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}
