import { sql, type SQL } from 'drizzle-orm';
import type { Names, Template } from '../../core/db/client.js';
import { timeJson } from '../../core/db/sql.js';
import { limitUsage } from '../entitlements/limit-queries.js';
import { effectiveCap } from '../entitlements/table.js';
import { defaultThresholds } from '../entitlements/limits.js';
import { isListening, ONCE_KEPT_DAYS, queueInStatement } from '../../accounts/webhooks/outbox.js';

const since = (now: string, ms: number): string => `${now} - interval '${ms / 1000} seconds'`;

const thresholdsOf = (entitlement: string): string =>
  `coalesce(${entitlement}.thresholds, '{${defaultThresholds.join(',')}}')`;

const limitJson = (row: string): string =>
  `jsonb_build_object('quantity', trim_scale(${row}.quantity), 'window', ${row}."window", 'enforcement', ${row}.enforcement)`;

/** With limits, includes the month: a window can span two, and last month's result must not be reused. */
const termsOf = (entitlement: string, cap: string, now: string): string =>
  `hashtextextended(concat(${entitlement}.limits, ${thresholdsOf(entitlement)}, ${cap},
    case when ${entitlement}.limits is not null then date_trunc('month', ${now} at time zone 'UTC') end), 0)`;

const useJson = (row: string): string =>
  `'productSlug', ${row}.slug, 'metric', ${row}.metric, 'livemode', ${row}.livemode, 'limit', ${limitJson(row)}`;

/**
 * For a statement with the CTEs `hourly` and `raised`. Adds a row only if an endpoint listens, and not if the month's
 * total shows that no threshold can have been reached since the last evaluation. The statement cannot evaluate
 * thresholds itself, because its view of a window is older than the locks it waited for: if two statements reach a
 * threshold together, neither might see it. A later statement that takes the queued row sees, in one snapshot,
 * everything committed with that row. If two rows are queued, at least one is taken with a snapshot that includes the
 * events of both. Each `in` hashes a table once, whereas a join of CTEs would compare every row with every other row,
 * and a flush may have hundreds. Limits per subject have no thresholds.
 * @param entitled an earlier CTE with org_id, product_id, unit_cap, limits and thresholds of the events' entitlements;
 * rows may repeat
 * @param oldMs older events of past months queue nothing, and others count as usage of now, because their day and week have passed
 */
export const noteRaised = (t: Names, now: string, entitled: string, oldMs?: number): string => `noted as (
  insert into ${t('usage_checks')} (org_id, id, product_id, livemode, metric, at, latest_at)
  select h.org_id, gen_random_uuid(), h.product_id, h.livemode, h.metric, ${now}, max(${oldMs === undefined ? 'h.latest_at' : `case when h.latest_at < ${since(now, oldMs)} then ${now} else h.latest_at end`})
  from hourly h
  where ${oldMs === undefined ? '' : `(h.latest_at >= ${since(now, oldMs)} or h.hour >= date_trunc('month', ${now}, 'UTC')) and `}${isListening(t, 'h', 'usage.threshold_reached')}
    and ((h.org_id, h.product_id, h.livemode, h.metric, date_trunc('month', h.hour at time zone 'UTC')::date) in (
      select r.org_id, r.product_id, r.livemode, r.metric, r.period from raised r
      where not coalesce(r.quantity + r.lowered < r.unreached and (r.org_id, r.product_id, r.unreached_terms) in (
        select e.org_id, e.product_id, ${termsOf('e', 'e.unit_cap', now)} from ${entitled} e
      ), false)
    )) is true
  group by h.org_id, h.product_id, h.livemode, h.metric, date_trunc('day', h.hour at time zone 'UTC')
  returning 1
)`;

/**
 * For corrections that raise a quantity, whether or not a threshold may have been reached.
 * @param isCorrected selects these corrections as `c`
 */
