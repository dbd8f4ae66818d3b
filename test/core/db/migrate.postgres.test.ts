import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { UnsuitableDatabaseError } from '../../../src/core/db/check-server.js';
import { isDatabaseUnavailable } from '../../../src/core/db/client.js';
import { isMigrated, migrateDatabase } from '../../../src/core/db/migrate.js';
import { openPostgres } from '../../../src/core/db/postgres.js';

const name = `migrate_${process.pid}`;
const log = pino({ level: 'silent' });
const url = inject('postgresUrl').replace(/\/postgres$/, `/${name}`);
const admin = new pg.Client({ connectionString: inject('postgresUrl') });
beforeAll(async () => {
  await admin.connect();
  await admin.query(`create database ${name}`);
});
afterAll(async () => {
  await admin.query(`drop database ${name} with (force)`);
  await admin.end();
});

it('migrations run once, however many instances start together', async () => {
  const instances = Array.from({ length: 4 }, () => openPostgres(url, log));
  await Promise.all(instances.map((db) => migrateDatabase(db)));
  const [first] = instances;
  const { rows } = await first!.pool.query<{ hash: string }>('select hash from drizzle.__drizzle_migrations');
  expect(rows.length).toBeGreaterThan(0);
  expect(new Set(rows.map(({ hash }) => hash)).size).toBe(rows.length);
  expect(await isMigrated(first!)).toBe(true);
  await migrateDatabase(first!);
  const again = await first!.pool.query('select hash from drizzle.__drizzle_migrations');
  expect(again.rows).toEqual(rows);
  await Promise.all(instances.map((db) => db.close()));
});

it.each([
  ['has a migration that the main branch does not', 'update'],
  ['lacks a migration older than its last one, which would be skipped', 'delete from'],
])('a database of an unmerged branch, which %s, is refused in one sentence', async (_what, change) => {
  const db = openPostgres(url, log);
  const table = 'drizzle.__drizzle_migrations';
  const { rows } = await db.pool.query<{ id: number; hash: string; created_at: string }>(
    `select id, hash, created_at from ${table} order by created_at desc limit 2`,
  );
  const older = rows[1]!;
  await db.pool.query(
    `${change} ${table} ${change === 'update' ? 'set created_at = created_at + 1 ' : ''}where id = ${older.id}`,
  );
  const refusal = await migrateDatabase(db).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(UnsuitableDatabaseError);
  expect((refusal as Error).message).toMatch(/^[^.]*unmerged branch[^.]*\.$/);
  expect(await isMigrated(db)).toBe(false);
  await db.pool.query(`delete from ${table} where id = $1`, [older.id]);
  await db.pool.query(
    `insert into ${table} (id, hash, created_at) values ($1, $2, $3)`,
    Object.values(older),
  );
  await migrateDatabase(db);
  await db.close();
});

it('a start that loses its connection while waiting for its turn fails without ending the process', async () => {
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  const db = openPostgres(url, log);
  await holder.query(
    'delete from drizzle.__drizzle_migrations where id = (select max(id) from drizzle.__drizzle_migrations)',
  );
  await holder.query('select pg_advisory_lock(4283641097)');
  const outcome = migrateDatabase(db).catch((error: unknown) => error);
  for (let ended = 0; ended === 0;) {
    const { rowCount } = await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'gauge-migrate' and wait_event_type = 'Lock'`,
      [name],
    );
    ended = rowCount ?? 0;
  }
  expect(await outcome).toSatisfy(isDatabaseUnavailable);
  await holder.end();
  await db.close();
});
