import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { findFreePort } from './free-port.js';

/** The folder with `initdb` and `postgres` of the newest version installed; undefined if none is installed. */
export function findPostgresBinaries(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const candidates = [process.env.TEST_POSTGRES_BIN, ...versions.map((v) => join(debian, v, 'bin'))];
  return candidates.find((bin) => bin !== undefined && existsSync(join(bin, 'initdb')));
}

export interface PostgresServer {
  url(database: string): string;
  dataDir: string;
  start(): Promise<void>;
  /** Makes the next start a standby that follows nobody, as a demoted primary does. The server must be stopped. */
  demote(): void;
  /** `immediate` simulates a crash: no checkpoint, connections cut. `kill` kills only the postmaster. */
  stop(mode: 'fast' | 'immediate' | 'kill'): Promise<void>;
  remove(): Promise<void>;
}

const signals = { fast: 'SIGINT', immediate: 'SIGQUIT', kill: 'SIGKILL' } as const;

/**
 * Starts a separate Postgres on a free port in its own folder. Postgres refuses to run as root, so root runs it as
 * `postgres`.
 * @param primary the server that it follows as a standby
 */
export async function createPostgresServer(
  settings: Record<string, string> = {},
  primary?: PostgresServer,
): Promise<PostgresServer> {
  const bin = findPostgresBinaries();
  if (!bin) throw new Error('No Postgres binaries were found; install Postgres or set TEST_POSTGRES_BIN.');
  const folder = mkdtempSync(join(tmpdir(), 'gauge-postgres-'));
  const identity = process.getuid?.() === 0 ? postgresUser() : {};
  if (identity.uid !== undefined) chownSync(folder, identity.uid, identity.gid!);
  const dataDir = join(folder, 'data');
  const port = await findFreePort();
  const template = process.env[DATA];
  if (primary)
    await promisify(execFile)(
      join(bin, 'pg_basebackup'),
      ['-D', dataDir, '-d', primary.url('postgres'), '-R', '-X', 'stream', '-c', 'fast'],
      { ...identity, cwd: folder },
    );
  else if (template !== undefined) execFileSync('cp', ['-a', template, dataDir]);
  else
    await promisify(execFile)(
      join(bin, 'initdb'),
      ['-D', dataDir, '-U', 'gauge', '--auth=trust', '-E', 'UTF8', '--locale=C.UTF-8'],
      { ...identity, cwd: folder },
    );
  let server: ChildProcess | undefined;
  const url = (database: string) => `postgres://gauge@127.0.0.1:${port}/${database}`;

  async function start(): Promise<void> {
    const options = Object.entries({
      port: String(port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      ...settings,
    });
    const child = spawn(
      join(bin!, 'postgres'),
      ['-D', dataDir, ...options.flatMap(([k, v]) => ['-c', `${k}=${v}`])],
      {
        ...identity,
        stdio: 'ignore',
        cwd: folder,
        // A server that connects to other servers looks for certificates in HOME.
        env: { ...process.env, HOME: folder },
      },
    );
    server = child;
    for (let i = 0; i < 600; i++) {
      if (child.exitCode !== null) throw new Error(`Postgres ended with ${child.exitCode} while it started.`);
      if (await answers(url('postgres'))) return;
      await setTimeout(50);
    }
    throw new Error('Postgres did not answer within 30 seconds.');
  }

  async function stop(mode: keyof typeof signals): Promise<void> {
    const child = server;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signals[mode]);
    await ended;
    // The other processes notice and exit; until then, a new postmaster cannot start.
    if (mode === 'kill') await setTimeout(200);
  }

  await start();
  return {
    url,
    dataDir,
    start,
    stop,
    demote() {
      execFileSync('touch', [join(dataDir, 'standby.signal')], identity);
    },
    async remove() {
      await stop('immediate');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Environment variable with the path of the data that later servers start with. Reusing that data saves `initdb` and
 * the migrations, which take seconds.
 */
const DATA = 'GAUGE_TEST_POSTGRES_DATA';

/**
 * Copies this server's data as the starting point for servers that this process and its children create. The server is
 * stopped during the copy.
 * @returns a function that removes the copy
 */
export async function provideData(server: PostgresServer): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-postgres-data-'));
  const data = join(folder, 'data');
  await server.stop('fast');
  execFileSync('cp', ['-a', server.dataDir, data]);
  await server.start();
  process.env[DATA] = data;
  return () => {
    delete process.env[DATA];
    rmSync(folder, { recursive: true, force: true });
  };
}

function postgresUser(): { uid?: number; gid?: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 500 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** URL of another database on the server of a maintenance database. */
export const inDatabase = (url: string, name: string): string => url.replace(/\/postgres$/, `/${name}`);

/** Drops the database on every server. */
export async function dropDatabase(urls: string[], name: string): Promise<void> {
  for (const url of urls) await query(url, `drop database ${name} with (force)`);
}

/** Runs statements in sequence on a separate connection. @returns the rows of the last statement */
export const query = <Row extends pg.QueryResultRow>(url: string, ...statements: string[]): Promise<Row[]> =>
  withClient(url, async (client) => {
    let rows: Row[] = [];
    for (const statement of statements) ({ rows } = await client.query<Row>(statement));
    return rows;
  });

export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