export const noteCorrected = (isCorrected: SQL): SQL => sql`
  insert into usage_checks (org_id, id, product_id, livemode, metric, at, latest_at)
  select c.org_id, gen_random_uuid(), c.product_id, c.livemode, c.metric, max(c.corrected_at), max(c.occurred_at)
  from usage_corrections c
  where ${isCorrected} and c.quantity > c.previous_quantity
    and ${sql.raw(isListening((name) => name, 'c', 'usage.threshold_reached'))}
  group by c.org_id, c.product_id, c.livemode, c.metric, date_trunc('day', c.occurred_at at time zone 'UTC')`;

/**
 * Takes the rows queued in the oldest second and writes the resulting messages in one commit. A calendar window is the
 * one that contains the events, and its message key prevents a second message. Once that key may have been deleted, no
 * threshold of the window is reported; otherwise a late correction would report it again. A rolling window ends when
 * the events were recorded, or when they occurred if the sender's clock was ahead. The time of its last message is a
 * separate row, which a statement can update only once, so rows more than a second apart are never taken together. For
 * all queued rows of a product, the rolling window is first read once, ending at the earliest of their times; usually
 * this already shows that none of them reaches a new threshold. With the month's total, the statement stores how far
 * the total must grow before a new threshold can be reached. It locks totals in the same order as the statements that
 * record events. Only events and corrections raise the usage in a window, and totals plus corrected amounts include
 * both. If the total has already grown that far, another evaluation is queued. The stored bound is 0, so that every
 * recording statement queues an evaluation, if a rolling window may reach a threshold again or a calendar window may
 * differ from the events' month. Returns the number of rows taken. $1 now
 */
