import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';
import { drizzle } from 'drizzle-orm/pglite';
import type { Database, Orm, Statement } from './client.js';
import { lockDirectory } from './directory-lock.js';
import { oneShardGroup } from './shards.js';

/**
 * Opens the embedded database (PGlite, Postgres compiled to WebAssembly) in `dataDir`, for trying Gauge and for one
 * process. It does not fsync: committed rows survive a killed process, but not a power cut. It has one connection,
 * and a statement blocks the event loop while it runs; yielding a turn after each lets other requests through.
 */
export async function openEmbedded(dataDir: string): Promise<Database & { orm: ReturnType<typeof drizzle> }> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const unlock = await lockDirectory(dataDir);
  try {
    const directory = join(dataDir, 'pglite');
    if (!existsSync(directory)) copyPrepared(directory);
    const pglite = await PGlite.create(directory);
    dropUnusedArrayParsers(pglite);
    return embeddedDatabase(pglite, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Type ids from Postgres's `pg_type.dat`: bool[], int4[], text[], varchar[], int8[], float8[], numeric[], uuid[]. */
const ARRAYS_READ = [1000, 1007, 1009, 1015, 1016, 1022, 1231, 2951];

/**
 * PGlite copies all its parsers for each query that sets some, as Drizzle's queries do, and has one for the array of
 * every type and of each table's rows. Copying them takes a sixth of a short query. Parsers of single values are
 * defaults and not copied.
 */
function dropUnusedArrayParsers(pglite: PGlite): void {
  pglite.parsers = Object.fromEntries(ARRAYS_READ.map((id) => [id, pglite.parsers[id]!]));
}

/** An empty database made at installation, beside the compiled service: creating one takes seconds. */
const prepared = fileURLToPath(new URL('../../database/pglite', import.meta.url));

/**
 * Copies the empty database into place, whole or not at all; without one, the first use creates it. Synchronous
 * copying is fine before the service runs, and three times as fast for a thousand small files.
 */
function copyPrepared(directory: string): void {
  if (!existsSync(prepared)) return;
  const copy = `${directory}.copy`;
  rmSync(copy, { recursive: true, force: true });
  cpSync(prepared, copy, { recursive: true });
  renameSync(copy, directory);
}

export function embeddedDatabase(pglite: PGlite, unlock: () => void) {
  const runOn =
    (client: Pick<PGlite, 'query'>) =>
    async <Row>(
      { text, readRow }: Pick<Statement, 'text' | 'readRow'>,
      values: unknown[],
    ): Promise<Row[]> => {
      const result = await client.query(text, values, readRow ? { rowMode: 'array' } : {});
      await nextTurn();
      return (readRow ? (result.rows as (string | null)[][]).map(readRow) : result.rows) as Row[];
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
