import { setTimeout } from 'node:timers/promises';
import { sql, type SQL } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import { createRecentMap } from '../collections.js';
import { createCoalescer } from './coalesce.js';
import { shareRun } from '../steps.js';
import { textArray, selectRows } from './sql.js';
import {
  isDatabaseUnavailable,
  sqlState,
  type Database,
  type GroupLoad,
  type GroupTables,
  type Run,
  type ShardGroup,
  type Shards,
  type ShardWatcher,
  type Statement,
  type Template,
} from './client.js';
import { readOnly } from './outage.js';
import { createStatements, oneShardGroup, ShardGroupGoneError } from './shards.js';

/** A group's id is the id of its shard of this table; its shards of all other tables are colocated. */
export const ANCHOR = 'usage_events';

/** Two for recording events, two for settling, one for reserving, and one for each kind of read. */
const GROUP_CONNECTIONS = 9;
/** A cut-over takes about a second. */
const FOLLOW_FOR_MS = 3_000;
const FIRST_PAUSE_MS = 10;
/** While a worker is unreachable, a reload shows whether another worker has taken its place. */
const RELOAD_EVERY_MS = 1_000;
const MAX_LOCATED = 200_000;

const findCatalogue: Statement = {
  name: 'shards_find_catalogue',
  text: `select to_regclass('pg_catalog.pg_dist_partition')::text as catalogue`,
};

const readMap: Statement = {
  name: 'shards_read_map',
  text: `
select c.relname::text as "table", s.shardid::text as shard, s.shardminvalue as "from", s.shardmaxvalue as "to", n.nodename::text as host,
  n.nodeport::text as port
from pg_dist_partition anchor
join pg_dist_partition d on d.colocationid = anchor.colocationid or (d.partmethod = 'n' and d.repmodel = 't')
join pg_class c on c.oid = d.logicalrelid
join pg_dist_shard s on s.logicalrelid = d.logicalrelid
left join pg_dist_placement p on p.shardid = s.shardid and d.partmethod = 'h'
left join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
where anchor.logicalrelid = to_regclass('public.${ANCHOR}')`,
};

/** A key's hash determines its shard group and never changes. */
const readDirectory: Statement = {
  name: 'shards_read_directory',
  text: `
select hashed_secret as "hashedSecret", uuid_hash(org_id)::text as hash from api_key_directory where hashed_secret = any ($1::text[])`,
};

const readHash: Statement = { name: 'shards_read_hash', text: `select uuid_hash($1::uuid)::text as hash` };

const isReadOnly = `select current_setting('transaction_read_only')::boolean as "isReadOnly"`;

interface Place {
  id: string;
  from: number;
  to: number;
  host: string;
  port: string;
  tables: ReadonlyMap<string, string>;
}

interface CitusDeps {
  db: Pick<Database, 'orm' | 'parallel' | 'run' | 'dryRun'>;
  /** `look` closes the connections of all groups on the worker if its address leads to another server by now. */
  openWorker(
    place: { host: string; port: string },
    max: number,
  ): { pool: pg.Pool; look: () => Promise<void> };
  runOn(client: pg.Pool | pg.PoolClient): Database['run'];
  rollBack<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T>;
}

