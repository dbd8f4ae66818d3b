import type { MessagePort } from 'node:worker_threads';
import type { SQL } from 'drizzle-orm';
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Inside `transaction`, use only its `tx`: the embedded database has one connection. */
export type Orm = PgDatabase<PgQueryResultHKT>;

declare const isDecided: unique symbol;

/** Only `change` in audit/audit.ts creates one, so no write can skip the checks. */
export type Tx = Orm & { readonly [isDecided]: true };

/** Prepared once per connection under `name`. Each output column has a name and is cast to text. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly readRow?: ReadRow | undefined;
}

/** Values in Postgres's text format. */
export type TextRow = Readonly<Record<string, string | null>>;

export interface Names {
  (table: string): string;
  /** `with` and a first CTE that locks the shard group. Another CTE must follow. */
  readonly with: string;
  readonly withRecursive: string;
  /** Joins the locking CTE, so that the group is locked before anything is written. */
  readonly held: string;
}

export type ReadRow = (columns: readonly (string | null)[]) => object;

/** Touches Organizations of one group only. */
export interface Template {
  readonly name: string;
  /** Reads a row by position, for many rows ("JSON and HTTP by hand" in bench/README.md). Default: objects. */
  readonly readRow?: ReadRow;
  text(names: Names): string;
}

/** For a report over all Organizations. */
export interface GroupTables {
  (table: string): SQL;
  /** Reference tables also hold other groups' rows. */
  owns(orgId: SQL): SQL;
}

export type Run = <Row = TextRow>(template: Template, values: unknown[]) => Promise<Row[]>;

/** An unsharded database is one group. */
export interface ShardGroup {
  /** Does not change when the group moves. Empty if there is only one group. */
  readonly id: string;
  /** Host:port. Empty if there is only one group. */
  readonly worker: string;
  /** Maximum useful concurrency: `parallel` for writes, `parallelReads` for each kind of read. */
  readonly parallel: number;
  readonly parallelReads: number;
  /** Runs one hot statement and resolves after the commit. @throws ShardGroupGoneError */
  run: Run;
  /** The transaction is rolled back. */
  dryRun<T>(work: (run: Run) => Promise<T>): Promise<T>;
  readonly load: GroupLoad;
  /** @throws if the group's server is unreachable or read-only */
  ping: () => Promise<void>;
  select<T>(build: (tables: GroupTables) => SQL): Promise<T[]>;
}

export interface GroupLoad {
  inFlight: number;
  /** In ms; 0 while idle. */
  oldestMs: number;
}

export interface ShardWatcher {
  onStatement: (group: string, seconds: number) => void;
  onRepeat: (group: string) => void;
}

export interface Shards {
  readonly groups: readonly ShardGroup[];
  /** If the key does not exist, any group. */
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
  /** Further runs wait for a connection. */
  readonly parallelTransactions: number;
  run: <Row = TextRow>(statement: Statement, values: unknown[]) => Promise<Row[]>;
  /** An error from `work` rolls it back. `tx` does not support nested transactions. */
  transaction<T>(work: (tx: Orm) => Promise<T>): Promise<T>;
  dryRun<T>(work: (run: Database['run']) => Promise<T>): Promise<T>;
  /** Also notices that the address leads to another server. @throws if the database is unreachable */
  ping(): Promise<void>;
  close(): Promise<void>;
  /** Lets another thread use this database. Undefined if threads open their own connections. */
  readonly openPort?: (() => MessagePort) | undefined;
}

/**
 * After a parallel write, Citus refuses to touch a reference table or change the schema in the same transaction. Plain
 * Postgres accepts and ignores the setting.
 */
export const SEQUENTIAL = `set citus.multi_shard_modify_mode = 'sequential'`;

/** The SQLSTATE, wherever the driver or the ORM put it. */
export function sqlState(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code = (e as { code?: unknown }).code;
    if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return code;
  }
  return undefined;
}

/** The ORM's message has only the statement. */
export function describeCause(error: unknown): string {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) ({ cause } = cause);
  const state = sqlState(cause);
  const message = cause instanceof Error ? cause.message : String(cause);
  return state === undefined ? message : `${message} (${state})`;
}

export const UNIQUE_VIOLATION = '23505';
export const READ_ONLY = '25006';

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

/** The statement is valid, so a retry may succeed; whether it was committed is unknown. */
export function isDatabaseUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  // 08: connection; 53: resources; 57P0x: shutdown and startup; 57014 and 55P03: waited too long, for example for a
  // migration's lock; 40001 and 40P01: conflict with another transaction; 25006: read-only standby after a failover.
  if (state && state !== 'XX000') return /^(08|53|57P0|57014|55P03|40001|40P01|25006)/.test(state);
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code, severity, syscall } = e as { code?: unknown; severity?: unknown; syscall?: unknown };
    // A file named in the URL, such as sslrootcert, will not appear by waiting.
    if (syscall === 'open') return false;
    if (typeof code === 'string' && connectionCodes.has(code)) return true;
    // A server with a full disk may fail while connecting, with only the generic state XX000.
    if (severity === 'FATAL') return true;
    // The last pattern matches the XX000 error of a coordinator whose worker has restarted.
    if (
      /connection terminated|timeout exceeded when trying to connect|query read timeout|connection ended|not queryable|failure on connection marked as essential/i.test(
        e.message,
      )
    )
      return true;
  }
  return false;
}
