import { existsSync, mkdirSync } from 'node:fs';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';
import { drizzle } from 'drizzle-orm/pglite';
import type { Database, Orm, TextRow } from './client.js';
import { lockDirectory } from './directory-lock.js';
import { oneShardGroup } from './shards.js';

/**
 * Opens the embedded database (PGlite, Postgres compiled to WebAssembly) in `dataDir`, for trying Gauge and for one
 * process. It does not fsync: committed rows survive a killed process, not a power cut. It has one connection, and
 * a statement blocks the event loop while it runs; the turn that is given up after each lets other requests through.
 */
export async function openEmbedded(dataDir: string): Promise<Database & { orm: ReturnType<typeof drizzle> }> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const unlock = await lockDirectory(dataDir);
  try {
    const directory = join(dataDir, 'pglite');
    if (!existsSync(directory)) await layDown(directory);
    const pglite = await PGlite.create(directory);
    forgetRowArrays(pglite);
    return embeddedDatabase(pglite, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** The first id that is not written down in Postgres's own sources: from here on are the types of tables' rows. */
const FIRST_GENERATED_ID = 10_000;

/**
 * PGlite has a parser for arrays of each table's rows, which no query reads, and copies all parsers with each query that
 * names some of its own, as every one of Drizzle's does: half of the time of a short one.
 */
function forgetRowArrays({ parsers }: PGlite): void {
  for (const id of Object.keys(parsers).map(Number)) if (id >= FIRST_GENERATED_ID) delete parsers[id];
}

/** An empty database that the installation has made, beside the compiled service: making one takes seconds. */
const prepared = fileURLToPath(new URL('../../database/pglite', import.meta.url));

/** Puts the empty database there, whole or not at all. Without one the first use makes it. */
async function layDown(directory: string): Promise<void> {
  if (!existsSync(prepared)) return;
  const copy = `${directory}.copy`;
  await rm(copy, { recursive: true, force: true });
  await cp(prepared, copy, { recursive: true });
  await rename(copy, directory);
}

function embeddedDatabase(pglite: PGlite, unlock: () => void) {
  const runOn = (client: Pick<PGlite, 'query'>) => async (statement: { text: string }, values: unknown[]) => {
    const result = await client.query<TextRow>(statement.text, values, { rowMode: 'array' });
    await nextTurn();
    return result.rows;
  };
  const orm = drizzle(pglite);
  const main = {
    orm,
    parallel: 1,
    run: runOn(pglite),
    dryRun: <T>(work: (run: Database['run']) => Promise<T>): Promise<T> =>
      pglite.transaction(async (tx) => {
        const result = await work(runOn(tx));
        await tx.rollback();
        return result;
      }),
  };
  return {
    kind: 'embedded' as const,
    ...main,
    shards: oneShardGroup(main),
    parallelTransactions: 1,
    transaction: <T>(work: (tx: Orm) => Promise<T>) => orm.transaction(work),
    async ping() {
      await pglite.query('select 1');
    },
    async close() {
      await pglite.close();
      unlock();
    },
  };
}
