import pg from 'pg';
import { shareRun } from '../steps.js';
import { SEQUENTIAL } from './client.js';
import { Connection, type ConnectionWatch } from './connection.js';
import { isOutOfConnections } from './outage.js';

/** Override the settings of role, database and server. Sent as statements: poolers reject unknown parameters. */
export const READ_SETTINGS = `set datestyle = 'ISO, MDY';
set intervalstyle = 'postgres';
set timezone = 'UTC';
set extra_float_digits = 1;
set bytea_output = 'hex';
set array_nulls = on;
set standard_conforming_strings = on;
set transform_null_equals = off;
set lc_numeric = 'C';
set exit_on_error = off;
set search_path = public`;

/**
 * All writes rely on read committed. The server cancels a statement shortly before the client gives up; the client's
 * own time-out covers a frozen backend or a lost response. JIT is off because page queries finish before they would be
 * compiled.
 */
const sessionSettings = (waitMs: number) => `${READ_SETTINGS};
set default_transaction_isolation = 'read committed';
set default_transaction_deferrable = off;
set statement_timeout = ${waitMs - 500};
set lock_timeout = ${Math.min(waitMs - 500, 5_000)};
set idle_in_transaction_session_timeout = 15000;
set jit = off;
${SEQUENTIAL}`;

const readServer = `select concat_ws(' ', extract(epoch from pg_postmaster_start_time()), inet_server_addr(), inet_server_port(),
    current_setting('transaction_read_only')) as server, current_setting('transaction_read_only')::boolean as "isReadOnly"`;

interface ServerState {
  server: string;
  isReadOnly: boolean;
}

/** The address may lead to the primary by now. */
const READ_ONLY_REUSE_MS = 1_000;
/** An address may lead to several servers by turns. */
const CLOSE_EVERY_MS = 1_000;
const LOOK_EVERY_MS = 1_000;
const LOOK_WAIT_MS = 1_000;

/**
 * After a failover, open connections still lead to the old server. All are closed as soon as a new connection reaches
 * another server, or a write meets a read-only one.
 */
export class Address {
  readonly url: string;
  readonly watch: ConnectionWatch;
  readonly idle = new Set<pg.PoolClient>();
  private readonly open = new WeakMap<pg.PoolClient, { openedAt: number; isReadOnly: boolean }>();
  private server: string | undefined;
  private closedAt = -Infinity;
  private lookedAt = -Infinity;
  private readonly looking = shareRun(() => this.lookNow());

  constructor(url: string, watch: ConnectionWatch) {
    this.url = url;
    this.watch = watch;
  }

  add(connection: pg.PoolClient, state: ServerState): void {
    this.compare(state);
    this.open.set(connection, { openedAt: performance.now(), isReadOnly: state.isReadOnly });
  }

  isCurrent(connection: pg.PoolClient): boolean {
    const { openedAt, isReadOnly } = this.open.get(connection) ?? { openedAt: -Infinity, isReadOnly: true };
    return openedAt >= this.closedAt && !(isReadOnly && performance.now() - openedAt > READ_ONLY_REUSE_MS);
  }

  /** Closes idle connections now and busy ones before their next use. */
  closeAll(): boolean {
    if (performance.now() - this.closedAt < CLOSE_EVERY_MS) return false;
    this.closedAt = performance.now();
    // A pool drops an idle connection that reports an error.
    for (const connection of this.idle) connection.emit('error', new Error('the server has changed'));
    return true;
  }

  async look(): Promise<void> {
    if (performance.now() - this.lookedAt >= LOOK_EVERY_MS || this.looking.running) await this.looking.run();
  }

  private async lookNow(): Promise<void> {
    const connection: pg.Client = new Connection({
      connectionString: this.url,
      application_name: 'gauge',
      connectionTimeoutMillis: LOOK_WAIT_MS,
      query_timeout: LOOK_WAIT_MS,
    });
    try {
      await connection.connect();
      const { rows } = await connection.query<ServerState>(readServer);
      this.compare(rows[0]!);
    } catch {
      // The statements that follow report why the server cannot be used.
    } finally {
      this.lookedAt = performance.now();
      void connection.end().catch(() => undefined);
    }
  }

  private compare({ server }: ServerState): void {
    if (server !== this.server && (this.server === undefined || this.closeAll())) this.server = server;
  }
}

/** Connections report all other failures themselves. */
class WatchedPool extends pg.Pool {
  private readonly address: Address;

  constructor(options: pg.PoolConfig, address: Address) {
    super(options);
    this.address = address;
  }

  /** `pool.query` passes a callback; other callers use the promise. */
  // oxlint-disable promise/no-callback-in-promise
  override connect(...args: unknown[]): never {
    const [callback] = args as [((error: unknown, client?: pg.PoolClient) => void)?];
    const taken = this.take();
    if (!callback) return taken as never;
    return void taken.then(
      (client) => callback(undefined, client),
      (error: unknown) => callback(error),
    ) as never;
  }
  // oxlint-enable promise/no-callback-in-promise

  private async take(): Promise<pg.PoolClient> {
    try {
      for (;;) {
        const client = await super.connect();
        if (this.address.isCurrent(client)) return client;
        client.release(true);
      }
    } catch (error) {
      if (isOutOfConnections(error)) this.address.watch.onError(error);
      throw error;
    }
  }
}

export function openPool(address: Address, max: number, waitMs: number, settings = ''): pg.Pool {
  const options: pg.PoolConfig & { address: Address } = {
    address,
    connectionString: address.url,
    application_name: 'gauge',
    connectionTimeoutMillis: 3_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    query_timeout: waitMs,
    max,
    Client: Connection,
    async onConnect(client) {
      const results = await client.query(
        `${sessionSettings(waitMs)}; ${settings}${settings && ';'} ${readServer}`,
      );
      const { rows } = (results as unknown as pg.QueryResult<ServerState>[]).at(-1)!;
      address.add(client as pg.PoolClient, rows[0]!);
    },
  };
  const pool = new WatchedPool(options, address);
  pool.on('release', (_error, client) => address.idle.add(client));
  for (const event of ['acquire', 'remove'] as const) pool.on(event, (client) => address.idle.delete(client));
  // The connection has already logged this error.
  pool.on('error', () => undefined);
  return pool;
}
