import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { selectRows } from '../../src/core/db/sql.js';
import { compareCredits } from '../../src/metering/reconciliation/credits.js';
import { compare } from '../../src/metering/reconciliation/reconcile.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorToken } from '../support/operator.js';
import { findFreePort } from '../support/free-port.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createRandom, type Random } from './random.js';
import { startServerProcess } from './server-process.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=500 CRASH_SHUTDOWNS=50 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 5);
const SHUTDOWNS = Number(process.env.CRASH_SHUTDOWNS ?? 2);
const SENDERS = 16;

/** All amounts here are in 10⁻¹² credits; quantities are whole numbers. */
const PRICES = [
  { price: 1_000_000_000_007n, large: 2_333_333_333_333n },
  { price: 1n, large: 125_000_000_000n },
] as const;
const models = ['', 'large', 'small'];
const subjects = ['', 'ann', 'ben', 'cid'];
const toText = (amount: bigint) => `${amount / 10n ** 12n}.${String(amount % 10n ** 12n).padStart(12, '0')}`;

interface Sent {
  product: 0 | 1;
  model: string;
  subject: string;
  quantity: number;
}

it(`spends each credit once, whatever is killed (seed ${seed})`, { timeout: 3_000_000 }, async () => {
  const postgres = await createPostgresServer();
  const log = pino({ level: 'silent' });
  const databaseUrl = postgres.url('postgres');
  const db = await openDatabase({ databaseUrl, dataDir: '' }, log);
  const { id: orgId, slug } = await createOrganization(db);
  const products: Awaited<ReturnType<typeof createProduct>>[] = [];
  for (const { price, large } of PRICES) {
    const product = await createProduct(db, {
      dimensions: ['model'],
      subjectsSince: new Date(0),
      creditPrice: toText(price),
      creditDimension: 'model',
      creditPrices: { large: toText(large) },
      creditEnforcement: products.length === 0 ? 'warn' : 'block',
    });
    await grant(db, orgId, product.id);
    products.push(product);
  }
  const scopes = ['usage:write', 'usage:read', 'usage:correct'];
  const { secret } = await createKey(db, orgId, { scopes });
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
  const expected = new Map<string, Sent>();
  let granted = 0n;

  /** Repeats the call after every lost response and every 503. */
  async function callUntilAnswered(
    random: Random,
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: Record<string, any>; text: string }> {
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
      const text = await response?.text().catch(() => undefined);
      inFlight--;
      if (response && text !== undefined && response.status < 500) {
        answered++;
        return { status: response.status, body: JSON.parse(text) as Record<string, any>, text };
      }
      await setTimeout(random.between(5, 100));
    }
  }

  const toEvent = (key: string, { product, model, subject, quantity }: Sent) => ({
    productSlug: products[product]!.slug,
    metric: 'calls',
    quantity,
    idempotencyKey: key,
    ...(model ? { dimensions: { model } } : {}),
    ...(subject ? { subject } : {}),
  });
  const anyEvent = (random: Random): Sent => ({
    product: random.pick([0, 1] as const),
    model: random.pick(models),
    subject: random.pick(subjects),
    quantity: random.between(0, 40),
  });

  async function send(number: number): Promise<void> {
    const random = createRandom(seed + number + 1);
    const post = (path: string, body: object) =>
      callUntilAnswered(random, 'POST', `/api/usage/${path}`, body);
    const keys: string[] = [];
    for (let i = 0; !isStopping; i++) {
      const events = Array.from({ length: random.between(1, 5) }, (_, n) => {
        const [key, sent] = [`e-${number}-${i}-${n}`, anyEvent(random)];
        expected.set(key, sent);
        keys.push(key);
        return toEvent(key, sent);
      });
      expect((await post('events', { events })).status).toBe(202);
      if (random.chance(0.3)) {
        const key = random.pick(keys);
        const quantity = random.between(0, 60);
        const corrections = [
          { idempotencyKey: key, quantity, reason: 'test', correctionKey: `c-${number}-${i}` },
        ];
        expect((await post('corrections', { corrections })).status).toBe(200);
        expected.get(key)!.quantity = quantity;
      }
      if (random.chance(0.3)) {
        const key = `r-${number}-${i}`;
        const held = anyEvent(random);
        const reserved = await post('reservations', { ...toEvent(key, held), ttlSeconds: 600 });
        expect([200, 201, 409]).toContain(reserved.status);
        if (reserved.status === 409) {
          expect(reserved.body.code).toBe('credits_exhausted');
        } else {
          const quantity = random.between(0, held.quantity);
          expected.set(key, { ...held, quantity });
          const path = `reservations/${reserved.body.reservation.id}/settle`;
          expect((await post(path, { quantity })).status).toBe(200);
        }
      }
      if (random.chance(0.2)) {
        const amount = BigInt(random.between(1, 40)) * 1_000_000_000_001n;
        granted += amount;
        const path = `/operator/organizations/${slug}/credits/grants/g-${number}-${i}`;
        const { status } = await callUntilAnswered(random, 'PUT', path, {
          amount: Number(toText(amount)),
          priority: random.between(0, 100),
          reason: 'test',
          ...(random.chance(0.5) ? { productSlugs: [random.pick(products).slug] } : {}),
        });
        // 409 means that 64 grants are already open.
        expect([200, 201, 409]).toContain(status);
        if (status === 409) granted -= amount;
      }
    }
  }

  const random = createRandom(seed);
  const crashes = random.shuffle([
    ...Array.from({ length: KILLS }, () => 'kill'),
    ...Array.from({ length: SHUTDOWNS }, () => 'shutdown'),
  ]);
  const senders = Array.from({ length: SENDERS }, (_, number) => send(number));
  let read: string | undefined;
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
    read = (await callUntilAnswered(random, 'GET', '/api/credits')).text;
  } finally {
    isStopping = true;
    if (server.isRunning) await server.end('SIGKILL');
    await Promise.allSettled(senders);
  }

  const after = await openDatabase({ databaseUrl, dataDir: '' }, log);
  const { orm } = after;
  expect(await compareCredits(orm, undefined)).toEqual([]);
  const drift = await compare(orm, { orgId: undefined });
  expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });

  // Computes the expected sums from the senders' own records.
  const sums = new Map<string, bigint>();
  const add = (name: string, amount: bigint) => sums.set(name, (sums.get(name) ?? 0n) + amount);
  let cost = 0n;
  for (const { product, model, subject, quantity } of expected.values()) {
    const { price, large } = PRICES[product];
    const own = BigInt(quantity) * (model === 'large' ? large : price);
    cost += own;
    const { id } = products[product]!;
    add(`burned ${id}`, own);
    add(`model ${id} ${model}`, BigInt(quantity));
    if (subject) add(`subject ${id} ${subject}`, BigInt(quantity));
  }
  const found = await selectRows<{ name: string; amount: string }>(
    orm,
    sql`select concat('burned ', product_id) as name, (sum(case kind when 'burn' then amount else -amount end) * 1000000000000)::numeric(60, 0)::text as amount
        from credit_entries where kind in ('burn', 'return') group by 1
      union all select concat('model ', product_id, ' ', dimensions), sum(quantity)::numeric(60, 0)::text from usage_hours group by 1
      union all select concat('subject ', product_id, ' ', subject), sum(quantity)::numeric(60, 0)::text from usage_subjects group by 1`,
  );
  expect(new Map(found.map(({ name, amount }) => [name, BigInt(amount)]))).toEqual(sums);
  const balance = /"balance":(-?)(\d+)(?:\.(\d+))?/.exec(read)!;
  const [, sign = '', whole = '', fraction = ''] = balance;
  expect(BigInt(`${sign}${whole}${fraction.padEnd(12, '0')}`)).toBe(granted - cost);

  // This test is meaningful only if there was work to lose.
  expect(expected.size).toBeGreaterThan(5 * (KILLS + SHUTDOWNS));
  expect(granted).toBeGreaterThan(0n);
  expect(hits).toBeGreaterThan((KILLS + SHUTDOWNS) / 2);
  await after.close();
  await postgres.remove();
});
