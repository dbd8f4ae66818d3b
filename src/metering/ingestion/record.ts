import { isListening } from '../../accounts/webhooks/outbox.js';
import { createRecall } from '../../core/collections.js';
import type { Names, Template } from '../../core/db/client.js';
import { list, when } from '../../core/db/sql.js';
import {
  countedDimensions,
  hasRoom,
  hasUnknownKey,
  joinEncoded,
  OTHER_SQL,
} from '../entitlements/dimensions.js';
import { priceOf } from '../entitlements/price.js';
import { effectiveCap } from '../entitlements/table.js';
import { MAX_PAST_MS } from './batch.js';
import { totalAround } from './headroom.js';
import { joinPair, NEEDS_COMBINATION, NEEDS_EXTENDED, NEEDS_PRICED, whenPairIsBad } from './pair.js';
import { addToSums } from './sums.js';

export interface Form {
  /** Handles limits and thresholds. Without it, a pair that has limits or a listening endpoint is refused. */
  isExtended: boolean;
  /** Finds each pair's price once and burns the credits. Without it, a pair whose product has a price is refused. */
  isPriced: boolean;
  hasSubjects: boolean;
  /** Pairs also differ by dimensions and month. */
  hasDimensions: boolean;
  /** Also for operators, who have no key. Refuses archived months. Each pair has a month, so it has dimensions, too. */
  takesOld: boolean;
  /**
   * A key that exists or occurs twice makes the statement fail. Postgres then looks each key up once instead of twice,
   * which saves a fifth of the database's time.
   */
  expectsNew: boolean;
}

const nameOf = ({ isExtended, isPriced, hasSubjects, hasDimensions, takesOld, expectsNew }: Form): string =>
  `usage_ingest${when(takesOld, '_old')}${when(isPriced, '_priced')}${when(hasSubjects, '_subjects')}${when(hasDimensions, '_dimensions')}${when(isExtended, '_extended')}${when(expectsNew, '_new')}`;

const texts = createRecall<Template>(48);

export const recordText = (form: Form): Template => texts(nameOf(form), () => recordEvents(form));

const NOW = '$9::timestamptz';

/**
 * The ingestion statement: one round trip and one commit for all waiting requests.
 *
 * `pair` has each distinct (API key, product, metric) of the flush, and an event only refers to its pair. So keys and
 * entitlements take a few index lookups, however many events there are, in the same snapshot as the insert: a
 * revocation committed before a request arrives applies to it, without a cache. `inserted` holds the rows that were
 * new. The sums grow by these rows, never by the input, so a repeat adds nothing, whichever of two racing statements
 * wins. Every flush takes its locks in one order (events by key, then each sum by primary key), so two flushes may wait
 * for each other but never deadlock.
 *
 * The first row lists the inserted events if some were not inserted, and counts the threshold evaluations queued. The
 * other rows are the pairs that need an answer: refused, above the cap, with limits, or possibly repeated.
 *
 * Per pair: $1 hashed secret, $2 product slug, $3 metric, $4 group, $10 largest quantity, with dimensions also $11
 * dimensions and $12 first day of the month. Per event: $5 index of the pair, $6 idempotency key, $7 quantity, $8
 * occurred at, with subjects also the last parameter. $9 now.
 */
function recordEvents(form: Form): Template {
  const { isExtended, hasSubjects, hasDimensions, isPriced, takesOld } = form;
  const sums = {
    now: NOW,
    entitled: 'pair',
    hasThresholds: isExtended,
    hasSubjects,
    hasDimensions,
    knowsOthers: hasDimensions,
    burns: isPriced,
    oldMs: takesOld ? MAX_PAST_MS : undefined,
  };
  const text = (t: Names) => `
${t.with} ${[
    hasDimensions
      ? `${judge(t, form, 'found', 'own_problem')}, ${pairsOfCombinations(t)}`
      : judge(t, form, 'pair', 'problem'),
    good(form),
    inserted(t, form),
    ...addToSums(t, sums),
    'counted as (select count(*) = cardinality($5::int[]) as is_all_new from inserted)',
  ].join(', ')}
${answer(t, form)}`;
  return { name: nameOf(form), text };
}

