import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import type { Names, Template } from '../../core/db/client.js';
import { accountGate, creditRooms } from '../credits/statements.js';
import {
  countedDimensions,
  hasUnknownKey,
  joinEncoded,
  needsListing,
  OTHER_SQL,
} from '../entitlements/dimensions.js';
import { heldFor, heldForSubject, limitUsage, subjectUsage } from '../entitlements/limit-queries.js';
import { priceOf } from '../entitlements/price.js';
import { effectiveCap } from '../entitlements/table.js';
import { totalAround } from '../ingestion/headroom.js';
import {
  addToSums,
  joinPair,
  NEEDS_COMBINATION,
  NEEDS_EXTENDED,
  NEEDS_PRICED,
  whenPairIsBad,
} from '../ingestion/statements.js';
import { reservationEnds } from '../ingestion/table.js';
import type { ReservationStatus } from './table.js';

/**
 * Holds what has room: one round trip and one commit for everything that waits.
 * Key, entitlement, limits, usage and holds are read in one snapshot. Requests for one subject (Organization, product, mode
 * and metric) are decided in order, and requests accepted earlier in this flush count. Other flushes may decide from the
 * same snapshot. Therefore each flush that holds against a blocking limit raises the subject's gate, but only if the gate
 * still has its value from the snapshot; the holds are inserted only if the gate was raised. If two flushes decided from
 * the same sums, one raises the gate and the other is retried with a new snapshot. Events need no gate: no limit
 * refuses them, and a settlement moves a hold into usage within one commit.
 * Gates are written in primary-key order before the holds, which are written in key order, so no two flushes deadlock.
 * `retry`: nothing was decided; `limit_reached`: by the sums of the subject and the requests accepted before.
 * $1 hashed secret, $2 product slug, $3 metric, per pair · $4 pair, $5 id, $6 idempotency key, $7 quantity, $8 expires at,
 * per request · $9 now
 */
export const reserve: Template = { name: 'usage_reserve', text: (t) => reserveText(t, false) };

/**
 * Like `reserve`, for subjects, dimensions and products that cost credits, which `reserve` leaves to it. A subject with limits of
 * its own is `named`: a request must fit into its room too, beside the requests for the same subject that were accepted
 * earlier in this flush. A request for a product that blocks must also fit into what holds leave of the credits. Requests for all
 * products with a price of an Organization and mode are decided in one chain. If one does not fit beside those accepted
 * earlier, it is retried, because they may have taken grants that do not apply to its product. A flush that holds credits of a product that
 * blocks raises the account's gate too.
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

/** Whether nothing can refuse a request, or it was accepted and each of its gates was raised. */
const mayStoreDetailed = `(d.place is null or (d.${TAKEN} and (r.number is null or r.number in (select number from opened))
      and (r.credit_room is null or (r.org_id, r.livemode) in (select org_id, livemode from raised where product_id = '${accountGate.productId}'))))`;

/** `given` has what was given so far, by number of the subject, by `own` number, and in credits. A room of null is unlimited. */
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

/** What holds leave of the credits for each product that blocks. An account that does not exist has none. */
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

/** SQL: when the first hold ends, the room under blocking limits, and all limits as JSON. */
const roomOf = (
  row: string,
): string => `(extract(epoch from min(${row}.held_until)) * 1000)::bigint::text as held_until, min(l.quantity - u.used - u.ahead - ${row}.held) filter (where l.enforcement = 'block') as room,
    json_agg(json_build_object('quantity', trim_scale(l.quantity)::text, 'window', l.name, 'enforcement', l.enforcement,
      'used', trim_scale(u.used)::text, 'ahead', trim_scale(u.ahead)::text, 'held', trim_scale(${row}.held)::text) order by l.ord)::text as limits`;

/** A row of `reserve` for a subject with limits. */
export interface SubjectRow {
  number: string;
  /** A list of `LimitRow` as JSON. */
  limits: string;
  /** When its first hold expires. */
  heldUntilMs: string | null;
  place: null;
}

/** A row of `reserve` for a request. */
export interface DecisionRow {
  /** That of the subject with limits. */
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
  /** Only in the detailed text: number of the subject with limits, and the quantity accepted for it earlier. */
  ownNumber?: string | null;
  ownBefore?: string;
  /** Encoded, and the product's dimensions as JSON. */
  dimensions?: string | null;
  keys?: string | null;
  /** Credits: the cost, and what was available for the product if it blocks. */
  required?: string | null;
  available?: string | null;
}

