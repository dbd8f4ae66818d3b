import { createHash } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { v5 as uuidOf } from 'uuid';
import { hashSecret } from '../../accounts/api-keys/bearer-key.js';
import {
  CALLS_KEPT_MS,
  recordUse,
  toUseValues,
  type MinuteCalls,
} from '../../accounts/api-keys/key-use-queries.js';
import type { Orm, Run } from '../../core/db/client.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, monthOf } from '../../core/time.js';
import type { DemoData } from '../../demo/demo.js';
import { toBatch } from '../ingestion/batch.js';
import { recordBatches } from '../ingestion/flush.js';
import { createCapNotices, type NoticeDeps } from '../notices/notices.js';
import type { UsageEvent } from '../ingestion/schema.js';

const DAYS = 70;
/** Usage since an age in days and the hours between its events: few at first, so that the demo starts quickly. */
const phases = [
  { days: 28, hours: 3 },
  { days: 1, hours: 2 },
  { days: 0, hours: 1 },
];
/** Ingestion refuses older events, and notices have the time of their batch. */
const BATCH_MS = 2 * DAY_MS;
const BATCH = 250;
const RECEIPTS = '5e0f4a3c-3b1d-4d6e-9a55-6f1f0a3c7d21';

interface DemoKey {
  secret: string;
  /** Share of a cap, or of the hourly usage of a product without a cap. */
  share: number;
  /** Default: all. */
  products?: string[];
}

/** Ten weeks through normal ingestion. One product comes close to its cap in each month. */
export async function seedDemoUsage(
  deps: NoticeDeps,
  demo: Pick<DemoData, 'keys' | 'products'>,
  signal?: AbortSignal,
): Promise<void> {
  const { db, clock } = deps;
  const now = clock.now();
  const keys = listKeys(demo.keys).map((key) => ({
    key,
    hashedSecret: hashSecret(key.secret),
    events: makeEvents(demo, key, now),
  }));
  const batches = keys.flatMap(({ hashedSecret, events: all }) =>
    [...inBatches(all)].map((events) => {
      const receivedAtMs = Date.parse(events.at(-1)!.occurredAt!);
      const given = { exactQuantities: new Map<number, string>(), isLenient: false, bytes: 0 };
      return toBatch({ ...given, events, hashedSecret, receivedAtMs });
    }),
  );
  // Credits burn in chronological order.
  const report = (nowMs: number) => createCapNotices({ ...deps, clock: { now: () => nowMs } })();
  for (const batch of batches.toSorted((a, b) => a.receivedAtMs - b.receivedAtMs)) {
    signal?.throwIfAborted();
    const { run } = await db.shards.locate(batch.hashedSecret);
    await recordBatches(run, [batch], batch.receivedAtMs);
    await report(batch.receivedAtMs);
  }
  for (const { key, hashedSecret, events } of keys) {
    const { run } = await db.shards.locate(hashedSecret);
    await recordCalls(run, key, hashedSecret, events, now);
  }
  await spreadReceipts(db.orm, now);
}

/**
 * One to four seconds after the event. Hour and receipt identify an event's entries, because no batch has two events of
 * a product in the same hour.
 */
const spreadReceipts = (orm: Orm, now: number): Promise<unknown> =>
  orm.execute(sql`with event as materialized (
      select *, occurred_at + make_interval(secs => 1 + abs(hashtext(idempotency_key)::bigint) % 3000 / 1000.0) as arrived_at
      from usage_events where idempotency_key like 'req\\_%' and received_at < ${new Date(now).toISOString()}::timestamptz
    ), burnt as (
      update credit_entries e set at = v.arrived_at from event v
      where e.kind = 'burn' and e.org_id = v.org_id and e.livemode = v.livemode and e.product_id = v.product_id
        and e.at = v.received_at and e.hour = date_trunc('hour', v.occurred_at, 'UTC')
    )
    update usage_events e set received_at = v.arrived_at from event v
    where e.org_id = v.org_id and e.idempotency_key = v.idempotency_key`);

function listKeys({ live, otherLive, test, second, others = [] }: DemoData['keys']): DemoKey[] {
  const keys = [
    { secret: live, share: otherLive === undefined ? 1 : 0.64 },
    { secret: otherLive, share: 0.36 },
    { secret: test, share: 0.05 },
    { secret: second, share: 0.5, products: ['forecast-api'] },
    ...others,
  ];
  return keys.flatMap(({ secret, ...key }) => (secret === undefined ? [] : [{ secret, ...key }]));
}

/** Each batch spans at most `BATCH_MS` and one month, because grants of credits begin and end with months. */
function* inBatches(events: UsageEvent[]): Generator<UsageEvent[]> {
  let from = 0;
  for (const [i, { occurredAt }] of events.entries()) {
    const [firstMs, ms] = [Date.parse(events[from]!.occurredAt!), Date.parse(occurredAt!)];
    if (ms - firstMs <= BATCH_MS && monthOf(ms) === monthOf(firstMs) && i - from < BATCH) continue;
    yield events.slice(from, i);
    from = i;
  }
  if (from < events.length) yield events.slice(from);
}

