import { MemoryStore, type ClientRateLimitInfo, type Options, type Store } from 'express-rate-limit';
import type { Logger } from 'pino';
import { RedisStore } from 'rate-limit-redis';
import type { Metrics } from '../metrics.js';
import { openRedisLink, type RedisLink } from './redis-link.js';

/** Makes the store in which one rate limit is counted. */
export interface LimitStores {
  create(name: string): Store;
  close(): Promise<void>;
}

/**
 * The library's store hands out its live counter, and the caller reads it a moment later: of calls that are counted in
 * the same moment, each would see the count of the last, and all of them be refused. This one hands out the count as
 * it was for that call.
 */
class ProcessStore extends MemoryStore {
  override increment(key: string): Promise<ClientRateLimitInfo> {
    // It counts before it returns; only its answer is deferred.
    const counted = super.increment(key);
    const { totalHits, resetTime } = this.current.get(key)!;
    return counted.then(() => ({ totalHits, resetTime }));
  }
}

/** Counts in this process: exact for one instance. */
export function memoryLimitStores(): LimitStores {
  return { create: () => new ProcessStore(), close: () => Promise.resolve() };
}

/**
 * Counts in Redis, for all instances together. While Redis is away or does not answer within 100 ms, each instance
 * counts for itself: a limit protects the service, so losing the means to count exactly must not stop it.
 */
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
    // A write: a Redis that answers but refuses writes (a full disk, a replica) cannot count.
    probe: ['SET', 'gauge:limit:probe', '1', 'PX', '1000'],
    prepare: () => Promise.all(stores.map((store) => store.loadScripts())),
    onChange(isUp, cause) {
      metrics.limitStoreIsShared.set(isUp ? 1 : 0);
      if (isUp) log.info('rate limits are counted in Redis');
      else log.warn({ err: cause }, 'Redis fails or is too slow: rate limits are counted in this process');
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

/** One limit, counted in Redis while that is up and in this process otherwise. */
class FallbackStore implements Store {
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
    // A limit that is made while Redis is up already gets its scripts at once; a failure takes the link down.
    if (this.link.isUp) this.link.run(() => this.loadScripts()).catch(() => undefined);
  }

  /** The store keeps the outcome of this for ever, a failure as well: it is repeated whenever Redis has been away. */
  async loadScripts(): Promise<void> {
    if (this.options) await this.redis.init(this.options);
  }

  increment(key: string): Promise<ClientRateLimitInfo> {
    return this.count(
      () => this.redis.increment(key),
      () => this.memory.increment(key),
    );
  }

  decrement(key: string): Promise<void> {
    return this.count(
      () => this.redis.decrement(key),
      () => this.memory.decrement(key),
    );
  }

  resetKey(key: string): Promise<void> {
    return this.count(
      () => this.redis.resetKey(key),
      () => this.memory.resetKey(key),
    );
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const info = await this.count(
      () => this.redis.get(key),
      () => this.memory.get(key),
    );
    // What Redis has no count of, the library counts as NaN.
    return Number.isNaN(info?.totalHits) ? undefined : info;
  }

  shutdown(): void {
    this.memory.shutdown();
  }

  private async count<T>(shared: () => Promise<T>, own: () => Promise<T>): Promise<T> {
    if (this.link.isUp) {
      try {
        return await this.link.run(shared);
      } catch {
        // The link has told the log; from here on this count is like those made while it is down.
      }
    }
    this.metrics.limitStoreFailures.inc();
    return own();
  }
}
