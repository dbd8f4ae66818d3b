import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { useDatabase } from '../../support/use.js';

/** Tables that a sharded Postgres does not distribute although they have an `org_id` column. */
const wholeTables = ['memberships', 'api_key_directory'];

/**
 * Finds obstacles to sharding: rows without an `org_id`, uniqueness or references across Organizations, ids from a
 * sequence, and triggers.
 */
async function findObstacles(db: Database): Promise<string[]> {
  const result = await db.orm.execute(sql`
    with spread as (
      select c.oid as id, c.relname as name, o.attnum as org, o.attnotnull as is_required
      from pg_class c
      join pg_attribute o on o.attrelid = c.oid and o.attname = 'org_id' and not o.attisdropped
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and c.relname not in (${sql.join(wholeTables, sql`, `)})
    )
    select name || ': org_id may be null' as obstacle from spread where not is_required
    union all
    select s.name || ': has no primary key' from spread s
    where not exists (select from pg_constraint k where k.conrelid = s.id and k.contype = 'p')
    union all
    select s.name || ': ' || i.indexrelid::regclass || ' is unique without org_id'
    from spread s join pg_index i on i.indrelid = s.id
    where (i.indisunique or i.indisexclusion) and not s.org = any (i.indkey::int2[])
    union all
    select s.name || ': ' || k.conname || ' does not carry org_id along'
    from spread s join pg_constraint k on k.conrelid = s.id and k.contype = 'f'
    join spread other on other.id = k.confrelid
    where array_position(k.conkey, s.org) is distinct from array_position(k.confkey, other.org)
      or array_position(k.conkey, s.org) is null
    union all
    select s.name || ': ' || a.attname || ' is numbered by the database'
    from spread s join pg_attribute a on a.attrelid = s.id and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = s.id and d.adnum = a.attnum
    where a.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) ~ '^nextval'
    union all
    select s.name || ': trigger ' || t.tgname from spread s join pg_trigger t on t.tgrelid = s.id and not t.tgisinternal
    order by 1`);
  return (result as { rows: { obstacle: string }[] }).rows.map((row) => row.obstacle);
}

const database = useDatabase();

it('every table of a tenant can be sharded by org_id', async () => {
  expect(await findObstacles(database.db)).toEqual([]);
});

it('the check detects each kind of obstacle', async () => {
  const { orm } = database.db;
  await orm.execute(
    sql`create table bad_target (org_id uuid not null, id uuid, primary key (org_id, id), unique (id))`,
  );
  await orm.execute(sql`create table bad (org_id uuid, n serial, id uuid references bad_target (id))`);
  await orm.execute(
    sql`create function do_nothing() returns trigger language plpgsql as $$ begin return new; end $$`,
  );
  await orm.execute(
    sql`create trigger noticed before insert on bad for each row execute function do_nothing()`,
  );
  expect(await findObstacles(database.db)).toEqual([
    'bad: bad_id_fkey does not carry org_id along',
    'bad: has no primary key',
    'bad: n is numbered by the database',
    'bad: org_id may be null',
    'bad: trigger noticed',
    'bad_target: bad_target_id_key is unique without org_id',
  ]);
  await orm.execute(sql`drop table bad, bad_target`);
  await orm.execute(sql`drop function do_nothing`);
});
