import { expect, it } from 'vitest';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { crashService, seed } from './crash-service.js';

/** Old events that the operator sends together. */
const OLD_EVENTS = 3_000;
const DAY_MS = 86_400_000;

it(
  `makes each correction once and counts each old event once, whatever is killed (seed ${seed})`,
  { timeout: 1_800_000 },
  async () => {
    /** Final quantity of each event. */
    const expected = new Map<string, number>();
    let files = 0;
    await crashService({
      async prepare(db) {
        const { id: orgId, slug } = await createOrganization(db);
        const product = await createProduct(db);
        await grant(db, orgId, product.id);
        const { secret } = await createKey(db, orgId, { scopes: ['usage:write', 'usage:correct'] });
        return { orgId, slug, product, secret };
      },

      async send(service, { product }, { number, random }) {
        const post = async (path: string, body: object) => {
          const answer = await service.call('POST', `/api/usage/${path}`, body);
          expect(answer).toMatchObject({ status: path === 'events' ? 202 : 200 });
          return answer.body;
        };
        const keys: string[] = [];
        for (let i = 0; !service.isStopping; i++) {
          const key = `e-${number}-${i}`;
          const quantity = random.between(0, 40);
          expected.set(key, quantity);
          keys.push(key);
          await post('events', {
            events: [{ productSlug: product.slug, metric: 'calls', quantity, idempotencyKey: key }],
          });
          // Corrects one new event and one earlier event, which may already have been corrected.
          const corrections = [key, keys[random.between(0, keys.length - 1)]!].map((idempotencyKey, n) => {
            const to = random.between(0, 40);
            expected.set(idempotencyKey, to);
            return { idempotencyKey, quantity: to, reason: 'test', correctionKey: `${key} ${n}` };
          });
          const { applied, deduped } = await post('corrections', { corrections });
          // Even if the request was repeated, either all of its corrections are new or all are duplicates.
          expect([`${applied} ${deduped}`]).toEqual([expect.stringMatching(/^(2 0|0 2)$/)]);
        }
      },

      /** Sends old events as the operator, file after file. */
      async sendBeside(service, { slug, product }) {
        for (; !service.isStopping; files++) {
          const keys = Array.from({ length: OLD_EVENTS }, (_, i) => `b-${files}-${i}`);
          for (let i = 0; i < keys.length; i += 500) {
            const part = keys.slice(i, i + 500);
            for (const key of part) expected.set(key, 3);
            const path = `/operator/organizations/${slug}/usage/events`;
            const { status, body } = await service.call('POST', path, {
              events: part.map((idempotencyKey, n) => ({
                productSlug: product.slug,
                metric: 'calls',
                quantity: 3,
                occurredAt: new Date(Date.now() - 8 * DAY_MS - n * 3_000_000),
                idempotencyKey,
              })),
            });
            expect([status, body.accepted + body.deduped]).toEqual([202, 500]);
          }
        }
      },

      async verify(db, { orgId }) {
        const counted = await db.run(
          {
            name: 'test_counted',
            text: `select e.idempotency_key as key, trim_scale(e.quantity + coalesce(sum(c.quantity - c.previous_quantity), 0))::text as quantity
from usage_events e left join usage_corrections c on c.org_id = e.org_id and c.idempotency_key = e.idempotency_key
where e.org_id = $1 group by e.org_id, e.idempotency_key`,
          },
          [orgId],
        );
        expect(new Map(counted.map(({ key, quantity }) => [key, Number(quantity)]))).toEqual(expected);
        expect(files).toBeGreaterThan(0);
        return expected.size;
      },
    });
  },
);
