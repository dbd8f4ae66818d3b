import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct } from '../support/products.js';
import { maintenanceCommand } from '../../support/maintenance-command.js';
import { fillUsage } from '../support/usage-events.js';

const { folder, run, withDatabase, environment } = maintenanceCommand('src/metering/commands/archive');
const HORIZON = { DEDUPE_HORIZON_MONTHS: '13' };

async function fill(db: Database, count: number) {
  const { id: orgId, slug } = await createOrganization(db);
  const { id: productId } = await createProduct(db);
  const { id: apiKeyId } = await createKey(db, orgId);
  await fillUsage(db, {
    orgId,
    productId,
    apiKeyId,
    count,
    prefix: 'event ',
    from: '2024-05-01T00:00:00Z',
    everyMs: 1,
  });
  return { orgId, slug };
}

function fileIn(to: string): string | undefined {
  const month = join(to, '2024-05');
  const name = existsSync(month) ? readdirSync(month).find((name) => name.endsWith('.ndjson.gz')) : undefined;
  return name && join(month, name);
}

async function countsOf(db: Database, orgId: string) {
  const result: unknown = await db.orm.execute(sql`select
    (select count(*)::int from usage_events where org_id = ${orgId}) as left,
    (select sum(deleted_events)::int from usage_archived_totals where org_id = ${orgId}) as gone,
    (select sum(events)::int from usage_totals where org_id = ${orgId}) as counted`);
  return (result as { rows: { left: number; gone: number | null; counted: number }[] }).rows[0]!;
}

it('--help explains archiving, and nothing is archived without a horizon or within it', async () => {
  const month = new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() - 12, 1));
  const within = month.toISOString().slice(0, 7);
  const [help, wrong] = await Promise.all([run(['--help']), run(['--before', '2025-13'])]);
  const unset = await run(['--before', '2025-01']);
  const early = await run(['--before', within], HORIZON);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  for (const word of ['--before', '--to', '--verify', 'DEDUPE_HORIZON_MONTHS', 'counts again', 'Exit status'])
    expect(help.stdout).toContain(word);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/must be a month like 2025-11/) });
  expect(unset).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^archive: DEDUPE_HORIZON_MONTHS is not set/),
  });
  expect(early).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/are within DEDUPE_HORIZON_MONTHS=13/),
  });
});

it('archives the events and verifies the files', async () => {
  const { orgId, slug } = await withDatabase((db) => fill(db, 300));
  const to = join(folder, 'files');
  const done = await run(['--before', '2024-06', '--to', to, '--org', slug], HORIZON);
  expect(done).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Archived 300 events of 1 month to /),
  });
  expect(await withDatabase((db) => countsOf(db, orgId))).toEqual({ left: 0, gone: 300, counted: 300 });
  const intact = await run(['--verify', to, '--org', slug]);
  expect(intact).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^1 file with 300 events: unchanged/),
  });
  const file = fileIn(to)!;
  writeFileSync(file, readFileSync(file).subarray(0, -20));
  const damaged = await run(['--verify', to, '--org', slug]);
  expect(damaged).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/2024-05, live: .*cannot be read/),
  });
});

it('resumes wherever it was killed', async () => {
  const { orgId, slug } = await withDatabase((db) => fill(db, 15_000));
  const args = ['--before', '2024-06', '--to', join(folder, 'killed'), '--org', slug, '--rest', '0'];
  const { command, env } = environment();
  const part = join(folder, `killed/2024-05/${slug}-live.part`);
  for (const [isThere, ms] of [
    [() => existsSync(part), 0],
    [() => fileIn(join(folder, 'killed')) !== undefined, 500],
  ] as const) {
    const child = spawn(process.execPath, [...command, ...args], { env: { ...env, ...HORIZON } });
    const ended = new Promise((resolve) => child.on('close', resolve));
    while (!isThere() && child.exitCode === null) await setTimeout(5);
    await setTimeout(ms);
    child.kill('SIGKILL');
    await ended;
    const { left, gone, counted } = await withDatabase((db) => countsOf(db, orgId));
    expect(left + (gone ?? 0)).toBe(15_000);
    expect(counted).toBe(15_000);
  }
  expect(await run(args, HORIZON)).toMatchObject({ code: 0 });
  expect(await run(args, HORIZON)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Nothing to archive/),
  });
  expect(await withDatabase((db) => countsOf(db, orgId))).toEqual({ left: 0, gone: 15_000, counted: 15_000 });
  const lines = gunzipSync(readFileSync(fileIn(join(folder, 'killed'))!))
    .toString()
    .trimEnd()
    .split('\n');
  const keys = lines.map((line) => (JSON.parse(line) as { idempotencyKey: string }).idempotencyKey);
  expect(new Set(keys).size).toBe(15_000);
});
