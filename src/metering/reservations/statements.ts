import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import type { Names, Template } from '../../core/db/client.js';
import { countedDimensions, needsListing, OTHER_SQL } from '../entitlements/dimensions.js';
import { effectiveCap } from '../entitlements/table.js';
import { totalAround } from '../ingestion/headroom.js';
import { NEEDS_COMBINATION, NEEDS_PRICED } from '../ingestion/pair.js';
import { addToSums } from '../ingestion/sums.js';
import { reservationEnds, type usageReservations } from '../ingestion/table.js';
import type { ReservationStatus } from './table.js';

const columns = (
  r: string,
  product: string,
) => `${r}.id::text, ${product}.slug as "productSlug", ${r}.metric, trim_scale(${r}.quantity)::text as quantity, ${r}.idempotency_key as "idempotencyKey",
  (extract(epoch from ${r}.created_at) * 1000)::bigint::text as "createdAtMs", (extract(epoch from ${r}.expires_at) * 1000)::bigint::text as "expiresAtMs",
  (extract(epoch from ${r}.released_at) * 1000)::bigint::text as "releasedAtMs", (extract(epoch from ${r}.settled_at) * 1000)::bigint::text as "settledAtMs",
  trim_scale(${r}.settled_quantity)::text as "settledQuantity", ${r}.livemode::text, ${r}.subject, ${r}.dimensions, to_json(${product}.keys)::text as keys`;

export interface ReservationRow extends Pick<
  typeof usageReservations.$inferSelect,
  'id' | 'metric' | 'quantity' | 'idempotencyKey' | 'settledQuantity' | 'subject'
> {
  productSlug: string;
  createdAtMs: string;
  expiresAtMs: string;
  releasedAtMs: string | null;
  settledAtMs: string | null;
  livemode: string;
  /** Encoded; `keys` are the product's dimensions as JSON. Null without such a reservation. */
  dimensions: string | null;
  keys: string | null;
}

/** $1 org, $2 id, $3 livemode, per reservation */
export const findReservations: Template = {
  name: 'usage_reservations_find',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::bool[]) with ordinality as d (org_id, id, livemode, ord)${t.held}
)
select (d.ord - 1)::text as place, ${columns('r', 'p')}
from d
join lateral (select * from ${t('usage_reservations')} where org_id = d.org_id and id = d.id limit 1) r on r.livemode = d.livemode
cross join lateral (select slug, dimensions as keys from ${t('products')} where id = r.product_id limit 1) p`,
};

const listWhere = (condition: string) => (t: Names) =>
  `
${t.with} r as materialized (
  select r.* from ${t('usage_reservations')} r${t.held}
  where org_id = $1::uuid and livemode = $2::bool and id < $3::uuid${condition}
  order by id desc
  limit $4::int
)
select ${columns('r', 'p')}
from r
cross join lateral (select slug, dimensions as keys from ${t('products')} where id = r.product_id limit 1) p
order by r.id desc`;

const listStatement = (status: string, condition: string): Template => ({
  name: `usage_reservations_list_${status}`,
  text: listWhere(` and id >= $5::uuid and ${condition}`),
});

/** Newest first. $1 org, $2 livemode, $3 id to start below, $4 rows */
export const listReservations: Template = { name: 'usage_reservations_list', text: listWhere('') };

/** $5 lowest id, $6 now */
export const listReservationsByStatus: Record<ReservationStatus, Template> = {
  held: listStatement('held', `${reservationEnds.open} and expires_at > $6::timestamptz`),
  expired: listStatement('expired', `${reservationEnds.open} and expires_at <= $6::timestamptz`),
  released: listStatement('released', `${reservationEnds.released} and $6::timestamptz is not null`),
  settled: listStatement('settled', `${reservationEnds.settled} and $6::timestamptz is not null`),
};

/** $1 lowest id, $2 now */
export const countReservations: Template = {
  name: 'usage_reservations_count',
  text: (t) => `
