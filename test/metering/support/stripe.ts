import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import type { Database } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { toTexts, toUnits, type FakeStripe } from './fake-stripe.js';
import { createTenant } from './usage.js';

export interface Payer {
  orgId: string;
  slug: string;
  productId: string;
  productSlug: string;
  keyId: string;
  secret: string;
  customer: string;
  meter: string;
}

/**
 * Creates an Organization and a product that the fake Stripe knows. Usage from `since` onward must be sent to Stripe.
 */
export async function createPayer(
  db: Database,
  fake: Pick<FakeStripe, 'customers' | 'meters'>,
  since: string,
): Promise<Payer> {
  const { organization, product, key } = await createTenant(db);
  const customer = `cus_${uuid().replaceAll('-', '')}`;
  const meter = `meter-${product.slug}`;
  fake.customers.set(customer, { deleted: false });
  fake.meters.set(meter, {});
  await db.orm.execute(
    sql`update organizations set stripe_customer_id = ${customer}, stripe_since = ${since}::timestamptz where id = ${organization.id}::uuid`,
  );
  await db.orm.execute(
    sql`update products set stripe_meter_event = ${meter}, stripe_since = ${since}::timestamptz where id = ${product.id}::uuid`,
  );
  return {
    orgId: organization.id,
    slug: organization.slug,
    productId: product.id,
    productSlug: product.slug,
    keyId: key.id,
    secret: key.secret,
    customer,
    meter,
  };
}

/** Adds usage to an hour's total, as a flush or a correction does. */
export async function addToHour(
  db: Database,
  { orgId, productId, keyId }: Payer,
  { hour, quantity, livemode = true }: { hour: string; quantity: string; livemode?: boolean },
): Promise<void> {
  await db.orm
    .execute(sql`insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
    values (${orgId}::uuid, ${productId}::uuid, ${livemode}, ${hour}::timestamptz, 'calls', ${keyId}::uuid, ${quantity}::numeric, 1)
    on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
    do update set quantity = usage_hours.quantity + excluded.quantity, events = usage_hours.events + 1`);
}

interface EventRow {
  revision: number;
  state: string;
  quantity: string;
  attempts: number;
  lastError: string | null;
}

export const readEvents = (db: Database, orgId: string): Promise<EventRow[]> =>
  selectRows<EventRow>(
    db.orm,
    sql`select revision, state, trim_scale(quantity)::text as quantity, attempts, last_error as "lastError"
    from stripe_events where org_id = ${orgId}::uuid order by hour, livemode, revision`,
  );

/** Sums the usage that Gauge has counted, in the same form as the fake's sums. */
export async function sumHours(db: Database, orgId?: string): Promise<Record<string, string>> {
  const rows = await selectRows<{ key: string; quantity: string }>(
    db.orm,
    sql`select case when h.livemode then '' else 'test ' end || o.stripe_customer_id || ' ' || p.stripe_meter_event || ' '
        || to_char(h.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as key, trim_scale(sum(h.quantity))::text as quantity
    from usage_hours h join organizations o on o.id = h.org_id join products p on p.id = h.product_id
    where (${orgId ?? null}::uuid is null or h.org_id = ${orgId ?? null}::uuid) and p.stripe_meter_event is not null group by 1`,
  );
  return toTexts(new Map(rows.map(({ key, quantity }) => [key, toUnits(quantity)])));
}
