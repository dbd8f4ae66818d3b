import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import { isListening } from '../../accounts/webhooks/outbox.js';
import { createRecall } from '../../core/collections.js';
import type { Names, Template } from '../../core/db/client.js';
import { effectiveCap } from '../entitlements/table.js';
import {
  countedDimensions,
  hasRoom,
  hasUnknownKey,
  joinEncoded,
  OTHER_SQL,
} from '../entitlements/dimensions.js';
import { burnCredits } from '../credits/statements.js';
import { priceOf } from '../entitlements/price.js';
import { totalAround } from './headroom.js';
import { noteRaised } from '../thresholds/statements.js';

/**
 * Totals before hours, each in primary-key order, then subjects. Everything that records events uses these CTEs, so a
 * total is always the sum of its events. `noted` holds the threshold evaluations that were queued.
 */
export const addToSums = (t: Names, sums: Sums): string =>
  `${addUnnoted(t, sums, { latest: ', max(occurred_at) as latest_at', bounds: ', lowered, unreached, unreached_terms' })}, ${noteRaised(t, sums.now, sums.entitled)}`;

interface Sums {
  now: string;
  /** An earlier CTE with org_id, product_id, unit_cap, limits, thresholds and subjects_since. Rows may repeat. */
  entitled: string;
  hasSubjects: boolean;
  hasDimensions: boolean;
  /** `entitled` also has livemode, dimensions, month and is_other, which saves looking up each combination. */
  knowsOthers?: boolean;
  /** Set if `inserted` has credit_price: grants open in the hour of the usage, or open now. */
  burns?: 'of their hour' | 'open now' | undefined;
}

/** For events whose thresholds cannot be reported. `noteRaised` reads the columns of `latest` and `bounds`. */
const addUnnoted = (t: Names, sums: Sums, { latest, bounds } = { latest: '', bounds: '' }): string => {
  const { hasSubjects, hasDimensions, burns } = sums;
  const isAwaited = hasSubjects || burns !== undefined;
  return `hourly as materialized (
  select org_id, product_id, livemode, metric, api_key_id,
    date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00') as hour,
    sum(quantity) as quantity, count(*) as events${latest}${hasDimensions ? ', dimensions' : ''}${burns ? ', sum(quantity * credit_price) as credits' : ''}
  from inserted
  group by 1, 2, 3, 4, 5, 6${hasDimensions ? ', dimensions' : ''}
), raised as (
  insert into ${t('usage_totals')} as t (org_id, period, livemode, product_id, metric, quantity, events)
  select org_id, date_trunc('month', hour at time zone 'UTC')::date as period, livemode, product_id, metric,
    sum(quantity), sum(events)
  from hourly
  group by 1, 2, 3, 4, 5
  order by 1, 2, 3, 4, 5
  on conflict (org_id, period, livemode, product_id, metric)
  do update set quantity = t.quantity + excluded.quantity, events = t.events + excluded.events
  returning org_id, period, livemode, product_id, metric, quantity${bounds}
), ${hasDimensions ? addCombinedHours(t, sums, isAwaited) : addHours(t, isAwaited)}${hasSubjects ? `, ${addBySubject(t, sums)}` : ''}${burns ? `, ${burn(t, sums, burns)}` : ''}`;
};

const burn = (t: Names, { now, hasSubjects }: Sums, burns: NonNullable<Sums['burns']>): string =>
  burnCredits(t, {
    from: 'hourly',
    now,
    after: `(select count(*) from ${hasSubjects ? 'by_subject' : 'charted'}) >= 0`,
    onlyOpen: burns === 'open now',
  });

const addHours = (t: Names, isAwaited: boolean): string => `charted as (
  insert into ${t('usage_hours')} as h (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
  select org_id, product_id, livemode, hour, metric, api_key_id, quantity, events
  from hourly
  where (select count(*) from raised) > 0
  order by 1, 2, 3, 4, 5, 6
  on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
  do update set quantity = h.quantity + excluded.quantity, events = h.events + excluded.events${isAwaited ? '\n  returning 1' : ''}
)`;

