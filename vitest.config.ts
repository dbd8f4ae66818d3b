import { accessSync, constants, statfsSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { findChromium } from './test/support/chromium.js';
import { findPostgresBinaries } from './test/support/postgres-server.js';

/**
 * `npm test` sets TEST_DATABASE=embedded, because the embedded database needs no installation. `npm run test:all`
 * leaves it unset, which adds the tests that start whole programs, and the tests on a real Postgres if one is installed
 * or named by TEST_POSTGRES_BIN. With REQUIRE_POSTGRES=1, a missing Postgres is a failure. TEST_DATABASE=postgres runs
 * only the tests on Postgres and those that start whole programs. TEST_DATABASE=citus runs the tests through the
 * coordinator of a sharded database and needs the Citus extension. TEST_REPORT names a file for the results as JSON.
 *
 * Browser tests run on the embedded database if TEST_DATABASE is unset and Chromium is installed or named by
 * TEST_CHROMIUM. With REQUIRE_BROWSER=1, they always run, and a missing Chromium is a failure.
 */
const { TEST_DATABASE: only, TEST_REPORT: report, REQUIRE_POSTGRES, REQUIRE_BROWSER } = process.env;
const databases = (['embedded', 'postgres', 'citus'] as const).filter((name) =>
  only
    ? name === only
    : name === 'embedded' || (name === 'postgres' && (REQUIRE_POSTGRES === '1' || findPostgresBinaries())),
);
/**
 * In-memory file system for test databases. Tests copy and remove databases hundreds of times, which is ten times
 * faster in memory. In containers, /dev/shm may be too small.
 */
const memory = '/dev/shm';
if (!process.env.TMPDIR && hasRoom(memory)) process.env.TMPDIR = memory;

function hasRoom(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > 4 * 2 ** 30;
  } catch {
    return false;
  }
}

/** Tests of whole programs on the embedded database: starts, commands, signals and kills. */
const startsProcesses = [
  'test/**/*.process.test.ts',
  'test/crash/crash.test.ts',
  'test/commands/{reconcile,shard}.test.ts',
];
const excluded = {
  // Redis tests do not depend on the database, so they do not run again on the embedded database.
  embedded: [
    'test/**/*.postgres.test.ts',
    'test/**/*.redis.test.ts',
    'test/**/*.citus.test.ts',
    ...startsProcesses,
  ],
  postgres: [
    'test/**/*.embedded.test.ts',
    '**/*.pure.test.ts',
    'test/**/*.process.test.ts',
    'test/**/*.citus.test.ts',
  ],
  citus: [
    'test/**/*.process.test.ts',
    'test/**/*.embedded.test.ts',
    '**/*.pure.test.ts',
    'test/**/*.postgres.test.ts',
    // This test reads prepared plans from one session, but Citus prepares them in sessions on several servers.
    'test/core/db/plans.test.ts',
    // This test copies a database, which Citus does not support.
    'test/demo/demo.test.ts',
  ],
};
const hasBrowser = REQUIRE_BROWSER === '1' || (!only && findChromium() !== undefined);
/**
 * A larger young generation, a single-threaded garbage collector, and optimizing only the hottest WebAssembly functions
 * save a sixth of the processor time.
 */
const execArgv = ['--max-semi-space-size=128', '--single-threaded-gc', '--wasm-tiering-budget=40000000'];
// No module keeps state that affects other tests, so files share a process, which saves a third of the time.
const isolate = false;
/** Time limits only stop tests that hang. No other test may reach them, however slow the machine is. */
const expectOptions = { poll: { timeout: 600_000 } };
const limits = { testTimeout: 900_000, hookTimeout: 900_000 };
const browserTests = 'test/browser/**/*.test.ts';
const browserProject = {
  test: {
    name: 'browser',
    isolate,
    execArgv,
    include: [browserTests],
    globalSetup: ['test/support/setup-embedded.ts'],
    expect: expectOptions,
    env: { TEST_DATABASE: 'embedded', NODE_ENV: 'test' },
    ...limits,
  },
};

const processProject = {
  test: {
    name: 'processes',
    isolate,
    execArgv,
    include: startsProcesses,
    globalSetup: ['test/support/setup-embedded.ts'],
    expect: expectOptions,
    env: { TEST_DATABASE: 'embedded', NODE_ENV: 'test' },
    ...limits,
  },
};

export default defineConfig({
  test: {
    // One more worker than CI has cores, because many tests wait for processes and connections.
    maxWorkers: 3,
    // Reuses transformed modules in later CI steps.
    experimental: { fsModuleCache: true },
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
    projects: [
      ...databases.map((name) => ({
        test: {
          name,
          isolate,
          execArgv,
          include: ['test/**/*.test.ts', 'lab/test/**/*.test.ts'],
          exclude: [browserTests, ...excluded[name]],
          globalSetup: [`test/support/setup-${name}.ts`],
          setupFiles: ['test/support/property-seed.ts'],
          expect: expectOptions,
          env: { TEST_DATABASE: name, NODE_ENV: 'test' },
          ...limits,
        },
      })),
      ...(only === undefined || only === 'postgres' ? [processProject] : []),
      ...(hasBrowser ? [browserProject] : []),
    ],
    coverage: { include: ['src/**/*.ts'], exclude: ['src/client/api.d.ts'] },
  },
});
