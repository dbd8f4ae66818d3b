import { eq, and } from 'drizzle-orm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { createTenant, readUsage, sendUsage, usageEvent, type UsageReply } from '../support/usage.js';
import { useOtherConnections, useService, useServiceOn } from '../../support/use.js';

const { database, service } = useService();
const otherConnections = useOtherConnections(database);
const services = [service, useServiceOn(() => otherConnections)];

/** Picks instances round-robin. */
const instance = (i: number) => services[i % services.length]!;
const other = () => services.at(-1)!;

const sum = (replies: UsageReply[], field: 'accepted' | 'deduped') =>
  replies.reduce((total, reply) => total + Number(reply.body[field]), 0);

describe('parallel requests', () => {
  it('record and count each idempotency key once, however they overlap', async () => {
    const batches = fc.array(
      fc.record({
        key: fc.nat(2),
        instance: fc.nat(1),
        lenient: fc.boolean(),
        events: fc.array(fc.nat(59), { minLength: 1, maxLength: 60 }),
      }),
      { minLength: 2, maxLength: 16 },
    );
    await fc.assert(
      fc.asyncProperty(batches, async (given) => {
        const { organization, product, key } = await createTenant(database.db);
        const products = [product, await createProduct(database.db)];
        await grant(database.db, organization.id, products[1]!.id);
        const keys = [
          key,
          await createKey(database.db, organization.id),
          await createKey(database.db, organization.id),
        ];
        const replies = await Promise.all(
          given.map(({ events, lenient, ...from }) =>
            sendUsage(
              instance(from.instance).url,
              keys[from.key]!.secret,
              events.map((n) => usageEvent(products[n % 2]!.slug, `event ${n}`, { quantity: n / 8 })),
              { lenient },
            ),
          ),
        );
        expect(replies.filter(({ status }) => status !== 202)).toEqual([]);
        const sent = given.flatMap(({ events }) => events);
        const distinct = new Set(sent).size;
        expect(sum(replies, 'accepted')).toBe(distinct);
        expect(sum(replies, 'accepted') + sum(replies, 'deduped')).toBe(sent.length);
        expect(replies.flatMap(({ body }) => body.warnings)).toEqual([]);
        const { keys: recorded, drift } = await readUsage(database.db, organization.id);
        expect(recorded).toHaveLength(distinct);
        expect(drift).toEqual([]);
      }),
      { numRuns: 25, endOnFailure: true },
    );
  });

  it('do not deadlock, in whatever order they name the same keys and products', async () => {
    const organization = await createOrganization(database.db);
    const products = await Promise.all(Array.from({ length: 6 }, () => createProduct(database.db)));
    for (const product of products) await grant(database.db, organization.id, product.id);
    const keys = [
      await createKey(database.db, organization.id),
      await createKey(database.db, organization.id),
    ];
    const before = await countDeadlocks();
    const all = Array.from({ length: 300 }, (_, n) => usageEvent(products[n % 6]!.slug, `event ${n}`));
    const replies = await Promise.all(
      Array.from({ length: 24 }, (_, i) => {
        const turned = [...all.slice(i * 12), ...all.slice(0, i * 12)];
        return sendUsage(instance(i).url, keys[i % 2]!.secret, i % 3 === 0 ? turned.toReversed() : turned);
      }),
    );
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 202));
    expect(sum(replies, 'accepted')).toBe(300);
    expect((await readUsage(database.db, organization.id)).drift).toEqual([]);
    expect(await countDeadlocks()).toBe(before);
  });

  it('of different Organizations do not affect each other, even with the same keys', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, () => createTenant(database.db)));
    const replies = await Promise.all(
      tenants.flatMap(({ product, key }, t) =>
        Array.from({ length: 6 }, (_, i) =>
          sendUsage(
            instance(i).url,
            key.secret,
            Array.from({ length: 50 }, (_event, n) =>
              usageEvent(product.slug, `same ${n}`, { quantity: t + 1 }),
            ),
          ),
        ),
      ),
    );
    expect(replies.every(({ status, body }) => status === 202 && body.warnings.length === 0)).toBe(true);
    for (const [t, { organization }] of tenants.entries()) {
      const { events, drift } = await readUsage(database.db, organization.id);
      expect(events.map(({ quantity }) => quantity)).toEqual(Array.from({ length: 50 }, () => String(t + 1)));
      expect(drift).toEqual([]);
    }
  });
});

