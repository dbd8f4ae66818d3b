import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { expect, inject, it } from 'vitest';
import { applyMigrations, migrateDatabase } from '../../../src/core/db/migrate.js';
import { openPostgres } from '../../../src/core/db/postgres.js';
import { inDatabase, query } from '../../support/postgres-server.js';

const name = `migrate_traffic_${process.pid}`;
const url = inDatabase(inject('postgresUrl'), name);
const tables = ['usage_combinations', 'usage_reservations', 'usage_subjects', 'same_day_fits'];

/** Migrations that are newer than all others. Each changes two of the tables. */
function writeMigrations(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-migrations-'));
  mkdirSync(join(folder, 'meta'));
  const entries = tables.map((table, i) => {
    const tag = `${i}_later`;
    const changed = [table, tables[(i + 2) % tables.length]!];
    const statements = changed.map((name) => `ALTER TABLE "${name}" ADD COLUMN "later_${i}" integer;`);
    writeFileSync(join(folder, `${tag}.sql`), statements.join('--> statement-breakpoint\n'));
    return { idx: i, version: '7', when: Date.parse('2100-01-01') + i, tag, breakpoints: true };
  });
  writeFileSync(
    join(folder, 'meta/_journal.json'),
    JSON.stringify({ version: '7', dialect: 'postgresql', entries }),
  );
  return folder;
}

it('migrations beside transactions that lock the same tables in every order succeed, and no transaction fails', async () => {
  await query(inject('postgresUrl'), `create database ${name}`);
  const db = openPostgres(url, pino({ level: 'silent' }));
  const folder = writeMigrations();
  try {
    await migrateDatabase(db);
    const migrator = new pg.Client({ connectionString: url });
    await migrator.connect();
    let isOver = false;
    const failures: string[] = [];
    let transactions = 0;
    const traffic = tables.map(async (first, number) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const second = tables[(number + 1) % tables.length]!;
      while (!isOver) {
        transactions++;
        await client
          .query(
            `begin; lock table ${first} in row exclusive mode; select pg_sleep(0.05);
            lock table ${second} in row exclusive mode; select pg_sleep(0.05); commit`,
          )
          .catch(async (error: Error) => {
            failures.push(error.message);
            await client.query('rollback');
          });
      }
      await client.end();
    });
    await applyMigrations(migrator, false, folder).finally(() => (isOver = true));
    await migrator.end();
    await Promise.all(traffic);
    expect(failures).toEqual([]);
    expect(transactions).toBeGreaterThan(tables.length);
  } finally {
    rmSync(folder, { recursive: true });
    await db.close();
    await query(inject('postgresUrl'), `drop database ${name} with (force)`);
  }
});
