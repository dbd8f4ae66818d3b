import { createServer, type AddressInfo } from 'node:net';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { explainRefusal, UnsuitableDatabaseError } from '../../../src/core/db/check-server.js';
import { openForMaintenance } from '../../../src/core/db/maintenance.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { openPostgres } from '../../../src/core/db/postgres.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { createPostgresServer, query, type PostgresServer } from '../../support/postgres-server.js';

const silent = pino({ level: 'silent' });
let server: PostgresServer;
beforeAll(async () => {
  server = await createPostgresServer({ fsync: 'off' });
});
afterAll(() => server.remove());

/** One value of every kind that statements read or write as text. */
const sample = `select '2026-12-03T04:05:06.789Z'::timestamptz::text as instant, '2026-12-03'::date::text as day,
  '03/12/2026'::date::text as "slashedDay", '1 day 02:03:04'::interval::text as span, 0.1::float8::text as float,
  '\\xdeff'::bytea::text as bytes, '{a,NULL}'::text[]::text as list, ('{NULL}'::text[])[1] is null as "isNull",
  'a\\b' as backslash, (null::int = null) is null as "isUnknown", to_char(1234.5, '9G999D9') as grouped,
  date_trunc('day', '2026-12-03T23:30:00Z'::timestamptz)::text as "dayOfInstant", current_schema()::text as schema`;

describe('whatever settings the role or the database has', () => {
  it('rows are read in the same way on every kind of connection', async () => {
    const own = server.url('postgres');
    const settings = await query<{ name: string; vartype: string; enumvals: string[] | null; value: string }>(
      own,
      `select name, vartype, enumvals, setting as value from pg_settings
      where context = 'user' and name !~ '^(debug|log|trace|jit_dump|ssl|plpgsql)' order by name`,
    );
    const texts: Record<string, string[]> = {
      DateStyle: ['SQL, DMY', 'German, DMY', 'Postgres, YMD', 'ISO, DMY'],
      TimeZone: ['Asia/Kolkata', 'America/Los_Angeles'],
      search_path: ['pg_catalog', '"$user"'],
      lc_numeric: ['C.UTF-8'],
      extra_float_digits: ['-15', '3'],
    };
    const values = settings.flatMap(({ name, vartype, enumvals, value }) => {
      const others =
        texts[name] ??
        (vartype === 'bool' ? [value === 'on' ? 'off' : 'on'] : vartype === 'enum' ? enumvals! : []);
      return others.filter((other) => other !== value).map((other) => [name, other] as const);
    });
    expect(values.length).toBeGreaterThan(60);
    const read = async () => {
      const db = openPostgres(own, silent);
      const kept = await openForMaintenance({ databaseUrl: own, dataDir: '' });
      try {
        const rows = await selectRows<unknown>(db.orm, sql.raw(sample));
        const hot = await db.run<unknown>({ name: 'test_sample', text: sample }, []);
        const own = await selectRows<unknown>(kept.orm, sql.raw(sample));
        return { rows, hot, kept: own };
      } finally {
        await Promise.all([db.close(), kept.close()]);
      }
    };
    const usual = await read();
    expect(usual.rows[0]).toMatchObject({
      instant: '2026-12-03 04:05:06.789+00',
      slashedDay: '2026-03-12',
      isNull: true,
      schema: 'public',
    });
    const admin = new pg.Client({ connectionString: server.url('template1') });
    await admin.connect();
    const changed: string[] = [];
    for (const [name, value] of values) {
      const text = name === 'search_path' ? value : `'${value}'`;
      const isSet = await admin.query(`alter database postgres set ${name} = ${text}`).catch(() => undefined);
      // Some values need an option that this Postgres was built without.
      if (!isSet) continue;
      const found = await read().catch((error: Error) => error.message);
      if (JSON.stringify(found) !== JSON.stringify(usual)) changed.push(`${name} = ${value}`);
      await admin.query(`alter database postgres reset ${name}`);
    }
    await admin.end();
    expect(changed).toEqual([]);
  });
});

describe('a search path that leads to another schema', () => {
  const open = (url: string) => openDatabase({ databaseUrl: url, dataDir: '' }, silent);

  it.each([
    ['the schema of the role', 'begins with gauge'],
    ['a schema that does not exist', 'begins with a schema that does not exist'],
  ])('(%s) is refused in one sentence, and nothing is created', async (what, part) => {
    const name = what.startsWith('the') ? 'schema_own' : 'schema_none';
    await query(server.url('template1'), `create database ${name} template template0`);
    const url = server.url(name);
    if (name === 'schema_own') await query(url, 'create schema gauge authorization gauge');
    const refusal = await open(
      name === 'schema_own' ? url : `${url}?options=-c%20search_path%3Dnowhere`,
    ).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(UnsuitableDatabaseError);
    expect((refusal as Error).message).toContain(part);
    expect((refusal as Error).message).toMatch(/^[^.]*schema public[^.]*\.$/);
    expect(
      await query(url, `select relname from pg_class where relnamespace = 'public'::regnamespace`),
    ).toEqual([]);
  });

  it('does no harm once the tables are in public', async () => {
    await query(server.url('postgres'), 'create schema gauge authorization gauge');
    await (await open(server.url('postgres'))).close();
    await query(server.url('postgres'), 'drop schema gauge');
  });
});

describe('a certificate that cannot be verified', () => {
  it('is refused with the setting that names its authority', async () => {
    const error = Object.assign(new Error('self-signed certificate in certificate chain'), {
      code: 'SELF_SIGNED_CERT_IN_CHAIN',
    });
    await expect(
      explainRefusal(error, 'postgres://gauge@db.example:5432/gauge', 'DATABASE_URL'),
    ).rejects.toThrow(
      /^DATABASE_URL cannot be used at db\.example:5432: self-signed .*sslmode=verify-full&sslrootcert=\/path\/to\/ca\.pem\.$/,
    );
  });

  it('whose authority’s file is missing is refused instead of waited for', async () => {
    const port = (createServer().listen(0).unref().address() as AddressInfo).port;
    const url = `postgres://gauge@127.0.0.1:${port}/gauge?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`;
    await expect(openDatabase({ databaseUrl: url, dataDir: '' }, silent)).rejects.toThrow(
      /^DATABASE_URL cannot be used at .*\/nowhere\/ca\.pem.*Correct DATABASE_URL\.$/,
    );
  });
});
