import type { KeyUse } from '../../accounts/api-keys/key-use.js';
import { hashSecret } from '../../accounts/api-keys/bearer-key.js';
import type { Context } from '../../core/http/context.js';
import { toBatch } from '../ingestion/batch.js';
import { recordBatches } from '../ingestion/flush.js';
import type { UsageEvent } from '../ingestion/schema.js';
import type { DemoData } from '../../demo/demo.js';
import { inChunks } from '../../core/steps.js';
import { MINUTE_MS, HOUR_MS } from '../../core/time.js';

/** The oldest time allowed for an event, minus the hour that has begun. */
const HOURS = 7 * 24 - 1;
const BATCH = 250;

/** Sends seven days of demo usage through normal ingestion: more by day, one product near its cap. Marks keys as used. */
export async function seedDemoUsage(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  keyUse: KeyUse,
  demo: Pick<DemoData, 'keys' | 'products'>,
  signal?: AbortSignal,
): Promise<void> {
  const now = clock.now();
  for (const [secret, share] of [
    [demo.keys.live, 1],
    [demo.keys.test, 0.05],
  ] as const) {
    for (const events of inChunks(makeEvents(demo, now, share), BATCH)) {
      signal?.throwIfAborted();
      const batch = toBatch({
        events,
        exactQuantities: new Map(),
        hashedSecret: hashSecret(secret),
        isLenient: false,
        receivedAtMs: now,
        bytes: 0,
      });
      const { run } = await db.shards.locate(batch.hashedSecret);
      await recordBatches(run, [batch], now);
      keyUse.touch(batch.hashedSecret, 'usage:write');
    }
  }
  await keyUse.flush();
}

function makeEvents(
  { products }: Pick<DemoData, 'keys' | 'products'>,
  now: number,
  share: number,
): UsageEvent[] {
  const thisHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const used = products.filter(({ kind }) => kind === 'live');
  const events: UsageEvent[] = [];
  for (let ago = HOURS; ago >= 0; ago--) {
    const hour = thisHour - ago * HOUR_MS;
    for (const [p, { slug, usageMetric, unitCap, dimensions }] of used.entries()) {
      // Uncapped products get more usage; capped ones come close to their cap in seven days.
      const perHour = unitCap === null ? 2_400 : (Number(unitCap) * 0.84) / HOURS;
      const shape = dayShape(hour) * weekShape(hour) * (1 + 0.35 * wobble(ago * 7 + p));
      const quantity = Math.round(perHour * share * shape);
      if (quantity === 0) continue;
      events.push({
        productSlug: slug,
        metric: usageMetric,
        quantity,
        occurredAt: new Date(Math.min(hour + (ago % 59) * MINUTE_MS, now)).toISOString(),
        idempotencyKey: `demo-${slug}-${hour / HOUR_MS}-${share}`,
        ...(dimensions ? describeUse(ago) : {}),
      });
    }
  }
  return events;
}

/** One team prefers the large model. */
const describeUse = (ago: number): Pick<UsageEvent, 'subject' | 'dimensions'> => ({
  subject: ago % 3 === 0 ? 'planning-team' : 'app-team',
  dimensions: { model: ago % 3 === 0 || ago % 7 === 0 ? 'large' : 'small' },
});

/** Around 1, highest at 15:00 UTC and lowest at 3:00. */
const dayShape = (ms: number): number => 1 + 0.6 * Math.sin(((((ms / HOUR_MS) % 24) - 9) / 24) * 2 * Math.PI);

/** Around 1, lower at the weekend. */
const weekShape = (ms: number): number => ([0, 6].includes(new Date(ms).getUTCDay()) ? 0.65 : 1.14);

/** Deterministic, from −1 to 1, so demos created in the same hour are identical. */
const wobble = (n: number): number => Math.sin(n * 12.9898) * Math.cos(n * 4.1414);