/** Each pair with its key, product and entitlement, and what is wrong with it. The maximum is checked once per pair. */
function judge(
  t: Names,
  { isExtended, isPriced, hasSubjects, hasDimensions, takesOld }: Form,
  name: string,
  problem: string,
): string {
  const price = hasDimensions ? priceOf('p.asked') : 'coalesce(pr.credit_price, 0)';
  const columns = list(
    'p.ord - 1 as place, p.grp, p.metric, pr.max_quantity, k.org_id, k.id as api_key_id, k.livemode, pr.id as product_id, pr.usage_metric',
    `${effectiveCap('e', 'pr')} as unit_cap`,
    isExtended && 'e.limits, e.thresholds',
    hasSubjects && 'pr.subjects_since',
    hasDimensions && 'pr.dimensions as keys, p.month, d.dimensions',
    isPriced && `pr.credit_price is not null as is_priced, ${price} as credit_price`,
  );
  const whenUnknown = `when ${hasUnknownKey('p.asked')} then 'unknown_dimension'`;
  const whenArchived = `when exists (select from ${t('usage_archives')} where org_id = k.org_id and period = p.month and livemode = k.livemode) then 'month_archived'`;
  const whenPriced = `when pr.credit_price is not null then '${NEEDS_PRICED}'`;
  const whenLimited = `when e.limits is not null or ${isListening(t, 'k', 'usage.threshold_reached')} then '${NEEDS_EXTENDED}'`;
  return `${name} as materialized (
  select ${columns},
    case${whenPairIsBad(NOW)}
      ${when(hasDimensions, whenUnknown)} ${when(takesOld, whenArchived)} ${when(!isPriced, whenPriced)} ${when(!isExtended, whenLimited)}
      when p.largest > pr.max_quantity then 'quantity_out_of_range'
    end as ${problem}
  from unnest($1::text[], $2::text[], $3::text[], $4::int[], $10::numeric[]${when(hasDimensions, ', $11::jsonb[], $12::date[]')}) with ordinality
    as p (hashed_secret, slug, metric, grp, largest${when(hasDimensions, ', asked, month')}, ord)${t.held}${joinPair(t, NOW, takesOld)}${when(hasDimensions, joinEncoded('p.asked'))}
)`;
}

/** A new combination of dimensions must be listed first, as long as there is room for it. */
const pairsOfCombinations = (t: Names): string => `pair as materialized (
  select f.*, coalesce(own_problem, case when is_other and ${hasRoom(t, 'f', 'f.month')} then '${NEEDS_COMBINATION}' end) as problem
  from (
    select f.*, f.own_problem is null and ${countedDimensions(t, 'f', 'f.month')} = ${OTHER_SQL} as is_other from found f offset 0
  ) f
)`;

/** One bad pair excludes its whole group. A lenient group is negative; only what a resend can cure excludes it. */
const good = ({ hasDimensions }: Form): string => `good as (
  select * from pair
  where problem is null and (grp = 0 or grp not in (
    select grp from pair where problem is not null
      and (grp > 0 or problem in ('quantity_out_of_range', '${NEEDS_EXTENDED}', '${NEEDS_PRICED}'${when(hasDimensions, `, '${NEEDS_COMBINATION}'`)}))
  ))
)`;

