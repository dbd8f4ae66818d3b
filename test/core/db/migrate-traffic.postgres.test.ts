import pg from 'pg';
import { pino } from 'pino';
import { expect, inject, it } from 'vitest';
import { migrateDatabase } from '../../../src/core/db/migrate.js';
import { openPostgres } from '../../../src/core/db/postgres.js';
import { inDatabase, query } from '../../support/postgres-server.js';

const name = `migrate_traffic_${process.pid}`;
const url = inDatabase(inject('postgresUrl'), name);
/** Tables of the last four migrations. */
const tables = ['usage_combinations', 'usage_reservations', 'usage_subjects', 'same_day_fits'];

it('migrations beside transactions that lock the same tables in every order succeed, and no transaction fails', async () => {
  await query(inject('postgresUrl'), `create database ${name}`);
  const db = openPostgres(url, pino({ level: 'silent' }));
  try {
    await migrateDatabase(db);
    // The last migrations run again beside the traffic.
    await query(
      url,
      'drop table schema_requirement',
      'alter table same_day_fits drop column station_extreme_bias',
      `delete from drizzle.__drizzle_migrations where created_at in
        (select created_at from drizzle.__drizzle_migrations order by created_at desc limit 4)`,
    );
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
    await migrateDatabase(db).finally(() => (isOver = true));
    await Promise.all(traffic);
    expect(failures).toEqual([]);
    expect(transactions).toBeGreaterThan(tables.length);
  } finally {
    await db.close();
    await query(inject('postgresUrl'), `drop database ${name} with (force)`);
  }
});
