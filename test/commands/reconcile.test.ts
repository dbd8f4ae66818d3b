import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import type pg from 'pg';
import { expect, inject, it } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { isEmbedded } from '../support/database.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct } from '../metering/support/products.js';
import { maintenanceCommand } from '../support/maintenance-command.js';

// Each test starts processes, which is slow on a busy machine.

const { folder, run, withDatabase } = maintenanceCommand('src/commands/reconcile');

it.runIf(isEmbedded)(
  '--help explains the flags and the exit status, and a wrong flag is an error',
  async () => {
    const [help, wrong] = await Promise.all([run(['--help']), run(['--repair'])]);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['--fix', '--org', '--json', 'DATABASE_URL', 'Exit status'])
      expect(help.stdout).toContain(word);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/unknown option '--repair'/) });
  },
);

/** Creates an Organization whose total and hourly sum differ from its events, and resolves to its slug. */
async function createDrift(db: Database, productSlug: string): Promise<string> {
  const organization = await createOrganization(db);
  const product = await createProduct(db, { slug: productSlug });
  const key = await createKey(db, organization.id);
  await db.orm.execute(sql`insert into usage_events
    (org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key, metric, quantity)
    values (${organization.id}, ${product.id}, ${key.id}, '2026-03-05T12:34:56Z', now(), true, 'a', 'calls', 1.5)`);
  await db.orm
    .execute(sql`insert into usage_totals (org_id, period, livemode, product_id, metric, quantity, events)
    values (${organization.id}, '2026-03-01', true, ${product.id}, 'calls', 4, 1)`);
  return organization.slug;
}

it('reports drift, repairs it with --fix, and then finds nothing more', async () => {
  const slug = await withDatabase((db) => createDrift(db, 'drifting'));

  const drift = await run(['--org', slug]);
  expect(drift).toMatchObject({ code: 1, stderr: '' });
  const [title, head, row] = drift.stdout.split('\n');
  expect(title).toBe('Totals that differ from the sum of their events: 1');
  expect(head!.split(/ {2,}/).join('|')).toBe(
    'organization|product|period|mode|metric|total|sum of events|difference|counted|events',
  );
  expect(row!.split(/ {2,}/).join('|')).toBe(`${slug}|drifting|2026-03-01|live|calls|4|1.5|2.5|1|1`);
  expect(row).toHaveLength(head!.length);
  expect(drift.stdout).toMatch(/hour total.*2026-03-05T12:00:00Z .*missing/s);

  const fixed = await run(['--fix']);
  expect(fixed).toMatchObject({ code: 0, stderr: '' });
  expect(fixed.stdout).toMatch(/Totals that differ.*Set 1 total and 1 hour of 1 Organization .*No drift/s);
  const left = await run(['--json']);
  expect(left).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(left.stdout)).toEqual({
    drift: 0,
    totals: [],
    hours: [],
    settlements: [],
    stripe: { differences: [], unknown: [] },
    ledger: [],
  });
});

it.runIf(!isEmbedded)('reports an unknown Organization and an invalid configuration', async () => {
  expect(await run(['--org', 'nobody'])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/no Organization "nobody"/),
  });
  expect(await run([], { DATABASE_URL: 'mysql://x' })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/DATABASE_URL/),
  });
});

it('refuses a database without the schema and does not create it', async () => {
  const missing = join(folder, 'missing');
  const other: Record<string, string> = isEmbedded
    ? { DATA_DIR: missing }
    : { DATABASE_URL: inject('postgresUrl') };
  const refused = await run([], other);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(isEmbedded ? /There is no database in/ : /does not match this version/);
  expect(existsSync(missing)).toBe(false);
});

it.runIf(!isEmbedded)('--fix with a role that does not own the tables names the role to use', async () => {
  const role = `reader_${process.pid}`;
  const url = await withDatabase(async (db) => {
    await createDrift(db, 'drifting-again');
    await db.orm.execute(
      sql.raw(`create role ${role} login;
        grant usage on schema public, drizzle to ${role};
        grant select on all tables in schema public, drizzle to ${role}`),
    );
    return Object.assign(new URL((db as unknown as { pool: pg.Pool }).pool.options.connectionString!), {
      username: role,
    }).href;
  });
  try {
    const refused = await run(['--fix'], { DATABASE_URL: url });
    expect(refused).toMatchObject({
      code: 2,
      stderr:
        'reconcile: the role of DATABASE_URL may not do this. Use the URL of the role that owns the tables.\n',
    });
  } finally {
    await withDatabase((db) => db.orm.execute(sql.raw(`drop owned by ${role}; drop role ${role}`)));
  }
});

it.runIf(!isEmbedded)('describes a wrong DATABASE_URL in one sentence', async () => {
  const url = new URL(inject('postgresUrl'));
  url.pathname = '/not_there';
  const refused = await run([], { DATABASE_URL: url.href });
  expect(refused).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^reconcile: .*"not_there" does not exist.*correct DATABASE_URL\.\n$/),
  });
});

it.runIf(!isEmbedded)('says that the database cannot be reached', async () => {
  const refused = await run([], { DATABASE_URL: 'postgres://gauge@127.0.0.1:1/gauge' });
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(/cannot be reached/) });
});
