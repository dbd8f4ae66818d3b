/**
 * `npm run test:shards -- [kills] [moves]`: faults that a sharded database must survive, on real servers under load.
 * All servers, including the coordinator, are killed (-9) in turn. Shard groups are moved and rebalanced. One move is
 * made without `gauge_hold`, as a control, and must lose events. Each event is resent until it is acknowledged;
 * afterwards, all events are counted.
 */
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { openForMaintenance } from '../../src/core/db/maintenance.js';
import { openDatabase } from '../../src/core/db/open.js';
import { distributeTables } from '../../src/core/db/distribute.js';
import { listPlacements } from '../../src/core/db/placement.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { createCitusCluster, createCitusDatabase } from '../support/citus-cluster.js';
import { query } from '../support/postgres-server.js';
import { makeTemplate } from '../support/setup-postgres.js';
import { createSenders, startLoad, type Load } from '../metering/support/sharded-load.js';

const [kills = 30, moves = 3] = process.argv.slice(2).map(Number);
const cluster = await createCitusCluster({ fsync: 'on' });
const servers = [...cluster.workers, cluster.coordinator];
let failures = 0;

try {
  await makeTemplate(cluster.coordinator);
  const url = await createCitusDatabase(cluster.urls, 'crash', { shards: 8 });
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const senders = await createSenders(db, 32);

  const count = async (table: string, column: string) =>
    Number((await query<{ n: string }>(url, `select coalesce(sum(${column}), 0) as n from ${table}`))[0]!.n);

  /** @param mustLose true for a control run that must lose events */
  async function check(name: string, load: Load, before: number, mustLose = false): Promise<void> {
    const sent = [...load.acknowledged.values()].reduce((sum, events) => sum + events, 0);
    const found = (await count('usage_events', '1')) - before;
    // Uses a connection without the service's time-outs, because the comparison reads every event.
    const maintenance = await openForMaintenance({ databaseUrl: url, dataDir: '' });
    const { totals, hours } = await compare(maintenance.orm, {});
    await maintenance.close();
    const sums = [await count('usage_totals', 'events'), await count('usage_hours', 'events')];
    const prepared = await Promise.all(
      cluster.urls.map((server) => query(server, 'select 1 from pg_prepared_xacts')),
    );
    const stops = [...load.times.values()].map((times) =>
      Math.max(...times.slice(1).map((time, i) => time - times[i]!)),
    );
    const isGood =
      (mustLose ? found < sent : found === sent) &&
      totals.length + hours.length === 0 &&
      sums.every((sum) => sum === found + before) &&
      prepared.flat().length === 0;
    if (!isGood) failures++;
    console.log(
      `${isGood ? 'good' : 'WRONG'}: ${name}: ${sent} acknowledged, ${found} found, totals ${sums[0]! - before}, hours ${sums[1]! - before}, ` +
        `drift ${totals.length + hours.length}, prepared ${prepared.flat().length}, longest stop ${(Math.max(...stops) / 1000).toFixed(1)} s, ` +
        `failed attempts ${[...load.failures.values()].reduce((sum, times) => sum + times, 0)}`,
    );
  }

  async function underLoad(
    name: string,
    work: (load: Load) => Promise<void>,
    mustLose = false,
  ): Promise<void> {
    const before = await count('usage_events', '1');
    const load = startLoad(db, senders);
    await setTimeout(1_500);
    await work(load);
    await setTimeout(1_500);
    await load.stop();
    // Citus resolves prepared transactions at intervals or on request.
    await query(url, 'select recover_prepared_transactions()');
    await check(name, load, before, mustLose);
  }

  async function move(): Promise<void> {
    const places = await listPlacements(db.orm);
    const from = places[Math.floor(Math.random() * places.length)]!;
    const to = places.find(({ port }) => port !== from.port)!;
    await query(
      url,
      `select citus_move_shard_placement(${from.id}, '${from.host}', ${from.port}, '${to.host}', ${to.port}, 'force_logical')`,
    );
  }

  if (kills > 0)
    await underLoad(`${kills} kills`, async (load) => {
      for (let kill = 0; kill < kills; kill++) {
        const server = servers[kill % servers.length]!;
        const attempts = [...load.failures.values()].reduce((sum, times) => sum + times, 0);
        await server.stop('kill');
        await setTimeout(500 + Math.random() * 1_500);
        await server.start();
        await setTimeout(500);
        if (
          server === cluster.coordinator &&
          attempts !== [...load.failures.values()].reduce((a, b) => a + b, 0)
        )
          console.log('  an attempt failed while the coordinator was away');
      }
    });
  for (let n = 1; n <= moves; n++) await underLoad(`move ${n} of ${moves}`, move);
  if (moves > 0) {
    await underLoad('rebalance after them', async () => {
      await query(
        url,
        `select citus_rebalance_start(shard_transfer_mode => 'force_logical')`,
        `select citus_rebalance_wait()`,
      );
    });
    const off = `create or replace function gauge_hold(shards bigint[]) returns int language sql volatile as 'select 1'`;
    await query(url, off);
    await underLoad('a move without the hold, which must lose', move, true);
    await distributeTables(db.orm, 0);
  }
  await db.close();
} finally {
  await cluster.remove();
}
process.exitCode = failures === 0 ? 0 : 1;
