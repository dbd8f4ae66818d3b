import { defineConfig } from 'vitest/config';
import { findPostgresBinaries } from './test/support/postgres-server.js';

/**
 * The same tests run on the embedded database, which everybody has, and on a real Postgres where one is installed
 * (or named by TEST_POSTGRES_BIN). TEST_DATABASE=embedded or postgres runs one of them.
 */
const only = process.env.TEST_DATABASE;
const databases = (['embedded', 'postgres'] as const).filter((name) =>
  only ? name === only : name === 'embedded' || findPostgresBinaries(),
);

export default defineConfig({
  test: {
    maxWorkers: 2,
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