/** The database counts as one group until it is found to be sharded. */
export function createShards(deps: CitusDeps): Shards & { close(): Promise<void> } {
  const { whole } = oneShardGroup(deps.db);
  let groups: CitusGroup[] = [];
  let loadedAt = -Infinity;
  const watchers: ShardWatcher[] = [];
  const hashes = createHashes(deps.db);

  const groupOf = (hash: number): ShardGroup => groups.findLast(({ from }) => from <= hash)!;

  async function look(hashedSecret: string): Promise<ShardGroup> {
    const hash = await hashes.lookUpKey(hashedSecret);
    // Any reachable group can answer. Unknown keys are not cached: they may be created at any moment.
    if (hash === null) return groups.find(({ isReached }) => isReached) ?? groups[0]!;
    return groupOf(hash);
  }

  async function read(): Promise<void> {
    const [found] = await deps.db.run(findCatalogue, []);
    const places = found?.catalogue == null ? [] : toPlaces(await deps.db.run<ShardRow>(readMap, []));
    const known = new Map(groups.map((group) => [group.id, group]));
    groups = places.map((place) => {
      const group = known.get(place.id) ?? new CitusGroup(deps, place, { reload, watchers });
      known.delete(place.id);
      group.standAt(place);
      return group;
    });
    for (const group of known.values()) await group.end();
  }

  const loading = shareRun(read);
  const reload = (isUrgent: boolean): Promise<void> => {
    if (!isUrgent && performance.now() - loadedAt < RELOAD_EVERY_MS) return Promise.resolve();
    loadedAt = performance.now();
    return loading.run();
  };

  return {
    get groups() {
      return groups.length === 0 ? [whole] : groups;
    },
    locate(hashedSecret) {
      if (groups.length === 0) return whole;
      const hash = hashes.get(hashedSecret);
      return hash === undefined ? look(hashedSecret) : groupOf(hash);
    },
    locateOrganization(orgId) {
      if (groups.length === 0) return whole;
      const hash = hashes.get(orgId);
      return hash === undefined ? hashes.lookUpOrganization(orgId).then(groupOf) : groupOf(hash);
    },
    load: () => reload(true),
    watch: (watcher) => void watchers.push(watcher),
    async close() {
      await Promise.all(groups.map((group) => group.end()));
    },
  };
}

/** By Organization id and by hashed secret. */
function createHashes(db: CitusDeps['db']) {
  const located = createRecentMap<string, number>(MAX_LOCATED);

  const directory = createCoalescer<string, number | null>({
    async flush(hashedSecrets) {
      const rows = await db.run<{ hashedSecret: string; hash: string }>(readDirectory, [
        textArray(hashedSecrets),
      ]);
      const found = new Map(rows.map(({ hashedSecret, hash }) => [hashedSecret, Number(hash)]));
      return hashedSecrets.map((hashedSecret) => found.get(hashedSecret) ?? null);
    },
    parallel: 1,
    fullWeight: 100,
    maxWeight: 1_000,
    queueLimit: { weight: 10_000, bytes: Infinity },
  });

  function keep(name: string, hash: number): number {
    located.set(name, hash);
    return hash;
  }

  return {
    get: (name: string): number | undefined => located.get(name),
    async lookUpKey(hashedSecret: string): Promise<number | null> {
      const hash = await directory.submit(hashedSecret);
      return hash === null ? null : keep(hashedSecret, hash);
    },
    async lookUpOrganization(orgId: string): Promise<number> {
      const [row] = await db.run<{ hash: string }>(readHash, [orgId]);
      return keep(orgId, Number(row!.hash));
    },
  };
}

/** A shard of a distributed table. Reference tables have only `table` and `shard`. */
interface ShardRow {
  table: string;
  shard: string;
  from: string | null;
  to: string | null;
  host: string | null;
  port: string | null;
}

function toPlaces(rows: ShardRow[]): Place[] {
  const everywhere = new Map<string, string>();
  const byRange = new Map<string, Omit<Place, 'tables'> & { tables: Map<string, string> }>();
  for (const { table, shard, from, to, host, port } of rows) {
    if (from === null) {
      everywhere.set(table, shard);
      continue;
    }
    const place = byRange.get(from) ?? {
      id: '',
      from: Number(from),
      to: Number(to),
      host: host!,
      port: port!,
      tables: new Map(),
    };
    byRange.set(from, place);
    place.tables.set(table, shard);
    if (table === ANCHOR) place.id = shard;
  }
  const places = [...byRange.values()].sort((a, b) => a.from - b.from);
  return places.map((place) => ({ ...place, tables: new Map([...everywhere, ...place.tables]) }));
}

interface GroupMap {
  reload(isUrgent: boolean): Promise<void>;
  watchers: ShardWatcher[];
}

class CitusGroup implements ShardGroup {
  readonly parallel = 2;
  readonly parallelReads = 1;
  worker = '';
  isReached = true;
  private isGone = false;
  private pool: pg.Pool | undefined;
  private look: () => Promise<void> = () => Promise.resolve();
  private tables: Place['tables'] = new Map();
  readonly id: string;
  readonly from: number;
  private readonly to: number;
  private readonly deps: CitusDeps;
  private readonly map: GroupMap;
  private readonly statementOf;
  private readonly begun = new Set<{ at: number }>();

