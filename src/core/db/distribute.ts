import { sql } from 'drizzle-orm';
import { ANCHOR } from './citus.js';
import type { Orm } from './client.js';
import { createFunctions } from './functions.js';
import { queryRows } from './sql.js';

/** Reference tables, which every node holds in full: rarely written, and read with every Organization's rows. */
const onEveryNode = sql.raw(
  `array['organizations', 'users', 'memberships', 'products', 'operators', 'plans', 'plan_versions', 'service_keys']`,
);

/** Stays on one node, because it is used to find an Organization's group. */
const directory = sql.raw('api_key_directory');

/**
 * Raises 40001 if the groups have already moved. A move takes the same lock in a conflicting mode on every node before
 * its cut-over. The function checks before taking the lock, because Citus cannot lock a shard that no longer exists,
 * and again afterwards. It is volatile so that the second check sees what was committed while it waited for the lock.
 * It runs as the tables' owner, because Citus lets only the owner lock them and the serving role owns nothing.
 */
const createHold = sql`
create or replace function gauge_hold(shards bigint[]) returns int
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  for attempt in 1..2 loop
    if (select count(*) from pg_dist_placement p where p.shardid = any (shards)
        and p.groupid = (select groupid from pg_dist_local_group)) <> cardinality(shards)
    then raise exception 'shard moved' using errcode = '40001'; end if;
    if attempt = 1 then perform lock_shard_metadata(5, shards); end if;
  end loop;
  return 1;
end $$`;

export interface Step {
  table: string;
  placement: 'every node' | 'spread';
}

/** Referenced tables first, then the anchor, which creates the groups. */
export const findMisplaced = (orm: Orm): Promise<Step[]> =>
  queryRows(orm)<Step>`
    select t.name as table, case when t.place is null then 'spread' else 'every node' end as placement
    from (
      select c.oid, c.relname::text as name, array_position(${onEveryNode}, c.relname::text) as place from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.oid <> '${directory}'::regclass
    ) t
    left join pg_dist_partition p on p.logicalrelid = t.oid
    where (t.place is not null or exists (
        select from pg_attribute a where a.attrelid = t.oid and a.attname = 'org_id' and not a.attisdropped
      ))
      and (p.partmethod = 'h' or p.repmodel = 't' and t.place is not null) is not true
    order by t.place, t.name <> ${ANCHOR}, t.name`;

export async function isDistributed(orm: Orm): Promise<boolean> {
  const [found] = await queryRows(orm)<{ hasCitus: boolean }>`
    select to_regclass('pg_catalog.pg_dist_partition') is not null as "hasCitus"`;
  if (!found?.hasCitus) return false;
  const spread = await queryRows(orm)`
    select from pg_dist_partition where logicalrelid = to_regclass('public.${sql.raw(ANCHOR)}') and partmethod = 'h'`;
  return spread.length > 0;
}

/**
 * Each table has its own transaction, so an interrupted run can be resumed.
 * @param shards number of groups, if the Organizations are not divided yet
 */
export async function distributeTables(
  orm: Orm,
  shards: number,
  onStep: (step: Step, done: number, all: number) => void = () => undefined,
): Promise<Step[]> {
  await orm.execute(createHold);
  await createFunctions(orm);
  await orm.execute(
    sql`insert into ${directory} (hashed_secret, org_id) select hashed_secret, org_id from api_keys on conflict do nothing`,
  );
  const steps = await findMisplaced(orm);
  for (const [done, step] of steps.entries()) {
    const { table, placement } = step;
    onStep(step, done, steps.length);
    await orm.execute(
      placement === 'every node'
        ? sql`select create_reference_table(${table}::regclass)`
        : table === ANCHOR
          ? sql`select create_distributed_table(${table}::regclass, 'org_id', colocate_with => 'none', shard_count => ${shards}::int)`
          : sql`select create_distributed_table(${table}::regclass, 'org_id', colocate_with => ${ANCHOR})`,
    );
  }
  return steps;
}
