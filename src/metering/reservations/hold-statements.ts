import type { Names, Template } from '../../core/db/client.js';
import { accountGate, creditRooms } from '../credits/statements.js';
import { hasUnknownKey, joinEncoded } from '../entitlements/dimensions.js';
import { heldFor, heldForSubject, limitUsage, subjectUsage } from '../entitlements/limit-queries.js';
import { priceOf } from '../entitlements/price.js';
import { joinPair, NEEDS_EXTENDED, whenPairIsBad } from '../ingestion/pair.js';

/**
 * One round trip and one commit for all waiting requests; everything is read in one snapshot. Requests for the same
 * subject (Organization, product, mode and metric) are decided in order, and each decision counts the requests accepted
 * before it in this flush. Other flushes may decide from the same snapshot. Each flush that holds against a blocking
 * limit therefore increments the subject's gate, but only if the gate still has its value from the snapshot, and
 * inserts the holds only if the gate was incremented: the other flush is retried with a new snapshot. Events need no
 * gate, because no limit refuses them, and a settlement turns a hold into usage within one commit. Gates are written in
 * primary-key order before the holds, which are written in key order, so no two flushes deadlock. `retry` means that
 * nothing was decided; `limit_reached` depends on the subject's sums and the requests accepted earlier.
 * $1 hashed secret, $2 product slug, $3 metric, per pair · $4 pair, $5 id, $6 idempotency key, $7 quantity, $8 expires
 * at, per request · $9 now
 */
export const reserve: Template = { name: 'usage_reserve', text: (t) => reserveText(t, false) };

/**
 * For subjects, dimensions and products that cost credits. A subject with limits of its own is `named`: a request must
 * also fit into that subject's remaining limits, together with the subject's requests accepted earlier in this flush. A
 * request for a product that blocks must also fit into the credits left after holds. Requests for priced products of
 * one Organization and mode are decided in one chain. A request whose credits no longer fit after those accepted
 * earlier is retried, because the earlier requests may have used grants that do not apply to its product. A flush that
 * holds credits for a product that blocks also increments the account's gate.
 * $10 dimensions as JSON, per pair · $11 subject, per request
 */
export const reserveDetailed: Template = {
  name: 'usage_reserve_detailed',
  text: (t) => reserveText(t, true),
};

