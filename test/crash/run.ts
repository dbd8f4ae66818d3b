import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import type { Config } from '../../src/config.js';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { findFreePort } from '../support/free-port.js';
import { createPostgresServer, type PostgresServer } from '../support/postgres-server.js';
import { createRandom, type Random } from './random.js';
import { noCounts, runSender, type SenderCounts } from './sender.js';
import { startServerProcess, type ServerProcess } from './server-process.js';
import { verify, type Verdict } from './verify.js';
import { createWorkload } from './workload.js';

export interface CrashOptions {
  database: 'postgres' | 'embedded';
  /** Number of times the server is killed (SIGKILL). */
  kills: number;
  /** Number of immediate Postgres shutdowns while the server stays up. */
  postgresCrashes: number;
  /** Number of times the server gets a SIGTERM between the other faults. */
  terminations: number;
  senders: number;
  seed: number;
  /** Maximum time between two crashes, which normally follow a random number of answered requests. */
  maxUpMs: number;
  /** A data directory to start the embedded database from. If omitted, an empty one is created, which takes a while. */
  template?: string;
  onProgress?(line: string): void;
}

export interface CrashReport extends Verdict {
  counts: SenderCounts;
  /** Number of kills that hit at least one request in flight. */
  killsInFlight: number;
}

type Crash = 'kill' | 'postgres' | 'terminate';

/**
 * Runs retrying senders against a server and a database that are killed at random moments. Afterwards, every
 * acknowledged event must exist exactly once, every sum must match its events, and nothing else may exist.
 */
export async function runCrashTest(options: CrashOptions): Promise<CrashReport> {
  const postgres = options.database === 'postgres' ? await createPostgresServer() : undefined;
  const folder = mkdtempSync(join(tmpdir(), 'gauge-crash-'));
  try {
    if (options.template !== undefined) cpSync(options.template, folder, { recursive: true });
    return await runIn({ databaseUrl: postgres?.url('postgres'), dataDir: folder }, postgres, options);
  } finally {
    await postgres?.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runIn(
  where: Pick<Config, 'databaseUrl' | 'dataDir'>,
  postgres: PostgresServer | undefined,
  options: CrashOptions,
): Promise<CrashReport> {
  const workload = await withDatabase(where, (db) => createWorkload(db, options.seed));
  const port = await findFreePort();
  const env: Record<string, string> = {
    PORT: String(port),
    LIMIT_USAGE_PER_MINUTE: '1000000000',
    // Otherwise, each start would create a simulated world, which this usage test does not need.
    MARKETS: 'off',
    ...(where.databaseUrl === undefined ? { DATA_DIR: where.dataDir } : { DATABASE_URL: where.databaseUrl }),
  };
  const random = createRandom(options.seed);
  const counts = noCounts();
  const violations: string[] = [];
  const violation = (what: string) => void violations.push(what);
  let isStopping = false;
  let killsInFlight = 0;

  const senders = Array.from({ length: options.senders }, (_, i) =>
    runSender({
      workload,
      port,
      seed: options.seed + i + 1,
      counts,
      isStopping: () => isStopping,
      violation,
    }),
  );
  let server = startServerProcess(env);
  try {
    for (const [i, crash] of planCrashes(options, random).entries()) {
      // Occasionally the server crashes while it starts.
      if (crash !== 'kill' || random.chance(0.9)) await server.ready;
      await letRun(random, options.maxUpMs, counts);
      if (crash === 'kill') {
        if (counts.inFlight > 0) killsInFlight++;
        await server.end('SIGKILL');
        server = startServerProcess(env);
      } else if (crash === 'terminate') {
        await terminate(server, violation);
        server = startServerProcess(env);
      } else {
        await crashPostgres(postgres!, random.between(0, 1_500));
        await expectRecovery(server, port, counts, violation);
      }
      options.onProgress?.(progress(i + 1, options, counts));
    }
    await server.ready;
    isStopping = true;
    await Promise.all(senders);
    await terminate(server, violation);
  } finally {
    isStopping = true;
    if (server.isRunning) await server.end('SIGKILL');
    await Promise.all(senders);
  }
  const verdict = await withDatabase(where, (db) => verify(db, workload));
  return { ...verdict, violations: [...violations, ...verdict.violations], counts, killsInFlight };
}

function planCrashes(
  { kills, postgresCrashes, terminations }: CrashOptions,
  random: { shuffle<T>(v: T[]): T[] },
) {
  const of = (crash: Crash, count: number) => Array.from({ length: count }, () => crash);
  return random.shuffle([
    ...of('kill', kills),
    ...of('postgres', postgresCrashes),
    ...of('terminate', terminations),
  ]);
}

/**
 * Waits for a random number of answered requests and then a moment longer, so that even a slow machine is interrupted
 * mid-work.
 */
async function letRun(random: Random, maxUpMs: number, counts: SenderCounts): Promise<void> {
  const until = counts.answered + random.between(0, 60);
  const giveUpAt = Date.now() + maxUpMs;
  while (counts.answered < until && Date.now() < giveUpAt) await setTimeout(2);
  await setTimeout(random.between(0, 30));
}

async function terminate(server: ServerProcess, violation: (what: string) => void): Promise<void> {
  const code = await server.end('SIGTERM');
  if (code !== 0) violation(`the server ended with ${code} on SIGTERM:\n${server.output()}`);
}

async function crashPostgres(postgres: PostgresServer, awayMs: number): Promise<void> {
  await postgres.stop('immediate');
  await setTimeout(awayMs);
  await postgres.start();
}

/** Expects that the same process resumes recording once Postgres is back. */
async function expectRecovery(
  server: ServerProcess,
  port: number,
  counts: SenderCounts,
  violation: (what: string) => void,
): Promise<void> {
  const before = counts.acknowledged;
  const giveUpAt = Date.now() + 15_000;
  while (Date.now() < giveUpAt && server.isRunning) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (answer?.status === 200 && counts.acknowledged > before) return;
    await setTimeout(20);
  }
  violation(
    server.isRunning
      ? 'the server did not recover within 15 s of a restart of Postgres'
      : `the server ended when Postgres went away:\n${server.output()}`,
  );
}

async function withDatabase<T>(
  where: Pick<Config, 'databaseUrl' | 'dataDir'>,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  const db = await openDatabase(where, pino({ level: 'silent' }));
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

function progress(
  done: number,
  { kills, postgresCrashes, terminations }: CrashOptions,
  c: SenderCounts,
): string {
  const of = kills + postgresCrashes + terminations;
  return `crash ${done}/${of} · requests ${c.requests} · acknowledged ${c.acknowledged} · cut off ${c.cutOff} · 503 ${c.unavailable}`;
}
