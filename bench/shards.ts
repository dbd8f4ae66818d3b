/**
 * `node --import tsx bench/shards.ts [SECONDS] [ROUNDS]`: the cost of ingestion on a sharded database compared with a
 * single Postgres, as CPU time of all Postgres processes per event. TEST_POSTGRES_BIN must name a Postgres with Citus.
 * All servers share one machine, so the figures say nothing about the throughput of several machines.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { hashSecret } from '../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { createCitusCluster, createCitusDatabase } from '../test/support/citus-cluster.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { makeTemplate } from '../test/support/setup-postgres.js';
import { createSenders, startLoad, type Sender } from '../test/metering/support/sharded-load.js';

const SECONDS = Number(process.argv[2] ?? 4);
const ROUNDS = Number(process.argv[3] ?? 3);
const TICK_US = 10_000;

const cells = [
  { name: '64 Organizations × 1', organizations: 64, batch: 1, target: 4 },
  { name: '1 Organization × 100', organizations: 1, batch: 100, target: 1.25 },
  { name: '1 Organization × 500', organizations: 1, batch: 500, target: 1.15 },
  { name: '16 Organizations × 100', organizations: 16, batch: 100, target: undefined },
];

/** CPU time in µs of a Postgres server and its child processes, including those that have exited. */
function cpuOf(dataDir: string): number {
  const server = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]!;
  let ticks = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ');
      if (pid !== server && fields[1] !== server) continue;
      // utime and stime, plus cutime and cstime of children that have exited.
      ticks += fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    } catch {
      // The process has exited, so the server's cutime and cstime now include its CPU time.
    }
  }
  return ticks * TICK_US;
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;

const log = pino({ level: 'silent' });
const settings = { max_wal_size: '2GB', max_connections: '200' };
const plainServer = await createPostgresServer(settings);
const cluster = await createCitusCluster({ fsync: 'on' });
try {
  await makeTemplate(plainServer);
  await makeTemplate(cluster.coordinator);
  const plain = await openDatabase({ databaseUrl: plainServer.url('template_gauge'), dataDir: '' }, log);
  const url = await createCitusDatabase(cluster.urls, 'bench', { shards: 8 });
  const sharded = await openDatabase({ databaseUrl: url, dataDir: '' }, log);
  const dirs = [cluster.coordinator, ...cluster.workers].map(({ dataDir }) => dataDir);

  async function measure(db: Database, folders: string[], organizations: number, batch: number) {
    const senders = await createSenders(db, organizations);
    const load = startLoad(db, senders, { batch });
    const sent = () => [...load.acknowledged.values()].reduce((sum, count) => sum + count, 0);
    // Warms up plans and connections.
    await setTimeout(700);
    const [before, sentBefore] = [folders.map(cpuOf), sent()];
    await setTimeout(SECONDS * 1000);
    const [after, sentAfter] = [folders.map(cpuOf), sent()];
    await load.stop();
    const costs = after.map((cpu, i) => (cpu - before[i]!) / (sentAfter - sentBefore));
    return { costs, sum: costs.reduce((a, b) => a + b, 0) };
  }

  for (const { name, organizations, batch, target } of cells) {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) {
      const one = await measure(plain, [plainServer.dataDir], organizations, batch);
      const many = await measure(sharded, dirs, organizations, batch);
      rounds.push({ plain: one.sum, sharded: many.sum, share: many.costs[0]! / many.sum });
    }
    const ratios = rounds.map((round) => round.sharded / round.plain);
    const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
    console.log(
      `${name}: plain ${median(rounds.map((r) => r.plain)).toFixed(1)} µs, sharded ${median(rounds.map((r) => r.sharded)).toFixed(1)} µs, ` +
        `÷ ${median([...ratios]).toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)}${target === undefined ? '' : `, target ≤ ${target}`}), ` +
        `coordinator ${(median(rounds.map((r) => r.share)) * 100).toFixed(1)} %`,
    );
  }
  /**
   * Returns the 99th percentile of one worker's batch times in ms, while the other worker is up and while it is down.
   */
  async function measureOutage(senders: Sender[]) {
    const [victim] = cluster.workers;
    const { host } = new URL(victim!.url('bench'));
    const groups = await Promise.all(
      senders.map(async ({ secret }) => sharded.shards.locate(hashSecret(secret))),
    );
    const others = senders.filter((_sender, i) => groups[i]!.worker !== host);
    const load = startLoad(sharded, senders, { batch: 20, pauseMs: 10 });
    const during = async () => {
      const begun = others.map(({ orgId }) => load.took.get(orgId)!.length);
      await setTimeout(SECONDS * 1000);
      const took = others.flatMap(({ orgId }, i) => load.took.get(orgId)!.slice(begun[i]));
      return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)]!;
    };
    await setTimeout(700);
    const before = await during();
    await victim!.stop('kill');
    const meanwhile = await during();
    await victim!.start();
    await load.stop();
    return { before, meanwhile };
  }

  const outages = [];
  const senders = await createSenders(sharded, 24);
  for (let round = 0; round < ROUNDS; round++) outages.push(await measureOutage(senders));
  const slower = outages.map(({ before, meanwhile }) => meanwhile / before);
  console.log(
    `p99 of the others: ${median(outages.map(({ before }) => before)).toFixed(1)} ms, while a worker is away ` +
      `${median(outages.map(({ meanwhile }) => meanwhile)).toFixed(1)} ms, ÷ ${median([...slower]).toFixed(2)} ` +
      `(${Math.min(...slower).toFixed(2)}–${Math.max(...slower).toFixed(2)}, target ≤ 1.5)`,
  );
  await Promise.all([plain.close(), sharded.close()]);
} finally {
  await cluster.remove();
  await plainServer.remove();
}