function reserveText(t: Names, isDetailed: boolean): string {
  const detailed = (part: string) => (isDetailed ? part : '');
  const plain = (part: string) => (isDetailed ? '' : part);
  return `
${t.withRecursive} pair as materialized (
  select p.ord - 1 as place, k.org_id, k.id as api_key_id, k.livemode, pr.id as product_id, pr.usage_metric, pr.max_quantity, e.limits,
    case${whenPairIsBad('$9::timestamptz')}${detailed(`
      when ${hasUnknownKey('p.asked')} then 'unknown_dimension'`)}${plain(`
      when pr.credit_price is not null then '${NEEDS_EXTENDED}'`)}
    end as problem${detailed(`, d.dimensions, pr.dimensions as keys, pr.credit_enforcement, ${priceOf('p.asked')} as credit_price`)}
  from unnest($1::text[], $2::text[], $3::text[]${detailed(', $10::jsonb[]')}) with ordinality
    as p (hashed_secret, slug, metric${detailed(', asked')}, ord)${t.held}${joinPair(t, '$9::timestamptz')}${detailed(joinEncoded('p.asked'))}
), subject as materialized (
  select row_number() over () as number, s.*, coalesce(g.seq, 0) as seq, h.held, h.held_until
  from (
    select distinct org_id, product_id, livemode, usage_metric as metric, limits from pair where problem is null and limits is not null
  ) s
  left join lateral (
    select seq from ${t('usage_gates')}
    where org_id = s.org_id and product_id = s.product_id and livemode = s.livemode and metric = s.metric
    limit 1
  ) g on true
  cross join lateral ${heldFor(t, 's', '$9::timestamptz')} h
), room as materialized (
  select s.number, ${roomOf('s')}
  from subject s${limitUsage(t, 's', '$9::timestamptz')}
  group by s.number
), ${detailed(`${namedRooms(t)}${accounts(t)}`)}request as materialized (
  select a.ord - 1 as place, a.id, a.idempotency_key, a.quantity, a.expires_at, p.org_id, p.product_id, p.api_key_id, p.livemode,
    p.usage_metric, p.max_quantity, s.number, r.room, k.id as known_id${detailed(`, a.subject, p.dimensions, p.keys, n.number as own_number, o.room as own_room,
    p.credit_enforcement, p.credit_price, a.quantity * p.credit_price as cost, case when a.quantity * p.credit_price > 0 then c.room end as credit_room`)},
    case when p.problem is not null then p.problem when a.quantity > p.max_quantity then 'quantity_out_of_range' end as problem,
    row_number() over (partition by p.org_id, a.idempotency_key order by a.ord) > 1 as is_twin
  from unnest($4::int[], $5::uuid[], $6::text[], $7::numeric[], $8::timestamptz[]${detailed(', $11::text[]')}) with ordinality
    as a (pair, id, idempotency_key, quantity, expires_at${detailed(', subject')}, ord)
  join pair p on p.place = a.pair
  left join subject s on s.org_id = p.org_id and s.product_id = p.product_id and s.livemode = p.livemode and s.metric = p.usage_metric
  left join room r on r.number = s.number${detailed(`
  left join named n on n.org_id = p.org_id and n.product_id = p.product_id and n.livemode = p.livemode and n.metric = p.usage_metric
    and n.subject = a.subject
  left join own_room o on o.number = n.number
  left join credit_room c on c.org_id = p.org_id and c.product_id = p.product_id and c.livemode = p.livemode`)}
  left join lateral (
    select id from ${t('usage_reservations')} where org_id = p.org_id and idempotency_key = a.idempotency_key limit 1
  ) k on true
), ${isDetailed ? decideDetailed : decide}, raised as (
  insert into ${t('usage_gates')} as g (org_id, product_id, livemode, metric, seq)
  select org_id, product_id, livemode, metric, seq + 1 from subject
  where number in (select number from decided where ${isDetailed ? TAKEN : 'taken is not null'})${detailed(`
  union all
  select org_id, '${accountGate.productId}', livemode, '${accountGate.metric}', seq + 1 from account
  where (org_id, livemode) in (
    select r.org_id, r.livemode from decided join request r using (place) where ${TAKEN} and r.credit_room is not null
  )`)}
  order by 1, 2, 3, 4
  on conflict (org_id, product_id, livemode, metric) do update set seq = excluded.seq where g.seq = excluded.seq - 1
  returning org_id, product_id, livemode, metric
), opened as materialized (
  select s.number from raised join subject s using (org_id, product_id, livemode, metric)
), stored as (
  insert into ${t('usage_reservations')}
    (org_id, id, product_id, api_key_id, created_at, expires_at, livemode, idempotency_key, metric, quantity${detailed(', subject, dimensions, credit_price')})
  select r.org_id, r.id, r.product_id, r.api_key_id, $9::timestamptz, r.expires_at, r.livemode, r.idempotency_key, r.usage_metric, r.quantity${detailed(', r.subject, r.dimensions, r.credit_price')}
  from request r
  left join decided d on d.place = r.place
  where r.problem is null and r.known_id is null and not r.is_twin
    and ${isDetailed ? mayStoreDetailed : '(r.room is null or (d.taken is not null and r.number in (select number from opened)))'}
  order by r.org_id, r.idempotency_key collate "C"
  on conflict (org_id, idempotency_key) do nothing
  returning id
)
select number::text as number, limits, held_until as "heldUntilMs", null as place, null as outcome, null as "orgId", null as "productId",
  null as livemode, null as before, null as metric, null as "knownId", null as "maxQuantity"${detailed(', null as "ownNumber", null as "ownBefore", null as dimensions, null as keys, null as required, null as available')}
from room
union all${detailed(`
select 'subject ' || number, limits, held_until, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from own_room
union all`)}
select r.number::text, null, null, r.place::text,
  case
    when r.problem is not null then r.problem
    when r.known_id is not null then 'repeated'
    when r.id in (select id from stored) then 'held'
    ${isDetailed ? `when d.outcome <> 'held' then d.outcome` : `when d.place is not null and d.taken is null then 'limit_reached'`}
    else 'retry'
  end,
  r.org_id::text, r.product_id::text, r.livemode::text, trim_scale(coalesce(d.before, 0))::text, r.usage_metric, r.known_id::text,
  trim_scale(r.max_quantity)::text${detailed(`, 'subject ' || r.own_number, trim_scale(coalesce(d.own_before, 0))::text, r.dimensions, to_json(r.keys)::text,
  trim_scale(r.cost)::text, trim_scale(r.credit_room)::text`)}
from request r
left join decided d on d.place = r.place`;
}

const decide = `candidate as materialized (
  select place, number, room, quantity, row_number() over (partition by number order by place) as n
  from request where problem is null and known_id is null and not is_twin and room is not null
), decided (number, n, place, before, taken) as (
  select number, n, place, 0::numeric, case when quantity <= room then quantity end from candidate where n = 1
  union all
  select c.number, c.n, c.place, d.before + coalesce(d.taken, 0),
    case when d.before + coalesce(d.taken, 0) + c.quantity <= c.room then c.quantity end
  from decided d
  join candidate c on c.number = d.number and c.n = d.n + 1
)`;

const TAKEN = `outcome = 'held'`;

/** No decision is needed, or the request was accepted and all of its gates were incremented. */
const mayStoreDetailed = `(d.place is null or (d.${TAKEN} and (r.number is null or r.number in (select number from opened))
      and (r.credit_room is null or (r.org_id, r.livemode) in (select org_id, livemode from raised where product_id = '${accountGate.productId}'))))`;

/**
 * `given` is the quantity accepted so far, by the subject's number, by `own` number, and in credits. A null room means
 * unlimited.
 */
