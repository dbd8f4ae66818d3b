import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { findFreePort } from '../support/free-port.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createRandom, type Random } from './random.js';
import { startServerProcess } from './server-process.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=200 CRASH_SHUTDOWNS=10 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const SHUTDOWNS = Number(process.env.CRASH_SHUTDOWNS ?? 1);
const SENDERS = 8;
const LIMIT = 1_000_000;
/** Short holds belong to abandoned work, long ones to work that will be settled. */
const SHORT_SECONDS = 2;
const LONG_SECONDS = 600;

interface Work {
  key: string;
  held: number;
  /** Undefined if the work is abandoned and its hold expires. */
  used: number | undefined;
  id?: string;
}

interface Answer {
  status: number;
  body: {
    accepted: number;
    warnings: unknown[];
    reservation: { id: string };
    reservations: unknown[];
    limits: unknown[];
  };
}

it(
  `settles each reservation as one event, whatever is killed, and leaves no hold after its expiry (seed ${seed})`,
  { timeout: 1_800_000 },
  async () => {
    const postgres = await createPostgresServer();
    const log = pino({ level: 'silent' });
    const databaseUrl = postgres.url('postgres');
    const db = await openDatabase({ databaseUrl, dataDir: '' }, log);
    const { id: orgId } = await createOrganization(db);
    const product = await createProduct(db);
    const declared = [
      { quantity: String(LIMIT), window: 'PT5H', enforcement: 'block' as const },
      { quantity: String(LIMIT), window: 'calendar_month', enforcement: 'block' as const },
    ];
    await grant(db, orgId, product.id, { limits: declared });
    const { secret } = await createKey(db, orgId);
    await db.close();

    const port = await findFreePort();
    const env = {
      DATABASE_URL: databaseUrl,
      PORT: String(port),
      MARKETS: 'off',
      LIMIT_USAGE_PER_MINUTE: '1000000000',
    };
    let server = startServerProcess(env);
    let [isStopping, answered, inFlight, hits] = [false, 0, 0, 0];
    const finished: Work[] = [];

    async function call(method: string, path: string, body?: object): Promise<Answer> {
      const response = await fetch(`http://127.0.0.1:${port}/api${path}`, {
        method,
        headers: {
          authorization: `Bearer ${secret}`,
          ...(body ? { 'content-type': 'application/json' } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      return { status: response.status, body: (await response.json()) as Answer['body'] };
    }

    /** Repeats the call after every lost response and every 503. */
    async function callUntilAnswered(random: Random, ...of: Parameters<typeof call>): Promise<Answer> {
      for (;;) {
        inFlight++;
        const answer = await call(...of).catch(() => undefined);
        inFlight--;
        if (answer && answer.status < 500) {
          answered++;
          return answer;
        }
        await setTimeout(random.between(5, 100));
      }
    }

    async function send(number: number): Promise<void> {
      const random = createRandom(seed + number + 1);
      for (let i = 0; !isStopping; i++) {
        const held = random.between(1, 40);
        const used = random.chance(0.2) ? undefined : random.between(0, held);
        const work: Work = { key: `w-${number}-${i}`, held, used };
        finished.push(work);
        const reserved = await callUntilAnswered(random, 'POST', '/usage/reservations', {
          productSlug: product.slug,
          metric: 'calls',
          quantity: held,
          idempotencyKey: work.key,
          ttlSeconds: used === undefined ? SHORT_SECONDS : LONG_SECONDS,
        });
        expect([200, 201]).toContain(reserved.status);
        work.id = reserved.body.reservation.id;
        if (used === undefined) continue;
        const path = `/usage/reservations/${work.id}/settle`;
        const settled = await callUntilAnswered(random, 'POST', path, { quantity: used });
        expect([settled.status, settled.body.accepted, settled.body.warnings]).toEqual([200, 1, []]);
      }
    }

    const random = createRandom(seed);
    const crashes = random.shuffle([
      ...Array.from({ length: KILLS }, () => 'kill'),
      ...Array.from({ length: SHUTDOWNS }, () => 'shutdown'),
    ]);
    const senders = Array.from({ length: SENDERS }, (_, number) => send(number));
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
      await Promise.all(senders);

      await setTimeout(SHORT_SECONDS * 1_000);
      const used = finished.reduce((sum, work) => sum + (work.used ?? 0), 0);
      const { body } = await call('GET', '/usage/reservations?status=held');
      expect(body.reservations).toEqual([]);
      const fits = {
        productSlug: product.slug,
        metric: 'calls',
        quantity: LIMIT - used,
        idempotencyKey: 'rest',
      };
      const rest = await call('POST', '/usage/reservations', fits);
      expect(rest.status, JSON.stringify(rest.body)).toBe(201);
      expect(rest.body.limits).toMatchObject([
        { used, held: LIMIT - used, remaining: 0 },
        { used, held: LIMIT - used, remaining: 0 },
      ]);
    } finally {
      isStopping = true;
      if (server.isRunning) await server.end('SIGKILL');
      await Promise.allSettled(senders);
    }

    const after = await openDatabase({ databaseUrl, dataDir: '' }, log);
    const events = await after.run(
      {
        name: 'test_events',
        text: 'select idempotency_key as key, trim_scale(quantity)::text as used from usage_events where org_id = $1 order by 1',
      },
      [orgId],
    );
    const expected = finished.flatMap(({ key, used }) => (used === undefined ? [] : [[key, String(used)]]));
    expect(events.map(({ key, used }) => [key, used])).toEqual(
      expected.sort(([a], [b]) => (a! < b! ? -1 : 1)),
    );
    const drift = await compare(after.orm, { orgId: undefined });
    expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
    // This test is meaningful only if there was work to lose.
    expect(expected.length).toBeGreaterThan(5 * (KILLS + SHUTDOWNS));
    expect(hits).toBeGreaterThan((KILLS + SHUTDOWNS) / 2);
    await after.close();
    await postgres.remove();
  },
);