/** Waits for Postgres's delayed statistics and returns the number of deadlocks resolved in this database. */
async function countDeadlocks(): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const text = 'select deadlocks::text from pg_stat_database where datname = current_database()';
  return (await database.db.run({ name: 'test_deadlocks', text }, []))[0]!.deadlocks!;
}

/**
 * Sends requests through all instances continuously. Halfway, calls `decide`; every request that starts after `decide`
 * has resolved must fail.
 */
async function flood(secret: string, slug: string, decide: () => Promise<unknown>): Promise<UsageReply[]> {
  let isDecided = false;
  let isOver = false;
  const before: UsageReply[] = [];
  const after: UsageReply[] = [];
  const senders = Array.from({ length: 12 }, async (_, s) => {
    for (let i = 0; !isOver; i++) {
      const isLate = isDecided;
      const reply = await sendUsage(instance(s).url, secret, [usageEvent(slug, `flood ${s} ${i}`)]);
      (isLate ? after : before).push(reply);
    }
  });
  while (before.length < 50) await new Promise((resolve) => setTimeout(resolve, 1));
  await decide();
  isDecided = true;
  while (after.length < 50) await new Promise((resolve) => setTimeout(resolve, 1));
  isOver = true;
  await Promise.all(senders);
  expect(before.filter(({ status }) => status === 202).length).toBeGreaterThan(0);
  return after;
}

describe('on its next call, through every instance and in the middle of a flood', () => {
  it('a revoked key fails', async () => {
    const { organization, product, key } = await createTenant(database.db);
    expect((await sendUsage(other().url, key.secret, [usageEvent(product.slug, 'known')])).status).toBe(202);
    const after = await flood(key.secret, product.slug, () =>
      database.db.orm
        .update(apiKeys)
        .set({ revokedAt: new Date() })
        .where(and(eq(apiKeys.orgId, organization.id), eq(apiKeys.id, key.id))),
    );
    expect(new Set(after.map(({ status, body }) => `${status} ${body.code}`))).toEqual(
      new Set(['401 key_revoked']),
    );
    expect((await readUsage(database.db, organization.id)).drift).toEqual([]);
  });

  it('a withdrawn entitlement and a read-only one refuse', async () => {
    for (const decision of ['withdraw', 'read_only'] as const) {
      const { organization, product, key } = await createTenant(database.db);
      const mine = and(eq(entitlements.orgId, organization.id), eq(entitlements.productId, product.id));
      const after = await flood(key.secret, product.slug, () =>
        decision === 'withdraw'
          ? database.db.orm.delete(entitlements).where(mine)
          : database.db.orm.update(entitlements).set({ kind: 'read_only' }).where(mine),
      );
      const code = decision === 'withdraw' ? 'entitlement_required' : 'entitlement_read_only';
      expect(new Set(after.map(({ status, body }) => `${status} ${body.code}`))).toEqual(
        new Set([`403 ${code}`]),
      );
    }
  });

  it('an expired key and an ended entitlement refuse as soon as the clock says so', async () => {
    const expiresAt = new Date(services[0]!.clock.now() + 60_000);
    const { organization, product } = await createTenant(database.db);
    const key = await createKey(database.db, organization.id, { expiresAt });
    const afterExpiry = await flood(key.secret, product.slug, async () => {
      for (const { clock } of services) clock.advance(60_000);
    });
    expect(new Set(afterExpiry.map(({ body }) => body.code))).toEqual(new Set(['key_expired']));

    const endsAt = new Date(services[0]!.clock.now() + 60_000);
    const ending = await createProduct(database.db);
    await grant(database.db, organization.id, ending.id, { endsAt });
    const lasting = await createKey(database.db, organization.id);
    const afterEnd = await flood(lasting.secret, ending.slug, async () => {
      for (const { clock } of services) clock.advance(60_000);
    });
    expect(new Set(afterEnd.map(({ body }) => body.code))).toEqual(new Set(['entitlement_required']));
  });
});
