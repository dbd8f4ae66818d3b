import type pg from 'pg';
import { ANCHOR } from './citus.js';

/** On every node whole: written rarely, and read together with rows of any Organization. */
const onEveryNode = ['organizations', 'users', 'memberships', 'products'];

/** In one place, although its rows name an Organization: it leads to where the others are. */
const DIRECTORY = 'api_key_directory';

/**
 * Holds shard groups where they are until the statement has been committed, or says that they are elsewhere. A move takes
 * the same lock in the other mode on every node before its cut-over. The first look comes before the lock, because Citus cannot lock a
 * shard that is gone; volatile, so that the second look sees what was committed while the lock was waited for.
 */
const hold = `
create or replace function gauge_hold(shards bigint[]) returns int language plpgsql volatile security definer set search_path = pg_catalog as $$
begin
  for attempt in 1..2 loop
    if (select count(*) from pg_dist_placement p where p.shardid = any (shards)
        and p.groupid = (select groupid from pg_dist_local_group)) <> cardinality(shards)
    then raise exception 'shard moved' using errcode = '40001'; end if;
    if attempt = 1 then perform lock_shard_metadata(5, shards); end if;
  end loop;
  return 1;
end $$`;

export type Placement = 'every node' | 'spread';

interface Step {
  table: string;
  placement: Placement;
}

/** What there is to do, in its order: every table is there when one refers to it, and the first that is spread names the groups. */
const listMissing = `
select t.name as table, case when t.name = any ($1::text[]) then 'every node' else 'spread' end as placement
from (
  select c.oid, c.relname::text as name from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
    and (c.relname = any ($1::text[]) or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped))
    and c.relname <> '${DIRECTORY}'
) t
left join pg_dist_partition p on p.logicalrelid = t.oid
where p.logicalrelid is null
  or p.partmethod <> case when t.name = any ($1::text[]) then 'n' else 'h' end
  or (t.name = any ($1::text[]) and p.repmodel <> 't')
order by array_position($1::text[], t.name), t.name <> '${ANCHOR}', t.name`;

/** Tables whose rows belong to Organizations, and that are not where they belong on a sharded database. */
export async function findMisplaced(client: Pick<pg.Client, 'query'>): Promise<Step[]> {
  const { rows } = await client.query<Step>(listMissing, [onEveryNode]);
  return rows;
}

/**
 * Puts every table where it belongs, with its rows; what is there already is left alone. Each table is a transaction of its
 * own, so what was interrupted goes on where it was.
 * @param shards how many groups the Organizations are divided into, where they are not yet
 */
export async function distributeTables(
  client: Pick<pg.Client, 'query'>,
  {
    shards,
    onStep = () => undefined,
  }: { shards: number; onStep?: (step: Step, done: number, all: number) => void },
): Promise<Step[]> {
  await client.query(hold);
  await client.query(
    `insert into ${DIRECTORY} (hashed_secret, org_id) select hashed_secret, org_id from api_keys on conflict do nothing`,
  );
  const steps = await findMisplaced(client);
  for (const [done, step] of steps.entries()) {
    const { table, placement } = step;
    onStep(step, done, steps.length);
    if (placement === 'every node') await client.query(`select create_reference_table($1)`, [table]);
    else if (table === ANCHOR)
      await client.query(
        `select create_distributed_table($1, 'org_id', shard_count => $2, colocate_with => 'none')`,
        [table, shards],
      );
    else
      await client.query(`select create_distributed_table($1, 'org_id', colocate_with => '${ANCHOR}')`, [
        table,
      ]);
  }
  return steps;
}
