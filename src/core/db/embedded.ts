import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
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
    if (!existsSync(directory)) layDown(directory);
    const pglite = await PGlite.create(directory);
    forgetOtherArrays(pglite);
    return embeddedDatabase(pglite, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Ids of types, from Postgres's `pg_type.dat`: bool[], int4[], text[], varchar[], int8[], float8[], numeric[], uuid[]. */
const ARRAYS_READ = [1000, 1007, 1009, 1015, 1016, 1022, 1231, 2951];

/**
 * PGlite copies all of its parsers with each query that names some of its own, as every one of Drizzle's does, and has one for
 * arrays of every type and of each table's rows: a sixth of the time of a short query. Those of single values are its defaults.
 */
function forgetOtherArrays(pglite: PGlite): void {
  pglite.parsers = Object.fromEntries(ARRAYS_READ.map((id) => [id, pglite.parsers[id]!]));
}

/** An empty database that the installation has made, beside the compiled service: making one takes seconds. */
const prepared = fileURLToPath(new URL('../../database/pglite', import.meta.url));

/**
 * Puts the empty database there, whole or not at all. Without one the first use makes it. Nothing else runs yet that could
 * be held up, and a thousand small files take three times as long where each waits for its turn.
 */
function layDown(directory: string): void {
  if (!existsSync(prepared)) return;
  const copy = `${directory}.copy`;
  rmSync(copy, { recursive: true, force: true });
  cpSync(prepared, copy, { recursive: true });
  renameSync(copy, directory);
}

/** @param unlock - called when it is closed */
export function embeddedDatabase(pglite: PGlite, unlock: () => void) {
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
