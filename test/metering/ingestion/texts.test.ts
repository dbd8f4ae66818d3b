import { and, eq } from 'drizzle-orm';
import { beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { toBatch } from '../../../src/metering/ingestion/batch.js';
import { createFlushMemory, recordBatches } from '../../../src/metering/ingestion/flush.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { makeFaulty, type FaultyDatabase } from '../../support/faulty-database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { readUsage, sendUsage, usageEvent, type SendOptions } from '../support/usage.js';
import { useDatabase, useServiceOn } from '../../support/use.js';
import { createListener } from '../../support/webhook-messages.js';

const ALL_NEW = 'usage_ingest_new';
const PLAIN = 'usage_ingest';
const EXTENDED = 'usage_ingest_extended';
const MINUTE_MS = 60_000;

const database = useDatabase();
let faulty: FaultyDatabase;
let texts: string[] = [];
beforeAll(() => {
  faulty = makeFaulty(database.db);
  faulty.before = ({ name }) => {
    if ([ALL_NEW, PLAIN, EXTENDED].includes(name)) texts.push(name);
  };
});
beforeEach(() => void (texts = []));
const service = useServiceOn(() => faulty.db);
const other = useServiceOn(() => faulty.db);
/** Far from a month's end, which only one of the clocks might have passed. */
beforeAll(() => [service, other].forEach(({ clock }) => clock.set('2026-03-04T10:00:00Z')));

const limits = [{ quantity: '1', window: 'calendar_month', enforcement: 'warn' as const }];

/** Creates an Organization that is entitled to a plain product and to a product with a limit of 1. */
async function createTenant() {
  const organization = await createOrganization(database.db);
  const [plain, limited] = [await createProduct(database.db), await createProduct(database.db)];
  await grant(database.db, organization.id, plain.id);
  await grant(database.db, organization.id, limited.id, { limits });
  const { secret } = await createKey(database.db, organization.id);
  let sent = 0;
  return {
    organization,
    plain,
    limited,
    secret,
    event: ({ slug }: { slug: string }, more = {}) => usageEvent(slug, `e${sent++}`, more),
    setLimits: (productId: string, changed: typeof limits | null) =>
      database.db.orm
        .update(entitlements)
        .set({ limits: changed })
        .where(and(eq(entitlements.orgId, organization.id), eq(entitlements.productId, productId))),
    /** Sends events to an instance and returns the response and the names of the statements that were run. */
    send: async (events: unknown[], options: SendOptions = {}, instance = service) => {
      texts = [];
      const { status, body } = await sendUsage(instance.url, secret, events, options);
      const warnings = ((body.warnings ?? []) as { code: string }[]).map(({ code }) => code);
      return { status, body, warnings, texts };
    },
  };
}

it('limits that are added and removed between two flushes apply at once, and a minute later the statement is chosen again', async () => {
  const { organization, plain, event, setLimits, send } = await createTenant();
  const sendOne = async () => {
    const { status, warnings, texts } = await send([event(plain)]);
    expect(status).toBe(202);
    return { warnings, texts };
  };
  expect(await sendOne()).toEqual({ warnings: [], texts: [ALL_NEW] });
  await setLimits(plain.id, limits);
  expect(await sendOne()).toEqual({ warnings: ['limit_exceeded'], texts: [ALL_NEW, EXTENDED] });
  expect(await sendOne()).toEqual({ warnings: ['limit_exceeded'], texts: [EXTENDED] });
  await setLimits(plain.id, null);
  expect(await sendOne()).toEqual({ warnings: [], texts: [EXTENDED] });
  service.clock.advance(MINUTE_MS);
  expect(await sendOne()).toEqual({ warnings: [], texts: [ALL_NEW] });
  await setLimits(plain.id, limits);
  expect(await sendOne()).toEqual({ warnings: ['limit_exceeded'], texts: [ALL_NEW, EXTENDED] });
  service.clock.advance(MINUTE_MS);
  expect(await sendOne()).toEqual({ warnings: ['limit_exceeded'], texts: [ALL_NEW, EXTENDED] });
  expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: { length: 7 }, drift: [] });
});

it('an instance without the memory of another gives the same warnings', async () => {
  const { limited, event, send } = await createTenant();
  await send([event(limited)]);
  expect(await send([event(limited)])).toMatchObject({ warnings: ['limit_exceeded'], texts: [EXTENDED] });
  expect(await send([event(limited)], {}, other)).toMatchObject({
    warnings: ['limit_exceeded'],
    texts: [ALL_NEW, EXTENDED],
  });
});

it('an endpoint that begins to listen counts from the next flush on', async () => {
  const { organization, plain, event, send } = await createTenant();
  const noted = vi.spyOn(service.services.thresholds, 'noted');
  expect(await send([event(plain)])).toMatchObject({ texts: [ALL_NEW] });
  await createListener(database.db, organization.id, { types: ['entitlement.ending'] });
  await createListener(database.db, organization.id, { livemode: false });
  expect(await send([event(plain)])).toMatchObject({ texts: [ALL_NEW] });
  expect(noted).not.toHaveBeenCalled();
  await createListener(database.db, organization.id, { types: ['usage.threshold_reached'] });
  expect(await send([event(plain)])).toMatchObject({ texts: [ALL_NEW, EXTENDED] });
  expect(noted).toHaveBeenCalledTimes(1);
  noted.mockRestore();
});

