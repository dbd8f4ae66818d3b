import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as migratePostgres } from 'drizzle-orm/node-postgres/migrator';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { sql } from 'drizzle-orm';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Database } from './client.js';
import type { openEmbedded } from './embedded.js';
import type { openPostgres } from './postgres.js';

const migrationsFolder = fileURLToPath(new URL('../../migrations', import.meta.url));
/** Any constant of our own; all instances ask for the same lock. */
const MIGRATION_LOCK = 4_283_641_097;

export type Opened = ReturnType<typeof openPostgres> | Awaited<ReturnType<typeof openEmbedded>>;

/** Brings the schema up to date. Instances that start together wait for each other; only the first one finds work. */
export async function migrateDatabase(db: Opened): Promise<void> {
  if ('pool' in db) {
    // A connection of its own without time-outs: a large index may take minutes, and others wait for the lock meanwhile.
    const client = new pg.Client({
      connectionString: db.pool.options.connectionString,
      application_name: 'gauge-migrate',
    });
    // A connection that is lost while it waits fails the query, too; without a listener it would end the process.
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
      await migratePostgres(drizzle(client), { migrationsFolder });
    } finally {
      await client.end();
    }
  } else {
    await migratePglite(db.orm, { migrationsFolder });
  }
  if (!(await isMigrated(db)))
    throw new Error('The migrations were applied only in part; is migrations/meta/_journal.json in order?');
}

/** True when the last migration this version knows has been applied. */
export async function isMigrated(db: Pick<Database, 'orm'>): Promise<boolean> {
  const known = readMigrationFiles({ migrationsFolder });
  const result = await db.orm.execute(sql`select count(*)::int as applied from drizzle.__drizzle_migrations`);
  const { rows } = result as { rows?: { applied: number }[] };
  return (rows?.[0]?.applied ?? 0) >= known.length;
}
