import type { Names, Template } from '../../core/db/client.js';
import { NOBODY } from './table.js';

/** The account's columns with their types, in the order of the parameters of `gauge_burn`. */
export const accountTypes = {
  grants: 'uuid[]',
  rests: 'numeric[]',
  starts: 'timestamptz[]',
  ends: 'timestamptz[]',
  scopes: 'text[]',
  priorities: 'int[]',
  roll_percents: 'int[]',
  roll_days: 'int[]',
  debtors: 'uuid[]',
  debts: 'numeric[]',
};
const COLUMNS = Object.keys(accountTypes);
const TAKEN = ['took_kinds', 'took_from', 'took_for', 'took_hours', 'took'] as const;

const EMPTY = COLUMNS.map(() => `'{}'`).join(', ');

/** The first arguments of `gauge_burn` and `gauge_rooms`. */
export const accountOf = (row: string): string => COLUMNS.map((column) => `${row}.${column}`).join(', ');

const list = (columns: readonly string[], row?: string): string =>
  columns.map((column) => (row === undefined ? column : `${row}.${column}`)).join(', ');

/**
 * Burns credits for the demands in `asked`; `took_*` columns receive the ledger entries.
 * @param asked arrays of products, hours (UTC) and costs; default: nothing
 */
export const setBurned = (now: string, asked = `'{}', '{}', '{}'`): string =>
  `(${list([...COLUMNS, ...TAKEN])}) = (
    select ${list([...COLUMNS, ...TAKEN], 'f')} from gauge_burn(${accountOf('a')}, ${asked}, ${now}) f
  )`;

interface Burning {
  from: string;
  now: string;
  /** True only once all sums are written. */
  after: string;
}

/**
 * For the rows of a CTE with org_id, livemode, product_id, hour and credits (rows may repeat). Accounts are locked
 * last, after all sums, and in primary-key order. `burnt` has the resulting accounts.
 */
export const burnCredits = (t: Names, { from, now, after }: Burning): string => `demand as (
  select org_id, livemode, array_agg(product_id order by hour, product_id) as asked, array_agg(hour order by hour, product_id) as hours,
    array_agg(credits order by hour, product_id) as costs
  from (
    select org_id, livemode, product_id, hour, sum(credits) as credits from ${from}
    where credits > 0 and ${after}
    group by 1, 2, 3, 4
  ) d
  group by 1, 2
), burnt as (
  insert into ${t('credit_accounts')} as a (org_id, livemode, asked, hours, costs, ${list([...COLUMNS, ...TAKEN])})
  select d.org_id, d.livemode, d.asked, d.hours, d.costs, ${COLUMNS.map((column) => `coalesce(f.${column}, '{}')`).join(', ')}, ${list(TAKEN, 'f')}
  from demand d
  left join lateral (
    select true as is_known from ${t('credit_accounts')} where org_id = d.org_id and livemode = d.livemode limit 1
  ) k on true
  -- Only for an account that does not exist yet: all of it is overdraft.
  left join lateral (
    select f.* from gauge_burn(${EMPTY}, d.asked, d.hours, d.costs, ${now}) f where k.is_known is null offset 0
  ) f on true
  order by 1, 2
  on conflict (org_id, livemode) do update set ${setBurned(now, 'excluded.asked, excluded.hours, excluded.costs')}
  returning org_id, livemode, debtors, debts, ${list(TAKEN)}
), ${enterTaken(t, 'burnt', now)}`;

/** Two statements with the same time may add to the same entry. */
export const enterTaken = (t: Names, accounts: string, now: string): string => `entered as (
  insert into ${t('credit_entries')} as e (org_id, livemode, product_id, at, hour, grant_id, kind, amount)
  select b.org_id, b.livemode, x.product_id, ${now}, x.hour, x.grant_id, x.kind, x.amount
  from ${accounts} b
  cross join lateral unnest(b.took_kinds, b.took_from, b.took_for, b.took_hours, b.took) as x (kind, grant_id, product_id, hour, amount)
  order by 1, 2, 3, 4, 5, 6, 7
  on conflict (org_id, livemode, product_id, at, hour, grant_id, kind) do update set amount = e.amount + excluded.amount
)`;

/** As arrays `held` of products and `costs`, oldest first. Consecutive holds of the same product are merged. */
export const heldCredits = (t: Names, row: string, now: string): string => `(
    select coalesce(array_agg(product_id order by n), '{}') as held, coalesce(array_agg(cost order by n), '{}') as costs
    from (
      select product_id, min(n) as n, sum(cost) as cost from (
        select product_id, quantity * credit_price as cost, row_number() over (order by id) as n,
          row_number() over (order by id) - row_number() over (partition by product_id order by id) as run
        from ${t('usage_reservations')}
        where org_id = ${row}.org_id and livemode = ${row}.livemode and expires_at > ${now}
          and settled_at is null and released_at is null and credit_price > 0
      ) hold
      group by product_id, run
    ) h
  )`;

