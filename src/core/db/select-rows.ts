import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from './client.js';

/** The rows of a statement that is written as SQL. */
export async function selectRows<T>(orm: Orm, query: SQL): Promise<T[]> {
  // Both drivers answer with `rows`; the ORM's common type does not say so.
  const result: unknown = await orm.execute(query);
  return (result as { rows: T[] }).rows;
}

/** The first row, or the only one. */
export const selectRow = async <T>(orm: Orm, query: SQL): Promise<T | undefined> =>
  (await selectRows<T>(orm, query))[0];

/** SQL of a time as answers write it: RFC 3339 in UTC with milliseconds. */
export const timeJson = (time: string): string =>
  `to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** A time as RFC 3339 in UTC with microseconds, which a Date would drop. */
export const timeText = (column: SQL): SQL =>
  sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
