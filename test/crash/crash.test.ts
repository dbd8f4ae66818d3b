import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, expect, inject, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { createTestDatabase, isEmbedded } from '../support/database.js';
import { findFreePort } from '../support/free-port.js';
import { postEvents, type PostAnswer } from './post.js';
import { runCrashTest } from './run.js';
import { startServerProcess, type ServerProcess } from './server-process.js';
import { verify } from './verify.js';
import { createWorkload, type Workload } from './workload.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
const started: ServerProcess[] = [];
afterAll(() =>
  Promise.all(started.filter((server) => server.isRunning).map((server) => server.end('SIGKILL'))),
);

it(
  `loses no acknowledged event and counts none twice, whatever is killed (seed ${seed})`,
  { timeout: 600_000 },
  async () => {
    const report = await runCrashTest({
      database: isEmbedded ? 'embedded' : 'postgres',
      // The run on a real Postgres is longer.
      kills: isEmbedded ? 3 : 6,
      postgresCrashes: isEmbedded ? 0 : 2,
      terminations: 1,
      senders: 5,
      seed,
      maxUpMs: 1_000,
      ...(isEmbedded ? { template: inject('embeddedTemplate') } : {}),
    });
    expect(report.violations).toEqual([]);
    // This test is meaningful only if there was work to lose.
    expect(report.acknowledged).toBeGreaterThan(isEmbedded ? 75 : 150);
    expect(report.killsInFlight).toBeGreaterThan(isEmbedded ? 0 : 1);
  },
);

it(
  'finishes what it accepted on SIGTERM, refuses the rest, and loses nothing',
  { timeout: 120_000 },
  async () => {
    const place = await createPlace();
    const port = await findFreePort();
    const server = startServerProcess({ ...place.env, PORT: String(port), MARKETS: 'off' });
    started.push(server);
    await server.ready;
    const to = { agent: new Agent({ keepAlive: true }), port };
    const accepted = sendBatches(place.workload, to, 24);
    await Promise.all(accepted.map((batch) => batch.isAccepted));
    const ended = server.end('SIGTERM');
    const late = await sendUntilRefused(place.workload, to);
    const answers = await Promise.all(accepted.map((batch) => batch.answer));
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 202));
    if (late) expect(late).toMatchObject({ status: 503, retryAfter: '1', body: { code: 'unavailable' } });
    const answeredAt = Date.now();
    expect(await ended, server.output()).toBe(0);
    // The server waits 25 seconds for requests in progress, but not for idle keep-alive connections.
    expect(Date.now() - answeredAt).toBeLessThan(20_000);
    const { violations, acknowledged } = await place.verify();
    expect(violations).toEqual([]);
    expect(acknowledged).toBeGreaterThan(0);
    await place.remove();
  },
);

interface To {
  agent: Agent;
  port: number;
}

/** Sends batches of 300 events. `isAccepted` resolves when the server has received the request's headers. */
function sendBatches(workload: Workload, to: To, count: number) {
  return Array.from({ length: count }, () => {
    let onAccepted = () => undefined as void;
    const isAccepted = new Promise<void>((resolve) => (onAccepted = resolve));
    return { isAccepted, answer: sendBatch(workload, { ...to, onAccepted }, 300) };
  });
}

async function sendBatch(
  workload: Workload,
  to: To & { onAccepted?: () => void },
  size: number,
): Promise<PostAnswer> {
  const tenant = workload.tenants[0]!;
  const sent: number[] = [];
  while (sent.length < size)
    sent.push(...tenant.ledger.takeFresh(1).filter((n) => workload.eventOf(tenant, n).livemode));
  for (const number of sent) tenant.ledger.markSent(number);
  const events = sent.map((number) => workload.eventOf(tenant, number).body);
  const answer = await postEvents({ ...to, secret: tenant.secrets.live[0]!, events });
  if (answer.status === 202) for (const number of sent) tenant.ledger.markAcknowledged(number);
  return answer;
}

/** Returns the first response other than 202; undefined if no process was left to respond. */
async function sendUntilRefused(workload: Workload, to: To): Promise<PostAnswer | undefined> {
  for (;;) {
    const answer = await sendBatch(workload, to, 1).catch(() => undefined);
    if (answer?.status !== 202) return answer;
  }
}

/**
 * Creates a separate database for a server process to open, because the embedded database allows only one process at a
 * time.
 */
async function createPlace() {
  const log = pino({ level: 'silent' });
  if (!isEmbedded) {
    const database = await createTestDatabase();
    const { db, url } = database;
    const workload = await createWorkload(db, seed);
    return {
      env: { DATABASE_URL: url! },
      workload,
      verify: () => verify(db, workload),
      remove: () => database.remove(),
    };
  }
  const folder = mkdtempSync(join(tmpdir(), 'gauge-crash-'));
  cpSync(inject('embeddedTemplate'), folder, { recursive: true });
  const open = () => openDatabase({ databaseUrl: undefined, dataDir: folder }, log);
  const db = await open();
  const workload = await createWorkload(db, seed);
  await db.close();
  return {
    env: { DATA_DIR: folder },
    workload,
    async verify() {
      const again = await open();
      return verify(again, workload).finally(() => again.close());
    },
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}
