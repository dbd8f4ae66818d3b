import type { Template } from '../../core/db/client.js';
import { effectiveCap } from '../entitlements/table.js';

/**
 * Finds, among events that were not new, those that differ from the first event with the same key. Returns their
 * indexes and whether the mode differs. A repeat without a time matches any time, because the first event may have used
 * its time of receipt. $1 org, $2 idempotency key, $3 product, $4 metric, $5 quantity, $6 livemode, $7 occurred at or
 * null, $8 subject, $9 dimensions, per event
 */
export const findMismatches: Template = {
  name: 'usage_find_mismatches',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::numeric[], $6::bool[], $7::timestamptz[], $8::text[], $9::text[])
    with ordinality as d (org_id, idempotency_key, product_id, metric, quantity, livemode, occurred_at, subject, dimensions, ord)${t.held}
)
select (d.ord - 1)::text as place, (u.livemode <> d.livemode)::text as "isOtherMode"
from d
cross join lateral (
  select * from ${t('usage_events')} where org_id = d.org_id and idempotency_key = d.idempotency_key limit 1
) u
where u.product_id <> d.product_id or u.metric <> d.metric or u.quantity <> d.quantity or u.livemode <> d.livemode
  or u.occurred_at <> d.occurred_at or u.subject <> d.subject or u.dimensions <> d.dimensions`,
};

export type MismatchRow = Record<'place' | 'isOtherMode', string>;

/** Finds the given totals that exceed their cap. Arrays per total: $1 org, $2 product, $3 metric, $4 livemode, $5 period */
export const findOverCap: Template = {
  name: 'usage_find_over_cap',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bool[], $5::date[]) with ordinality
    as d (org_id, product_id, metric, livemode, period, ord)${t.held}
)
select (d.ord - 1)::text as place, trim_scale(c.unit_cap)::text as "unitCap", trim_scale(t.quantity)::text as used
from d
cross join lateral (select unit_cap from ${t('products')} where id = d.product_id limit 1) p
left join lateral (
  select has_own_cap, unit_cap from ${t('entitlements')} where org_id = d.org_id and product_id = d.product_id limit 1
) e on true
cross join lateral (select ${effectiveCap('e', 'p')} as unit_cap) c
cross join lateral (
  select quantity from ${t('usage_totals')}
  where org_id = d.org_id and period = d.period and livemode = d.livemode and product_id = d.product_id and metric = d.metric
  limit 1
) t
where t.quantity > c.unit_cap`,
};

export type OverCapRow = Record<'place' | 'unitCap' | 'used', string>;