/** Adds to the hours of each combination of dimensions. */
const addCombinedHours = (t: Names, { entitled, knowsOthers }: Sums, isAwaited: boolean): string => {
  const month = `date_trunc('month', o.hour at time zone 'UTC')::date`;
  const counted = knowsOthers
    ? `case when (o.org_id, o.product_id, o.livemode, o.dimensions, ${month})
        in (select org_id, product_id, livemode, dimensions, month from ${entitled} where is_other) then ${OTHER_SQL} else o.dimensions end`
    : countedDimensions(t, 'o', month);
  return `charted as (
  insert into ${t('usage_hours')} as h (org_id, product_id, livemode, hour, metric, api_key_id, dimensions, quantity, events)
  select org_id, product_id, livemode, hour, metric, api_key_id, counted, sum(quantity), sum(events)
  from (
    select o.*, ${counted} as counted from hourly o
  ) h
  where (select count(*) from raised) > 0
  group by 1, 2, 3, 4, 5, 6, 7
  order by 1, 2, 3, 4, 5, 6, 7
  on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
  do update set quantity = h.quantity + excluded.quantity, events = h.events + excluded.events${isAwaited ? '\n  returning 1' : ''}
)`;
};

/**
 * Each statement that changes a month's subjects has locked its total, so the rows need no order; sorting all events
 * would cost 5%.
 */
const addBySubject = (t: Names, { now, entitled, burns }: Sums): string => `by_subject as (
  insert into ${t('usage_subjects')} as s (org_id, product_id, livemode, subject, slot, metric, quantity, events)
  select org_id, product_id, livemode, subject, ${slotOf('occurred_at')} as slot, metric, sum(quantity), count(*)
  from inserted
  where subject <> '' and (select count(*) from charted) > 0
  group by 1, 2, 3, 4, 5, 6
  having (org_id, product_id) in (select org_id, product_id from ${entitled} where subjects_since <= ${now})
  on conflict (org_id, product_id, livemode, subject, slot, metric)
  do update set quantity = s.quantity + excluded.quantity, events = s.events + excluded.events${burns ? '\n  returning 1' : ''}
)`;

const slotOf = (time: string): string =>
  `date_bin('5 minutes', ${time}, timestamptz '2000-01-01 00:00:00+00')`;

/** In primary-key order and before the hours, as events do. */
export const addToTotals = (table: (name: string) => string): string => `
  insert into ${table('usage_totals')} as t (org_id, period, livemode, product_id, metric, quantity, events, lowered)
  select org_id, date_trunc('month', occurred_at at time zone 'UTC')::date as period, livemode, product_id, metric,
    sum(quantity - previous_quantity), 0, sum(greatest(previous_quantity - quantity, 0))
  from corrected
  group by 1, 2, 3, 4, 5
  order by 1, 2, 3, 4, 5
  on conflict (org_id, period, livemode, product_id, metric)
  do update set quantity = t.quantity + excluded.quantity, lowered = t.lowered + excluded.lowered
  returning 1`;

/** @param after true once the totals have been adjusted */
export const addToHours = (table: (name: string) => string, after = 'true'): string => `
  insert into ${table('usage_hours')} as h (org_id, product_id, livemode, hour, metric, api_key_id, dimensions, quantity, events)
  select org_id, product_id, livemode, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00') as hour, metric, api_key_id,
    dimensions, sum(quantity - previous_quantity), 0
  from corrected
  where ${after}
  group by 1, 2, 3, 4, 5, 6, 7
  order by 1, 2, 3, 4, 5, 6, 7
  on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
  do update set quantity = h.quantity + excluded.quantity
  returning 1`;

/** Runs after the hours. */
export const addToSubjects = (table: (name: string) => string, after = 'true'): string => `
  insert into ${table('usage_subjects')} as s (org_id, product_id, livemode, subject, slot, metric, quantity, events)
  select org_id, product_id, livemode, subject, ${slotOf('occurred_at')} as slot, metric, sum(quantity - previous_quantity), 0
  from corrected
  where subject <> '' and ${after}
  group by 1, 2, 3, 4, 5, 6
  order by 1, 2, 3, 4, 5, 6
  on conflict (org_id, product_id, livemode, subject, slot, metric)
  do update set quantity = s.quantity + excluded.quantity`;

