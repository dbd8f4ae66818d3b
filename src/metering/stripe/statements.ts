import type { Template } from '../../core/db/client.js';

/** Significant digits that Stripe accepts. A later revision carries the rest. */
const MAX_DIGITS = 15;
/** Decimal places. Smaller differences are not sent. */
const MAX_SCALE = 12;

/** The part that one meter event can carry; null if it is too small. */
const sendable = (difference: string): string => `case when abs(${difference}) >= 1e-${MAX_SCALE}
    then trunc(${difference}, least(${MAX_SCALE}, ${MAX_DIGITS - 1} - floor(log(abs(${difference}))))::int) end`;

/**
 * Hours and revisions are read in one snapshot, and the second of two equal revisions is dropped, so an hour's
 * revisions always add up to a total that it really had. Returns the page's last Organization (null on an empty page)
 * and the number of revisions.
 * $1 now, $2 first hour, $3 end of the last hour, $4 livemode, $5 Organization before the page, $6 Organizations
 */
export const planEvents: Template = {
  name: 'stripe_plan',
  text: (t) => `
${t.with} customer as materialized (
  select o.id, o.stripe_customer_id, o.stripe_since from ${t('organizations')} o${t.held}
  where o.stripe_customer_id is not null and o.id > $5::uuid
  order by o.id
  limit $6::int
), planned as (
  insert into ${t('stripe_events')}
    (org_id, product_id, livemode, hour, revision, metric, quantity, customer_id, event_name, planned_at, next_attempt_at)
  select c.id, p.id, $4::bool, h.hour, l.revision + 1, p.usage_metric, d.quantity, c.stripe_customer_id, p.stripe_meter_event,
    $1::timestamptz, $1::timestamptz
  from customer c
  cross join ${t('products')} p
  cross join lateral (
    select hour, coalesce(sum(quantity) filter (where metric = p.usage_metric), 0) as quantity
    from ${t('usage_hours')}
    where org_id = c.id and product_id = p.id and livemode = $4::bool
      and hour >= greatest(c.stripe_since, p.stripe_since, $2::timestamptz) and hour < $3::timestamptz
    group by hour
  ) h
  cross join lateral (
    select coalesce(max(revision), 0) as revision,
      coalesce(sum(quantity) filter (where metric = p.usage_metric and state <> 'missing'), 0) as quantity
    from ${t('stripe_events')}
    where org_id = c.id and product_id = p.id and livemode = $4::bool and hour = h.hour
  ) l
  cross join lateral (select h.quantity - l.quantity as exact) e
  cross join lateral (select ${sendable('e.exact')} as quantity) d
  where p.stripe_meter_event is not null and d.quantity <> 0
  order by 1, 2, 3, 4, 5
  on conflict (org_id, product_id, livemode, hour, revision) do nothing
  returning 1
)
select (select max(id::text collate "C") from customer) as last, (select count(*) from planned)::text as planned`,
};

const isSame = (a: string, b: string): string =>
  ['org_id', 'product_id', 'livemode', 'hour', 'revision'].map((c) => `${a}.${c} = ${b}.${c}`).join(' and ');

/**
 * Before anything is sent, records since when a row's outcome is unknown. Unknown for too long, a row changes to
 * `unknown` and is never sent again. Until a row is first sent, its customer and meter follow changes.
 * $1 now, $2 end of the lease, $3 latest `unknown_since` that must not be sent again, $4 livemode, $5 rows
 */
export const claimEvents: Template = {
  name: 'stripe_claim',
  text: (t) => `
${t.with} due as materialized (
  select e.org_id, e.product_id, e.livemode, e.hour, e.revision, e.unknown_since is null as is_first
  from ${t('stripe_events')} e${t.held}
  where e.state = 'waiting' and e.livemode = $4::bool and e.next_attempt_at <= $1::timestamptz
  order by e.next_attempt_at
  limit $5::int
  for update of e skip locked
), claimed as (
  update ${t('stripe_events')} e set
    state = case when e.unknown_since <= $3::timestamptz then 'unknown' else 'waiting' end,
    attempts = e.attempts + 1,
    next_attempt_at = $2::timestamptz,
    unknown_since = coalesce(e.unknown_since, $1::timestamptz),
    last_error = case when e.unknown_since <= $3::timestamptz then coalesce(e.last_error, 'Stripe did not answer') else e.last_error end,
    customer_id = case when d.is_first then coalesce((select stripe_customer_id from ${t('organizations')} where id = e.org_id), e.customer_id) else e.customer_id end,
    event_name = case when d.is_first then coalesce((select stripe_meter_event from ${t('products')} where id = e.product_id), e.event_name) else e.event_name end
  from due d
  where ${isSame('e', 'd')}
  returning e.*, d.is_first
)
select org_id::text as "orgId", product_id::text as "productId", livemode::text,
  to_char(hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as hour, revision::text, trim_scale(quantity)::text as quantity,
  customer_id as "customerId", event_name as "eventName", state, attempts::text, is_first::text as "isFirst"
from claimed order by hour, revision`,
};

export interface ClaimRow {
  orgId: string;
  productId: string;
  livemode: string;
  /** RFC 3339 in UTC. */
  hour: string;
  revision: string;
  quantity: string;
  customerId: string;
  eventName: string;
  state: 'waiting' | 'unknown';
  attempts: string;
  /** No earlier attempt has an unknown outcome. */
  isFirst: string;
}

/**
 * Once its lease has expired, an instance may report only that Stripe has the event.
 * $1 org, $2 product, $3 livemode, $4 hour, $5 revision, $6 attempts, $7 now, $8 state, $9 next attempt, $10 reason or
 * null, $11 whether every outcome is now known
 */
export const recordOutcome: Template = {
  name: 'stripe_outcome',
  text: (t) => `
${t.with} done as (
  update ${t('stripe_events')} e set
    state = $8::text,
    sent_at = case when $8::text = 'sent' then $7::timestamptz end,
    next_attempt_at = $9::timestamptz,
    last_error = $10::text,
    unknown_since = case when not $11::bool then e.unknown_since end
  from (select 1 as one) x${t.held}
  where e.org_id = $1::uuid and e.product_id = $2::uuid and e.livemode = $3::bool and e.hour = $4::timestamptz and e.revision = $5::int
    and (e.state = 'waiting' and e.attempts = $6::int or $8::text = 'sent' and e.state in ('waiting', 'unknown'))
  returning 1
)
select count(*)::text as done from done`,
};

/** Waiting rows, and rows for a person to decide, up to $2 of each. $1 livemode */
export const countOpen: Template = {
  name: 'stripe_count',
  text: (t) => `
${t.with} waiting as (
  select 1 from ${t('stripe_events')} e${t.held} where e.state = 'waiting' and e.livemode = $1::bool limit $2::int
), unresolved as (
  select 1 from ${t('stripe_events')} e where e.state = 'unknown' and e.livemode = $1::bool limit $2::int
)
select (select count(*) from waiting)::text as waiting, (select count(*) from unresolved)::text as unresolved`,
};
