import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { eq, sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Orm } from '../../../src/core/db/client.js';
import {
  usageArchives,
  usageHours,
  usageReservations,
  usageTotals,
} from '../../../src/metering/ingestion/table.js';
import { archiveMonth, eachOpenMonth, readBack } from '../../../src/metering/archive/archive.js';
import { ArchiveError } from '../../../src/metering/archive/file.js';
import { listArchives } from '../../../src/metering/archive/queries.js';
import { firstRemembered } from '../../../src/metering/ingestion/batch.js';
import { compare, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { asMaintained } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct } from '../support/products.js';
import { startTestService, TestClock } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';
import { fillUsage } from '../support/usage-events.js';
import { useDatabase } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const database = useDatabase();

const dir = mkdtempSync(join(tmpdir(), 'gauge-archive-'));
const clock = new TestClock();
clock.set('2031-03-15T12:00:00Z');
afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
});

/** Creates an Organization with events for two products in both modes around the end of January 2030. */
async function used(count = 30) {
  const { db } = database;
  const organization = await createOrganization(db);
  const key = await createKey(db, organization.id);
  for (const name of ['a', 'b'])
    for (const livemode of [true, false])
      await fillUsage(db, {
        orgId: organization.id,
        productId: (await createProduct(db)).id,
        apiKeyId: key.id,
        livemode,
        count,
        prefix: `${name} "é\\ ${livemode} `,
        from: '2030-01-31T20:00:00.123456Z',
        everyMs: (8 * 3_600_000) / count,
        quantity: 'i * 12345678901.25',
      });
  return organization;
}

const deps = (orm: Orm = database.db.orm) => ({
  orm,
  clock,
  dir,
  chunkSize: 7,
  rest: 0,
  signal: new AbortController().signal,
  onEvents: () => undefined,
});

async function archiveAll(orgId: string, orm: Orm = database.db.orm): Promise<void> {
  for await (const month of eachOpenMonth(orm, '2030-02-01', orgId)) await archiveMonth(deps(orm), month);
}

/** Sums that archiving must not change. */
const sumsOf = async (orgId: string) => ({
  totals: await database.db.orm
    .select()
    .from(usageTotals)
    .where(eq(usageTotals.orgId, orgId))
    .orderBy(usageTotals.period, usageTotals.productId, usageTotals.livemode),
  hours: (await database.db.orm.select().from(usageHours).where(eq(usageHours.orgId, orgId))).length,
  drift: await compare(database.db.orm, { orgId }),
});

async function keysIn(orgId: string): Promise<string[]> {
  const result: unknown = await database.db.orm.execute(
    sql`select idempotency_key as key from usage_events where org_id = ${orgId} order by 1`,
  );
  return (result as { rows: { key: string }[] }).rows.map(({ key }) => key);
}

const linesOf = (file: string) =>
  gunzipSync(readFileSync(join(dir, file)))
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { idempotencyKey: string; quantity: string; occurredAt: string });

const checkAll = async (orgId: string) => {
  for (const archive of await listArchives(database.db.orm, orgId)) await readBack(deps(), archive);
};

/** Wraps the real database so that its n-th statement fails: after running if `isDone`, otherwise before. */
function endingAt(n: number, isDone: boolean): Orm {
  let count = 0;
  const guard = async <T>(work: () => Promise<T>): Promise<T> => {
    const isEnd = ++count === n;
    if (isEnd && !isDone) throw new Error('killed');
    const result = await work();
    if (isEnd) throw new Error('killed');
    return result;
  };
  const behind = (orm: Orm): Orm =>
    new Proxy(orm, {
      get(target, name) {
        if (name === 'execute') return (query: never) => guard(() => Promise.resolve(target.execute(query)));
        if (name === 'transaction')
          return (work: (tx: Orm) => Promise<unknown>, config: never) =>
            guard(() => target.transaction((tx) => work(behind(tx)), config));
        return Reflect.get(target, name) as unknown;
      },
    });
  return behind(database.db.orm);
}

/** Archives repeatedly, killing each run one statement later than the previous one, until `isThere` holds. */
async function archiveUntil(id: string, isThere: (keys: string[]) => Promise<boolean> | boolean) {
  for (let n = 1; !(await isThere(await keysIn(id))); n++)
    await archiveAll(id, endingAt(n, true)).catch(() => undefined);
  const [archive] = await listArchives(database.db.orm, id);
  return archive!;
}

