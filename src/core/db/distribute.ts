import { sql } from 'drizzle-orm';
import { ANCHOR } from './citus.js';
import type { Orm } from './client.js';
import { selectRows } from './sql.js';

/** On every node whole: written rarely, and read together with rows of any Organization. */
const onEveryNode = sql.raw(`array['organizations', 'users', 'memberships', 'products', 'operators']`);

/** In one place, although its rows name an Organization: it leads to where the others are. */
const directory = sql.raw('api_key_directory');

/**
 * Holds shard groups where they are until the statement has been committed, or says that they are elsewhere. A move takes
 * the same lock in the other mode on every node before its cut-over. The first look comes before the lock, because Citus
 * cannot lock a shard that is gone; volatile, so that the second look sees what was committed while the lock was waited for.
 * With the rights of the tables' owner, whom alone Citus lets lock them: the role that serves owns nothing.
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

/**
 * What a sharded database has not put where it belongs, in the order in which that can be done: a table is there when
 * another one refers to it, and the first that is spread makes the groups.
 */
export const findMisplaced = (orm: Orm): Promise<Step[]> =>
  selectRows<Step>(
    orm,
    sql`select t.name as table, case when t.place is null then 'spread' else 'every node' end as placement
    from (
      select c.oid, c.relname::text as name, array_position(${onEveryNode}, c.relname::text) as place from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.oid <> '${directory}'::regclass
    ) t
    left join pg_dist_partition p on p.logicalrelid = t.oid
    where (t.place is not null or exists (
        select from pg_attribute a where a.attrelid = t.oid and a.attname = 'org_id' and not a.attisdropped
      ))
      and (p.partmethod = 'h' or p.repmodel = 't' and t.place is not null) is not true
    order by t.place, t.name <> ${ANCHOR}, t.name`,
  );

/** Whether Citus spreads the tables of this database. */
export async function isDistributed(orm: Orm): Promise<boolean> {
  const [found] = await selectRows<{ hasCitus: boolean }>(
    orm,
    sql`select to_regclass('pg_catalog.pg_dist_partition') is not null as "hasCitus"`,
  );
  if (!found?.hasCitus) return false;
  const spread = await selectRows(
    orm,
    sql`select from pg_dist_partition where logicalrelid = to_regclass('public.${sql.raw(ANCHOR)}') and partmethod = 'h'`,
  );
  return spread.length > 0;
}

/**
 * Puts every table where it belongs, with its rows; what is there already is left alone. Each table is a transaction of its
 * own, so what was interrupted goes on where it was.
 * @param shards how many groups the Organizations are divided into, where they are not yet
 */
export async function distributeTables(
  orm: Orm,
  shards: number,
  onStep: (step: Step, done: number, all: number) => void = () => undefined,
): Promise<Step[]> {
  await orm.execute(createHold);
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
