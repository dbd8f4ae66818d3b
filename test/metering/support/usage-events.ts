import { sql } from 'drizzle-orm';
import type { Database } from '../../../src/core/db/client.js';

export interface FilledEvents {
  orgId: string;
  productId: string;
  apiKeyId: string;
  livemode?: boolean;
  metric?: string;
  count: number;
  /** Prefix of the idempotency keys; an eight-digit number follows. */
  prefix: string;
  /** Time of the first event; each further event is `everyMs` later. */
  from: string;
  everyMs: number;
  /** SQL expression in `i`, the event's number from 0. */
  quantity?: string;
}

export async function fillUsage(db: Database, events: FilledEvents): Promise<void> {
  const { orgId, productId, apiKeyId, livemode = true, metric = 'calls', count, prefix } = events;
  await db.orm.execute(sql`
    insert into usage_events (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at)
    select ${orgId}::uuid, ${prefix}::text || lpad(i::text, 8, '0'), ${productId}::uuid, ${metric}, ${sql.raw(events.quantity ?? '1')}, ${livemode}, ${apiKeyId}::uuid, t, t
    from generate_series(0, ${count - 1}::int) i
    cross join lateral (select ${events.from}::timestamptz + i * make_interval(secs => ${events.everyMs / 1000}) as t) at`);
  await db.orm.execute(sql`delete from usage_totals where org_id = ${orgId}::uuid`);
  await db.orm.execute(sql`delete from usage_hours where org_id = ${orgId}::uuid`);
  await db.orm.execute(sql`
    insert into usage_totals (org_id, period, livemode, product_id, metric, quantity, events)
    select org_id, date_trunc('month', occurred_at at time zone 'UTC')::date, livemode, product_id, metric, sum(quantity), count(*)
    from usage_events where org_id = ${orgId}::uuid group by 1, 2, 3, 4, 5`);
  await db.orm.execute(sql`
    insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
    select org_id, product_id, livemode, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00'), metric, api_key_id, sum(quantity), count(*)
    from usage_events where org_id = ${orgId}::uuid group by 1, 2, 3, 4, 5, 6`);
}
