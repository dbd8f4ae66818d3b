import { sql } from 'drizzle-orm';
import type { Database } from '../../src/core/db/client.js';

/**
 * Tables whose changes do not count: a challenge is deleted before it is checked, and a refused sign-in is recorded
 * afterwards.
 */
const uncounted = new Set(['passkey_challenges', 'single_sign_ons', 'failed_sign_ins']);
/**
 * The only column in each of these tables whose changes count. Last-seen times, the selected Organization and attempts
 * do not count.
 */
const counted: Record<string, string> = {
  sessions: 'hashed_token',
  sign_in_challenges: 'user_id',
};

/**
 * Makes the database count inserted, changed and deleted rows, in the same transaction as each change.
 * @returns a function that reads the count
 */
export async function countChanges({ orm, run }: Database): Promise<() => Promise<string>> {
  const text = `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  const tables = await run({ name: 'tables', text }, []);
  await orm.execute(sql`create table counted_changes as select 0::bigint as n`);
  await orm.execute(sql`create function count_change() returns trigger language plpgsql as
    'begin update counted_changes set n = n + 1; return null; end'`);
  for (const { name } of tables) {
    if (uncounted.has(name!)) continue;
    const of = (row: string) => (counted[name!] ? `${row}.${counted[name!]}` : `${row}::text`);
    const trigger = (events: string, when = '') =>
      `create trigger ${events.split(' ')[0]}_is_counted after ${events} on ${name} for each row ${when} execute function count_change()`;
    await orm.execute(sql.raw(trigger('insert or delete')));
    await orm.execute(sql.raw(trigger('update', `when (${of('old')} is distinct from ${of('new')})`)));
  }
  return async () =>
    JSON.stringify(await run({ name: 'counted', text: 'select n from counted_changes' }, []));
}
