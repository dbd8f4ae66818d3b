import { getTableColumns, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { Orm } from './client.js';

/**
 * Inserts rows of many columns by one parameter, as JSON; a row whose key is there already stays as it was. The builder's way,
 * a parameter for each value, takes three times as long. A column that is left out is null, also where it has a default.
 */
export async function insertRows<T extends PgTable>(
  orm: Orm,
  table: T,
  rows: readonly T['$inferInsert'][],
): Promise<void> {
  const columns = Object.entries(getTableColumns(table));
  const json = JSON.stringify(
    rows.map((row: Record<string, unknown>) =>
      Object.fromEntries(columns.map(([key, { name }]) => [name, row[key]])),
    ),
  );
  const names = sql.join(
    columns.map(([, { name }]) => sql.identifier(name)),
    sql`, `,
  );
  await orm.execute(
    sql`insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, ${json}::json)
    on conflict do nothing`,
  );
}
