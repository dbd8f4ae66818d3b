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
import { createFunctions } from './functions.js';
import type { openEmbedded } from './embedded.js';
import type { openPostgres } from './postgres.js';
import { selectRows } from './sql.js';

/** Append-only tables, whose rows the serving role can neither update nor delete. */
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
 * Lets the serving role read and write rows of the existing tables and nothing else. The role owns nothing, so it
 * cannot change the schema, a constraint or its own privileges. Runs as the owner after each migration.
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
/** Advisory lock key, an arbitrary constant that all instances share. */
const MIGRATION_LOCK = 4_283_641_097;

export type Opened = ReturnType<typeof openPostgres> | Awaited<ReturnType<typeof openEmbedded>>;

/**
 * Brings the schema up to date. If several instances start together, the first migrates and the others wait.
 * @param ownerUrl URL for the role that owns the schema; default: the serving role
 * @throws UnsuitableDatabaseError
 */
export async function migrateDatabase(db: Opened, ownerUrl?: string): Promise<void> {
  await requireMainBranch(db);
  if ('pool' in db) {
    // If the schema is up to date, the serving role or a read-only server is enough.
    if (!ownerUrl && (await isMigrated(db))) return;
    const { connectionString } = db.pool.options;
    await migrateAs(ownerUrl ?? connectionString!, ownerUrl && userOf(connectionString!));
  } else {
    if (await isMigrated(db)) return;
    await migratePglite(db.orm, { migrationsFolder });
    await createFunctions(db.orm);
  }
  if (await isMigrated(db)) return;
  if (ownerUrl)
    throw new UnsuitableDatabaseError(
      'MIGRATION_DATABASE_URL and DATABASE_URL name different databases: the former is up to date, the latter is not. Both must name the same database.',
    );
  throw new Error('Only some of the migrations were applied. Check migrations/meta/_journal.json.');
}

async function migrateAs(connectionString: string, servingRole: string | undefined): Promise<void> {
  // Uses its own connection without time-outs, because a large index may take minutes while other instances wait for
  // the lock.
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
    // An older version must not replace the functions of a newer one.
    if ((await countNewer({ orm })) === 0) await createFunctions(orm);
    // Tables from new migrations must be distributed like the others.
    if (await isDistributed(orm)) await distributeTables(orm, 0);
    if (servingRole && servingRole !== userOf(connectionString)) await grantServing(orm, servingRole);
  } catch (error) {
    if (sqlState(error) !== '42501') throw error;
    throw new UnsuitableDatabaseError(
      'The schema does not match this version, and the role in the database URL may not change it. Run `npm run migrate` with the URL of its owner in MIGRATION_DATABASE_URL.',
    );
  } finally {
    await client.end();
  }
}

const userOf = (url: string): string => decodeURIComponent(new URL(url).username);

/** Timestamps of this version's migrations, oldest first. */
const listKnown = once(() =>
  Promise.resolve(readMigrationFiles({ migrationsFolder }).map(({ folderMillis }) => folderMillis)),
);

export async function isMigrated(db: Pick<Database, 'orm'>): Promise<boolean> {
  const applied = new Set(await listApplied(db));
  return (await listKnown()).every((time) => applied.has(time));
}

/** Counts applied migrations from newer versions. They may have changed tables that this version relies on. */
export async function countNewer(db: Pick<Database, 'orm'>): Promise<number> {
  const last = (await listKnown()).at(-1)!;
  return (await listApplied(db)).filter((time) => time > last).length;
}

/**
 * Rejects a database from before the baseline or from another branch. The migrator compares only the last migration's
 * timestamp, so on such a database it would skip migrations or create existing objects again.
 * @throws UnsuitableDatabaseError
 */
async function requireMainBranch(db: Pick<Database, 'orm'>): Promise<void> {
  const known = await listKnown();
  const baseline = known[0]!;
  const applied = await listApplied(db);
  if (applied.length === 0) return;
  const last = Math.max(...applied);
  if (last < baseline)
    throw new UnsuitableDatabaseError(
      'This database is too old to be upgraded in one step: start commit 2044326c on it once, then this version.',
    );
  if (
    applied.some((time) => time > baseline && time < known.at(-1)! && !known.includes(time)) ||
    known.some((time) => time < last && !applied.includes(time))
  )
    throw new UnsuitableDatabaseError(
      'A build of an unmerged branch made this database, which cannot be upgraded: restore a backup made by a version of the main branch, or start with an empty database.',
    );
}

async function listApplied(db: Pick<Database, 'orm'>): Promise<number[]> {
  try {
    const rows = await selectRows<{ time: string }>(
      db.orm,
      sql`select created_at::text as time from drizzle.__drizzle_migrations`,
    );
    return rows.map(({ time }) => Number(time));
  } catch (error) {
    // The migrations table or its schema does not exist, or this role may not read it.
    if (['42P01', '3F000', '42501'].includes(sqlState(error) ?? '')) return [];
    throw error;
  }
}