${t.with} r as materialized (
  select r.expires_at
  from ${t('organizations')} o${t.held}
  cross join (values (true), (false)) as mode (livemode)
  cross join lateral (
    select expires_at from ${t('usage_reservations')}
    where org_id = o.id and livemode = mode.livemode and id >= $1::uuid and ${reservationEnds.open}
  ) r
)
select count(*) filter (where expires_at > $2::timestamptz)::text as held, count(*) filter (where expires_at <= $2::timestamptz)::text as expired
from r`,
};

/** First day of the month in which a settlement counts. */
const monthOf = (occurredAt: string): string =>
  `date_trunc('month', coalesce(${occurredAt}, $5::timestamptz) at time zone 'UTC')::date`;

/**
 * One commit, with the same sums as for any other event. Rows are locked in key order; the second of two settlements of
 * one reservation waits and gets `retry`. Expired and released holds are settled too, even without an entitlement,
 * because the usage has happened. `settlePriced` also burns the event's credits, after all sums.
 * $1 hashed secret, $2 reservation, $3 quantity (null: the held quantity), $4 occurred at (null: now), per request · $5
 * now
 */
export const settle: Template = { name: 'usage_settle', text: (t) => settleText(t, false) };

export const settlePriced: Template = { name: 'usage_settle_priced', text: (t) => settleText(t, true) };

function settleText(t: Names, isPriced: boolean): string {
  const priced = (part: string) => (isPriced ? part : '');
  return `
${t.with} target as materialized (
  select w.ord - 1 as place, k.id as key_id, r.*, pr.slug, pr.max_quantity, pr.dimensions as keys, pr.subjects_since, ${effectiveCap('e', 'pr')} as unit_cap,
    e.limits, e.thresholds, coalesce(w.quantity, r.quantity) as asked_quantity, w.occurred_at as asked_at,
    row_number() over (partition by k.org_id, r.id order by w.ord) > 1 as is_twin,
    case${whenKeyIsBad('$5::timestamptz', 'usage:write')}
      when r.id is null then 'not_found'
      when r.settled_at is not null then
        case when r.settled_quantity = coalesce(w.quantity, r.quantity) and r.settle_occurred_at is not distinct from w.occurred_at
          then 'repeated' else 'idempotency_conflict' end
      when w.quantity > pr.max_quantity then 'quantity_out_of_range'${
        isPriced
          ? ''
          : `
      when r.credit_price > 0 then '${NEEDS_PRICED}'`
      }
      when ${needsListing(t, 'r', monthOf('w.occurred_at'))} then '${NEEDS_COMBINATION}'
    end as problem
  from unnest($1::text[], $2::uuid[], $3::numeric[], $4::timestamptz[]) with ordinality as w (hashed_secret, id, quantity, occurred_at, ord)${t.held}
  left join lateral (select * from ${t('api_keys')} where hashed_secret = w.hashed_secret limit 1) k on true
  left join lateral (select * from ${t('usage_reservations')} where org_id = k.org_id and id = w.id limit 1) r on r.livemode = k.livemode
  left join lateral (select * from ${t('products')} where id = r.product_id limit 1) pr on true
  left join lateral (
    select has_own_cap, unit_cap, limits, thresholds from ${t('entitlements')} where org_id = k.org_id and product_id = r.product_id limit 1
  ) e on true
), ending as materialized (
  select t.* from target t
  join ${t('usage_reservations')} r on r.org_id = t.org_id and r.id = t.id
  where t.problem is null and not t.is_twin and r.settled_at is null
  order by r.org_id, r.idempotency_key
  for update of r
), inserted as (
  insert into ${t('usage_events')}
    (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at, subject, dimensions${priced(', credit_price')})
  select org_id, idempotency_key, product_id, metric, asked_quantity, livemode, key_id, coalesce(asked_at, $5::timestamptz), $5::timestamptz,
    subject, dimensions${priced(', credit_price')}
  from ending
  order by org_id, idempotency_key
  on conflict (org_id, idempotency_key) do nothing
  returning org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, subject, dimensions${priced(', credit_price')}
), ${addToSums(t, { now: '$5::timestamptz', entitled: 'target', hasThresholds: true, hasSubjects: true, hasDimensions: true, burns: isPriced }).join(', ')}, ended as (
  update ${t('usage_reservations')} r
  set settled_at = $5::timestamptz, settled_quantity = e.asked_quantity, settle_occurred_at = e.asked_at,
    is_counted = (e.org_id, e.idempotency_key) in (select org_id, idempotency_key from inserted)
  from ending e
  where r.org_id = e.org_id and r.id = e.id
  returning r.*
), around as materialized (
  select s.*, ${totalAround(t, 's', '$5::timestamptz')} as total
  from (select distinct org_id, product_id, livemode, metric from target where limits is not null) s
)
select t.place::text, case when t.problem is not null then t.problem when d.id is not null then 'settled' else 'retry' end as outcome,
  ${columns('f', 't')}, f.is_counted::text as "isCounted", t.org_id::text as "orgId", t.product_id::text as "productId",
  trim_scale(t.max_quantity)::text as "maxQuantity",
  (extract(epoch from coalesce(f.settle_occurred_at, f.settled_at, t.asked_at, $5::timestamptz)) * 1000)::bigint::text as "occurredAtMs", t.limits::text as declared, a.total,
  trim_scale(t.unit_cap)::text as "unitCap", trim_scale(m.quantity)::text as used, m.period::text,
  (${countedDimensions(t, 't', monthOf('t.settle_occurred_at, t.settled_at, t.asked_at'))} = ${OTHER_SQL})::text as "isOther", (select count(*) from noted)::text as noted,
  (t.credit_price > 0)::text as "isPriced"${priced(`, 
  trim_scale(case when b.org_id is not null then coalesce(b.debts[array_position(b.debtors, t.product_id)], 0) end)::text as overdraft`)}
