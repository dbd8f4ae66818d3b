import { Command, Option } from 'commander';
import { sql } from 'drizzle-orm';
import type { Config } from '../config.js';
import type { Orm } from '../core/db/client.js';
import { distributeTables, findMisplaced, isDistributed } from '../core/db/distribute.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { listPlacements, sumByServer } from '../core/db/placement.js';
import { queryRow, queryRows } from '../core/db/sql.js';
import { formatCount, formatDecimal } from '../core/pages/format.js';
import { CommandError, wholeFrom } from './kit/command.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';
import { createProgress } from './kit/progress.js';

const help = `
Distributes the rows of Organizations over several servers with Citus. Each Organization is in one shard group, on one worker.
DATABASE_URL names the coordinator. docs/scaling.md explains when to shard and what to prepare.

  npm run shard -- --shards 8          distributes the tables; stop the service first, because rows are copied under a lock
  npm run shard -- --check             shows where the data is and how evenly
  npm run shard -- --move acme --to worker-2:5432
                                       moves the shard group of an Organization, while the service runs

Run it again after an upgrade: it distributes new tables and leaves the others alone.

Environment: DATABASE_URL, of the role that owns the tables.

Exit status: 0 done, 1 --check found a misplaced table, 2 the command failed.`;

interface Flags {
  shards?: number;
  check?: boolean;
  move?: string;
  to?: string;
}

function examine({ move, to }: Flags, { databaseUrl }: Config): void {
  if (to !== undefined && move === undefined)
    throw new CommandError('--to needs --move with an Organization.');
  if (databaseUrl === undefined)
    throw new CommandError(
      'the embedded database is one process on one machine and cannot be sharded. Set DATABASE_URL to the coordinator of a Citus cluster.',
    );
}

async function run(db: MaintenanceDatabase, flags: Flags): Promise<number> {
  await requireCluster(db.orm);
  if (flags.check) return check(db.orm);
  if (flags.move !== undefined) return move(db, flags.move, flags.to);
  return shard(db.orm, flags.shards);
}

async function requireCluster(orm: Orm): Promise<void> {
  const found = await queryRow(orm)<{ version: string | null }>`
    select (select extversion from pg_extension where extname = 'citus') as version`;
  if (found?.version == null)
    throw new CommandError(
      'this Postgres has no Citus. Install the extension on every server, put citus first in shared_preload_libraries, and run `create extension citus` in the database.',
    );
  const workers = await queryRows(orm)`
    select from pg_dist_node where groupid <> 0 and noderole = 'primary' and isactive and shouldhaveshards`;
  if (workers.length === 0)
    throw new CommandError(
      "there is no worker. Add one or more on the coordinator: select citus_add_node('worker-1', 5432).",
    );
  const settings = await queryRows(orm)<{ node: string; success: boolean; result: string }>`
    select n.nodename || ':' || n.nodeport as node, r.success, r.result
    from run_command_on_all_nodes($$select current_setting('wal_level') || ' ' || current_setting('max_prepared_transactions') || ' ' || current_setting('max_connections')$$) r
    join pg_dist_node n on n.nodeid = r.nodeid
    order by n.nodeid`;
  for (const { node, success, result } of settings) {
    if (!success) throw new CommandError(`${node} cannot be reached: ${result}`);
    const [walLevel, prepared, connections] = result.split(' ');
    if (walLevel !== 'logical')
      throw new CommandError(
        `${node} has wal_level = ${walLevel}. Set it to logical and restart it. Shard groups move by logical replication.`,
      );
    if (Number(prepared) < Number(connections))
      throw new CommandError(
        `${node} has max_prepared_transactions = ${prepared}. Set it to ${connections} (max_connections) or more and restart it. A write to several servers is prepared on each of them.`,
      );
  }
}

const DEFAULT_SHARDS_PER_WORKER = 4;