it('moves every event of a month into files and changes nothing else', async () => {
  const { id, slug } = await used();
  const [before, keys] = [await sumsOf(id), await keysIn(id)];
  await archiveAll(id);
  expect(await sumsOf(id)).toEqual(before);
  expect(before.drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  const left = await keysIn(id);
  const archives = await database.db.orm
    .select()
    .from(usageArchives)
    .where(eq(usageArchives.orgId, id))
    .orderBy(usageArchives.file);
  expect(archives.map(({ file, sha256, state }) => [file, sha256.slice(0, 12), state])).toEqual(
    ['live', 'test'].map((mode, i) => {
      const hash = archives[i]!.sha256.slice(0, 12);
      return [`2030-01/${slug}-${mode}-${hash}.ndjson.gz`, hash, 'archived'];
    }),
  );
  const lines = archives.flatMap(({ file }) => linesOf(file));
  expect([...left, ...lines.map((line) => line.idempotencyKey)].sort()).toEqual(keys.sort());
  expect(lines).toHaveLength(60);
  expect(lines[1]).toMatchObject({
    quantity: '12345678901.25',
    occurredAt: '2030-01-31T20:16:00.123456Z',
    metric: 'calls',
  });
  const manifest = readFileSync(join(dir, archives[0]!.file.replace('.ndjson.gz', '.json')), 'utf8');
  expect(JSON.parse(manifest)).toMatchObject({ organization: slug, month: '2030-01', events: 30 });
  await checkAll(id);
  const audits = await auditOf(database.db, id);
  expect(audits).toMatchObject([
    { action: 'usage.archived', actor: 'system', target: '2030-01', details: { livemode: true, events: 30 } },
    { action: 'usage.archived', details: { livemode: false } },
  ]);
  for await (const month of eachOpenMonth(database.db.orm, '2030-02-01', id)) expect(month).toBeUndefined();
});

it(
  'loses nothing and counts nothing twice wherever it is killed, and resumes',
  { timeout: 120_000 },
  async () => {
    let ended = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ n: fc.integer({ min: 1, max: 45 }), isDone: fc.boolean() }), {
          minLength: 1,
          maxLength: 3,
        }),
        async (kills) => {
          const { id } = await used(8);
          const [before, keys] = [await sumsOf(id), await keysIn(id)];
          for (const { n, isDone } of kills) {
            await archiveAll(id, endingAt(n, isDone)).catch((error: Error) => {
              expect(error.message).toMatch(/killed/);
              ended++;
            });
            expect(await sumsOf(id)).toEqual(before);
          }
          await archiveAll(id);
          expect(await sumsOf(id)).toEqual(before);
          const archives = await listArchives(database.db.orm, id);
          const archived = archives.flatMap(({ file }) => linesOf(file)).map((line) => line.idempotencyKey);
          expect([...(await keysIn(id)), ...archived].sort()).toEqual(keys.sort());
          await checkAll(id);
          const audits = await auditOf(database.db, id);
          expect(audits).toHaveLength(2);
        },
      ),
      { numRuns: 8 },
    );
    expect(ended).toBeGreaterThan(3);
  },
);

describe('a repair', () => {
  it('keeps archived events, and corrects a total from the archive and the remaining events', async () => {
    const { id } = await used();
    await archiveAll(id);
    const before = await sumsOf(id);
    await database.db.orm.execute(sql`update usage_totals set quantity = quantity + 1 where org_id = ${id}`);
    expect((await compare(database.db.orm, { orgId: id })).totals).toHaveLength(8);
    expect(await repair(asMaintained(database), clock, { orgId: id })).toMatchObject({ totals: 8, hours: 0 });
    expect(await sumsOf(id)).toEqual(before);
    await database.db.orm.execute(sql`delete from usage_totals where org_id = ${id}`);
    await repair(asMaintained(database), clock, { orgId: id });
    expect((await sumsOf(id)).totals).toHaveLength(8);
    await checkAll(id);
  });
});

describe('deletes nothing', () => {
  it('if the totals or hours differ from the sum of the events', async () => {
    for (const table of ['usage_totals', 'usage_hours']) {
      const { id } = await used();
      const keys = await keysIn(id);
      await database.db.orm.execute(
        sql`update ${sql.identifier(table)} set quantity = quantity + 0.01 where org_id = ${id}`,
      );
      await expect(archiveAll(id)).rejects.toThrow(/^The (totals|hours) of product .* expected/);
      expect(await keysIn(id)).toEqual(keys);
    }
  });

  it('if an event is missing from the file, or the file was changed before all its events were deleted', async () => {
    const { id } = await used();
    const all = (await keysIn(id)).length;
    const archive = await archiveUntil(id, (keys) => keys.length < all);
    expect(archive).toMatchObject({ state: 'deleting' });
    const path = join(dir, archive.file);
    const whole = readFileSync(path);
    const left = await keysIn(id);
    appendFileSync(path, gzipSync(''));
    await expect(archiveAll(id)).rejects.toThrow(ArchiveError);
    await expect(archiveAll(id)).rejects.toThrow(/was changed/);
    truncateSync(path, whole.length - 9);
    await expect(archiveAll(id)).rejects.toThrow(/cannot be read/);
    rmSync(path);
    await expect(archiveAll(id)).rejects.toThrow(/cannot be read: ENOENT/);
    expect(await keysIn(id)).toEqual(left);
    writeFileSync(path, whole);
    await database.db.orm.execute(sql`insert into usage_events
      select org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key || ' late', metric, quantity
      from usage_events where org_id = ${id} and livemode and occurred_at < '2030-02-01'`);
    await expect(archiveAll(id)).rejects.toThrow(/^The events from .* differ from the file. None of them/);
    const [after, archived] = [await keysIn(id), linesOf(archive.file).map((line) => line.idempotencyKey)];
    expect(after.filter((key) => key.endsWith(' late')).length).toBeGreaterThan(7);
    expect(left.filter((key) => !after.includes(key) && !archived.includes(key))).toEqual([]);
  });
});

