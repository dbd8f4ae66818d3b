import { pino } from 'pino';
import { expect, inject, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { createCitusDatabase } from '../support/citus-cluster.js';
import { dropDatabase, query } from '../support/postgres-server.js';
import { createOrganization } from '../support/fixtures.js';
import { maintenanceCommand } from '../support/maintenance-command.js';
import { createSenders, progress, startLoad } from '../metering/support/sharded-load.js';

const { run, withDatabase } = maintenanceCommand('src/commands/shard');

it('distributes a database with its rows once the service is stopped, and the service continues with them', async () => {
  const name = `whole_${process.pid}`;
  const url = await createCitusDatabase(inject('citusUrls'), name, { shards: 0 });
  const open = () => openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const countEvents = async () =>
    Number((await query<{ n: string }>(url, 'select count(*) as n from usage_events'))[0]!.n);
  const whole = await open();
  const senders = await createSenders(whole, 6);
  const before = startLoad(whole, senders, { pauseMs: 5 });
  await progress(before, senders);
  await before.stop();
  const env = { DATABASE_URL: url };
  expect(await run(['--check'], env)).toMatchObject({ code: 1, stdout: 'The database is not sharded.\n' });
  expect(await run([], env)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/service is connected/),
  });
  await whole.close();

  const sent = await countEvents();
  const done = await run(['--shards', '4'], env);
  expect(done).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^usage_events: spread by Organization$/m),
  });
  expect(done.stdout).toMatch(/^organizations: on every server$/m);
  expect(await countEvents()).toBe(sent);

  const sharded = await open();
  expect(sharded.shards.groups).toHaveLength(4);
  const after = startLoad(sharded, senders);
  await progress(after, senders);
  await after.stop();
  expect(after.early).toEqual([]);
  const more = [...after.acknowledged.values()].reduce((sum, count) => sum + count, 0);
  expect(await countEvents()).toBe(sent + more);
  expect(await compare(sharded.orm, {})).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  await sharded.close();
  await dropDatabase(inject('citusUrls'), name);
});

it('shows the place of every group, and that nothing is left to do', async () => {
  const { slug } = await withDatabase((db) => createOrganization(db));
  const again = await run([]);
  expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Every table is already in place/) });
  expect(await run(['--check'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^(?:127\.0\.0\.1:\d+ {2}group \d+ {2}\d+ Organizations? {2}\d+ MB\n){4}4 shard groups on 2 workers;/,
    ),
  });
  expect(await run(['--shards', '8'])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/already has 4 shard groups/),
  });
  expect(await run(['--move', 'none-of-this-name', '--to', '127.0.0.1:1'])).toMatchObject({ code: 2 });
  expect(await run(['--move', slug])).toMatchObject({ code: 2, stderr: expect.stringMatching(/needs --to/) });
  expect(await run(['--move', slug, '--to', '127.0.0.1:1'])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/no worker 127\.0\.0\.1:1/),
  });
});

// Citus may temporarily refuse a move. The command reports why and can be repeated.
it('moves the group of an Organization and moves it back', { retry: 2 }, async () => {
  const { slug } = await withDatabase((db) => createOrganization(db));
  const listed = (await run(['--check'])).stdout;
  const [one, other] = [...new Set(listed.match(/^127\.0\.0\.1:\d+/gm))] as [string, string];
  const first = await run(['--move', slug, '--to', other]);
  const wasAlreadyThere = first.stdout.includes('already');
  const second = await run(['--move', slug, '--to', one]);
  const third = await run(['--move', slug, '--to', one]);
  for (const answer of [first, second, third]) expect(answer).toMatchObject({ code: 0, stderr: '' });
  if (!wasAlreadyThere) expect(first.stdout).toMatch(/^Group \d+ moved from \S+ to \S+ in \d+\.\d s\./);
  expect(second.stdout).toMatch(/moved from/);
  expect(third.stdout).toMatch(/is already on \S+\./);
});
