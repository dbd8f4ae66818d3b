import { defineConfig } from 'vitest/config';
import { findPostgresBinaries } from './test/support/postgres-server.js';

/**
 * The same tests run on the embedded database, which everybody has, and on a real Postgres where one is installed
 * (or named by TEST_POSTGRES_BIN). TEST_DATABASE=embedded or postgres runs one of them; with REQUIRE_POSTGRES=1 a
 * missing Postgres is a failure. TEST_REPORT names a file for the results as JSON.
 */
const { TEST_DATABASE: only, TEST_REPORT: report, REQUIRE_POSTGRES } = process.env;
const databases = (['embedded', 'postgres'] as const).filter((name) =>
  only ? name === only : name === 'embedded' || REQUIRE_POSTGRES === '1' || findPostgresBinaries(),
);

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
    projects: databases.map((name) => ({
      test: {
        name,
        include: ['test/**/*.test.ts'],
        exclude:
          name === 'embedded'
            ? ['test/**/*.postgres.test.ts']
            : ['test/**/*.embedded.test.ts', 'test/**/*.pure.test.ts'],
        globalSetup: [`test/support/setup-${name}.ts`],
        env: { TEST_DATABASE: name, NODE_ENV: 'test' },
        testTimeout: 20_000,
        hookTimeout: 60_000,
      },
    })),
    coverage: { include: ['src/**/*.ts'], exclude: ['src/client/api.d.ts'] },
  },
});
