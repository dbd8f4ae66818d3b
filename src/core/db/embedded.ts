import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { drizzle } from 'drizzle-orm/pglite';
import { UnsuitableDatabaseError } from './check-server.js';
import type { Database, Orm, Statement } from './client.js';
import { openDatabaseSocket } from './database-socket.js';
import { lockDirectory } from './directory-lock.js';
import { connectPglite, type PgliteClient } from './pglite-port.js';
import { withPreparedStatements } from './prepared-statements.js';
import { oneShardGroup } from './shards.js';

export type EmbeddedDatabase = ReturnType<typeof embeddedDatabase>;

/**
 * PGlite has one connection and does not fsync: committed rows survive a killed process, but not a power failure.
 * @param inThread otherwise each statement blocks the event loop, which gets one turn between statements
 */
export async function openEmbedded(
  dataDir: string,
  inThread = false,
  warn = (text: string): void => void process.stderr.write(`${text}\n`),
): Promise<EmbeddedDatabase> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const unlock = await lockDirectory(dataDir);
  try {
    const directory = join(dataDir, 'pglite');
    if (!existsSync(directory)) copyPrepared(directory);
    closeToOthers(directory, warn);
    if (!inThread) return embeddedDatabase(withPreparedStatements(await openPglite(directory)), unlock);
    const { client, openPort } = await openPgliteInThread(directory);
    const socket = await openDatabaseSocket(dataDir, openPort);
    const close = (): Promise<void> => {
      socket.close();
      return client.close();
    };
    return embeddedDatabase({ ...client, close }, unlock, openPort);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** PGlite creates its files with mode 0666. */
function closeToOthers(directory: string, warn: (text: string) => void): void {
  const isNew = mkdirSync(directory, { recursive: true, mode: 0o700 }) !== undefined;
  const mode = () => statSync(directory).mode & 0o777;
  const before = mode();
  if ((before & 0o077) === 0) return;
  try {
    chmodSync(directory, 0o700);
  } catch (error) {
    throw new UnsuitableDatabaseError(
      `Other users can access ${directory}, which belongs to another user. Run: chmod 700 ${directory}`,
      { cause: error },
    );
  }
  if (!isNew) warn(`${directory} had mode 0${before.toString(8)}. Now only its owner can access it.`);
}

/** Postgres's default of 128 MB uses 150 MB more memory and takes a third longer to open. */
const SHARED_BUFFERS = '16MB';

export async function openPglite(directory: string): Promise<PGlite> {
  const startParams = [...PGlite.defaultStartParams, '-c', `shared_buffers=${SHARED_BUFFERS}`];
  const pglite = await PGlite.create(directory, { startParams });
  dropUnusedArrayParsers(pglite);
  return pglite;
}

async function openPgliteInThread(directory: string) {
  const worker = new Worker(new URL('./pglite-thread.js', import.meta.url), {
    workerData: { directory },
    resourceLimits: { maxYoungGenerationSizeMb: 16 },
  });
  const client = connectPglite(worker);
  await Promise.race([
    client.query('select 1'),
    new Promise<never>((_resolve, reject) => worker.once('error', reject)),
  ]);
  worker.on('error', (error) => {
    throw error;
  });
  return {
    client: {
      ...client,
      async close(): Promise<void> {
        const ended = once(worker, 'exit');
        await Promise.race([client.close(), ended]);
        await ended;
      },
    },
    openPort: (): MessagePort => {
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ port: port1 }, [port1]);
      return port2;
    },
  };
}

/** Type ids from Postgres's `pg_type.dat`: bool[], int4[], text[], varchar[], int8[], float8[], numeric[], uuid[]. */
const ARRAYS_READ = [1000, 1007, 1009, 1015, 1016, 1022, 1231, 2951];

/**
 * PGlite copies the parsers of all arrays for each query that sets some, as Drizzle's do: a sixth of a short query.
 * Parsers of single values are defaults and not copied.
 */
function dropUnusedArrayParsers(pglite: PGlite): void {
  pglite.parsers = Object.fromEntries(ARRAYS_READ.map((id) => [id, pglite.parsers[id]!]));
}

/** Prepared at installation, because creating a database takes seconds. */
const prepared = fileURLToPath(new URL('../../database/pglite', import.meta.url));

/** Synchronous copying is three times as fast for a thousand small files, and nothing else runs yet. */
function copyPrepared(directory: string): void {
  if (!existsSync(prepared)) return;
  const copy = `${directory}.copy`;
  rmSync(copy, { recursive: true, force: true });
  cpSync(prepared, copy, { recursive: true });
  renameSync(copy, directory);
}

export function embeddedDatabase(pglite: PgliteClient, unlock: () => void, openPort?: () => MessagePort) {
  const runOn =
    (client: Pick<PgliteClient, 'query'>) =>
    async <Row>(
      { text, readRow }: Pick<Statement, 'text' | 'readRow'>,
      values: unknown[],
    ): Promise<Row[]> => {
      const result = await client.query(text, values, readRow ? { rowMode: 'array' } : {});
      if (!openPort) await nextTurn();
      return (readRow ? (result.rows as (string | null)[][]).map(readRow) : result.rows) as Row[];
    };
  const orm = drizzle(pglite as PGlite);
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
    openPort,
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
