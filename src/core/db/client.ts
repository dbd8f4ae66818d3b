import type { MessagePort } from 'node:worker_threads';
import type { SQL } from 'drizzle-orm';
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Drizzle over either driver. Inside `transaction` use only its `tx`: the embedded database has one connection. */
export type Orm = PgDatabase<PgQueryResultHKT>;

declare const isDecided: unique symbol;

/** Transaction of an authorized change. Only `change` in audit/audit.ts creates one, so every write is checked. */
export type Tx = Orm & { readonly [isDecided]: true };

/** A hot statement: prepared once per connection under `name`; every output column has a name and is cast to text. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly readRow?: ReadRow | undefined;
}

/** A row of a hot statement by column name, in Postgres's text format. */
export type TextRow = Readonly<Record<string, string | null>>;

/** Table names and clauses for building a hot statement for one shard group. */
export interface Names {
  (table: string): string;
  /** `with` and a first expression that holds the shard group; another expression must follow. */
  readonly with: string;
  readonly withRecursive: string;
  /** Joined into the first expression, so that the statement holds the shard group before it writes. */
  readonly held: string;
}

export type ReadRow = (columns: readonly (string | null)[]) => object;

/** A hot statement before it has table names. All its rows belong to Organizations of one shard group. */
export interface Template {
  readonly name: string;
  /** Reads a row by position, for statements with many rows (`bench/README.md`, JSON and HTTP by hand). Default: rows are objects. */
  readonly readRow?: ReadRow;
  text(names: Names): string;
}

/** Table names for building a report over all Organizations for one shard group. */
export interface GroupTables {
  (table: string): SQL;
  /** SQL condition that is true for Organizations of this group. Reference tables also hold the rows of others. */
  owns(orgId: SQL): SQL;
}

export type Run = <Row = TextRow>(template: Template, values: unknown[]) => Promise<Row[]>;

/** Organizations with colocated rows: their table names and connections. An unsharded database is one group. */
export interface ShardGroup {
  /** Does not change when the group moves; empty if there is only one group. */
  readonly id: string;
  /** Current server of the group, as host:port; empty if there is only one group. */
  readonly worker: string;
  /** Useful concurrency of writing statements, and of each kind of reading statement. */
  readonly parallel: number;
  readonly parallelReads: number;
  /** Runs one hot statement, which is committed before this resolves. @throws ShardGroupGoneError */
  run: Run;
  /** Runs hot statements in a transaction that is rolled back, and returns their answers without recording anything. */
  dryRun<T>(work: (run: Run) => Promise<T>): Promise<T>;
  readonly load: GroupLoad;
  /** @throws while the group's server is unreachable */
  ping: () => Promise<void>;
  select<T>(build: (tables: GroupTables) => SQL): Promise<T[]>;
}

export interface GroupLoad {
  inFlight: number;
  /** Age of the oldest statement in flight; 0 if there are none. */
  oldestMs: number;
}

export interface ShardWatcher {
  onStatement: (group: string, seconds: number) => void;
  /** Called when a statement is repeated because its group had moved. */
  onRepeat: (group: string) => void;
}

export interface Shards {
  readonly groups: readonly ShardGroup[];
  /** The group of the API key with this secret. Any group can report that a key does not exist. */
  locate(hashedSecret: string): ShardGroup | Promise<ShardGroup>;
  locateOrganization(orgId: string): ShardGroup | Promise<ShardGroup>;
  load(): Promise<void>;
  watch(watcher: ShardWatcher): void;
}

export interface Database {
  readonly kind: 'postgres' | 'embedded';
  readonly orm: Orm;
  readonly shards: Shards;
  readonly parallel: number;
  /** Concurrent runs of `transaction`; further ones wait for a connection. */
  readonly parallelTransactions: number;
  /** Runs one hot statement on whole tables, which is committed before this resolves. */
  run: <Row = TextRow>(statement: Statement, values: unknown[]) => Promise<Row[]>;
  /** Runs a few prepared hot statements. An error from `work` rolls them back. `tx` does not nest transactions. */
  transaction<T>(work: (tx: Orm) => Promise<T>): Promise<T>;
  /** Runs hot statements in a transaction that is rolled back, and returns their answers without recording anything. */
  dryRun<T>(work: (run: Database['run']) => Promise<T>): Promise<T>;
  ping(): Promise<void>;
  close(): Promise<void>;
  /** Opens a port through which another thread uses this database. Undefined if a thread opens connections itself. */
  readonly openPort?: (() => MessagePort) | undefined;
}

/**
 * Makes Citus write to shards one after the other. After a parallel write, Citus refuses to touch a reference table
 * or change a schema in the same transaction. Postgres without Citus accepts the setting and ignores it.
 */
export const SEQUENTIAL = `set citus.multi_shard_modify_mode = 'sequential'`;

/** SQLSTATE of a database error, wherever the driver or the ORM put it; undefined for other errors. */
export function sqlState(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code = (e as { code?: unknown }).code;
    if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return code;
  }
  return undefined;
}

export const UNIQUE_VIOLATION = '23505';

const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'EAI_AGAIN',
]);

/**
 * True if the database was unreachable, went away, is restarting, or did not get to the request (a time-out, a
 * deadlock): the request itself is fine, and a retry may succeed. Whether the statement was committed is unknown.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  // 08 connection; 53 resources; 57P0x shutdown and start-up; 57014 and 55P03 waited too long, for example for a
  // repair or migration that holds a lock; 40001 and 40P01 conflict with another transaction; 25006 read-only standby
  // after a fail-over.
  if (state && state !== 'XX000') return /^(08|53|57P0|57014|55P03|40001|40P01|25006)/.test(state);
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code, severity } = e as { code?: unknown; severity?: unknown };
    if (typeof code === 'string' && connectionCodes.has(code)) return true;
    // A server with a full disk may fail at the first step of a connection, without a specific state (XX000).
    if (severity === 'FATAL') return true;
    // The last pattern is the XX000 of a coordinator's connection to a worker that has been restarted.
    if (
      /connection terminated|timeout exceeded when trying to connect|query read timeout|connection ended|not queryable|failure on connection marked as essential/i.test(
        e.message,
      )
    )
      return true;
  }
  return false;
}