  constructor(deps: CitusDeps, { id, from, to }: Pick<Place, 'id' | 'from' | 'to'>, map: GroupMap) {
    this.deps = deps;
    this.id = id;
    this.from = from;
    this.to = to;
    this.map = map;
    this.statementOf = createStatements((table) => `${table}_${this.tables.get(table)}`, {
      suffix: `_${id}`,
      held: `gauge_hold('{${id}}')`,
    });
  }

  standAt({ host, port, tables }: Place): void {
    this.tables = tables;
    const worker = `${host}:${port}`;
    if (worker === this.worker) return;
    this.worker = worker;
    const left = this.pool;
    ({ pool: this.pool, look: this.look } = this.deps.openWorker({ host, port }, GROUP_CONNECTIONS));
    // Not awaited, because `end` waits for statements in flight on the old pool.
    void left?.end();
  }

  async end(): Promise<void> {
    this.isGone = true;
    await this.pool?.end();
  }

  get load(): GroupLoad {
    const [oldest] = this.begun;
    return { inFlight: this.begun.size, oldestMs: oldest ? performance.now() - oldest.at : 0 };
  }

  ping = async (): Promise<void> => {
    await this.look();
    const { rows } = await this.follow((pool) => pool.query<{ isReadOnly: boolean }>(isReadOnly));
    if (rows[0]!.isReadOnly) throw new Error(readOnly);
  };

  run: Run = async <Row>(template: Template, values: unknown[]) => {
    const own = { at: performance.now() };
    this.begun.add(own);
    try {
      return await this.follow((pool) => this.deps.runOn(pool)<Row>(this.statementOf(template), values));
    } finally {
      this.begun.delete(own);
      for (const { onStatement } of this.map.watchers)
        onStatement(this.id, (performance.now() - own.at) / 1000);
    }
  };

  dryRun<T>(work: (run: Run) => Promise<T>): Promise<T> {
    return this.follow((pool) =>
      this.deps.rollBack(pool, (client) => {
        const run = this.deps.runOn(client);
        return work((template, values) => run(this.statementOf(template), values));
      }),
    );
  }

  /** Runs in a transaction, so that the lock on the group is released at the end. */
  select<T>(build: (tables: GroupTables) => SQL): Promise<T[]> {
    const tables: GroupTables = Object.assign(
      (table: string) => sql`${sql.identifier(`${table}_${this.tables.get(table)}`)}`,
      { owns: (orgId: SQL) => sql`uuid_hash(${orgId}) between ${this.from} and ${this.to}` },
    );
    return this.follow((pool) =>
      this.deps.rollBack(pool, async (client) => {
        await client.query(`select gauge_hold('{${this.id}}')`);
        return selectRows<T>(drizzle(client), build(tables));
      }),
    );
  }

  /** Retries only statements refused because the group moved: after a lost connection, it may have been committed. */
  private async follow<T>(work: (pool: pg.Pool) => Promise<T>): Promise<T> {
    // The deadline starts when the move is first noticed, because the statement may already have waited a long time for
    // the cut-over.
    let giveUpAt: number | undefined;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
      if (this.isGone) throw new ShardGroupGoneError(`shard group ${this.id} no longer exists`);
      const pool = this.pool!;
      try {
        const result = await work(pool);
        this.isReached = true;
        return result;
      } catch (error) {
        // The pool may have been replaced while the statement waited for a connection.
        const isMoved = isMovedAway(error) || this.pool !== pool || this.isGone;
        if (!isMoved) {
          this.isReached = !isDatabaseUnavailable(error);
          if (!this.isReached) void this.map.reload(false).catch(() => undefined);
          throw error;
        }
        giveUpAt ??= performance.now() + FOLLOW_FOR_MS;
        if (performance.now() + pauseMs > giveUpAt) throw error;
        for (const { onRepeat } of this.map.watchers) onRepeat(this.id);
        await this.map.reload(true).catch(() => undefined);
        await setTimeout(pauseMs);
      }
    }
  }
}

/** 40001: `gauge_hold` found that the group has moved. 42P01: its tables are already gone from this server. */
const isMovedAway = (error: unknown): boolean => /^(40001|42P01)$/.test(sqlState(error) ?? '');
