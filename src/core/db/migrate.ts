import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sql, type SQL } from 'drizzle-orm';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator';
import type pg from 'pg';
import { once } from '../steps.js';
import { explainRefusal, UnsuitableDatabaseError } from './check-server.js';
import { describeCause, SEQUENTIAL, sqlState, type Database, type Orm } from './client.js';
import { Connection } from './connection.js';
import { distributeTables, isDistributed } from './distribute.js';
import { createFunctions } from './functions.js';
import type { openEmbedded } from './embedded.js';
import type { openPostgres } from './postgres.js';
import { READ_SETTINGS } from './pool.js';
import { schemaRequirement } from './requirement-table.js';
import { selectRows } from './sql.js';

/** The serving role can neither update nor delete these rows. */
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

/** The serving role owns nothing, so it cannot change the schema, a constraint or its own privileges. */
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
/** Arbitrary; all instances share it. */
const MIGRATION_LOCK = 4_283_641_097;

/** The message says since when. */
export class OutdatedError extends UnsuitableDatabaseError {}

export type OpenDatabase = ReturnType<typeof openPostgres> | Awaited<ReturnType<typeof openEmbedded>>;

/**
 * If several instances start together, the first migrates and the others wait.
 * @param ownerUrl default: the serving role
 */
export async function migrateDatabase(db: OpenDatabase, ownerUrl?: string): Promise<void> {
  await requireMainBranch(db);
  await requireNewEnough(db);
  if ('pool' in db) {
    // If the schema is up to date, the serving role or a read-only server is enough.
    if (!ownerUrl && (await isMigrated(db))) return;
    const { connectionString } = db.pool.options;
    await migrateAs(ownerUrl ?? connectionString!, ownerUrl && userOf(connectionString!)).catch(
      explainRaised,
    );
  } else {
    if (await isMigrated(db)) return;
    await migratePglite(db.orm, { migrationsFolder }).catch(explainRaised);
    await createFunctions(db.orm);
  }
  if (await isMigrated(db)) return;
  if (ownerUrl)
    throw new UnsuitableDatabaseError(
      'MIGRATION_DATABASE_URL and DATABASE_URL name different databases: the former is up to date, the latter is not. Both must name the same database.',
    );
  throw new Error('Only some of the migrations were applied. Check migrations/meta/_journal.json.');
}

/** P0001: a migration refuses the data that it finds, in a sentence of its own. */
function explainRaised(error: unknown): never {
  if (sqlState(error) !== 'P0001') throw error;
  throw new UnsuitableDatabaseError(describeCause(error).replace(' (P0001)', ''));
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
    await requireSchemaPublic(client);
    await client.query(
      `${READ_SETTINGS}; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0`,
    );
    await applyMigrations(client, await isDistributed(orm));
    // An older version must not replace the functions of a newer one.
    if ((await countNewer({ orm })) === 0) await createFunctions(orm);
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

/** Shorter than Postgres's deadlock_timeout of 1 s, so that in a deadlock the migration gives way and not the traffic. */
const LOCK_WAIT_MS = 500;
const MAX_ATTEMPTS = 60;
const RETRY_PAUSE_MS = 1_000;

/** A migration releases its locks if one is not free, so that it never holds up traffic for long. */
export async function applyMigrations(client: pg.Client, isSharded: boolean, folder = migrationsFolder) {
  const history = 'drizzle.__drizzle_migrations';
  await client.query(`create schema if not exists drizzle;
    create table if not exists ${history} (id serial primary key, hash text not null, created_at bigint)`);
  const { rows } = await client.query<{ last: string | null }>(
    `select max(created_at)::text as last from ${history}`,
  );
  for (const { sql: statements, hash, folderMillis } of readMigrationFiles({ migrationsFolder: folder })) {
    if (folderMillis <= Number(rows[0]!.last)) continue;
    await retryLocked(
      async () => {
        await client.query(`begin; set local lock_timeout = ${LOCK_WAIT_MS}`);
        if (!isSharded) await lockTables(client, statements.join(';'));
        for (const statement of statements) await client.query(statement);
        await client.query(`insert into ${history} (hash, created_at) values ($1, $2)`, [hash, folderMillis]);
        await client.query('commit');
      },
      () => client.query('rollback'),
    );
  }
}

async function lockTables(client: pg.Client, statements: string): Promise<void> {
  const { rows } = await client.query<{ tables: string | null }>(
    `select string_agg(distinct format('%I', coalesce(t.relname, c.relname)), ', ') as tables
    from pg_class c left join pg_index i on i.indexrelid = c.oid left join pg_class t on t.oid = i.indrelid
    where c.relnamespace = 'public'::regnamespace and c.relname = any ($1) and coalesce(t.relkind, c.relkind) = 'r'`,
    [[...new Set(statements.match(/\w+/g))]],
  );
  const tables = rows[0]?.tables;
  // Building an index blocks only writes.
  const mode = /\b(?:alter|drop)\b/i.test(statements) ? 'access exclusive' : 'share row exclusive';
  if (tables) await client.query(`lock table ${tables} in ${mode} mode`);
}

/** Repeats `work` while other transactions hold its locks: 40P01 deadlock, 55P03 lock time-out. */
async function retryLocked(work: () => Promise<void>, undo: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      await undo().catch(() => undefined);
      if (!/^(40P01|55P03)$/.test(sqlState(error) ?? '') || attempt === MAX_ATTEMPTS) throw error;
      await setTimeout(RETRY_PAUSE_MS * Math.random());
    }
  }
}