/**
 * The `room` left for each `product` after holds; no rows without an account. Simulates burning the holds in the order
 * in which they were made: in any other, a hold could take the only grant that an earlier one may use.
 */
export const creditRooms = (t: Names, row: string, ids: string, now: string): string => `(
    select r.*
    from (select * from ${t('credit_accounts')} where org_id = ${row}.org_id and livemode = ${row}.livemode limit 1) own
    cross join lateral ${heldCredits(t, row, now)} h
    cross join lateral gauge_rooms(${accountOf('own')}, h.held, h.costs, ${ids}, ${now}) r
  )`;

/**
 * JSON of `OpenGrant[]`. Null if the account has holds, overdrafts or a rollover that is due: `findCreditRooms` then
 * simulates burning.
 */
export const openGrants = (t: Names, row: string, now: string): string => `(
    select case
      when a.org_id is null then '[]'
      when cardinality(a.debtors) = 0 and g.is_due is not true
        and not exists (
          select from ${t('usage_reservations')}
          where org_id = ${row}.org_id and livemode = ${row}.livemode and expires_at > ${now}
            and settled_at is null and released_at is null and credit_price > 0
        )
      then coalesce(g.open, '[]')::text end
    from (select) one
    left join lateral (
      select * from ${t('credit_accounts')} where org_id = ${row}.org_id and livemode = ${row}.livemode limit 1
    ) a on true
    cross join lateral (
      select json_agg(json_build_object('rest', trim_scale(u.rest)::text, 'scope', u.scope))
          filter (where u.start_at <= ${now} and u.end_at > ${now}) as open,
        bool_or(u.rest > 0 and u.end_at <= ${now} and u.percent > 0) as is_due
      from unnest(a.rests, a.starts, a.ends, a.scopes, a.roll_percents) as u (rest, start_at, end_at, scope, percent)
    ) g
  )`;

/** $1 hashed secret, per key · $2 now */
export const findOpenGrants: Template = {
  name: 'credits_find_open_grants',
  text: (t) => `
${t.with} d as materialized (
  select d.ord - 1 as place, k.org_id, k.livemode from unnest($1::text[]) with ordinality as d (hashed_secret, ord)${t.held}
  left join lateral (select org_id, livemode from ${t('api_keys')} where hashed_secret = d.hashed_secret limit 1) k on true
)
select d.place::text, ${openGrants(t, 'd', '$2::timestamptz')} as grants from d`,
};

export interface OpenGrantsRow {
  place: string;
  /** JSON of `OpenGrant[]`, or null. */
  grants: string | null;
}

export interface OpenGrant {
  /** An exact decimal. */
  rest: string;
  /** Product ids separated by spaces; '' for every product. */
  scope: string;
}

/** After holds. $1 hashed secret, $2 product, per product · $3 now */
export const findCreditRooms: Template = {
  name: 'credits_find_rooms',
  text: (t) => `
${t.with} d as materialized (
  select d.ord - 1 as place, d.product_id, k.org_id, k.livemode
  from unnest($1::text[], $2::uuid[]) with ordinality as d (hashed_secret, product_id, ord)${t.held}
  left join lateral (select org_id, livemode from ${t('api_keys')} where hashed_secret = d.hashed_secret limit 1) k on true
), rooms as materialized (
  select d.org_id, d.livemode, c.*
  from (select org_id, livemode, array_agg(distinct product_id) as ids from d group by 1, 2) d
  cross join lateral ${creditRooms(t, 'd', 'd.ids', '$3::timestamptz')} c
)
select d.place::text, trim_scale(c.room)::text as room
from d
join rooms c on c.org_id = d.org_id and c.livemode = d.livemode and c.product = d.product_id`,
};

/** The room is an exact decimal. */
export type CreditRoomRow = Record<'place' | 'room', string>;

/** Each flush that holds credits for a product that blocks increments this row of `usage_gates`. */
export const accountGate = { productId: NOBODY, metric: '' };

/** $1 org, $2 product, $3 livemode, per product · $4 now */
export const findOverdrawn: Template = {
  name: 'credits_find_overdrawn',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::bool[]) with ordinality as d (org_id, product_id, livemode, ord)${t.held}
)
select (d.ord - 1)::text as place, trim_scale(b.debts[array_position(b.debtors, d.product_id)])::text as overdraft
from d
cross join lateral (
  select * from ${t('credit_accounts')} where org_id = d.org_id and livemode = d.livemode limit 1
) a
cross join lateral gauge_burn(${accountOf('a')}, '{}', '{}', '{}', $4::timestamptz) b
where d.product_id = any (b.debtors)`,
};

/** The overdraft is an exact decimal. */
export type OverdrawnRow = Record<'place' | 'overdraft', string>;