/** Branches of a `case`, in the terms of `rules.ts`. */
export const whenPairIsBad = (now: string): string => `${whenKeyIsBad(now, 'usage:write')}
      when e.kind is null then 'entitlement_required'
      when pr.archived_at is not null then 'product_archived'
      when e.kind = 'read_only' then 'entitlement_read_only'
      when pr.usage_metric <> p.metric then 'unknown_metric'`;

/**
 * From `p` (hashed_secret, slug) to its key `k`, its product `pr` and the entitlement `e` in effect. Lateral
 * sub-selects of one row by its whole key use indexes even if the planner misjudges table sizes.
 */
export const joinPair = (t: Names, now: string): string => `
  left join lateral (
    select id, org_id, livemode, revoked_at, archived_at, expires_at, scopes from ${t('api_keys')}
    where hashed_secret = p.hashed_secret limit 1
  ) k on true
  left join lateral (
    select id, usage_metric, max_quantity, unit_cap, archived_at, dimensions, subjects_since, credit_price, credit_dimension, credit_prices,
      credit_enforcement
    from ${t('products')} where slug = p.slug limit 1
  ) pr on true
  left join lateral (
    select kind, has_own_cap, unit_cap, limits, thresholds from ${t('entitlements')}
    where org_id = k.org_id and product_id = pr.id
      and starts_at <= ${now} and (ends_at is null or ends_at > ${now})
    limit 1
  ) e on true`;

/** Only an extended variant can record the pair. Never returned to callers. */
export const NEEDS_EXTENDED = 'needs_extended_text';
/** Only a priced variant can record the pair. Never returned to callers. */
export const NEEDS_PRICED = 'needs_priced_text';
/** The pair's combination must be listed first. Never returned to callers. */
export const NEEDS_COMBINATION = 'needs_combination';

/**
 * The ingestion statement: one round trip and one commit for all waiting requests. `pair` has each distinct (API key,
 * product, metric), so checks take a few index lookups, however many events there are, in the same snapshot as the
 * insert: a revocation committed before a request arrives applies to it. A strict request with several pairs forms a
 * group, and one bad pair excludes the whole group. A lenient request has a negative group, which only a quantity above
 * the maximum excludes. The maximum is checked against the pair's largest quantity. Rows are inserted in key order
 * (equal keys in the order sent), then the totals and the hours in primary-key order, then subjects. Every flush on
 * every instance takes its locks in that order, so two flushes may wait for each other but never deadlock. `inserted`
 * holds the rows that were actually new. The sums are increased by these rows, never by the input, so a repeat adds
 * nothing, whichever of two racing statements wins. The plain variant refuses every pair with limits or a listening
 * endpoint, with all batches that use it; the caller sends those again. The variants that expect only new keys omit "on
 * conflict": Postgres then looks a key up once instead of twice, which saves a fifth of the database's time, but a
 * repeat fails the statement. With dimensions, pairs also differ by dimensions and month. The priced variants find the
 * price once per pair and burn the credits of the inserted events after all sums. The other variants refuse every pair
 * whose product has a price. The first row lists the inserted events if some were not inserted, and counts the
 * evaluations queued; the others are the pairs that need an answer.
 * $1 hashed secret, $2 product slug, $3 metric, $4 group (0: none), $10 largest quantity, per pair · $5 index of the
 * pair, $6 idempotency key, $7 quantity, $8 occurred at, per event · $9 now · only with dimensions: $11 dimensions, $12
 * first day of the month, per pair · only with subjects: the last parameter, subject, per event
 */
