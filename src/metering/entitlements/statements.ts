import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import type { Names, Template } from '../../core/db/client.js';
import { openGrants } from '../credits/statements.js';
import { mergedFeatures } from './features.js';
import { effectiveCap, type EntitlementKind } from './table.js';

export interface BalanceRow {
  /** Index of the pair; in `listEntitlements`, of the call. */
  place: string;
  problem: string | null;
  kind: EntitlementKind;
  unitCap: string | null;
  used: string | null;
  /** JSON of a `LimitedSubject`, if the entitlement has limits. */
  subject: string | null;
  /**
   * JSON of the product's id and `PriceColumns`. `find` returns it in separate rows, in which `place` is the index of
   * the product, and JSON of `OpenGrant[]` in rows in which `place` is that of the key.
   */
  credits: string | null;
  /** JSON of the merged features; null without any. */
  features: string | null;
}

export interface EntitlementRow extends BalanceRow {
  productSlug: string;
  productName: string;
  usageMetric: string;
  startsAtMs: string;
  endsAtMs: string | null;
}

/** The answer to a call without entitlements. */
export type NoEntitlementRow = Pick<BalanceRow, 'place' | 'problem'> & { kind: null };

const keyProblem = `case${whenKeyIsBad('$4::timestamptz', 'entitlements:read')} end`;

/** JSON of the `LimitedSubject`. */
const limitedSubject = (entitlement: string, { id, metric }: { id: string; metric: string }): string =>
  `case when ${entitlement}.limits is not null then
    json_build_object('orgId', k.org_id, 'productId', ${id}, 'livemode', k.livemode, 'metric', ${metric},
      'perSubject', jsonb_path_query_array(${entitlement}.limits, '$[*] ? (@.per == "subject")'))::text end as subject`;

/** JSON of the id and `PriceColumns`. */
const productPrice = (product: string): string =>
  `case when ${product}.credit_price is not null then
    json_build_object('productId', ${product}.id, 'creditPrice', ${product}.credit_price::text, 'creditDimension', ${product}.credit_dimension,
      'creditPrices', ${product}.credit_prices, 'creditEnforcement', ${product}.credit_enforcement)::text end as credits`;

/** Checks return only the columns up to `features`. */
const toRow = ([
  place,
  problem,
  kind,
  unitCap,
  used,
  subject,
  credits,
  features,
  productSlug,
  productName,
  usageMetric,
  startsAtMs,
  endsAtMs,
]: readonly (string | null)[]) => ({
  place,
  problem,
  kind,
  unitCap,
  used,
  subject,
  credits,
  features,
  productSlug,
  productName,
  usageMetric,
  startsAtMs,
  endsAtMs,
});

/**
 * Lateral sub-selects of one row by its whole key use the primary key even if the planner misjudges table sizes. With a
 * plain join, it scanned every Organization's rows by product or month.
 */
export const findBalances = (
  name: string,
  columns: string,
  further: (t: Names) => string = () => '',
  keyColumns = `${keyProblem} as problem`,
): Template => ({
  name,
  readRow: toRow,
  text: (t) => `
${t.with} key as materialized (
  select w.ord - 1 as place, k.org_id, k.livemode, ${keyColumns}
  from unnest($1::text[]) with ordinality as w (hashed_secret, ord)${t.held}
  left join lateral (select * from ${t('api_keys')} where hashed_secret = w.hashed_secret limit 1) k on true
), product as materialized (
  select w.ord - 1 as place, pr.*
  from unnest($2::text[]) with ordinality as w (slug, ord)
  left join lateral (
    select p.id, p.slug, p.name, p.usage_metric, p.unit_cap, p.features, ${productPrice('p')}
    from ${t('products')} p where p.slug = w.slug and p.archived_at is null limit 1
  ) pr on true
)
select (w.ord - 1)::text as place, k.problem, e.kind, trim_scale(${effectiveCap('e', 'pr')})::text as "unitCap",
  trim_scale(t.quantity)::text as used, ${limitedSubject('e', { id: 'pr.id', metric: 'pr.usage_metric' })},
  null as credits, ${mergedFeatures('e', 'pr')}${columns}
from unnest($3::int[], $6::int[]) with ordinality as w (key, product, ord)
join key k on k.place = w.key
join product pr on pr.place = w.product
left join lateral (
  select * from ${t('entitlements')}
  where org_id = k.org_id and product_id = pr.id
    and starts_at <= $4::timestamptz and (ends_at is null or ends_at > $4::timestamptz)
  limit 1
) e on true
left join lateral (
  select quantity from ${t('usage_totals')}
  where org_id = k.org_id and period = $5::date and livemode = k.livemode and product_id = e.product_id and metric = pr.usage_metric
  limit 1
) t on true
where k.problem is not null or e.kind is not null
union all
select place::text, null, null, null, null, null, credits, null${columns && ', null, null, null, null, null'} from product where credits is not null${further(t)}`,
});

