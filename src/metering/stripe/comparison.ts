import { sql, type SQL } from 'drizzle-orm';
import { byService, change, recordAudit } from '../../accounts/audit/audit.js';
import type { Orm } from '../../core/db/client.js';
import { queryRow, queryRows } from '../../core/db/sql.js';
import { exact } from '../../core/http/json.js';
import { modeOf, toTable } from '../../core/text-table.js';
import { HOUR_MS, type Clock } from '../../core/time.js';
import { identifierOf, type EventKey } from './stripe.js';

const MAX_ROWS = 1000;
/** An hour of this age has been compared, and most of its late events have arrived. */
const SETTLED_AFTER_MS = 1.5 * HOUR_MS;

/** The hour is RFC 3339 in UTC. */
interface Difference extends Record<
  'organization' | 'product' | 'hour' | 'total' | 'carried' | 'difference',
  string
> {
  livemode: boolean;
  count: number;
}

/** Times are RFC 3339 in UTC. */
export interface UnknownEvent
  extends EventKey, Record<'organization' | 'product' | 'quantity' | 'customerId' | 'unknownSince', string> {
  livemode: boolean;
  lastError: string | null;
  count: number;
}

const rfc3339 = (time: string): SQL =>
  sql.raw(`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`);

const isIn = (orgId: string | undefined, column: string): SQL =>
  orgId === undefined ? sql`true` : sql`${sql.raw(column)} = ${orgId}::uuid`;

/** In modes in which usage was ever sent. */
const findDifferences = (orm: Orm, before: Date, orgId: string | undefined): Promise<Difference[]> =>
  queryRows(orm)`with counted as (
      select h.org_id, h.product_id, h.livemode, h.hour, h.metric, sum(h.quantity) as quantity
      from usage_hours h
      join organizations o on o.id = h.org_id
      join products p on p.id = h.product_id
      where o.stripe_customer_id is not null and p.stripe_meter_event is not null and h.metric = p.usage_metric
        and h.hour >= o.stripe_since and h.hour >= p.stripe_since and h.hour < ${before.toISOString()}::timestamptz
        and ${isIn(orgId, 'h.org_id')}
      group by 1, 2, 3, 4, 5
    ), ledger as (
      select org_id, product_id, livemode, hour, metric, sum(quantity) as quantity
      from stripe_events where state <> 'missing' and ${isIn(orgId, 'org_id')}
      group by 1, 2, 3, 4, 5
    ), different as (
      select c.org_id, c.product_id, c.livemode, c.hour, c.quantity as total, coalesce(l.quantity, 0) as carried
      from counted c
      left join ledger l on l.org_id = c.org_id and l.product_id = c.product_id and l.livemode = c.livemode
        and l.hour = c.hour and l.metric = c.metric
      where abs(c.quantity - coalesce(l.quantity, 0)) >= 1e-12
    )
    select o.slug as organization, p.slug as product, d.livemode, ${rfc3339('d.hour')} as hour,
      trim_scale(d.total)::text as total, trim_scale(d.carried)::text as carried,
      trim_scale(d.total - d.carried)::text as difference, (count(*) over ())::int as count
    from different d
    join organizations o on o.id = d.org_id
    join products p on p.id = d.product_id
    where d.livemode in (select livemode from stripe_events)
    order by 1, 2, 3, 4
    limit ${MAX_ROWS}`;

/** A person must decide these. Oldest first. */
export const listUnknown = (orm: Orm, orgId: string | undefined): Promise<UnknownEvent[]> =>
  queryRows(orm)`
    select e.org_id::text as "orgId", e.product_id::text as "productId", ${rfc3339('e.hour')} as hour,
      e.revision::text as revision, o.slug as organization, p.slug as product, e.livemode,
      trim_scale(e.quantity)::text as quantity, e.customer_id as "customerId",
      ${rfc3339('e.unknown_since')} as "unknownSince", e.last_error as "lastError", (count(*) over ())::int as count
    from stripe_events e
    join organizations o on o.id = e.org_id
    join products p on p.id = e.product_id
    where e.state = 'unknown' and ${isIn(orgId, 'e.org_id')}
    order by e.hour, 1, 2, 4
    limit ${MAX_ROWS}`;

export interface StripeProblem {
  organization: string;
  product: string;
  /** A person must decide. */
  isUnknown: boolean;
  reason: string;
}

export const findStripeProblem = (orm: Orm, column: 'org_id' | 'product_id', id: string) =>
  queryRow(orm)<StripeProblem>`
    select o.name as organization, p.name as product, e.state = 'unknown' as "isUnknown", e.last_error as reason
    from stripe_events e
    join organizations o on o.id = e.org_id
    join products p on p.id = e.product_id
    where e.${sql.raw(column)} = ${id}::uuid and e.last_error is not null
    order by e.planned_at desc
    limit 1`;

/** A missing event's quantity is sent in a later revision. False if the event did not wait for a decision. */
export async function decideUnknown(orm: Orm, clock: Clock, identifier: string, state: 'sent' | 'missing') {
  const [, orgId, productId, day, hour, revision] =
    /^([\da-f]{32})_([\da-f]{32})_(\d{8})(\d{2})_(\d{1,9})$/.exec(identifier) ?? [];
  if (orgId === undefined) return false;
  return change({ db: { orm }, clock }, byService, async (tx) => {
    const at = new Date(clock.now());
    const decided = await queryRow(tx)<{ orgId: string }>`
      update stripe_events set state = ${state}, unknown_since = null, last_error = null,
        sent_at = case when ${state} = 'sent' then ${at.toISOString()}::timestamptz end
      where org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = any ('{f,t}'::bool[])
        and hour = ${`${day} ${hour}:00Z`}::timestamptz and revision = ${revision}::int and state = 'unknown'
      returning org_id::text as "orgId"`;
    if (!decided) return false;
    await recordAudit(tx, decided.orgId, {
      at,
      action: 'usage.stripe_decided',
      actor: 'system',
      target: identifier,
      details: { state },
    });
    return true;
  });
}

export async function compareStripe(orm: Orm, clock: Clock, orgId: string | undefined) {
  const before = new Date(Math.floor((clock.now() - SETTLED_AFTER_MS) / HOUR_MS) * HOUR_MS);
  const differences = await findDifferences(orm, before, orgId);
  const unknown = await listUnknown(orm, orgId);
  return {
    text: [...differencesText(differences), ...unknownText(unknown)].map((line) => `\n${line}`).join(''),
    json: {
      stripe: {
        differences: differences.map(({ count: _count, total, carried, difference, ...row }) => ({
          ...row,
          total: exact(total),
          carried: exact(carried),
          difference: exact(difference),
        })),
        unknown: unknown.map(({ organization, product, livemode, quantity, ...row }) => ({
          identifier: identifierOf(row),
          organization,
          product,
          livemode,
          quantity: exact(quantity),
          unknownSince: row.unknownSince,
        })),
      },
    },
    isEqual: differences.length + unknown.length === 0,
  };
}

const place = { organization: 'organization', product: 'product', hour: 'hour', mode: modeOf } as const;

const differencesText = (rows: Difference[]): string[] =>
  toTable('Hours that differ from their meter events for Stripe', rows, {
    texts: place,
    numbers: { total: 'total', 'in meter events': 'carried', difference: 'difference' },
  });

export const unknownText = (rows: UnknownEvent[]): string[] =>
  toTable('Meter events that Stripe may or may not have', rows, {
    texts: { ...place, customer: 'customerId', identifier: identifierOf },
    numbers: { quantity: 'quantity' },
  });
