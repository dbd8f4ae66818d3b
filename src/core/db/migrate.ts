import { fileURLToPath } from 'node:url';
import { sql } from 'drizzle-orm';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as migratePostgres } from 'drizzle-orm/node-postgres/migrator';
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator';
import type pg from 'pg';
import { once } from '../steps.js';
import { explainRefusal, UnsuitableDatabaseError } from './check-server.js';
import { SEQUENTIAL, sqlState, type Database, type Orm } from './client.js';
import { Connection } from './connection.js';
import { distributeTables, isDistributed } from './distribute.js';
import type { openEmbedded } from './embedded.js';
import type { openPostgres } from './postgres.js';
import { selectRows } from './sql.js';

/** What is recorded once and stays: the serving role can neither change nor remove a row of these. */
const appendOnly = [
  'usage_events',
  'usage_corrections',
  'usage_archives',
  'usage_archived_totals',
  'audit_log',
  'operator_log',
  'ledger_entries',
  'trading_fills',
];

/**
 * Gives the role that serves what it needs and no more: to read and write rows of the tables that there are now. It owns
 * nothing, so it cannot change the schema, a constraint or its own rights. Called by the owner after each migration.
 */
async function grantServing(orm: Orm, role: string): Promise<void> {
  const to = sql.identifier(role);
  const history = sql.join(
    appendOnly.map((table) => sql.identifier(table)),
    sql`, `,
  );
  await orm.transaction(async (tx) => {
    await tx.execute(sql`grant usage on schema public, drizzle to ${to}`);
    await tx.execute(sql`grant select on all tables in schema drizzle to ${to}`);
    await tx.execute(sql`grant select, insert, update, delete on all tables in schema public to ${to}`);
    await tx.execute(sql`revoke update, delete on ${history} from ${to}`);
  });
}

const migrationsFolder = fileURLToPath(new URL('../../../migrations', import.meta.url));
/** Any constant of our own; all instances ask for the same lock. */
const MIGRATION_LOCK = 4_283_641_097;

export type Opened = ReturnType<typeof openPostgres> | Awaited<ReturnType<typeof openEmbedded>>;

/**
 * Brings the schema up to date. Instances that start together wait for each other; only the first one finds work.
 * @param ownerUrl the role that owns the schema; left out: the role that serves owns it
 * @throws UnsuitableDatabaseError
 */
export async function migrateDatabase(db: Opened, ownerUrl?: string): Promise<void> {
  if ('pool' in db) {
    // A role that only serves, or a server that only reads, can go on with a schema that is up to date.
    if (!ownerUrl && (await isMigrated(db))) return;
    const { connectionString } = db.pool.options;
    await migrateAs(ownerUrl ?? connectionString!, ownerUrl && userOf(connectionString!));
  } else {
    await migratePglite(db.orm, { migrationsFolder });
  }
  if (await isMigrated(db)) return;
  if (ownerUrl)
    throw new UnsuitableDatabaseError(
      'MIGRATION_DATABASE_URL leads to another database than DATABASE_URL: it is up to date, and that of DATABASE_URL is not. Both must lead to the same one.',
    );
  throw new Error('The migrations were applied only in part; is migrations/meta/_journal.json in order?');
}

async function migrateAs(connectionString: string, servingRole: string | undefined): Promise<void> {
  // A connection of its own without time-outs: a large index may take minutes, and others wait for the lock meanwhile.
  const client: pg.Client = new Connection({ connectionString, application_name: 'gauge-migrate' });
  await client
    .connect()
    .catch((error: unknown) =>
      explainRefusal(error, connectionString, servingRole ? 'MIGRATION_DATABASE_URL' : 'DATABASE_URL'),
    );
  try {
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await client.query(SEQUENTIAL);
    const orm = drizzle(client);
    await migratePostgres(orm, { migrationsFolder });
    // A table that is new is in one place, whatever the others are.
    if (await isDistributed(orm)) await distributeTables(orm, 0);
    if (servingRole && servingRole !== userOf(connectionString)) await grantServing(orm, servingRole);
  } catch (error) {
    if (sqlState(error) !== '42501') throw error;
    throw new UnsuitableDatabaseError(
      'The role of the database URL may not change the schema, which is not that of this version. Run `npm run migrate` with the URL of its owner in MIGRATION_DATABASE_URL.',
    );
  } finally {
    await client.end();
  }
}

const userOf = (url: string): string => decodeURIComponent(new URL(url).username);

/** The folder changes only with the version that runs. */
const countKnown = once(() => Promise.resolve(readMigrationFiles({ migrationsFolder }).length));

/** True when the last migration this version knows has been applied. */
export const isMigrated = async (db: Pick<Database, 'orm'>): Promise<boolean> =>
  (await countApplied(db)) >= (await countKnown());

/** How many migrations of newer versions have been applied. Those may have changed what this one relies on. */
export const countNewer = async (db: Pick<Database, 'orm'>): Promise<number> =>
  Math.max(0, (await countApplied(db)) - (await countKnown()));

async function countApplied(db: Pick<Database, 'orm'>): Promise<number> {
  try {
    const [row] = await selectRows<{ applied: number }>(
      db.orm,
      sql`select count(*)::int as applied from drizzle.__drizzle_migrations`,
    );
    return row!.applied;
  } catch (error) {
    // The table of migrations, or its schema, does not exist, or is not for this role to see.
    if (['42P01', '3F000', '42501'].includes(sqlState(error) ?? '')) return 0;
    throw error;
  }
}