it('a batch of plain and limited pairs is recorded as a whole, a dry run records nothing, and repeats are found', async () => {
  const { organization, plain, limited, event, send } = await createTenant();
  const events = [event(plain), event(limited, { quantity: 2 })];
  for (const options of [{ dryRun: true }, { dryRun: true, lenient: true }])
    expect(await send(events, options)).toMatchObject({
      status: 202,
      body: { accepted: 2, deduped: 0 },
      warnings: ['limit_exceeded'],
    });
  expect((await readUsage(database.db, organization.id)).keys).toEqual([]);
  expect(await send(events)).toMatchObject({
    body: { accepted: 2, deduped: 0 },
    warnings: ['limit_exceeded'],
    texts: [ALL_NEW, EXTENDED],
  });
  expect(await send(events, {}, other)).toMatchObject({ body: { accepted: 0, deduped: 2 } });
  const lenient = [event(plain), event(limited), event({ slug: 'unknown' })];
  other.clock.advance(MINUTE_MS);
  expect(await send(lenient, { lenient: true }, other)).toMatchObject({
    body: { accepted: 2, rejected: [{ index: 2, code: 'entitlement_required' }] },
    warnings: ['limit_exceeded'],
    texts: [ALL_NEW, EXTENDED],
  });
  other.clock.advance(MINUTE_MS);
  const strict = [event(plain), event(limited), event({ slug: 'unknown' })];
  const { body, texts } = await send(strict, {}, other);
  expect([body.code, body.errors.length, texts]).toEqual(['entitlement_required', 1, [ALL_NEW, EXTENDED]]);
  expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: { length: 4 }, drift: [] });
});

it('only the batches that need the extended statement are sent through it again, with those above a ceiling', async () => {
  const mine = await createTenant();
  const low = await createProduct(database.db, { maxQuantity: '10' });
  await grant(database.db, mine.organization.id, low.id);
  const nowMs = Date.now();
  const batch = (events: ReturnType<typeof usageEvent>[], isLenient = false) =>
    toBatch({
      events,
      exactQuantities: new Map(),
      hashedSecret: hashSecret(mine.secret),
      isLenient,
      receivedAtMs: nowMs,
      bytes: 1,
    });
  const { event, plain, limited } = mine;
  const flush = [
    batch([event(plain)]),
    batch([event(limited)]),
    batch([event(plain), event(limited)]),
    batch([event(limited), event(low, { quantity: 11 }), event({ slug: 'unknown' })], true),
    batch([event(low, { quantity: 11 })]),
    batch([event(limited), event({ slug: 'unknown' })]),
    batch([event(plain), event(low)], true),
  ];
  const rows: number[] = [];
  const { run } = await faulty.db.shards.locate(hashSecret(mine.secret));
  const memory = createFlushMemory();
  const outcomes = await recordBatches(
    (template, values) => {
      rows.push(String(values[4]).split(',').length);
      return run(template, values);
    },
    flush,
    nowMs,
    memory,
  );
  expect(texts).toEqual([ALL_NEW, EXTENDED, EXTENDED]);
  // The third statement repeats only the lenient batch with an event above the ceiling, without that event.
  expect(rows.slice(0, 2)).toEqual([12, 8]);
  expect(outcomes.map(({ aboveCeiling }) => [...aboveCeiling])).toEqual([
    [],
    [],
    [],
    [[1, '10']],
    [[0, '10']],
    [],
    [],
  ]);
  const answered = outcomes.filter(
    ({ verdicts }, i) => flush[i]!.isLenient || !verdicts.some((v) => v?.problem),
  );
  expect(answered.map(({ overLimit }) => overLimit.length)).toEqual([0, 1, 1, 1, 0]);
  expect(outcomes.flatMap(({ repeats }) => repeats)).toEqual([]);
  expect(await readUsage(database.db, mine.organization.id)).toMatchObject({
    keys: { length: 1 + 1 + 2 + 1 + 2 },
    drift: [],
  });
  texts = [];
  await recordBatches(run, [batch([event(plain)])], nowMs, memory);
  await recordBatches(run, [batch([event(plain)]), batch([event(limited)])], nowMs, memory);
  expect(texts).toEqual([ALL_NEW, EXTENDED]);
});

it('a repeat switches to the statement that finds repeats, until a minute after the last one', async () => {
  const { organization, plain, event, send } = await createTenant();
  const [a, b] = [event(plain), event(plain)];
  const sendTexts = async (events: unknown[]) => {
    const { status, body, texts } = await send(events);
    expect(status).toBe(202);
    return [body.accepted, body.deduped, ...texts];
  };
  service.clock.advance(MINUTE_MS);
  expect(await sendTexts([a])).toEqual([1, 0, ALL_NEW]);
  expect(await sendTexts([a, b])).toEqual([1, 1, ALL_NEW, PLAIN]);
  expect(await sendTexts([event(plain)])).toEqual([1, 0, PLAIN]);
  service.clock.advance(MINUTE_MS - 1);
  expect(await sendTexts([b])).toEqual([0, 1, PLAIN]);
  service.clock.advance(MINUTE_MS - 1);
  expect(await sendTexts([event(plain)])).toEqual([1, 0, PLAIN]);
  service.clock.advance(1);
  const twice = event(plain);
  expect(await sendTexts([event(plain)])).toEqual([1, 0, ALL_NEW]);
  expect(await sendTexts([twice, twice])).toEqual([1, 1, ALL_NEW, PLAIN]);
  expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: { length: 6 }, drift: [] });
});