function recordEvents(form: TextForm): Template {
  const { isExtended, expectsNew, hasSubjects, hasDimensions, isPriced } = form;
  const extended = (part: string) => (isExtended ? part : '');
  const withSubjects = (part: string) => (hasSubjects ? part : '');
  const combined = (part: string) => (hasDimensions ? part : '');
  const priced = (part: string) => (isPriced ? part : '');
  const burns = isPriced ? ('of their hour' as const) : undefined;
  const sums = {
    now: '$9::timestamptz',
    entitled: 'pair',
    hasSubjects,
    hasDimensions,
    knowsOthers: hasDimensions,
    burns,
  };
  const text = (t: Names) => `
${t.with} ${hasDimensions ? 'found' : 'pair'} as materialized (
  select p.ord - 1 as place, p.grp, p.metric, pr.max_quantity, k.org_id, k.id as api_key_id, k.livemode, pr.id as product_id, pr.usage_metric,
    ${effectiveCap('e', 'pr')} as unit_cap${extended(', e.limits, e.thresholds')}${withSubjects(', pr.subjects_since')}${combined(', pr.dimensions as keys, p.month, d.dimensions')}${priced(`, pr.credit_price is not null as is_priced, ${hasDimensions ? priceOf('p.asked') : 'coalesce(pr.credit_price, 0)'} as credit_price`)},
    case${whenPairIsBad('$9::timestamptz')}${combined(`
      when ${hasUnknownKey('p.asked')} then 'unknown_dimension'`)}${isPriced ? '' : whenPriced}${isExtended ? '' : whenNotPlain(t)}
      when p.largest > pr.max_quantity then 'quantity_out_of_range'
    end as ${hasDimensions ? 'own_problem' : 'problem'}
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $10::numeric[]${combined(', $11::jsonb[], $12::date[]')}) with ordinality
    as p (hashed_secret, slug, metric, grp, largest${combined(', asked, month')}, ord)${t.held}${joinPair(t, '$9::timestamptz')}${combined(joinEncoded('p.asked'))}
), ${combined(withListed(t))}good as (
  select * from pair
  where problem is null and (grp = 0 or grp not in (
    select grp from pair where problem is not null
      and (grp > 0 or problem in ('quantity_out_of_range', '${NEEDS_EXTENDED}', '${NEEDS_PRICED}'${combined(`, '${NEEDS_COMBINATION}'`)}))
  ))
), inserted as (
  insert into ${t('usage_events')}
    (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at${withSubjects(', subject')}${combined(', dimensions')}${priced(', credit_price')})
  select g.org_id, ev.idempotency_key, g.product_id, g.metric, ev.quantity, g.livemode, g.api_key_id, ev.occurred_at, $9::timestamptz${withSubjects(', ev.subject')}${combined(', g.dimensions')}${priced(', g.credit_price')}
  from unnest($5::int[], $6::text[], $7::numeric[], $8::timestamptz[]${withSubjects(`, $${hasDimensions ? 13 : 11}::text[]`)}) with ordinality
    as ev (pair, idempotency_key, quantity, occurred_at${withSubjects(', subject')}, ord)
  join good g on g.place = ev.pair
  order by g.org_id, ev.idempotency_key collate "C", ev.ord${expectsNew ? '' : '\n  on conflict (org_id, idempotency_key) do nothing'}
  returning org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at${withSubjects(', subject')}${combined(', dimensions')}${priced(', credit_price')}
), ${isExtended ? addToSums(t, sums) : addUnnoted(t, sums)}, counted as (
  select count(*) = cardinality($5::int[]) as is_all_new from inserted
)
select case when not c.is_all_new then (select coalesce(json_agg(json_build_array(org_id, idempotency_key)), '[]') from inserted)::text end as inserted,
  ${isExtended ? '(select count(*) from noted)::text' : 'null'} as noted, null as place, null as problem, null as "orgId", null as "productId", null as livemode,
  null as "usageMetric", null as "unitCap", null as period, null as used, null as "maxQuantity"${extended(', null as declared, null as total')}${combined(', null as dimensions, null as keys, null as "isOther"')}${priced(', null as "isPriced", null as overdraft')}
from counted c
union all
select null, null, p.place::text, p.problem, p.org_id::text, p.product_id::text, p.livemode::text, p.usage_metric, trim_scale(p.unit_cap)::text,
  r.period::text, trim_scale(r.quantity)::text, trim_scale(p.max_quantity)::text${extended(`,
  p.limits::text, case when p.problem is null and p.limits is not null then ${totalAround(t, 'p', '$9::timestamptz')} end`)}${combined(', p.dimensions, to_json(p.keys)::text, p.is_other::text')}${priced(`, p.is_priced::text,
  trim_scale(case when b.org_id is not null then coalesce(b.debts[array_position(b.debtors, p.product_id)], 0) end)::text`)}
from pair p
cross join counted c
left join raised r on r.org_id = p.org_id and r.product_id = p.product_id and r.metric = p.metric and r.livemode = p.livemode
  and r.quantity > p.unit_cap${priced(`
left join burnt b on b.org_id = p.org_id and b.livemode = p.livemode`)}
where p.problem is not null or r.quantity is not null${extended(' or p.limits is not null')}${combined(' or p.is_other')}${priced(' or p.is_priced and (b.org_id is null or p.product_id = any (b.debtors))')} or not c.is_all_new`;
  return { name: nameOf(form), text };
}