export const evaluate: Template = {
  name: 'usage_thresholds_evaluate',
  text: (t) => `
${t.with} taken as (
  delete from ${t('usage_checks')} c
  using (
    select n.org_id, n.id from ${t('usage_checks')} n${t.held}
    where n.at < (select min(at) from ${t('usage_checks')}) + interval '1 second'
    order by n.at
    limit 1000
    for update of n skip locked
  ) n
  where c.org_id = n.org_id and c.id = n.id
  returning c.*
), subject as materialized (
  select s.*, p.slug, e.limits is not null as has_limits, ${thresholdsOf('e')} as thresholds, ${termsOf('e', effectiveCap('e', 'p'), '$1::timestamptz')} as terms,
    l.months, l.calendar, l.rolling
  from (select distinct org_id, product_id, livemode, metric from taken) s
  cross join lateral (select slug, unit_cap from ${t('products')} where id = s.product_id limit 1) p
  cross join lateral (
    select has_own_cap, unit_cap, limits, thresholds from ${t('entitlements')}
    where org_id = s.org_id and product_id = s.product_id limit 1
  ) e
  cross join lateral (
    select array_agg((l ->> 'quantity')::numeric) filter (where l ->> 'window' = 'calendar_month') as months,
      jsonb_agg(l) filter (where l ->> 'window' like 'calendar%') as calendar,
      jsonb_agg(l) filter (where l ->> 'window' not like 'calendar%') as rolling
    from (
      select distinct on (l ->> 'window', (l ->> 'quantity')::numeric) l
      from (
        select jsonb_array_elements(e.limits) as l
        union all
        select jsonb_build_object('quantity', cap::text, 'window', 'calendar_month', 'enforcement', 'warn')
        from (select ${effectiveCap('e', 'p')} as cap) c where cap is not null
      ) own
      where (l ->> 'quantity')::numeric > 0 and l -> 'per' is null
      order by l ->> 'window', (l ->> 'quantity')::numeric, l ->> 'enforcement'
    ) own
  ) l
  where ${isListening(t, 's', 'usage.threshold_reached')}
), moment as materialized (
  select distinct s.org_id, s.product_id, s.livemode, s.metric, m.as_of
  from subject s join taken c using (org_id, product_id, livemode, metric)
  cross join lateral (values (c.at), (greatest(c.at, c.latest_at))) as m (as_of)
  where s.rolling is not null
), reading as materialized (
  select a.*, l.name, l.quantity, u.used + u.ahead as taken, v.since
  from (
    select s.*, s.rolling as limits, m.first_at, m.last_at from subject s
    join (
      select org_id, product_id, livemode, metric, min(as_of) as first_at, max(as_of) as last_at from moment group by 1, 2, 3, 4
    ) m using (org_id, product_id, livemode, metric)
  ) a${limitUsage(t, 'a', 'a.first_at')}
), near as materialized (
  select distinct a.org_id, a.product_id, a.livemode, a.metric
  from reading a
  cross join lateral unnest(a.thresholds) as h (threshold)
  where a.taken * 100 >= a.quantity * h.threshold and coalesce((
    select o.at + (a.first_at - a.since) <= a.last_at from ${t('usage_told')} o
    where o.org_id = a.org_id and o.product_id = a.product_id and o.livemode = a.livemode and o.metric = a.metric
      and o."window" = a.name and o.quantity = a.quantity and o.threshold = h.threshold
    limit 1
  ), true)
), room as materialized (
  select a.org_id, a.product_id, a.livemode, a.metric, min(a.quantity * h.threshold / 100 - a.taken) as room
  from reading a
  cross join lateral unnest(a.thresholds) as h (threshold)
  group by 1, 2, 3, 4
), month as materialized (
  select s.org_id, s.product_id, s.livemode, s.metric, s.terms, m.period,
    case
      when s.has_limits and m.period <> date_trunc('month', $1::timestamptz at time zone 'UTC')::date then 0
      when s.calendar @? '$[*].window ? (@ != "calendar_month")' or r.room <= 0 then 0
      else least('Infinity', t.quantity + t.lowered + r.room, (
        select min(l.quantity * h.threshold / 100) + t.lowered
        from unnest(s.months) as l (quantity)
        cross join unnest(s.thresholds) as h (threshold)
        where l.quantity * h.threshold / 100 > t.quantity
      ))
    end as unreached
  from subject s
  left join room r using (org_id, product_id, livemode, metric)
  cross join lateral (
    select date_trunc('month', c.latest_at at time zone 'UTC')::date as period from taken c
    where c.org_id = s.org_id and c.product_id = s.product_id and c.livemode = s.livemode and c.metric = s.metric
    union
    select (date_trunc('month', $1::timestamptz at time zone 'UTC') - make_interval(months => n))::date from (values (0), (1)) as v (n)
  ) m
  cross join lateral (
    select quantity, lowered from ${t('usage_totals')}
    where org_id = s.org_id and period = m.period and livemode = s.livemode and product_id = s.product_id and metric = s.metric
    limit 1
  ) t
), kept as (
  insert into ${t('usage_totals')} as t (org_id, period, livemode, product_id, metric, quantity, events, unreached, unreached_terms)
  select org_id, period, livemode, product_id, metric, 0, 0, unreached, terms from month
  order by 1, 2, 3, 4, 5
  on conflict (org_id, period, livemode, product_id, metric)
  do update set unreached = excluded.unreached, unreached_terms = excluded.unreached_terms
  where (t.unreached, t.unreached_terms) is distinct from (excluded.unreached, excluded.unreached_terms)
  returning org_id, product_id, livemode, metric, period, unreached > 0 and quantity + lowered >= unreached as is_reached
), again as (
  insert into ${t('usage_checks')} (org_id, id, product_id, livemode, metric, at, latest_at)
  select org_id, gen_random_uuid(), product_id, livemode, metric, $1::timestamptz,
    greatest((period + interval '0') at time zone 'UTC', least($1::timestamptz, (period + interval '1 month - 1 microsecond') at time zone 'UTC'))
  from kept where is_reached
), asked as materialized (
  select s.org_id, s.product_id, s.livemode, s.metric, s.slug, s.thresholds, s.calendar as limits, max(c.latest_at) as as_of
  from subject s join taken c using (org_id, product_id, livemode, metric)
  where s.calendar is not null
  group by 1, 2, 3, 4, 5, 6, 7, date_trunc('day', c.latest_at at time zone 'UTC')
  union all
  select s.org_id, s.product_id, s.livemode, s.metric, s.slug, s.thresholds, s.rolling, m.as_of
  from near join subject s using (org_id, product_id, livemode, metric)
  join moment m using (org_id, product_id, livemode, metric)
), reached as materialized (
  select a.org_id, a.product_id, a.livemode, a.metric, a.slug, l.name as "window", l.quantity, l.enforcement, h.threshold, u.used,
    v.since, coalesce(v.until, a.as_of) as until, v.until is null as is_rolling
  from asked a${limitUsage(t, 'a', 'a.as_of')}
  cross join lateral unnest(a.thresholds) as h (threshold)
  where u.used * 100 >= l.quantity * h.threshold
    and (v.until is null or v.since > $1::timestamptz - interval '${ONCE_KEPT_DAYS - 1} days')
), first_rolling as materialized (
  select distinct on (org_id, product_id, livemode, metric, "window", quantity, threshold) *
  from reached where is_rolling
  order by org_id, product_id, livemode, metric, "window", quantity, threshold, until
), renewed as (
  insert into ${t('usage_told')} as o (org_id, product_id, livemode, metric, "window", quantity, threshold, at)
  select org_id, product_id, livemode, metric, "window", quantity, threshold, until from first_rolling
  order by 1, 2, 3, 4, 5, 6, 7
  on conflict (org_id, product_id, livemode, metric, "window", quantity, threshold) do update set at = excluded.at
  where o.at + make_interval(secs => extract(epoch from o."window"::interval)::float8) <= excluded.at
  returning *
), message as materialized (
  select r.org_id, r.livemode, 'usage.threshold_reached' as type,
    jsonb_build_object(${useJson('r')}, 'threshold', r.threshold, 'used', trim_scale(r.used), 'windowStart', ${timeJson('r.since')},
      'windowEnd', ${timeJson('r.until')}) as data,
    r.once_key
  from (
    select r.*, concat_ws(' ', 'usage.threshold_reached', product_id, livemode, metric, "window", trim_scale(quantity), threshold, ${timeJson('since')}) as once_key
    from reached r where not is_rolling
    union all
    select f.*, null from first_rolling f
    join renewed using (org_id, product_id, livemode, metric, "window", quantity, threshold)
  ) r
), ${queueInStatement(t, 'message', '$1::timestamptz')}
select count(*)::text as taken from taken`,
};

