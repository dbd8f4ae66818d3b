import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import pg from 'pg';
import { expect, it } from 'vitest';
import { compare, hasDrift, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { asMaintained } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { TestClock } from '../../support/service.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

/** Sends batches for several products without pause until stopped. Every batch must be accepted. */
async function startSenders(count: number) {
  const organization = await createOrganization(database.db);
  const products = await Promise.all([1, 2, 3].map(() => createProduct(database.db)));
  for (const product of products) await grant(database.db, organization.id, product.id);
  const key = await createKey(database.db, organization.id);
  const stopping = new AbortController();
  let accepted = 0;
  const send = async (sender: number) => {
    for (let batch = 0; !stopping.signal.aborted; batch++) {
      const events = Array.from({ length: 20 }, (_, i) => ({
        productSlug: products[(sender + i) % 3]!.slug,
        metric: 'calls',
        quantity: 1 + (i % 3),
        idempotencyKey: `${sender} ${batch} ${i}`,
      }));
      const response = await fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ events }),
      });
      expect(response.status).toBe(202);
      accepted += ((await response.json()) as { accepted: number }).accepted;
    }
  };
  const running = Promise.all(Array.from({ length: count }, (_, sender) => send(sender)));
  return {
    organization,
    async stop() {
      stopping.abort();
      await running;
      return accepted;
    },
  };
}

async function countOf(orgId: string): Promise<number> {
  const result: unknown = await database.db.orm.execute(
    sql`select sum(events)::int as events from usage_totals where org_id = ${orgId}`,
  );
  return (result as { rows: { events: number }[] }).rows[0]!.events;
}

it('a comparison never mistakes concurrent ingestion for drift', async () => {
  const senders = await startSenders(6);
  for (let comparisons = 0; comparisons < 15; comparisons++)
    expect(await compare(database.db.orm, {})).toEqual({
      totals: [],
      hours: [],
      subjects: [],
      settlements: [],
    });
  expect(await senders.stop()).toBeGreaterThan(0);
});

it('a repair loses no concurrent event, blocks no writer for good and leaves no drift', async () => {
  const senders = await startSenders(6);
  const { id } = senders.organization;
  const clock = new TestClock();
  let repaired = 0;
  for (let i = 0; i < 15; i++) {
    await setTimeout(60);
    await database.db.orm.execute(
      sql`update usage_totals set quantity = quantity * 2, events = 0 where org_id = ${id}`,
    );
    await database.db.orm.execute(sql`delete from usage_hours where org_id = ${id}`);
    repaired += (await repair(asMaintained(database), clock, { orgId: id })).totals;
  }
  const accepted = await senders.stop();
  expect(repaired).toBeGreaterThanOrEqual(30);
  expect(await countOf(id)).toBe(accepted);
  expect(hasDrift(await compare(database.db.orm, {}))).toBe(false);
});

it('a repair gives up if another transaction holds the tables, and ingestion continues', async () => {
  const senders = await startSenders(1);
  const { id } = senders.organization;
  while (((await countOf(id)) ?? 0) === 0) await setTimeout(10);
  const holder = new pg.Client({ connectionString: database.url! });
  await holder.connect();
  await holder.query('begin');
  await holder.query('lock table usage_hours in row exclusive mode');
  await database.db.orm.execute(sql`update usage_totals set quantity = quantity + 1 where org_id = ${id}`);
  await expect(repair(asMaintained(database), new TestClock(), {})).rejects.toMatchObject({
    cause: { code: '55P03' },
  });
  await holder.end();
  expect(await senders.stop()).toBeGreaterThan(0);
  expect((await repair(asMaintained(database), new TestClock(), {})).organizations).toBe(1);
});
