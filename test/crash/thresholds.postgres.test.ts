import { setTimeout } from 'node:timers/promises';
import { eq, sql } from 'drizzle-orm';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { readConfig } from '../../src/config.js';
import { systemClock } from '../../src/core/time.js';
import { openDatabase } from '../../src/core/db/open.js';
import { selectRows } from '../../src/core/db/sql.js';
import { webhookDeliveries } from '../../src/accounts/webhooks/table.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { findFreePort } from '../support/free-port.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { readWebhookMessages } from '../support/webhook-messages.js';
import { listen, startReceiver } from '../support/webhooks.js';
import { createRandom } from './random.js';
import { startServerProcess, type ServerProcess } from './server-process.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=100 CRASH_CROSSINGS=1000 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const CROSSINGS = Number(process.env.CRASH_CROSSINGS ?? 60);
const SENDERS = 64;
/** Usage per product, which reaches every threshold of the product's cap and limits. */
const TOTAL = 600;
const thresholds = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const declared = [
  { quantity: '450', window: 'PT5H', enforcement: 'warn' as const },
  { quantity: '500', window: 'calendar_day', enforcement: 'warn' as const },
];
/**
 * Products have a cap and up to two limits, because thresholds of caps and of limits are recorded at different times.
 */
const limitsOf = (product: number) => declared.slice(0, product % (declared.length + 1));
const perProduct = thresholds.length * 2;

interface Sent {
  slug: string;
  key: string;
  quantity: number;
}

