import type { Statement } from '../db/client.js';

/**
 * Keys and what they may use, in one snapshot: the key, its entitlement, the product and the balance are read
 * together, so that nothing that was committed before the call is missed and no cache has to be asked.
 *
 * Every key of the flush answers with one row; an entitlement in effect adds one. A pair without a row has none.
 *
 * $1 hashed secret, per key · $2 key number (from 1), $3 product slug, per pair · $4 now · $5 first day of the month
 */
export const findEntitlements: Statement = {
  name: 'entitlements_find',
  text: `
with key as materialized (
  select w.ord, k.org_id, k.livemode,
    case
      when k.id is null then 'invalid_key'
      when k.revoked_at is not null then 'key_revoked'
      when k.expires_at <= $4::timestamptz then 'key_expired'
      when not ('entitlements:read' = any (k.scopes)) then 'insufficient_scope'
    end as problem
  from unnest($1::text[]) with ordinality as w (hashed_secret, ord)
  left join api_keys k on k.hashed_secret = w.hashed_secret
)
select k.ord::text, k.problem, null, null, null, null, null, null, null, null, null from key k
union all
select null, null, w.ord::text, pr.slug, pr.name, e.kind, pr.usage_metric, trim_scale(pr.unit_cap)::text, trim_scale(coalesce(t.quantity, 0))::text,
  (extract(epoch from e.starts_at) * 1000)::bigint::text, (extract(epoch from e.ends_at) * 1000)::bigint::text
from unnest($2::int[], $3::text[]) with ordinality as w (key, slug, ord)
join key k on k.ord = w.key and k.problem is null
join products pr on pr.slug = w.slug
join entitlements e on e.org_id = k.org_id and e.product_id = pr.id
  and e.starts_at <= $4::timestamptz and (e.ends_at is null or e.ends_at > $4::timestamptz)
left join usage_totals t on t.org_id = k.org_id and t.period = $5::date and t.livemode = k.livemode
  and t.product_id = pr.id and t.metric = pr.usage_metric`,
};

/**
 * One page of the entitlements in effect for each waiting call, ordered by product slug.
 *
 * $1 hashed secret, $2 slug to start after, $3 rows, per call · $4 now · $5 first day of the month
 */
export const listEntitlements: Statement = {
  name: 'entitlements_list',
  text: `
with key as materialized (
  select w.ord, w.after, w.size, k.org_id, k.livemode,
    case
      when k.id is null then 'invalid_key'
      when k.revoked_at is not null then 'key_revoked'
      when k.expires_at <= $4::timestamptz then 'key_expired'
      when not ('entitlements:read' = any (k.scopes)) then 'insufficient_scope'
    end as problem
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality as w (hashed_secret, after, size, ord)
  left join api_keys k on k.hashed_secret = w.hashed_secret
)
select k.ord::text, k.problem, null, null, null, null, null, null, null, null, null from key k
union all
select null, null, k.ord::text, l.slug, l.name, l.kind, l.usage_metric, trim_scale(l.unit_cap)::text, trim_scale(coalesce(l.quantity, 0))::text,
  (extract(epoch from l.starts_at) * 1000)::bigint::text, (extract(epoch from l.ends_at) * 1000)::bigint::text
from key k
cross join lateral (
  select pr.slug, pr.name, pr.usage_metric, pr.unit_cap, e.kind, e.starts_at, e.ends_at, t.quantity
  from entitlements e
  join products pr on pr.id = e.product_id
  left join usage_totals t on t.org_id = e.org_id and t.period = $5::date and t.livemode = k.livemode
    and t.product_id = e.product_id and t.metric = pr.usage_metric
  where e.org_id = k.org_id and e.starts_at <= $4::timestamptz and (e.ends_at is null or e.ends_at > $4::timestamptz)
    and pr.slug collate "C" > k.after collate "C"
  order by pr.slug collate "C"
  limit k.size
) l
where k.problem is null`,
};