from target t
left join ended d on d.org_id = t.org_id and d.id = t.id and not t.is_twin
cross join lateral (
  select t.id, t.metric, t.quantity, t.idempotency_key, t.created_at, t.expires_at, t.released_at, t.livemode, t.subject, t.dimensions,
    coalesce(d.settled_at, t.settled_at) as settled_at, coalesce(d.settled_quantity, t.settled_quantity) as settled_quantity,
    coalesce(d.settle_occurred_at, t.settle_occurred_at) as settle_occurred_at, coalesce(d.is_counted, t.is_counted) as is_counted
) f
left join around a on a.org_id = t.org_id and a.product_id = t.product_id and a.livemode = t.livemode and a.metric = t.metric
  and t.limits is not null
left join raised m on m.org_id = t.org_id and m.product_id = t.product_id and m.metric = t.metric and m.livemode = t.livemode
  and m.period = date_trunc('month', coalesce(t.asked_at, $5::timestamptz) at time zone 'UTC')::date and m.quantity > t.unit_cap${priced(`
left join burnt b on b.org_id = t.org_id and b.livemode = t.livemode`)}`;
}

/** Per request, with the settled reservation if it was found. */
export interface SettlementRow extends ReservationRow {
  /** Index of the request. */
  place: string;
  outcome: string;
  /** The settlement's event was new. */
  isCounted: string | null;
  orgId: string;
  productId: string;
  maxQuantity: string | null;
  occurredAtMs: string | null;
  /** JSON of the limits, and `Limited.total`. */
  declared: string | null;
  total: string | null;
  /** Set with `used` and `period` if the month's total is above the cap. */
  unitCap: string | null;
  used: string | null;
  period: string | null;
  /** The combination of dimensions has no sums of its own. */
  isOther: string | null;
  /** Threshold evaluations queued, the same in all rows. */
  noted: string;
  /** `overdraft` is set if the account was changed, which only `settlePriced` does. */
  isPriced: string | null;
  overdraft?: string | null;
}

/** Unless the hold has already ended. $1 hashed secret, $2 id, $3 now */
export const release: Template = {
  name: 'usage_release',
  text: (t) => `
${t.with} key as materialized (
  select k.org_id, k.livemode, case${whenKeyIsBad('$3::timestamptz', 'usage:write')} end as problem
  from (select 1) one${t.held}
  left join lateral (select * from ${t('api_keys')} where hashed_secret = $1::text limit 1) k on true
), released as (
  update ${t('usage_reservations')} r set released_at = $3::timestamptz
  from key k
  where r.org_id = k.org_id and r.id = $2::uuid and r.livemode = k.livemode and k.problem is null
    and r.settled_at is null and r.released_at is null
  returning r.id
)
select k.problem, k.org_id::text as "orgId", k.livemode::text, (select id from released)::text as "releasedId" from key k`,
};

export interface ReleaseRow {
  problem: string | null;
  orgId: string;
  livemode: string;
  /** Null if the hold had already ended or does not exist. */
  releasedId: string | null;
}
