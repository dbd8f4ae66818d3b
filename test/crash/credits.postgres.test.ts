import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { selectRows } from '../../src/core/db/sql.js';
import { compareCredits } from '../../src/metering/reconciliation/credits.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { crashService, seed } from './crash-service.js';
import type { Random } from './random.js';

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

type Product = Awaited<ReturnType<typeof createProduct>>;

const toEvent = (products: Product[], key: string, { product, model, subject, quantity }: Sent) => ({
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

it(`spends each credit once, whatever is killed (seed ${seed})`, { timeout: 3_000_000 }, async () => {
  const expected = new Map<string, Sent>();
  let granted = 0n;
  let read: string | undefined;
  await crashService({
    kills: 5,
    shutdowns: 2,
    senders: 16,
    async prepare(db) {
      const { id: orgId, slug } = await createOrganization(db);
      const products: Product[] = [];
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
      return { slug, products, ...(await createKey(db, orgId, { scopes })) };
    },

    async send(service, { slug, products }, { number, random }) {
      const post = (path: string, body: object) => service.call('POST', `/api/usage/${path}`, body);
      const keys: string[] = [];
      for (let i = 0; !service.isStopping; i++) {
        const events = Array.from({ length: random.between(1, 5) }, (_, n) => {
          const [key, sent] = [`e-${number}-${i}-${n}`, anyEvent(random)];
          expected.set(key, sent);
          keys.push(key);
          return toEvent(products, key, sent);
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
          const reserved = await post('reservations', { ...toEvent(products, key, held), ttlSeconds: 600 });
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
          const { status } = await service.call('PUT', path, {
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
    },

    async atEnd(service) {
      read = (await service.call('GET', '/api/credits')).text;
    },

    async verify(db, { products }) {
      expect(await compareCredits(db.orm, undefined)).toEqual([]);

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
        db.orm,
        sql`select concat('burned ', product_id) as name, (sum(case kind when 'burn' then amount else -amount end) * 1000000000000)::numeric(60, 0)::text as amount
        from credit_entries where kind in ('burn', 'return') group by 1
      union all select concat('model ', product_id, ' ', dimensions), sum(quantity)::numeric(60, 0)::text from usage_hours group by 1
      union all select concat('subject ', product_id, ' ', subject), sum(quantity)::numeric(60, 0)::text from usage_subjects group by 1`,
      );
      expect(new Map(found.map(({ name, amount }) => [name, BigInt(amount)]))).toEqual(sums);
      const balance = /"balance":(-?)(\d+)(?:\.(\d+))?/.exec(read!)!;
      const [, sign = '', whole = '', fraction = ''] = balance;
      expect(BigInt(`${sign}${whole}${fraction.padEnd(12, '0')}`)).toBe(granted - cost);

      expect(granted).toBeGreaterThan(0n);
      return expected.size;
    },
  });
});
