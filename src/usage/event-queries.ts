import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../core/db/client.js';
import { selectRows, timeText } from '../core/db/select-rows.js';
import type { UsageScope } from './page-queries.js';

/** One event as it was recorded, with the names of what it belongs to. */
export interface EventRow {
  idempotencyKey: string;
  occurredAt: string;
  receivedAt: string;
  quantity: string;
  metric: string;
  livemode: boolean;
  productSlug: string;
  productName: string;
  apiKeyId: string;
  keyName: string | null;
  keyPrefix: string | null;
}

/** `events` selects rows of `usage_events`; what they belong to is looked up for those alone. */
const withNames = (orgId: string, events: SQL, order: SQL): SQL => sql`
  select e.idempotency_key as "idempotencyKey", ${timeText(sql`e.occurred_at`)} as "occurredAt", ${timeText(sql`e.received_at`)} as "receivedAt",
    trim_scale(e.quantity)::text as quantity, e.metric, e.livemode, p.slug as "productSlug", p.name as "productName",
    e.api_key_id::text as "apiKeyId", k.name as "keyName", k.prefix as "keyPrefix"
  from (${events}) e
  cross join lateral (select slug, name from products where id = e.product_id limit 1) p
  left join lateral (select name, prefix from api_keys where org_id = ${orgId}::uuid and id = e.api_key_id limit 1) k on true
  ${order}`;

export const selectEvent = (orgId: string, idempotencyKey: string): SQL =>
  withNames(
    orgId,
    sql`select * from usage_events where org_id = ${orgId}::uuid and idempotency_key = ${idempotencyKey} limit 1`,
    sql``,
  );

export const findEvent = async (orm: Orm, orgId: string, key: string): Promise<EventRow | undefined> =>
  (await selectRows<EventRow>(orm, selectEvent(orgId, key)))[0];

/** Where a page of events begins: behind this one. */
export type EventPosition = Pick<EventRow, 'occurredAt' | 'idempotencyKey'>;

export interface EventRange {
  /** Times in UTC; undefined is without bound. */
  from: string | undefined;
  to: string | undefined;
  order: 'newest first' | 'oldest first';
  after: EventPosition | undefined;
  limit: number;
}

export function selectEvents({ orgId, productId, livemode }: UsageScope, range: EventRange): SQL {
  const { from, to, after, limit } = range;
  const isNewestFirst = range.order === 'newest first';
  const beyond = isNewestFirst ? sql`<` : sql`>`;
  const direction = isNewestFirst ? sql`desc` : sql`asc`;
  const conditions = [
    sql`org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode}`,
    from === undefined ? undefined : sql`occurred_at >= ${from}::timestamptz`,
    to === undefined ? undefined : sql`occurred_at < ${to}::timestamptz`,
    // The bound on the time alone is what the index can jump to.
    after && sql`occurred_at ${beyond}= ${after.occurredAt}::timestamptz`,
    after &&
      sql`(occurred_at, idempotency_key) ${beyond} (${after.occurredAt}::timestamptz, ${after.idempotencyKey})`,
  ];
  return withNames(
    orgId,
    sql`select * from usage_events where ${sql.join(
      conditions.filter((c) => c !== undefined),
      sql` and `,
    )}
      order by occurred_at ${direction}, idempotency_key ${direction} limit ${limit}`,
    sql`order by e.occurred_at ${direction}, e.idempotency_key ${direction}`,
  );
}

export const listEvents = (orm: Orm, scope: UsageScope, range: EventRange): Promise<EventRow[]> =>
  selectRows(orm, selectEvents(scope, range));