/** All tables are in `public`. */
async function requireSchemaPublic(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ schema: string | null; exists: boolean }>(
    `select current_schema() as schema, to_regclass('public.organizations') is not null as exists`,
  );
  const { schema, exists } = rows[0]!;
  if (!exists && schema !== 'public')
    throw new UnsuitableDatabaseError(
      `Gauge keeps its tables in the schema public, but the search path of the database URL, role or database begins with ${schema ?? 'a schema that does not exist'}: use a database of its own, with \`grant create on schema public\` to the owner and \`alter role … set search_path = public\`.`,
    );
}

const userOf = (url: string): string => decodeURIComponent(new URL(url).username);

const listKnown = once(() =>
  Promise.resolve(readMigrationFiles({ migrationsFolder }).map(({ folderMillis }) => folderMillis)),
);

const lastMigration = readLastMigration();

function readLastMigration(): number {
  const journal = JSON.parse(readFileSync(`${migrationsFolder}/meta/_journal.json`, 'utf8')) as {
    entries: { tag: string }[];
  };
  return Number.parseInt(journal.entries.at(-1)!.tag);
}

export async function isMigrated(db: Pick<Database, 'orm'>): Promise<boolean> {
  const applied = new Set(await listApplied(db));
  return (await listKnown()).every((time) => applied.has(time));
}

/** A newer version may have changed tables that this version relies on. */
export async function countNewer(db: Pick<Database, 'orm'>): Promise<number> {
  const last = (await listKnown()).at(-1)!;
  return (await listApplied(db)).filter((time) => time > last).length;
}

export async function requireNewEnough(db: Pick<Database, 'orm'>): Promise<void> {
  const [needed] = await selectIfExists<{ migration: number }>(
    db,
    sql`select migration from ${schemaRequirement} where migration > ${lastMigration}`,
  );
  if (needed)
    throw new OutdatedError(
      `This version of Gauge is too old for the database: it knows the migrations up to ${lastMigration}, and the database needs a version that knows ${needed.migration}. Start the newer version.`,
    );
}

/** The migrator compares only the last timestamp, so on another branch it would skip migrations or repeat them. */
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
  const rows = await selectIfExists<{ time: string }>(
    db,
    sql`select created_at::text as time from drizzle.__drizzle_migrations`,
  );
  return rows.map(({ time }) => Number(time));
}

/** No rows if the table does not exist yet, or this role may not read it. */
async function selectIfExists<Row>({ orm }: Pick<Database, 'orm'>, query: SQL): Promise<Row[]> {
  try {
    return await selectRows<Row>(orm, query);
  } catch (error) {
    if (['42P01', '3F000', '42501'].includes(sqlState(error) ?? '')) return [];
    throw error;
  }
}