const decideDetailed = `candidate as materialized (
  select place, chain, number, room, quantity, own_number, own_room, cost, credit_room, row_number() over (partition by chain order by place) as n
  from (
    select *, case when credit_enforcement is null then number::text else concat(org_id, livemode) end as chain from request
    where problem is null and known_id is null and not is_twin
      and (room is not null or own_room is not null or cost > 0)
  ) r
), decided (chain, n, place, number, before, own_before, outcome, given) as (
  select chain, 0::bigint, null::bigint, null::bigint, null::numeric, null::numeric, null::text, '{}'::jsonb from candidate where n = 1
  union all
  select c.chain, c.n, c.place, c.number, b.before, b.own_before, f.outcome,
    case when f.outcome <> 'held' then d.given else d.given || jsonb_build_object(concat(c.number), b.before + c.quantity,
      concat('own ', c.own_number), b.own_before + c.quantity, 'credits', b.credits + c.cost) end
  from decided d
  join candidate c on c.chain = d.chain and c.n = d.n + 1
  cross join lateral (
    select coalesce((d.given ->> concat(c.number))::numeric, 0) as before,
      coalesce((d.given ->> concat('own ', c.own_number))::numeric, 0) as own_before,
      coalesce((d.given ->> 'credits')::numeric, 0) as credits
  ) b
  cross join lateral (
    select case
      when b.before + c.quantity > coalesce(c.room, 'Infinity') or b.own_before + c.quantity > coalesce(c.own_room, 'Infinity')
        then 'limit_reached'
      when b.credits + c.cost <= coalesce(c.credit_room, 'Infinity') then 'held'
      when b.credits = 0 then 'credits_exhausted'
      else 'retry'
    end as outcome
  ) f
)`;

/** After holds, for each product that blocks. A missing account has no credits. */
const accounts = (t: Names): string => `account as materialized (
  select a.*, coalesce(g.seq, 0) as seq
  from (
    select org_id, livemode, array_agg(distinct product_id) as ids from pair where problem is null and credit_enforcement = 'block' group by 1, 2
  ) a
  left join lateral (
    select seq from ${t('usage_gates')}
    where org_id = a.org_id and product_id = '${accountGate.productId}' and livemode = a.livemode and metric = '${accountGate.metric}'
    limit 1
  ) g on true
), credit_room as materialized (
  select a.org_id, a.livemode, c.product_id, c.room
  from account a
  cross join lateral (
    select p.product_id, coalesce(r.room, 0) as room
    from unnest(a.ids) as p (product_id)
    left join ${creditRooms(t, 'a', 'a.ids', '$9::timestamptz')} r on r.product = p.product_id
  ) c
), `;

const namedRooms = (t: Names): string => `named as materialized (
  select row_number() over () as number, s.*, h.held, h.held_until
  from (
    select distinct p.org_id, p.product_id, p.livemode, p.usage_metric as metric, p.limits, a.subject
    from unnest($4::int[], $11::text[]) as a (pair, subject)
    join pair p on p.place = a.pair
    where p.problem is null and a.subject <> '' and p.limits @? '$[*] ? (@.per == "subject")'
  ) s
  cross join lateral ${heldForSubject(t, 's', '$9::timestamptz')} h
), own_room as materialized (
  select s.number, ${roomOf('s')}
  from named s${subjectUsage(t, 's', '$9::timestamptz')}
  group by s.number
), `;

/** When the first hold ends, the room under blocking limits, and all limits as JSON. */
const roomOf = (
  row: string,
): string => `(extract(epoch from min(${row}.held_until)) * 1000)::bigint::text as held_until, min(l.quantity - u.used - u.ahead - ${row}.held) filter (where l.enforcement = 'block') as room,
    json_agg(json_build_object('quantity', trim_scale(l.quantity)::text, 'window', l.name, 'enforcement', l.enforcement,
      'used', trim_scale(u.used)::text, 'ahead', trim_scale(u.ahead)::text, 'held', trim_scale(${row}.held)::text) order by l.ord)::text as limits`;

/** A row for each subject with limits. */
export interface SubjectRow {
  number: string;
  /** JSON. */
  limits: string;
  /** The first hold's expiry. */
  heldUntilMs: string | null;
  place: null;
}

/** A row for each request. */
export interface DecisionRow {
  /** Number of the request's subject, if that has limits. */
  number: string | null;
  /** Index of the request. */
  place: string;
  outcome: string;
  orgId: string;
  productId: string;
  livemode: string;
  before: string;
  metric: string;
  /** The earlier reservation with the same idempotency key. */
  knownId: string | null;
  maxQuantity: string;
  /** Set if the request names a subject with limits; its quantity was accepted earlier. Only in `reserveDetailed`. */
  ownNumber?: string | null;
  ownBefore?: string;
  /** Encoded; `keys` are the product's dimensions as JSON. */
  dimensions?: string | null;
  keys?: string | null;
  /** In credits. `available` is after holds; null unless the product blocks and the request costs credits. */
  required?: string | null;
  available?: string | null;
}
