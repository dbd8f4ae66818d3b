import { accessSync, constants, statfsSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { findChromium } from './test/support/chromium.js';
import { findPostgresBinaries } from './test/support/postgres-server.js';

/**
 * `npm test` sets TEST_DATABASE=embedded: the embedded database needs no installation. `npm run test:all` adds a real Postgres
 * if one is installed (or named by TEST_POSTGRES_BIN); with REQUIRE_POSTGRES=1 a missing Postgres is a failure.
 * TEST_DATABASE=postgres runs these tests alone, and TEST_DATABASE=citus runs the tests on a sharded database, by its
 * coordinator, which needs the Citus extension. TEST_REPORT names a file for the results as JSON.
 *
 * What a person sees is tested in Chromium, on the embedded database, where Chromium is installed (or named by
 * TEST_CHROMIUM) and TEST_DATABASE asks for nothing else; with REQUIRE_BROWSER=1 a missing one is a failure.
 */
const { TEST_DATABASE: only, TEST_REPORT: report, REQUIRE_POSTGRES, REQUIRE_BROWSER } = process.env;
const databases = (['embedded', 'postgres', 'citus'] as const).filter((name) =>
  only
    ? name === only
    : name === 'embedded' || (name === 'postgres' && (REQUIRE_POSTGRES === '1' || findPostgresBinaries())),
);
/** Databases are copied and removed hundreds of times: in memory that takes a tenth of the time. A container has little of it there. */
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

const excluded = {
  // Redis is the same whatever the database: where it must be there, so must Postgres.
  embedded: ['test/**/*.postgres.test.ts', 'test/**/*.redis.test.ts', 'test/**/*.citus.test.ts'],
  postgres: ['test/**/*.embedded.test.ts', 'test/**/*.pure.test.ts', 'test/**/*.citus.test.ts'],
  citus: [
    'test/**/*.embedded.test.ts',
    'test/**/*.pure.test.ts',
    'test/**/*.postgres.test.ts',
    // It asks one session for the plan of what that has prepared; here sessions of several servers have.
    'test/core/db/plans.test.ts',
    // They copy a database for each test, which Citus cannot.
    'test/demo/demo.test.ts',
  ],
};
const hasBrowser = REQUIRE_BROWSER === '1' || (!only && findChromium() !== undefined);
/** Most of what a test makes is soon gone, and other workers use the other cores: a tenth less time. */
const execArgv = ['--max-semi-space-size=64', '--single-threaded-gc'];
// Nothing that a test could feel is kept at the level of modules, so files need no process of their own: a third less time.
const isolate = false;
/** Files that take long begin first: one that begins last would keep a single core busy while the other has nothing left. */
const long =
  /(main|npm-scripts|crash|demo|setup-link|change|matrix|examples|connection-faults|dispatcher|model|chain|shard|shards-away|corrections|reservations|first-start|pages|console|first-sight|set-up|documentation|second-factor)(\.embedded|\.postgres|\.citus)?\.test\.ts$/;
/** Limits end tests that would never end. A busy machine, ten times slower than a quiet one, is no failure. */
const expectOptions = { poll: { timeout: 50_000 } };
const limits = { testTimeout: 60_000, hookTimeout: 120_000 };
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => long.test(moduleId);
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
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

export default defineConfig({
  test: {
    // One more than the machine of the tests has cores: many wait, for processes that start and for connections that are cut.
    maxWorkers: 3,
    // What one step has transformed, the steps after it need not.
    experimental: { fsModuleCache: true },
    sequence: { sequencer: LongestFirst },
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
    projects: [
      ...databases.map((name) => ({
        test: {
          name,
          isolate,
          execArgv,
          include: ['test/**/*.test.ts'],
          exclude: [browserTests, ...excluded[name]],
          globalSetup: [`test/support/setup-${name}.ts`],
          setupFiles: ['test/support/property-seed.ts'],
          expect: expectOptions,
          env: { TEST_DATABASE: name, NODE_ENV: 'test' },
          ...limits,
        },
      })),
      ...(hasBrowser ? [browserProject] : []),
    ],
    coverage: { include: ['src/**/*.ts'], exclude: ['src/client/api.d.ts'] },
  },
});
