import type { Server } from 'node:http';
import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import type { Clock } from '../../src/core/time.js';
import type { Database } from '../../src/core/db/client.js';
import { memoryLimitStores } from '../../src/core/http/limit-store.js';
import { createHttpServer, listen } from '../../src/core/http/server.js';
import { createLifecycle, type Context } from '../../src/core/http/context.js';
import { createMetrics } from '../../src/core/metrics.js';
import type { DashboardOptions } from '../../src/mounts/dashboard.js';
import type { ProductOptions, Services } from '../../src/product.js';
import { type Running, createProducts, products } from '../../src/products.js';
import { createApp } from '../../src/app.js';
import { SESSION_KEY } from './accounts.js';
import { withTestDefaults } from './products.js';

/** A clock that stands still until a test moves it. Starts at the current time, to the millisecond. */
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

/** Market snapshots are empty until a test calls `trading.refresher.refresh()`, because no jobs run here. */
export interface TestService extends Services {
  context: Context;
  services: Services;
  running: Running;
  clock: TestClock;
  server: Server;
  url: string;
  stop(): Promise<void>;
}

export interface TestServiceOptions extends ProductOptions {
  env?: Record<string, string>;
  context?: Partial<Context>;
  app?: DashboardOptions;
}

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
  const context: Context = {
    config,
    db,
    clock,
    log: pino({ level: 'silent' }),
    accessLog: pino({ level: 'silent' }),
    metrics: createMetrics(products.map((product) => product.createMetrics)),
    lifecycle,
    limitStores: memoryLimitStores(),
    ...options.context,
  };
  const running = createProducts(context, withTestDefaults(options));
  const { services } = running;
  const app = createApp(context, running, options.app);
  // As in production, each template is compiled only once.
  app.enable('view cache');
  const server = createHttpServer(app, { limits: config.limits.connections });
  await listen(server, { port: 0, host: '127.0.0.1' });
  const { port } = server.address() as { port: number };
  return {
    context,
    ...services,
    services,
    running,
    clock,
    server,
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await Promise.all(running.products.map(async (product) => product.stop?.()));
      await Promise.all(running.products.map(async (product) => product.drain?.()));
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}