const columns = (
  r: string,
  product: string,
) => `${r}.id::text, ${product}.slug as "productSlug", ${r}.metric, trim_scale(${r}.quantity)::text as quantity, ${r}.idempotency_key as "idempotencyKey",
  (extract(epoch from ${r}.created_at) * 1000)::bigint::text as "createdAtMs", (extract(epoch from ${r}.expires_at) * 1000)::bigint::text as "expiresAtMs",
  (extract(epoch from ${r}.released_at) * 1000)::bigint::text as "releasedAtMs", (extract(epoch from ${r}.settled_at) * 1000)::bigint::text as "settledAtMs",
  trim_scale(${r}.settled_quantity)::text as "settledQuantity", ${r}.livemode::text, ${r}.subject, ${r}.dimensions, to_json(${product}.keys)::text as keys`;

export interface ReservationRow {
  id: string;
  productSlug: string;
  metric: string;
  quantity: string;
  idempotencyKey: string;
  createdAtMs: string;
  expiresAtMs: string;
  releasedAtMs: string | null;
  settledAtMs: string | null;
  settledQuantity: string | null;
  livemode: string;
  subject: string;
  /** Encoded, and the product's dimensions as JSON; null if there is no such reservation. */
  dimensions: string | null;
  keys: string | null;
}

/** Reservations by id and mode. $1 org, $2 id, $3 livemode, per reservation */
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

/** A page of an Organization's reservations in a mode, newest first. $1 org, $2 livemode, $3 id to start below, $4 rows */
export const listReservations: Template = { name: 'usage_reservations_list', text: listWhere('') };

/** Like `listReservations`, for one status. $5 lowest id, $6 now */
export const listReservationsByStatus: Record<ReservationStatus, Template> = {
  held: listStatement('held', `${reservationEnds.open} and expires_at > $6::timestamptz`),
  expired: listStatement('expired', `${reservationEnds.open} and expires_at <= $6::timestamptz`),
  released: listStatement('released', `${reservationEnds.released} and $6::timestamptz is not null`),
  settled: listStatement('settled', `${reservationEnds.settled} and $6::timestamptz is not null`),
};

/** Counts reservations that are held, have expired, and have expired since a time. $1 lowest id, $2 now, $3 since */
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
select count(*) filter (where expires_at > $2::timestamptz)::text as held, count(*) filter (where expires_at <= $2::timestamptz)::text as expired,
  count(*) filter (where expires_at <= $2::timestamptz and expires_at > $3::timestamptz)::text as "expiredNow"
from r`,
};

/** SQL: first day of the month in which a settlement counts. */
const monthOf = (occurredAt: string): string =>
  `date_trunc('month', coalesce(${occurredAt}, $5::timestamptz) at time zone 'UTC')::date`;

/**
 * Ends holds and records their usage, in one commit and with the same sums as any other event. Rows are locked in key order:
 * of two settlements, the second one sees the result of the first (`retry`). Expired and released holds are settled too,
 * because usage is a fact, even if the Organization is no longer entitled. A reservation with a price is left to `settlePriced`,
 * which burns the event's credits at that price after all sums.
 * $1 hashed secret, $2 reservation, $3 quantity (null: what was held), $4 occurred at (null: now), per request · $5 now
 */
export const settle: Template = { name: 'usage_settle', text: (t) => settleText(t, false) };

export const settlePriced: Template = { name: 'usage_settle_priced', text: (t) => settleText(t, true) };

function settleText(t: Names, isPriced: boolean): string {
  const priced = (part: string) => (isPriced ? part : '');
  const burns = isPriced ? ('of their hour' as const) : undefined;
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
), ${addToSums(t, { now: '$5::timestamptz', entitled: 'target', hasSubjects: true, hasDimensions: true, burns })}, ended as (
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

/** A row of `settle`: a request, with the settled reservation if it was found. */
export interface SettlementRow extends ReservationRow {
  /** Index of the request. */
  place: string;
  outcome: string;
  /** Whether the event was new. */
  isCounted: string | null;
  orgId: string;
  productId: string;
  maxQuantity: string | null;
  occurredAtMs: string | null;
  /** The entitlement's limits as JSON, and `Limited.total`. */
  declared: string | null;
  total: string | null;
  /** Set with `used` and `period` if the month's total is above the cap. */
  unitCap: string | null;
  used: string | null;
  period: string | null;
  /** Whether its dimensions are beyond the bound of combinations. */
  isOther: string | null;
  /** How much was noted for thresholds, the same in all rows. */
  noted: string;
  /** Whether it costs credits; and the product's overdraft if the account was changed, only in the priced text. */
  isPriced: string | null;
  overdraft?: string | null;
}

/** Ends a hold that is not settled, unless it has already ended. $1 hashed secret, $2 id, $3 now */
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
  /** Null if the hold had ended or does not exist. */
  releasedId: string | null;
}
