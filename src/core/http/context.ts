import type { Logger } from 'pino';
import type { Clock } from '../clock.js';
import type { ServiceConfig } from '../config.js';
import type { Database } from '../db/client.js';
import type { LimitStores } from './limit-store.js';
import type { Lifecycle } from './availability.js';
import type { Metrics } from '../metrics.js';

export interface Context<Config extends ServiceConfig = ServiceConfig> {
  config: Config;
  db: Database;
  clock: Clock;
  log: Logger;
  /** One line per request. */
  accessLog: Logger;
  metrics: Metrics;
  lifecycle: Lifecycle;
  /** Where rate limits are counted: this process, or Redis for several instances. */
  limitStores: LimitStores;
}
