import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorToken } from '../support/operator.js';
import { findFreePort } from '../support/free-port.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createRandom } from './random.js';
import { startServerProcess } from './server-process.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=200 CRASH_SHUTDOWNS=10 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const SHUTDOWNS = Number(process.env.CRASH_SHUTDOWNS ?? 1);
const SENDERS = 8;
/** Old events that the operator sends together. */
const OLD_EVENTS = 3_000;

it(
  `makes each correction once and counts each old event once, whatever is killed (seed ${seed})`,
  { timeout: 1_800_000 },
  async () => {
    const postgres = await createPostgresServer();
    const log = pino({ level: 'silent' });
    const databaseUrl = postgres.url('postgres');
    const db = await openDatabase({ databaseUrl, dataDir: '' }, log);
    const { id: orgId, slug } = await createOrganization(db);
    const product = await createProduct(db);
    await grant(db, orgId, product.id);
    const { secret } = await createKey(db, orgId, { scopes: ['usage:write', 'usage:correct'] });
    await db.close();

    const port = await findFreePort();
    const env = {
      DATABASE_URL: databaseUrl,
      PORT: String(port),
      MARKETS: 'off',
      OPERATOR_TOKEN: operatorToken,
      LIMIT_USAGE_PER_MINUTE: '1000000000',
    };
    let server = startServerProcess(env);
    let [isStopping, answered, inFlight, hits] = [false, 0, 0, 0];
    /** Final quantity of each event. */
    const expected = new Map<string, number>();

    /** Repeats the call after every lost response and every 503. */
    async function callUntilAnswered(
      path: string,
      body?: object,
      method = 'POST',
    ): Promise<Record<string, any>> {
      for (;;) {
        inFlight++;
        const response = await fetch(`http://127.0.0.1:${port}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${path.startsWith('/operator') ? operatorToken : secret}`,
            ...(body ? { 'content-type': 'application/json' } : {}),
          },
          ...(body ? { body: JSON.stringify(body) } : {}),
        }).catch(() => undefined);
        const answer = await response?.json().catch(() => undefined);
        inFlight--;
        if (response && answer && response.status < 500) {
          expect([response.status, answer]).toEqual([response.status < 300 ? response.status : 200, answer]);
          answered++;
          return answer as Record<string, any>;
        }
        await setTimeout(20);
      }
    }

    async function send(number: number): Promise<void> {
      const random = createRandom(seed + number + 1);
      const keys: string[] = [];
      for (let i = 0; !isStopping; i++) {
        const key = `e-${number}-${i}`;
        const quantity = random.between(0, 40);
        expected.set(key, quantity);
        keys.push(key);
        const event = { productSlug: product.slug, metric: 'calls', quantity, idempotencyKey: key };
        await callUntilAnswered('/api/usage/events', { events: [event] });
        // Corrects one new event and one earlier event, which may already have been corrected.
        const corrections = [key, keys[random.between(0, keys.length - 1)]!].map((idempotencyKey, n) => {
          const to = random.between(0, 40);
          expected.set(idempotencyKey, to);
          return { idempotencyKey, quantity: to, reason: 'test', correctionKey: `${key} ${n}` };
        });
        const { applied, deduped } = await callUntilAnswered('/api/usage/corrections', { corrections });
        // Even if the request was repeated, either all of its corrections are new or all are duplicates.
        expect([`${applied} ${deduped}`]).toEqual([expect.stringMatching(/^(2 0|0 2)$/)]);
      }
    }

    let files = 0;
    /** Sends old events as the operator, file after file. */
    async function sendOld(): Promise<void> {
      const day = 86_400_000;
      for (; !isStopping; files++) {
        const keys = Array.from({ length: OLD_EVENTS }, (_, i) => `b-${files}-${i}`);
        for (let i = 0; i < keys.length; i += 500) {
          const part = keys.slice(i, i + 500);
          for (const key of part) expected.set(key, 3);
          const answer = await callUntilAnswered(`/operator/organizations/${slug}/usage/events`, {
            events: part.map((idempotencyKey, n) => ({
              productSlug: product.slug,
              metric: 'calls',
              quantity: 3,
              occurredAt: new Date(Date.now() - 8 * day - n * 3_000_000),
              idempotencyKey,
            })),
          });
          expect(answer.accepted + answer.deduped).toBe(500);
        }
      }
    }

    const random = createRandom(seed);
    const crashes = random.shuffle([
      ...Array.from({ length: KILLS }, () => 'kill'),
      ...Array.from({ length: SHUTDOWNS }, () => 'shutdown'),
    ]);
    const senders = [...Array.from({ length: SENDERS }, (_, number) => send(number)), sendOld()];
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
    } finally {
      isStopping = true;
      if (server.isRunning) await server.end('SIGKILL');
      await Promise.allSettled(senders);
    }

    const after = await openDatabase({ databaseUrl, dataDir: '' }, log);
    const counted = await after.run(
      {
        name: 'test_counted',
        text: `select e.idempotency_key as key, trim_scale(e.quantity + coalesce(sum(c.quantity - c.previous_quantity), 0))::text as quantity
from usage_events e left join usage_corrections c on c.org_id = e.org_id and c.idempotency_key = e.idempotency_key
where e.org_id = $1 group by e.org_id, e.idempotency_key`,
      },
      [orgId],
    );
    expect(new Map(counted.map(({ key, quantity }) => [key, Number(quantity)]))).toEqual(expected);
    const drift = await compare(after.orm, { orgId: undefined });
    expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
    // This test is meaningful only if there was work to lose.
    expect(expected.size).toBeGreaterThan(5 * (KILLS + SHUTDOWNS));
    expect(files).toBeGreaterThan(0);
    expect(hits).toBeGreaterThan((KILLS + SHUTDOWNS) / 2);
    await after.close();
    await postgres.remove();
  },
);
