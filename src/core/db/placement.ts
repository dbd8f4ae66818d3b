import { ANCHOR } from './citus.js';
import type { Orm } from './client.js';
import { queryRows } from './sql.js';

export interface Placement {
  /** Also the id of its `usage_events` shard. */
  id: string;
  host: string;
  port: number;
  organizations: number;
  bytes: number;
}

/** All servers must be reachable, because each reports its own sizes. */
export const listPlacements = (orm: Orm): Promise<Placement[]> =>
  queryRows(orm)<Placement>`with placed as (
      select s.shardminvalue as range, min(c.shardid) filter (where c.table_name = to_regclass(${ANCHOR})) as id,
        c.nodename as host, c.nodeport as port, sum(c.shard_size) as bytes
      from citus_shards c join pg_dist_shard s on s.shardid = c.shardid
      where c.citus_table_type = 'distributed'
      group by s.shardminvalue, c.nodename, c.nodeport
    ), counted as (
      select get_shard_id_for_distribution_column(${ANCHOR}, id) as id, count(*)::int as organizations from organizations group by 1
    )
    select p.id::text, p.host::text, p.port, coalesce(c.organizations, 0) as organizations, p.bytes::float8 as bytes
    from placed p left join counted c on c.id = p.id
    order by p.host, p.port, p.range::int`;

export interface Server {
  name: string;
  groups: number;
  organizations: number;
  bytes: number;
}

export function sumByServer(placements: Placement[]): Server[] {
  const servers = new Map<string, Server>();
  for (const { host, port, organizations, bytes } of placements) {
    const name = `${host}:${port}`;
    const server = servers.get(name) ?? { name, groups: 0, organizations: 0, bytes: 0 };
    server.groups++;
    server.organizations += organizations;
    server.bytes += bytes;
    servers.set(name, server);
  }
  return [...servers.values()];
}