export function makeEvents(
  { products }: Pick<DemoData, 'products'>,
  key: Omit<DemoKey, 'secret'>,
  now: number,
): UsageEvent[] {
  const thisHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const used = products.filter(({ kind, slug }) => kind === 'live' && (key.products?.includes(slug) ?? true));
  const events: UsageEvent[] = [];
  for (let at = thisHour - DAYS * DAY_MS; at <= thisHour;) {
    const stepMs = stepAt(at, thisHour);
    for (const [p, { slug, usageMetric, unitCap, dimensions }] of used.entries()) {
      const place = at / HOUR_MS + p * 0.37 + key.share * 11;
      const growth = 1 - (0.3 * (now - at)) / (DAYS * DAY_MS);
      const quantity = Math.round(
        usageOf(unitCap, at, stepMs, key.share) * growth * (1 + 0.3 * wobble(place)),
      );
      if (quantity === 0) continue;
      const occurredMs = at + Math.floor(hashOf(place) * 0.98 * stepMs);
      if (occurredMs > now - MINUTE_MS) continue;
      events.push({
        productSlug: slug,
        metric: usageMetric,
        quantity,
        occurredAt: new Date(occurredMs).toISOString(),
        idempotencyKey: `req_${createHash('sha256').update(`${slug} ${at} ${key.share}`).digest('hex').slice(0, 20)}`,
        ...(dimensions ? describeUse(hashOf(place * 1.7)) : {}),
      });
    }
    at += stepMs;
  }
  return events.sort((a, b) => a.occurredAt!.localeCompare(b.occurredAt!));
}

/** Twice as long on weekends. */
function stepAt(at: number, thisHour: number): number {
  const { hours } = phases.find(({ days }) => thisHour - at >= days * DAY_MS)!;
  return (isWeekend(at) ? 2 : 1) * hours * HOUR_MS;
}

/** With a cap, usage almost reaches it by the end of each month. */
function usageOf(unitCap: string | null, at: number, stepMs: number, share: number): number {
  let sum = 0;
  for (let hour = at; hour < at + stepMs; hour += HOUR_MS) {
    const perHour = unitCap === null ? 2_400 : (Number(unitCap) * 1.03) / hoursOfMonth(hour);
    sum += perHour * share * dayShape(hour) * weekShape(hour);
  }
  return sum;
}

function hoursOfMonth(ms: number): number {
  const start = Date.parse(monthOf(ms));
  const at = new Date(start);
  return (Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1) - start) / HOUR_MS;
}

/** One call for each event and many checks, by the hour, with a few refused ones. The last calls share a minute with the last event. */
async function recordCalls(
  run: Run,
  { share, products }: DemoKey,
  hashedSecret: string,
  events: readonly UsageEvent[],
  now: number,
): Promise<void> {
  const lastMs = Date.parse(events.at(-1)!.occurredAt!);
  const lastHour = Math.floor(lastMs / HOUR_MS) * HOUR_MS;
  const minutes: MinuteCalls[] = [];
  for (let hour = lastHour - DAYS * DAY_MS; hour <= lastHour; hour += HOUR_MS) {
    const n = hour / HOUR_MS + share * 11;
    const calls = Math.round(26 * share * dayShape(hour) * weekShape(hour) * (1 + 0.3 * wobble(n)));
    const chance = hashOf(n);
    const unscoped = chance > 0.985 ? 1 : 0;
    const limited = chance < 0.02 && !products ? 2 : 0;
    minutes.push({ minuteMs: hour, calls, ended: 0, unscoped, limited });
  }
  const last = minutes.at(-1)!;
  last.minuteMs = lastMs - (lastMs % MINUTE_MS);
  last.calls = Math.max(1, last.calls);
  const calls = minutes.reduce((sum, minute) => sum + minute.calls, 0);
  const scopes = new Map([
    ['usage:write' as const, { calls: events.length, atMs: lastMs }],
    ['entitlements:read' as const, { calls: calls - events.length, atMs: lastMs - 4 * MINUTE_MS }],
  ]);
  const kept = minutes.filter(({ minuteMs }) => minuteMs >= lastHour - CALLS_KEPT_MS + DAY_MS);
  // The same at each start, so that repeating the statement counts nothing twice.
  const id = uuidOf(hashedSecret, RECEIPTS);
  await run(recordUse, toUseValues(id, now, [[hashedSecret, { atMs: lastMs, minutes: kept, scopes }]]));
}

/** @param chance from 0 to 1 */
const describeUse = (chance: number): Pick<UsageEvent, 'subject' | 'dimensions'> => ({
  subject: chance < 0.35 ? 'planning-team' : 'app-team',
  dimensions: { model: chance > 0.1 && chance < 0.5 ? 'large' : 'small' },
});

/** Around 1; highest at 15:00 UTC. */
const dayShape = (ms: number): number => 1 + 0.6 * Math.sin(((((ms / HOUR_MS) % 24) - 9) / 24) * 2 * Math.PI);

/** Around 1. */
const weekShape = (ms: number): number => (isWeekend(ms) ? 0.65 : 1.14);

const isWeekend = (ms: number): boolean => [0, 6].includes(new Date(ms).getUTCDay());

/** From −1 to 1, and deterministic, so demos created in the same hour are identical. */
const wobble = (n: number): number => Math.sin(n * 12.9898) * Math.cos(n * 4.1414);

/** From 0 to 1, and deterministic. */
const hashOf = (n: number): number => Math.abs(Math.sin(n * 78.233) * 43_758.545) % 1;