/**
 * At most once a minute per limit.
 * $1 JSON of the refused limits · $2 now
 */
export const reportRefused: Template = {
  name: 'usage_report_refused',
  text: (t) => `
${t.with} refused as materialized (
  select r.*, p.slug, concat(r."window", ' ' || r.per) as told
  from (
    select r.*, "orgId" as org_id, "productId" as product_id
    from json_to_recordset($1::json) as r ("orgId" uuid, "productId" uuid, livemode bool, metric text, quantity numeric, "window" text,
      enforcement text, used numeric, held numeric, remaining numeric, requested numeric, per text, subject text)${t.held}
  ) r
  cross join lateral (select slug from ${t('products')} where id = r.product_id limit 1) p
  where ${isListening(t, 'r', 'usage.limit_reached')}
), renewed as (
  insert into ${t('usage_told')} as o (org_id, product_id, livemode, metric, "window", quantity, threshold, at)
  select org_id, product_id, livemode, metric, told, quantity, 0, $2::timestamptz from refused
  order by 1, 2, 3, 4, 5, 6
  on conflict (org_id, product_id, livemode, metric, "window", quantity, threshold) do update set at = excluded.at
  where o.at + interval '1 minute' <= excluded.at
  returning *
), message as materialized (
  select r.org_id, r.livemode, 'usage.limit_reached' as type,
    jsonb_build_object(${useJson('r')}, 'used', r.used, 'held', r.held, 'remaining', r.remaining, 'requested', r.requested)
      || case when r.per is null then '{}' else jsonb_build_object('subject', r.subject, 'limit', ${limitJson('r')} || '{"per": "subject"}') end as data,
    null as once_key
  from refused r
  join renewed n on n.org_id = r.org_id and n.product_id = r.product_id and n.livemode = r.livemode and n.metric = r.metric
    and n."window" = r.told and n.quantity = r.quantity
), ${queueInStatement(t, 'message', '$2::timestamptz')}
select count(*)::text from webhook_message`,
};