/** Inserts in key order; equal keys keep the order in which they were sent. */
function inserted(t: Names, { expectsNew, hasSubjects, hasDimensions, isPriced }: Form): string {
  const more = `${when(hasDimensions, ', dimensions')}${when(isPriced, ', credit_price')}`;
  const subject = when(hasSubjects, ', subject');
  return `inserted as (
  insert into ${t('usage_events')}
    (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at${subject}${more})
  select g.org_id, ev.idempotency_key, g.product_id, g.metric, ev.quantity, g.livemode, g.api_key_id, ev.occurred_at, ${NOW}${when(hasSubjects, ', ev.subject')}${when(hasDimensions, ', g.dimensions')}${when(isPriced, ', g.credit_price')}
  from unnest($5::int[], $6::text[], $7::numeric[], $8::timestamptz[]${when(hasSubjects, `, $${hasDimensions ? 13 : 11}::text[]`)}) with ordinality
    as ev (pair, idempotency_key, quantity, occurred_at${subject}, ord)
  join good g on g.place = ev.pair
  order by g.org_id, ev.idempotency_key collate "C", ev.ord
  ${when(!expectsNew, 'on conflict (org_id, idempotency_key) do nothing')}
  returning org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at${subject}${more}
)`;
}

/** The first row and the rows of pairs have the same columns: in `first` and in `pair`. */
function answer(t: Names, { isExtended, hasDimensions, isPriced }: Form): string {
  const first = list(
    `case when not c.is_all_new then (select coalesce(json_agg(json_build_array(org_id, idempotency_key)), '[]') from inserted)::text end as inserted`,
    `${isExtended ? '(select count(*) from noted)::text' : 'null'} as noted`,
    'null as place, null as problem, null as "orgId", null as "productId", null as livemode, null as "usageMetric", null as "unitCap"',
    'null as period, null as used, null as "maxQuantity"',
    isExtended && 'null as declared, null as total',
    hasDimensions && 'null as dimensions, null as keys, null as "isOther"',
    isPriced && 'null as "isPriced", null as overdraft',
  );
  const pair = list(
    'null, null, p.place::text, p.problem, p.org_id::text, p.product_id::text, p.livemode::text, p.usage_metric, trim_scale(p.unit_cap)::text',
    'r.period::text, trim_scale(r.quantity)::text, trim_scale(p.max_quantity)::text',
    isExtended &&
      `p.limits::text, case when p.problem is null and p.limits is not null then ${totalAround(t, 'p', NOW)} end`,
    hasDimensions && 'p.dimensions, to_json(p.keys)::text, p.is_other::text',
    isPriced &&
      'p.is_priced::text, trim_scale(case when b.org_id is not null then coalesce(b.debts[array_position(b.debtors, p.product_id)], 0) end)::text',
  );
  return `select ${first}
from counted c
union all
select ${pair}
from pair p
cross join counted c
left join raised r on r.org_id = p.org_id and r.product_id = p.product_id and r.metric = p.metric and r.livemode = p.livemode
  and r.quantity > p.unit_cap
${when(isPriced, 'left join burnt b on b.org_id = p.org_id and b.livemode = p.livemode')}
where p.problem is not null or r.quantity is not null${when(isExtended, ' or p.limits is not null')}${when(hasDimensions, ' or p.is_other')}${when(isPriced, ' or p.is_priced and (b.org_id is null or p.product_id = any (b.debtors))')} or not c.is_all_new`;
}

/**
 * A row that the ingestion statement returns. The first row has only `inserted` and `noted`; the others have neither.
 * `noted` is null if the variant queues no threshold evaluations.
 */
export interface IngestRow {
  /** JSON list of pairs of Organization and idempotency key. */
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
  /** The entitlement's limits as JSON. Only if extended. */
  declared?: string | null;
  /** `Limited.total`, if events are recorded for an entitlement with limits. Only if extended. */
  total?: string | null;
  /**
   * The encoded dimensions. `keys` are the product's dimensions as JSON; `isOther` is true if the combination has no
   * sums of its own. All three only in variants with dimensions.
   */
  dimensions?: string | null;
  keys?: string | null;
  isOther?: string | null;
  /** Whether the product has a price. `overdraft` is set if the account was changed. Both only in priced variants. */
  isPriced?: string | null;
  overdraft?: string | null;
}
