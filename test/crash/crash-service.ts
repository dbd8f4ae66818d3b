import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { expect } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { findFreePort } from '../support/free-port.js';
import { operatorToken } from '../support/operator.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createRandom, type Random } from './random.js';
import { startServerProcess } from './server-process.js';

export const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));

export interface Answer {
  status: number;
  text: string;
  body: Record<string, any>;
}

export interface CrashingService {
  /** True once all crashes have happened. */
  readonly isStopping: boolean;
  /** Repeats the call after every lost response and every 503. */
  call(method: string, path: string, body?: object, as?: Caller): Promise<Answer>;
  /** For another instance on the same database. */
  env: Record<string, string>;
}

export interface Caller {
  secret?: string;
  /** The port of another instance. */
  port?: number | undefined;
}

interface Scenario<T> {
  /** CRASH_KILLS=200 CRASH_SHUTDOWNS=10 make a long run. */
  kills?: number;
  shutdowns?: number;
  senders?: number;
  prepare: (db: Database) => Promise<T & { secret: string }>;
  /** Works until the service is stopping; runs once for each sender, in parallel. */
  send: (service: CrashingService, prepared: T, sender: { number: number; random: Random }) => Promise<void>;
  /** Works once beside the others. */
  sendBeside?: (service: CrashingService, prepared: T) => Promise<void>;
  /** Runs after the last crash, on the running service. */
  atEnd?: (service: CrashingService, prepared: T) => Promise<void>;
  /** Returns how much work the senders did. */
  verify: (db: Database, prepared: T) => Promise<number>;
}

/**
 * Kills a service, and shuts its Postgres down, while calls are in flight. Expects at the end that totals, hours and
 * subjects agree with the events.
 */
export async function crashService<T>(scenario: Scenario<T>): Promise<void> {
  const { env: given } = process;
  const kills = Number(given.CRASH_KILLS ?? scenario.kills ?? 3);
  const shutdowns = Number(given.CRASH_SHUTDOWNS ?? scenario.shutdowns ?? 1);
  const postgres = await createPostgresServer();
  const open = () =>
    openDatabase({ databaseUrl: postgres.url('postgres'), dataDir: '' }, pino({ level: 'silent' }));
  const db = await open();
  const prepared = await scenario.prepare(db);
  await db.close();

  const port = await findFreePort();
  const env = {
    DATABASE_URL: postgres.url('postgres'),
    PORT: String(port),
    MARKETS: 'off',
    OPERATOR_TOKEN: operatorToken,
    LIMIT_USAGE_PER_MINUTE: '1000000000',
    LIMIT_SERVICE_PER_MINUTE: '1000000000',
  };
  let server = startServerProcess(env);
  let [isStopping, answered, inFlight, hits] = [false, 0, 0, 0];
  const service: CrashingService = {
    get isStopping() {
      return isStopping;
    },
    env,
    async call(method, path, body, { secret = prepared.secret, port: at = port } = {}) {
      const token = path.startsWith('/operator') ? operatorToken : secret;
      for (;;) {
        if (isStopping && !server.isRunning) throw new Error('The crash test has failed.');
        inFlight++;
        const answer = await exchange(`http://127.0.0.1:${at}${path}`, token, method, body);
        inFlight--;
        if (answer) {
          answered++;
          return answer;
        }
        await setTimeout(20);
      }
    },
  };

  const random = createRandom(seed);
  const crashes = random.shuffle([
    ...Array.from({ length: kills }, () => 'kill'),
    ...Array.from({ length: shutdowns }, () => 'shutdown'),
  ]);
  const senders = Array.from({ length: scenario.senders ?? 8 }, (_, number) =>
    scenario.send(service, prepared, { number, random: createRandom(seed + number + 1) }),
  );
  const beside = scenario.sendBeside?.(service, prepared);
  const all = beside ? [...senders, beside] : senders;
  try {
    for (const crash of crashes) {
      await server.ready;
      const until = answered + random.between(1, 60);
      while (answered < until) await setTimeout(2);
      await setTimeout(random.between(0, 20));
      if (inFlight > 0) hits++;
      if (crash === 'kill') {
        await server.end('SIGKILL');
        server = startServerProcess(env);
      } else {
        await postgres.stop('immediate');
        await postgres.start();
      }
    }
    await server.ready;
    isStopping = true;
    await Promise.all(all);
    await scenario.atEnd?.(service, prepared);
  } finally {
    isStopping = true;
    if (server.isRunning) await server.end('SIGKILL');
    await Promise.allSettled(all);
  }

  const after = await open();
  const done = await scenario.verify(after, prepared);
  const drift = await compare(after.orm, { orgId: undefined });
  expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  // The test is meaningful only if there was work to lose.
  expect(done).toBeGreaterThan(5 * (kills + shutdowns));
  expect(hits).toBeGreaterThan((kills + shutdowns) / 2);
  await after.close();
  await postgres.remove();
}

/** Resolves to undefined if there was no answer, or a 503. */
async function exchange(
  url: string,
  token: string,
  method: string,
  body: object | undefined,
): Promise<Answer | undefined> {
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  }).catch(() => undefined);
  const text = await response?.text().catch(() => undefined);
  if (!response || text === undefined || response.status >= 500) return undefined;
  return { status: response.status, text, body: JSON.parse(text) as Answer['body'] };
}
