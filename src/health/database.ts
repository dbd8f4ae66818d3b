import { Gauge } from 'prom-client';
import { setTimeout } from 'node:timers/promises';
import type { Shards } from '../core/db/client.js';
import type { Pools } from '../core/db/postgres.js';
import type { Metrics } from '../core/metrics.js';

/** For the readiness check. The connections' own time-outs are longer. */
const PING_MS = 1_000;

/** Undefined if the database is not sharded. */
export async function findGroupsAway({ groups }: Shards) {
  if (groups.length === 1) return undefined;
  const answered = new Set<string>();
  await Promise.race([
    Promise.allSettled(
      groups.map(async ({ id, ping }) => {
        await ping();
        answered.add(id);
      }),
    ),
    setTimeout(PING_MS, undefined, { ref: false }),
  ]);
  const away = groups.filter(({ id }) => !answered.has(id));
  return { groups: away.map(({ id }) => id), workers: [...new Set(away.map(({ worker }) => worker))] };
}

export function watchPools(pools: Pools, { registry }: Pick<Metrics, 'registry'>): void {
  const connections = new Gauge({
    name: 'gauge_database_connections',
    help: 'Postgres connections by pool (pages: pages and jobs, ingestion, orders) and state: active, idle, or waiting (calls that wait for a connection).',
    labelNames: ['pool', 'state'],
    registers: [],
    collect() {
      for (const [pool, { totalCount, idleCount, waitingCount }] of Object.entries(pools)) {
        this.set({ pool, state: 'active' }, totalCount - idleCount);
        this.set({ pool, state: 'idle' }, idleCount);
        this.set({ pool, state: 'waiting' }, waitingCount);
      }
    },
  });
  registry.registerMetric(connections);
}

/** None if the database is not sharded. */
export function watchShards(shards: Shards, { registry, shardSeconds, shardRepeats }: Metrics): void {
  shards.watch({
    onStatement: (group, seconds) => shardSeconds.observe({ group }, seconds),
    onRepeat: (group) => shardRepeats.inc({ group }),
  });
  const gauge = (name: string, help: string, read: (load: Shards['groups'][number]['load']) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['group', 'worker'],
      registers: [registry],
      collect() {
        // A group may have moved to another worker.
        this.reset();
        if (shards.groups.length > 1)
          for (const { id: group, worker, load } of shards.groups) this.set({ group, worker }, read(load));
      },
    });
  gauge('gauge_shard_in_flight', 'Hot statements in progress on a shard group.', ({ inFlight }) => inFlight);
  gauge(
    'gauge_shard_lag_seconds',
    'Age of the oldest hot statement in progress on a shard group.',
    ({ oldestMs }) => oldestMs / 1000,
  );
}
