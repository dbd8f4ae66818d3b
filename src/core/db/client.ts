import type { SQL } from 'drizzle-orm';
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Drizzle over either driver. Inside `transaction` use only the `tx` it hands out: the embedded database has one connection. */
export type Orm = PgDatabase<PgQueryResultHKT>;

declare const isDecided: unique symbol;

/**
 * The transaction of a change whose author may make it. `change` in audit/audit.ts alone hands one out, so that no route
 * can write what belongs to a tenant or a person without being checked there.
 */
export type Tx = Orm & { readonly [isDecided]: true };

/** A hot statement: prepared once per connection under `name`; every output column is cast to text. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A row of a hot statement: its columns in order, as Postgres writes them. */
export type TextRow = (string | null)[];

/** What a hot statement is built with, for the shard group that it is for. */
export interface Names {
  /** The name of a table in the shard group. */
  (table: string): string;
  /** The word `with`, and what holds the shard group as the first of the expressions; another one follows. */
  readonly with: string;
  /** The same for a statement one of whose expressions is recursive. */
  readonly withRecursive: string;
  /** Joined where the statement begins, so that nothing is written before the shard group is held. */
  readonly held: string;
}

/** A hot statement before it has table names. All that it reads and writes belongs to Organizations of one shard group. */
export interface Template {
  readonly name: string;
  text(names: Names): string;
}

/** What a report over all Organizations is written with, for the shard group that it is read from. */
export interface GroupTables {
  (table: string): SQL;
  /** True of the Organizations of this group. Tables that every server has whole tell of the others, too. */
  owns(orgId: SQL): SQL;
}

export type Run = (template: Template, values: unknown[]) => Promise<TextRow[]>;

/**
 * Organizations whose rows stand together: the names that their tables have there, and the connections to that place. A
 * database that is not sharded is one group, of all.
 */
export interface ShardGroup {
  /** Stays the same wherever the group moves; empty where there is only one. */
  readonly id: string;
  /** The server it is on now, as host:port; empty where there is only one. */
  readonly worker: string;
  /** How many statements that write may usefully run at once, and how many of each that only read. */
  readonly parallel: number;
  readonly parallelReads: number;
  /** Runs one hot statement; it commits before this resolves. @throws ShardGroupGoneError */
  run: Run;
  /** Runs hot statements in one transaction that is rolled back: what they would answer, with nothing recorded. */
  dryRun<T>(work: (run: Run) => Promise<T>): Promise<T>;
  readonly load: GroupLoad;
  /** @throws while its server cannot be reached */
  ping: () => Promise<void>;
  /** The rows of this group alone. */
  select<T>(build: (tables: GroupTables) => SQL): Promise<T[]>;
}

/** Of a shard group, at this moment. */
export interface GroupLoad {
  inFlight: number;
  /** Since when the oldest of them is; 0 with none. */
  oldestMs: number;
}

export interface ShardWatcher {
  onStatement: (group: string, seconds: number) => void;
  /** The group had moved. */
  onRepeat: (group: string) => void;
}

export interface Shards {
  readonly groups: readonly ShardGroup[];
  /** Where the API key with this secret is. One that does not exist is nowhere: any group says so. */
  locate(hashedSecret: string): ShardGroup | Promise<ShardGroup>;
  /** Where an Organization is. */
  locateOrganization(orgId: string): ShardGroup | Promise<ShardGroup>;
  /** Reads anew which groups there are and where they stand. */
  load(): Promise<void>;
  /** Tells of what the groups of a sharded database do. */
  watch(watcher: ShardWatcher): void;
}

export interface Database {
  readonly kind: 'postgres' | 'embedded';
  readonly orm: Orm;
  readonly shards: Shards;
  /** How many hot statements may usefully run at once. */
  readonly parallel: number;
  /** How many of `transaction` run at once; more wait for a connection. */
  readonly parallelTransactions: number;
  /** Runs one hot statement of whole tables; it commits before this resolves. */
  run: (statement: Statement, values: unknown[]) => Promise<TextRow[]>;
  /**
   * One transaction of few hot statements, of which each is prepared once per connection. What `work` throws rolls it
   * back. `tx` begins no transaction of its own.
   */
  transaction<T>(work: (tx: Orm) => Promise<T>): Promise<T>;
  /** Runs hot statements in one transaction that is rolled back: what they would answer, with nothing recorded. */
  dryRun<T>(work: (run: Database['run']) => Promise<T>): Promise<T>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Several shards one after the other: Citus lets no transaction that has written to them at once go on to a table that is on
 * every server, or to another definition. A Postgres without Citus takes the setting and knows nothing of it.
 */
export const SEQUENTIAL = `set citus.multi_shard_modify_mode = 'sequential'`;

/** SQLSTATE of a database error, wherever the driver or the ORM has put it; undefined for anything else. */
export function sqlState(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code = (e as { code?: unknown }).code;
    if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return code;
  }
  return undefined;
}

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
 * True when the database could not be reached, went away, is restarting or did not get to it (a time-out, a deadlock):
 * nothing is wrong with the request, and a repeat may succeed. Whether the statement was committed is then unknown.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  // 08 connection, 53 resources, 57P0x shutdown and start-up, 57014 and 55P03 too long a wait for it (a repair or a
  // migration that holds a lock), 40001 and 40P01 another transaction in the way, 25006 a read-only standby after a
  // fail-over.
  if (state && state !== 'XX000') return /^(08|53|57P0|57014|55P03|40001|40P01|25006)/.test(state);
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code, severity } = e as { code?: unknown; severity?: unknown };
    if (typeof code === 'string' && connectionCodes.has(code)) return true;
    // A server whose disk is full may fail at the first step of a connection, without a state of its own (XX000).
    if (severity === 'FATAL') return true;
    // The last is XX000, of a connection that a coordinator kept to a worker that has been restarted.
    if (
      /connection terminated|timeout exceeded when trying to connect|query read timeout|connection ended|not queryable|failure on connection marked as essential/i.test(
        e.message,
      )
    )
      return true;
  }
  return false;
}
