import { and, eq, isNull, sql, type SQL, type SQLWrapper, getTableColumns } from 'drizzle-orm';
import { type PgColumn, type PgTable, customType, timestamp } from 'drizzle-orm/pg-core';
import { sqlState, UNIQUE_VIOLATION, type Orm } from './client.js';
import { AppError } from '../errors.js';

/** The driver's generic conversion costs 50% more per value in batches of hundreds. */
export function textArray(values: readonly (string | null)[]): string {
  let literal = '{';
  for (let i = 0; i < values.length; i++) {
    if (i > 0) literal += ',';
    const value = values[i];
    literal += value === null || value === undefined ? 'NULL' : quote(value);
  }
  return literal + '}';
}

const special = /["\\]/;
const allSpecial = /["\\]/g;

function quote(value: string): string {
  return special.test(value) ? `"${value.replace(allSpecial, '\\$&')}"` : `"${value}"`;
}

/** Part of a hot statement's text: `text` if it applies. */
export const when = (applies: unknown, text: string): string => (applies ? text : '');

/** Columns of a hot statement's text; those that do not apply are false. */
export const list = (...columns: (string | false)[]): string => columns.filter(Boolean).join(', ');

type Value = string | number | boolean | null | undefined;

/** An array of each named field of the rows, for `unnest`. */
export const columnArrays = <Row extends object>(rows: readonly Row[], ...names: (keyof Row)[]): string[] =>
  names.map((name) => textArray(rows.map((row) => (row[name] as Value)?.toString() ?? null)));

export const intArray = (values: readonly number[]): string => `{${values.join(',')}}`;

/** Decimals need no quoting. */
export const numericArray = (values: readonly string[]): string => `{${values.join(',')}}`;

export async function selectRows<T>(orm: Orm, query: SQL): Promise<T[]> {
  // Both drivers return `rows`, although the ORM's common type does not declare it.
  const result: unknown = await orm.execute(query);
  return (result as { rows: T[] }).rows;
}

/** A template tag that runs the statement and returns its rows. */
export const queryRows =
  (orm: Orm) =>
  <T>(...statement: Parameters<typeof sql>): Promise<T[]> =>
    selectRows(orm, sql(...statement));

/** A template tag that runs the statement and returns its first row. */
export const queryRow =
  (orm: Orm) =>
  <T>(...statement: Parameters<typeof sql>): Promise<T | undefined> =>
    firstRow(queryRows(orm)<T>(...statement));

/** Rows of the table with these values. */
export const matches = <T extends PgTable>(
  table: T,
  values: { [K in keyof T['$inferSelect']]?: T['$inferSelect'][K] | SQLWrapper },
) => {
  const columns = getTableColumns(table);
  const isIt = (column: PgColumn, value: unknown) => (value === null ? isNull(column) : eq(column, value));
  return and(...Object.entries(values).map(([name, value]) => isIt(columns[name]!, value)));
};

/** All reads of `work` see the same state. */
export const inSnapshot = <T>(orm: Orm, work: (tx: Orm) => Promise<T>): Promise<T> =>
  orm.transaction(work, { isolationLevel: 'repeatable read', accessMode: 'read only' });

export const firstRow = async <T>(rows: PromiseLike<T[]>): Promise<T | undefined> => (await rows)[0];

export const firstValue = async <T>(rows: PromiseLike<{ value: T }[]>): Promise<T | undefined> =>
  (await rows)[0]?.value;

export const hasRow = async (rows: PromiseLike<unknown[]>): Promise<boolean> => (await rows).length > 0;

/** For a statement that writes rows. */
export const hasChanged = async (statement: { returning(): PromiseLike<unknown[]> }): Promise<boolean> =>
  hasRow(statement.returning());

export const selectRow = <T>(orm: Orm, query: SQL): Promise<T | undefined> =>
  firstRow(selectRows<T>(orm, query));

/** RFC 3339 in UTC with milliseconds. */
export const timeJson = (time: string): string =>
  `to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** RFC 3339 in UTC with microseconds, which a Date would drop. */
export const timeText = (column: SQL): SQL =>
  sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** Ignores case, and no character is special. No index supports it: the query must bound the rows otherwise. */
export const containsText = (search: string, ...columns: (PgColumn | SQL)[]): SQL =>
  sql`(${sql.join(
    columns.map((column) => sql`strpos(lower(${column}), lower(${search}::text)) > 0`),
    sql` or `,
  )})`;

/** For LIKE: texts that begin with the search. */
export const toPattern = (search: string) => `${search.replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`;

type Column = [key: string, column: PgColumn];

const namesOf = (columns: readonly Column[]): SQL =>
  sql.join(
    columns.map(([, { name }]) => sql.identifier(name)),
    sql`, `,
  );

/** One parameter per value takes three times as long, but a sharded database sends a single row to its shard only so. */
function insertOf(
  table: PgTable,
  columns: readonly Column[],
  rows: readonly object[],
  toText: (value: unknown) => string = JSON.stringify,
): SQL {
  const valueOf = (row: object, key: string) => (row as Record<string, unknown>)[key];
  const into = sql`insert into ${table} (${namesOf(columns)})`;
  if (rows.length === 1) {
    const values = columns.map(
      ([key, column]) => sql`${toParameter(column, valueOf(rows[0]!, key), toText)}`,
    );
    return sql`${into} values (${sql.join(values, sql`, `)})`;
  }
  const named = rows.map((row) =>
    Object.fromEntries(columns.map(([key, { name }]) => [name, valueOf(row, key)])),
  );
  return sql`${into} select ${namesOf(columns)} from json_populate_recordset(null::${table}, ${toText(named)}::json)`;
}

function toParameter({ dataType }: PgColumn, value: unknown, toText: (value: unknown) => string): unknown {
  if (value === null || value === undefined) return null;
  if (dataType === 'json') return toText(value);
  if (value instanceof Date) return value.toISOString();
  return Array.isArray(value) ? textArray(value.map(String)) : value;
}

/** Skips rows whose key exists. Omitted columns become null, even if they have a default. */
export async function insertRows<T extends PgTable>(orm: Orm, table: T, rows: readonly T['$inferInsert'][]) {
  await orm.execute(
    sql`${insertOf(table, Object.entries(getTableColumns(table)), rows)} on conflict do nothing`,
  );
}

interface WayToStore {
  /** Default: a row whose key exists is an error. */
  onConflict?: SQL;
  toText?: (value: unknown) => string;
}

/** All rows must have the same columns. Returns what `onConflict` does. */
export async function addRows<T = unknown>(
  orm: Orm,
  table: PgTable,
  rows: readonly object[],
  { onConflict = sql``, toText }: WayToStore = {},
): Promise<T[]> {
  if (rows.length === 0) return [];
  const columns = Object.entries(getTableColumns(table)).filter(([name]) => name in rows[0]!);
  return selectRows<T>(orm, sql`${insertOf(table, columns, rows, toText)} ${onConflict}`);
}

/** Replaces the given columns of rows whose key exists. All rows must have the same columns. */
export async function storeRows(orm: Orm, table: PgTable, key: readonly PgColumn[], rows: readonly object[]) {
  const others = Object.entries(getTableColumns(table)).filter(
    ([name, column]) => name in (rows[0] ?? {}) && !key.includes(column),
  );
  const set = others.map(([, { name }]) => sql`${sql.identifier(name)} = excluded.${sql.identifier(name)}`);
  const keyNames = namesOf(key.map((column) => ['', column]));
  const onConflict = sql`on conflict (${keyNames}) do update set ${sql.join(set, sql`, `)}`;
  await addRows(orm, table, rows, { onConflict });
}

/** Postgres stores microseconds; a `Date` holds only milliseconds. */
export const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

/** Byte order is cheaper than a language's collation and the same on every server. */
export const bytewiseText = customType<{ data: string }>({ dataType: () => 'text collate "C"' });

export class ConcurrentChangeError extends AppError {
  constructor() {
    super('unavailable', 'The same resource is being changed by other requests.', { retryAfterSeconds: 1 });
  }
}

/** SQLSTATEs for a row that appeared or disappeared between a read and a write, and for conflicting transactions. */
const conflictStates = new Set([UNIQUE_VIOLATION, '23503', '40001', '40P01']);
const MAX_ATTEMPTS = 10;

const isConflict = (error: unknown): boolean =>
  error instanceof ConcurrentChangeError || conflictStates.has(sqlState(error) ?? '');

/** The new attempt sees the other request's changes. */
export async function retryOnConflict<T>(
  work: () => Promise<T>,
  isRetried: (error: unknown) => boolean = isConflict,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isRetried(error) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}