async function shard(orm: Orm, wanted: number | undefined): Promise<number> {
  const wasDistributed = await isDistributed(orm);
  const placements = wasDistributed ? await listPlacements(orm) : [];
  if (wasDistributed && wanted !== undefined && wanted !== placements.length)
    throw new CommandError(
      `the database already has ${formatCount(placements.length, 'shard group')}, and this number cannot change. Use --move to move a group.`,
    );
  if (!wasDistributed) await requireStopped(orm);
  const counted = await queryRow(orm)<{ workers: number }>`
    select count(*)::int as workers from pg_dist_node where groupid <> 0 and noderole = 'primary' and shouldhaveshards`;
  const progress = createProgress(process.stderr, 1_000);
  const steps = await distributeTables(
    orm,
    wanted ?? counted!.workers * DEFAULT_SHARDS_PER_WORKER,
    ({ table }, done, all) => progress.show(done / all, table),
  ).finally(() => progress.stop());
  for (const { table, placement } of steps)
    console.log(`${table}: ${placement === 'spread' ? 'spread by Organization' : 'on every server'}`);
  if (steps.length === 0) console.log('Every table is already in place. Nothing was changed.');
  return check(orm);
}

/** A running service would keep using statements for an unsharded database. */
async function requireStopped(orm: Orm): Promise<void> {
  const running = await queryRows(orm)`
    select from pg_stat_activity where datname = current_database() and application_name = 'gauge' limit 1`;
  if (running.length > 0)
    throw new CommandError(
      'the service is connected. Stop every instance first, and start it again afterwards.',
    );
}

async function check(orm: Orm): Promise<number> {
  const misplaced = await findMisplaced(orm);
  if (!(await isDistributed(orm))) {
    console.log('The database is not sharded.');
    return 1;
  }
  const placements = await listPlacements(orm);
  for (const { id, host, port, organizations, bytes } of placements)
    console.log(
      `${host}:${port}  group ${id}  ${formatCount(organizations, 'Organization')}  ${formatDecimal(Math.round(bytes / 1e6))} MB`,
    );
  const servers = sumByServer(placements);
  const mean = servers.reduce((sum, { bytes }) => sum + bytes, 0) / servers.length;
  const fullest = servers.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  console.log(
    `${formatCount(placements.length, 'shard group')} on ${formatCount(servers.length, 'worker')}; the fullest, ${fullest.name}, holds ${(fullest.bytes / mean).toFixed(2)} times the mean.`,
  );
  for (const { table } of misplaced) console.log(`${table} is misplaced. Run npm run shard to move it.`);
  return misplaced.length === 0 ? 0 : 1;
}

async function findGroup(db: MaintenanceDatabase, slug: string) {
  const orgId = await organizationFlag(db, slug);
  if (!(await isDistributed(db.orm)))
    throw new CommandError('the database is not sharded yet. Run npm run shard first.');
  const group = await queryRow(db.orm)<{ id: string; host: string; port: number }>`
    select s.id::text, n.nodename::text as host, n.nodeport as port
    from (select get_shard_id_for_distribution_column('usage_events', ${orgId}::uuid) as id) s
    join pg_dist_placement p on p.shardid = s.id join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'`;
  return group!;
}

async function move(db: MaintenanceDatabase, slug: string, to: string | undefined): Promise<number> {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(to ?? '') ?? [];
  if (host === undefined)
    throw new CommandError('--move needs --to with the worker, like --to worker-2:5432.');
  const group = await findGroup(db, slug);
  const known = await queryRows(db.orm)`
    select from pg_dist_node where groupid <> 0 and nodename = ${host} and nodeport = ${port}::int and shouldhaveshards`;
  if (known.length === 0) throw new CommandError(`there is no worker ${to}. --check lists the workers.`);
  if (host === group.host && Number(port) === group.port) {
    console.log(`Group ${group.id} is already on ${to}.`);
    return 0;
  }
  const startedAt = performance.now();
  await db.orm
    .execute(
      sql`select citus_move_shard_placement(${group.id}::bigint, ${group.host}, ${group.port}::int, ${host}, ${port}::int, 'force_logical')`,
    )
    .catch((error: Error) => {
      const { message } = error.cause instanceof Error ? error.cause : error;
      throw new CommandError(`the group stays where it was: ${message}`);
    });
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `Group ${group.id} moved from ${group.host}:${group.port} to ${to} in ${seconds.toFixed(1)} s.`,
  );
  return 0;
}

await runMaintenance<Flags>({
  command: new Command('shard')
    .description('Distributes the rows of Organizations over several servers.')
    .option('--shards <number>', 'number of shard groups; default: 4 per worker', wholeFrom(1, 1024))
    .addOption(
      new Option('--check', 'show where the data is, and change nothing').conflicts(['shards', 'move']),
    )
    .addOption(new Option('--move <slug>', 'move the shard group of an Organization').conflicts('shards'))
    .option('--to <host:port>', 'the worker to move it to')
    .addHelpText('after', help),
  examine,
  work: run,
});