const withListed = (t: Names): string => `pair as materialized (
  select f.*, coalesce(own_problem, case when is_other and ${hasRoom(t, 'f', 'f.month')} then '${NEEDS_COMBINATION}' end) as problem
  from (
    select f.*, f.own_problem is null and ${countedDimensions(t, 'f', 'f.month')} = ${OTHER_SQL} as is_other from found f offset 0
  ) f
), `;

const whenPriced = `
      when pr.credit_price is not null then '${NEEDS_PRICED}'`;

const whenNotPlain = (t: Names): string => `
      when e.limits is not null or ${isListening(t, 'k', 'usage.threshold_reached')} then '${NEEDS_EXTENDED}'`;

interface TextForm {
  isExtended: boolean;
  isPriced: boolean;
  hasSubjects: boolean;
  hasDimensions: boolean;
  /** A key that exists or occurs twice makes the statement fail. */
  expectsNew: boolean;
}

const nameOf = ({ isExtended, isPriced, hasSubjects, hasDimensions, expectsNew }: TextForm): string =>
  `usage_ingest${isPriced ? '_priced' : ''}${hasSubjects ? '_subjects' : ''}${hasDimensions ? '_dimensions' : ''}${isExtended ? '_extended' : ''}${expectsNew ? '_new' : ''}`;

const texts = createRecall<Template>(32);

export const ingestText = (form: TextForm): Template => texts(nameOf(form), () => recordEvents(form));

/**
 * The first row has only `inserted` and `noted`; the others have neither. `noted` is null if the variant queues no
 * threshold evaluations.
 */
export interface IngestRow {
  /** JSON, with Organization and idempotency key. */
  inserted: string | null;
  noted: string | null;
  /** Index of the pair. */
  place: string;
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  livemode: string | null;
  usageMetric: string | null;
  /** Set with `period` and `used` if the month's total is above the cap. */
  unitCap: string | null;
  period: string | null;
  used: string | null;
  maxQuantity: string | null;
  /** JSON of the entitlement's limits. Only in extended variants. */
  declared?: string | null;
  /** `Limited.total`. Only in extended variants. */
  total?: string | null;
  /**
   * Encoded. `keys` are the product's dimensions as JSON; `isOther` means no sums of its own. Only in variants with
   * dimensions.
   */
  dimensions?: string | null;
  keys?: string | null;
  isOther?: string | null;
  /** `overdraft` is set if the account was changed. Both only in priced variants. */
  isPriced?: string | null;
  overdraft?: string | null;
}

/**
 * Returns indexes and whether the mode differs. A repeat without a time matches any, because the first event may have
 * used its time of receipt.
 * $1 org, $2 idempotency key, $3 product, $4 metric, $5 quantity, $6 livemode, $7 occurred at or null, $8 subject, $9
 * dimensions, per event
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

export interface MismatchRow {
  place: string;
  isOtherMode: string;
}

/** $1 org, $2 product, $3 metric, $4 livemode, $5 period, per total */
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

export interface OverCapRow {
  place: string;
  unitCap: string;
  used: string;
}