const details = (product: string, entitlement: string) =>
  `, ${product}.slug as "productSlug", ${product}.name as "productName", ${product}.usage_metric as "usageMetric",
  (extract(epoch from ${entitlement}.starts_at) * 1000)::bigint::text as "startsAtMs",
  (extract(epoch from ${entitlement}.ends_at) * 1000)::bigint::text as "endsAtMs"`;

/**
 * One snapshot, so the answer reflects everything committed before the call and needs no cache. A pair without a row
 * has no entitlement in effect.
 * $1 hashed secret, per key · $2 product slug, per product · $3 key, $6 product, per pair, as indexes · $4 now · $5
 * first day of the month
 */
export const checkEntitlements: Template = findBalances('entitlements_check', '');

/** The open grants of each key whose account needs no simulated burning. */
export const withGrants = (t: Names) => `
union all
select k.place::text, null, null, null, null, null, g.open, null
from key k cross join lateral (select ${openGrants(t, 'k', '$4::timestamptz')} as open) g
where g.open is not null and exists (select from product where credits is not null)`;

export const checkPricedEntitlements: Template = findBalances('entitlements_check_priced', '', withGrants);

/** Also returns all details of the entitlement. */
export const findEntitlements: Template = findBalances('entitlements_find', details('pr', 'e'));

/**
 * One page for each waiting call, by product slug.
 * $1 hashed secret, $2 slug to start after, $3 rows, per call · $4 now · $5 first day of the month
 */
export const listEntitlements: Template = {
  name: 'entitlements_list',
  text: (t) => `
${t.with} key as materialized (
  select w.ord - 1 as place, w.after, w.size, k.org_id, k.livemode, ${keyProblem} as problem
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality as w (hashed_secret, after, size, ord)${t.held}
  left join lateral (select * from ${t('api_keys')} where hashed_secret = w.hashed_secret limit 1) k on true
)
select k.place::text, k.problem, l.kind, trim_scale(l.unit_cap)::text as "unitCap", trim_scale(l.quantity)::text as used,
  ${limitedSubject('l', { id: 'l.product_id', metric: 'l.usage_metric' })},
  l.credits, l.features${details('l', 'l')}
from key k
left join lateral (
  select pr.slug, pr.name, pr.usage_metric, ${effectiveCap('e', 'pr')} as unit_cap, e.kind, e.starts_at, e.ends_at, e.limits, e.product_id,
    t.quantity, ${productPrice('pr')}, ${mergedFeatures('e', 'pr')}
  from ${t('entitlements')} e
  join ${t('products')} pr on pr.id = e.product_id
  left join lateral (
    select quantity from ${t('usage_totals')}
    where org_id = e.org_id and period = $5::date and livemode = k.livemode and product_id = e.product_id and metric = pr.usage_metric
    limit 1
  ) t on true
  where e.org_id = k.org_id and e.starts_at <= $4::timestamptz and (e.ends_at is null or e.ends_at > $4::timestamptz)
    and pr.archived_at is null and pr.slug collate "C" > k.after collate "C"
  order by pr.slug collate "C"
  limit k.size
) l on true`,
};
