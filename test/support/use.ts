import { afterAll, beforeAll } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { createTestDatabase, type TestDatabase } from './database.js';
import { silent } from './lent-database.js';
import { startTestService, type TestService, type TestServiceOptions } from './service.js';

/**
 * Starts something before the tests of this file or `describe` and stops it after them.
 * @returns what `start` returned; only tests and hooks may read its fields
 */
export function use<T extends object>(start: () => T | Promise<T>, stop: (started: T) => unknown): T {
  let started: T | undefined;
  beforeAll(async () => void (started = await start()));
  afterAll(async () => {
    if (started) await stop(started);
  });
  return readLater(() => {
    if (!started) throw new Error('This starts before the tests. Only tests and hooks may read it.');
    return started;
  });
}

const readLater = <T extends object>(read: () => T): T =>
  new Proxy({} as T, {
    get: (_, name) => Reflect.get(read(), name) as unknown,
    set: (_, name, value) => Reflect.set(read(), name, value),
    has: (_, name) => Reflect.has(read(), name),
    ownKeys: () => Reflect.ownKeys(read()),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(read(), name),
  });

/** A migrated, empty database for the tests of this file or `describe`. */
export const useDatabase = (): TestDatabase => use(createTestDatabase, (database) => database.remove());

/** Further connections to a real Postgres, like those of another instance. */
export const useOtherConnections = (database: TestDatabase): Database =>
  use(
    () => openDatabase({ databaseUrl: database.url, dataDir: '' }, silent),
    (db) => db.close(),
  );

/** Use a function if the options depend on something that an earlier hook starts. */
export type LateOptions<T> = T | (() => T);

const readOptions = <T extends object>(options: LateOptions<T>): T =>
  typeof options === 'function' ? options() : options;

export interface UsedService {
  database: TestDatabase;
  service: TestService;
  /** Starts another instance on the same database; it is stopped after the tests. */
  startAnother: (options?: TestServiceOptions) => Promise<TestService>;
}

/**
 * The whole app on its own database. Sharing one between files would save only 50 ms of the second that each file
 * takes, and files would see each other's rows, used-up limits and clock.
 */
export function useService(options: LateOptions<TestServiceOptions> = {}): UsedService {
  const database = useDatabase();
  const others = use(
    () => [] as TestService[],
    (started) => Promise.all(started.map((other) => other.stop())),
  );
  return {
    database,
    service: useServiceOn(() => database.db, options),
    async startAnother(otherOptions = {}) {
      const other = await startTestService(database.db, otherOptions);
      others.push(other);
      return other;
    },
  };
}

/** The app on a database that the tests already have. */
export const useServiceOn = (
  db: () => Database,
  options: LateOptions<TestServiceOptions> = {},
): TestService =>
  use(
    () => startTestService(db(), readOptions(options)),
    (service) => service.stop(),
  );