it(
  `reports each threshold once, whatever is killed, and nothing that was rolled back (seed ${seed})`,
  { timeout: 3_600_000 },
  async () => {
    const postgres = await createPostgresServer();
    const log = pino({ level: 'silent' });
    const databaseUrl = postgres.url('postgres');
    const db = await openDatabase({ databaseUrl, dataDir: '' }, log);
    const { id: orgId } = await createOrganization(db);
    const slugs: string[] = [];
    for (let i = 0; i <= Math.ceil(CROSSINGS / perProduct); i++) {
      const product = await createProduct(db, { unitCap: String(TOTAL) });
      const limits = limitsOf(i);
      await grant(db, orgId, product.id, { ...(limits.length > 0 && { limits }), thresholds });
      slugs.push(product.slug);
    }
    // Every batch for this product is rolled back.
    const quiet = slugs.pop()!;
    const { secret } = await createKey(db, orgId);
    const ownEnv = { NODE_ENV: 'test', SECRET_KEYS: 'secret-key-of-the-tests' };
    const receiver = await startReceiver();
    const deps = { db, clock: systemClock, config: readConfig(ownEnv) };
    await listen(deps, orgId, { url: receiver.url, types: ['usage.threshold_reached'] });

    const random = createRandom(seed);
    const queue: Sent[] = [];
    for (const slug of slugs)
      for (let left = TOTAL, i = 0; left > 0; i++) {
        const quantity = Math.min(left, random.between(1, 6));
        queue.push({ slug, key: `${slug} ${i}`, quantity });
        left -= quantity;
      }
    random.shuffle(queue);

    const ports = [await findFreePort(), await findFreePort()];
    const start = (port: number) =>
      startServerProcess({
        ...ownEnv,
        DATABASE_URL: databaseUrl,
        PORT: String(port),
        MARKETS: 'off',
        LIMIT_USAGE_PER_MINUTE: '1000000000',
      });
    const servers: ServerProcess[] = ports.map(start);
    const occurredAt = new Date().toISOString();
    let [released, answered, inFlight, hits, isStopping] = [0, 0, 0, 0, false];
    let next = 0;

    /** Repeats the batch, on either instance, after every lost response and every 503. */
    async function callUntilAnswered(own: typeof random, events: unknown[]): Promise<number> {
      for (;;) {
        inFlight++;
        const url = `http://127.0.0.1:${own.pick(ports)}`;
        const answer = await sendUsage(url, secret, events).catch(() => undefined);
        inFlight--;
        if (answer && answer.status < 500) return answer.status;
        await setTimeout(own.between(5, 100));
      }
    }

    async function send(number: number): Promise<void> {
      const own = createRandom(seed + number + 1);
      for (;;) {
        if (next >= queue.length || isStopping) return;
        if (next >= released) {
          await setTimeout(2);
          continue;
        }
        const { slug, key, quantity } = queue[next++]!;
        expect(await callUntilAnswered(own, [usageEvent(slug, key, { quantity, occurredAt })])).toBe(202);
        answered++;
        if (!own.chance(0.1)) continue;
        const bad = [
          usageEvent(quiet, `bad ${key}`, { quantity: TOTAL }),
          usageEvent('none', `bad ${key} 2`),
        ];
        expect(await callUntilAnswered(own, bad)).toBe(403);
      }
    }

    await Promise.all(servers.map(({ ready }) => ready));
    const senders = Array.from({ length: SENDERS }, (_, number) => send(number));
    try {
      for (let kill = 1; kill <= KILLS; kill++) {
        const share = (n: number) => Math.floor((queue.length * n) / (KILLS + 1));
        // Releases more events than the loop below waits for, so that requests are in flight when the process is
        // killed.
        released = share(kill + 1);
        const until = share(kill - 1) + random.between(1, share(1));
        while (answered < until) await setTimeout(2);
        await setTimeout(random.between(0, 20));
        if (inFlight > 0) hits++;
        const which = random.between(0, 1);
        await servers[which]!.end('SIGKILL');
        servers[which] = start(ports[which]!);
        // Usually at least one instance is up; occasionally both are down.
        if (random.chance(0.8)) await servers[which].ready;
      }
      released = queue.length;
      await Promise.all([...servers.map(({ ready }) => ready), ...senders]);

      const expected = slugs.flatMap((slug, i) =>
        [String(TOTAL), ...limitsOf(i).map(({ quantity }) => quantity)].flatMap((quantity) =>
          thresholds.map((threshold) => `${slug} ${threshold}% of ${quantity}`),
        ),
      );
      const nameOf = (data: { productSlug: string; threshold: number; limit: { quantity: number } }) =>
        `${data.productSlug} ${data.threshold}% of ${data.limit.quantity}`;
      const waiting = sql`select 1 from webhook_deliveries where status <> 'delivered'
        union all select 1 from usage_checks limit 1`;
      // Otherwise, messages that a killed instance was sending would be retried only after a minute.
      await db.orm
        .update(webhookDeliveries)
        .set({ nextAttemptAt: new Date() })
        .where(eq(webhookDeliveries.status, 'waiting'));
      const giveUpAt = Date.now() + 180_000;
      while ((await selectRows(db.orm, waiting)).length > 0) {
        if (Date.now() > giveUpAt) throw new Error('something is still to be delivered');
        await setTimeout(200);
      }
      const reported = await readWebhookMessages(db, orgId);
      expect(reported.map(({ data }) => nameOf(data)).sort()).toEqual(expected.sort());
      for (const { data } of reported)
        expect(data.used * 100).toBeGreaterThanOrEqual(data.limit.quantity * data.threshold);

      const received = new Map<string, string>();
      for (const { headers, body } of receiver.received) {
        const name = nameOf(JSON.parse(body).data);
        received.set(name, received.get(name) ?? String(headers['webhook-id']));
        expect(headers['webhook-id']).toBe(received.get(name));
      }
      expect([...received.keys()].sort()).toEqual(expected);
      expect(new Set(received.values()).size).toBe(expected.length);
      // This test is meaningful only if there was work to lose.
      expect(hits).toBeGreaterThan(KILLS / 2);
      console.log({
        crossings: expected.length,
        events: queue.length,
        kills: KILLS,
        hits,
        received: receiver.received.length,
      });
    } finally {
      isStopping = true;
      await Promise.all(servers.filter(({ isRunning }) => isRunning).map((server) => server.end('SIGKILL')));
      await Promise.allSettled(senders);
      await receiver.stop();
      await db.close();
      await postgres.remove();
    }
  },
);
