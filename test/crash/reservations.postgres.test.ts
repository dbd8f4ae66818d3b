import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { crashService, seed } from './crash-service.js';

const LIMIT = 1_000_000;
/** Short holds belong to abandoned work, long ones to work that will be settled. */
const SHORT_SECONDS = 2;
const LONG_SECONDS = 600;

interface Work {
  key: string;
  /** Undefined if the work is abandoned and its hold expires. */
  used: number | undefined;
}

it(
  `settles each reservation as one event, whatever is killed, and leaves no hold after its expiry (seed ${seed})`,
  { timeout: 1_800_000 },
  async () => {
    const finished: Work[] = [];
    await crashService({
      async prepare(db) {
        const { id: orgId } = await createOrganization(db);
        const product = await createProduct(db);
        const declared = [
          { quantity: String(LIMIT), window: 'PT5H', enforcement: 'block' as const },
          { quantity: String(LIMIT), window: 'calendar_month', enforcement: 'block' as const },
        ];
        await grant(db, orgId, product.id, { limits: declared });
        return { product, ...(await createKey(db, orgId)) };
      },

      async send(service, { product }, { number, random }) {
        for (let i = 0; !service.isStopping; i++) {
          const held = random.between(1, 40);
          const used = random.chance(0.2) ? undefined : random.between(0, held);
          const work: Work = { key: `w-${number}-${i}`, used };
          finished.push(work);
          const reserved = await service.call('POST', '/api/usage/reservations', {
            productSlug: product.slug,
            metric: 'calls',
            quantity: held,
            idempotencyKey: work.key,
            ttlSeconds: used === undefined ? SHORT_SECONDS : LONG_SECONDS,
          });
          expect([200, 201]).toContain(reserved.status);
          if (used === undefined) continue;
          const path = `/api/usage/reservations/${reserved.body.reservation.id}/settle`;
          const settled = await service.call('POST', path, { quantity: used });
          expect([settled.status, settled.body.accepted, settled.body.warnings]).toEqual([200, 1, []]);
        }
      },

      async atEnd(service, { product }) {
        await setTimeout(SHORT_SECONDS * 1_000);
        const used = finished.reduce((sum, work) => sum + (work.used ?? 0), 0);
        const { body } = await service.call('GET', '/api/usage/reservations?status=held');
        expect(body.reservations).toEqual([]);
        const rest = await service.call('POST', '/api/usage/reservations', {
          productSlug: product.slug,
          metric: 'calls',
          quantity: LIMIT - used,
          idempotencyKey: 'rest',
        });
        expect(rest.status, rest.text).toBe(201);
        expect(rest.body.limits).toMatchObject([
          { used, held: LIMIT - used, remaining: 0 },
          { used, held: LIMIT - used, remaining: 0 },
        ]);
      },

      async verify(db, { orgId }) {
        const events = await db.run(
          {
            name: 'test_events',
            text: 'select idempotency_key as key, trim_scale(quantity)::text as used from usage_events where org_id = $1 order by 1',
          },
          [orgId],
        );
        const expected = finished.flatMap(({ key, used }) =>
          used === undefined ? [] : [[key, String(used)]],
        );
        expect(events.map(({ key, used }) => [key, used])).toEqual(
          expected.sort(([a], [b]) => (a! < b! ? -1 : 1)),
        );
        return expected.length;
      },
    });
  },
);
