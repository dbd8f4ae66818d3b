import { MemoryStore, type ClientRateLimitInfo, type Options, type Store } from 'express-rate-limit';
import type { Logger } from 'pino';
import { RedisStore } from 'rate-limit-redis';
import type { Metrics } from '../metrics.js';
import { openRedisLink, type RedisLink } from './redis-link.js';

interface LimitStore extends Store {
  init(options: Options): void;
  increment(key: string): Promise<ClientRateLimitInfo>;
  /** Only if the counts are in this process: waiting for a promise would cost each call a microsecond. */
  incrementNow?(key: string): ClientRateLimitInfo;
}

export interface LimitStores {
  create(name: string): LimitStore;
  close(): Promise<void>;
}

/**
 * The library's store returns a live counter that the caller reads a moment later: concurrent calls would all see the
 * final count, and one call over the limit would reject all of them.
 */
class ProcessStore extends MemoryStore implements LimitStore {
  incrementNow(key: string): ClientRateLimitInfo {
    // The library increments synchronously and returns the result asynchronously.
    void super.increment(key);
    const { totalHits, resetTime } = this.current.get(key)!;
    return { totalHits, resetTime };
  }

  override increment(key: string): Promise<ClientRateLimitInfo> {
    return Promise.resolve(this.incrementNow(key));
  }
}

/** Exact only for a single instance. */
export function memoryLimitStores(): LimitStores {
  return { create: () => new ProcessStore(), close: () => Promise.resolve() };
}

/** If Redis does not answer in 100 ms, each instance counts on its own: inexact counts are better than an outage. */
export function redisLimitStores({
  url,
  log,
  metrics,
}: {
  url: string;
  log: Logger;
  metrics: Metrics;
}): LimitStores {
  const stores: FallbackStore[] = [];
  const link = openRedisLink({
    url,
    // The probe writes, because a Redis that rejects writes (full disk, replica) cannot count.
    probe: ['SET', 'gauge:limit:probe', '1', 'PX', '1000'],
    prepare: () => Promise.all(stores.map((store) => store.loadScripts())),
    onChange(isUp, cause) {
      metrics.limitStoreIsShared.set(isUp ? 1 : 0);
      if (isUp) log.info('rate limits are counted in Redis');
      else log.warn({ err: cause }, 'Redis failed or is too slow; rate limits are counted in this process');
    },
  });
  return {
    create(name) {
      const store = new FallbackStore(name, link, metrics);
      stores.push(store);
      return store;
    },
    close() {
      link.close();
      for (const store of stores) store.shutdown();
      return Promise.resolve();
    },
  };
}

class FallbackStore implements LimitStore {
  readonly prefix: string;
  private readonly memory = new ProcessStore();
  private readonly redis: RedisStore;
  private readonly link: RedisLink;
  private readonly metrics: Metrics;
  private options: Options | undefined;

  constructor(name: string, link: RedisLink, metrics: Metrics) {
    this.prefix = `gauge:limit:${name}:`;
    this.link = link;
    this.metrics = metrics;
    this.redis = new RedisStore({
      prefix: this.prefix,
      sendCommand: (...command: string[]) => link.send(command),
    });
  }

  init(options: Options): void {
    this.options = options;
    this.memory.init(options);
    if (this.link.isUp) this.link.run(() => this.loadScripts()).catch(() => undefined);
  }

  /** The library caches the outcome forever, even a failure, so the scripts are loaded after every outage. */
  async loadScripts(): Promise<void> {
    if (this.options) await this.redis.init(this.options);
  }

  increment(key: string): Promise<ClientRateLimitInfo> {
    return this.count((store) => store.increment(key));
  }

  decrement(key: string): Promise<void> {
    return this.count((store) => store.decrement(key));
  }

  resetKey(key: string): Promise<void> {
    return this.count((store) => store.resetKey(key));
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const info = await this.count((store) => store.get(key));
    // The library returns NaN if Redis has no count.
    return Number.isNaN(info?.totalHits) ? undefined : info;
  }

  shutdown(): void {
    this.memory.shutdown();
  }

  private async count<T>(ask: (store: RedisStore | ProcessStore) => Promise<T>): Promise<T> {
    if (this.link.isUp) {
      try {
        return await this.link.run(() => ask(this.redis));
      } catch {
        // The link has logged the failure.
      }
    }
    this.metrics.limitStoreFailures.inc();
    return ask(this.memory);
  }
}
