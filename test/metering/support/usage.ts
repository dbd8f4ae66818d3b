import type { Database } from '../../../src/core/db/client.js';
import { ANY_QUANTITY, createProduct, grant } from './products.js';
import { createKey, createOrganization } from '../../support/fixtures.js';

export interface UsageReply {
  status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read many different fields of a response
  body: any;
  headers: Headers;
}

export interface SendOptions {
  lenient?: boolean;
  dryRun?: boolean;
}

export async function sendUsage(
  url: string,
  secret: string,
  events: unknown[],
  { lenient, dryRun }: SendOptions = {},
): Promise<UsageReply> {
  const response = await fetch(`${url}/api/usage/events${dryRun ? '?dryRun=true' : ''}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      ...(lenient ? { prefer: 'handling=lenient' } : {}),
    },
    body: JSON.stringify({ events }),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
}

export const usageEvent = (productSlug: string, idempotencyKey: string, more: object = {}) => ({
  productSlug,
  metric: 'calls',
  idempotencyKey,
  ...more,
});

export async function createTenant(db: Database, unitCap: string | null = null) {
  const organization = await createOrganization(db);
  const product = await createProduct(db, { unitCap, maxQuantity: ANY_QUANTITY });
  await grant(db, organization.id, product.id);
  const key = await createKey(db, organization.id);
  return { organization, product, key };
}

interface RecordedEvent {
  key: string;
  quantity: string;
  productId: string;
  livemode: string;
  occurredAt: string;
}

/**
 * Reads an Organization's recorded events and all its sums. `drift` lists sums that differ from their events and
 * corrections.
 */
export async function readUsage(db: Database, orgId: string) {
  const events = await db.run<RecordedEvent>(
    {
      name: 'test_usage_events',
      text: `select idempotency_key as key, trim_scale(quantity)::text as quantity, product_id::text as "productId", livemode::text, occurred_at::text as "occurredAt"
from usage_events where org_id = $1 order by idempotency_key`,
    },
    [orgId],
  );
  const drift = await db.run(
    {
      name: 'test_usage_drift',
      text: `
with event as (select *, date_trunc('month', occurred_at at time zone 'UTC')::date as period, date_trunc('hour', occurred_at at time zone 'UTC') as hour_utc
  from (
    select livemode, product_id, metric, api_key_id, occurred_at, quantity, 1 as one from usage_events where org_id = $1
    union all
    select livemode, product_id, metric, api_key_id, occurred_at, quantity - previous_quantity, 0 from usage_corrections where org_id = $1
  ) counted)
(select period::text, livemode::text, product_id::text, metric, sum(quantity) as quantity, sum(one) as events from event group by 1, 2, 3, 4
 except all select period::text, livemode::text, product_id::text, metric, quantity, events from usage_totals where org_id = $1)
union all
(select period::text, livemode::text, product_id::text, metric, quantity, events from usage_totals where org_id = $1
 except all select period::text, livemode::text, product_id::text, metric, sum(quantity), sum(one) from event group by 1, 2, 3, 4)
union all
(select concat(hour_utc, api_key_id), livemode::text, product_id::text, metric, sum(quantity), sum(one) from event group by 1, 2, 3, 4
 except all select concat(hour at time zone 'UTC', api_key_id), livemode::text, product_id::text, metric, quantity, events from usage_hours where org_id = $1)
union all
(select concat(hour at time zone 'UTC', api_key_id), livemode::text, product_id::text, metric, quantity, events from usage_hours where org_id = $1
 except all select concat(hour_utc, api_key_id), livemode::text, product_id::text, metric, sum(quantity), sum(one) from event group by 1, 2, 3, 4)`,
    },
    [orgId],
  );
  return { events, keys: events.map(({ key }) => key), drift };
}