it('a settled reservation with an archived event is complete, and one with a lost event is reported', async () => {
  const { id } = await used(4);
  const [event] = await database.db.run<{ idempotencyKey: string; productId: string; apiKeyId: string }>(
    {
      name: 'test_an_event',
      text: 'select idempotency_key as "idempotencyKey", product_id::text as "productId", api_key_id::text as "apiKeyId" from usage_events where org_id = $1 and livemode order by occurred_at limit 1',
    },
    [id],
  );
  const { idempotencyKey, productId, apiKeyId } = event!;
  const at = new Date('2030-01-31T20:30:00Z');
  const reservation = {
    orgId: id,
    id: '019b8d9a-6400-7000-8000-000000000001',
    idempotencyKey,
    productId,
    apiKeyId,
    livemode: true,
    metric: 'calls',
    quantity: '1',
    createdAt: at,
    expiresAt: at,
    settledAt: at,
    settledQuantity: '1',
    isCounted: true,
  };
  await database.db.orm.insert(usageReservations).values(reservation);
  await archiveAll(id);
  expect(await keysIn(id)).not.toContain(idempotencyKey);
  const lost = async () => (await compare(database.db.orm, { orgId: id })).settlements.map((row) => row.id);
  expect(await lost()).toEqual([]);
  await database.db.orm
    .update(usageReservations)
    .set({ settleOccurredAt: new Date('2030-03-01T00:00:00Z') })
    .where(eq(usageReservations.orgId, id));
  expect(await lost()).toEqual([reservation.id]);
});

it('a lost file is written again while all its events are still in the database', async () => {
  const { id } = await used();
  const archive = await archiveUntil(id, async () => (await listArchives(database.db.orm, id)).length > 0);
  expect(archive).toMatchObject({ state: 'written' });
  rmSync(join(dir, archive.file));
  await archiveAll(id);
  await checkAll(id);
});

it('a repeat of an archived event is refused if it names its time, and counts again otherwise', async () => {
  const service = await startTestService(database.db, { env: { DEDUPE_HORIZON_MONTHS: '13' } });
  const { organization, product, key } = await createTenant(database.db);
  const occurredAt = '2030-01-15T12:00:00Z';
  const send = (more: object) =>
    sendUsage(service.url, key.secret, [usageEvent(product.slug, 'order 1', more)]);
  service.clock.set(occurredAt);
  expect(await send({ occurredAt })).toMatchObject({ status: 202, body: { accepted: 1 } });
  service.clock.set('2031-02-28T23:59:59Z');
  const known = await send({ occurredAt });
  expect(known).toMatchObject({ status: 422, body: { code: 'timestamp_out_of_range' } });
  expect(known.body.detail).toMatch(/after the receipt\.$/);
  expect(await send({})).toMatchObject({ status: 202, body: { accepted: 0, deduped: 1 } });

  service.clock.set('2031-03-01T00:00:00Z');
  expect(firstRemembered(13, service.clock.now())).toBe('2030-02-01');
  await archiveAll(organization.id);
  const forgotten = await send({ occurredAt });
  expect(forgotten).toMatchObject({ status: 422, body: { code: 'timestamp_out_of_range' } });
  expect(forgotten.body.detail).toMatch(/older than the 13 months for which idempotency keys are kept/);
  expect(await send({})).toMatchObject({ status: 202, body: { accepted: 1, deduped: 0 } });
  expect((await compare(database.db.orm, { orgId: organization.id })).totals).toEqual([]);
  expect((await sumsOf(organization.id)).totals).toMatchObject([
    { period: '2030-01-01', events: 1 },
    { period: '2031-03-01', events: 1 },
  ]);
  await service.stop();
});

it('the months within the horizon stay', () => {
  const at = Date.parse('2026-11-22T12:00:00Z');
  expect(firstRemembered(13, at)).toBe('2025-10-01');
  expect(firstRemembered(1, at)).toBe('2026-10-01');
  expect(firstRemembered(1, Date.parse('2027-01-31T23:59:59Z'))).toBe('2026-12-01');
});
