import { and, sql, type SQL } from 'drizzle-orm';
import { sqlState, type Orm } from '../../../core/db/client.js';
import { selectRow, selectRows, textArray, timeText } from '../../../core/db/sql.js';
import { ownRows, type AccountId } from '../../credit-grants/queries.js';
import { SEPARATOR_SQL } from '../../entitlements/dimensions.js';
import { rootsOf, type Narrowing, type UsageScope } from '../../events/page-queries.js';

interface Range {
  from: Date;
  to: Date;
}

const within = ({ from, to }: Range): SQL =>
  sql`at >= ${from.toISOString()}::timestamptz and at < ${to.toISOString()}::timestamptz`;

/** In one time step, from the ledger. */
export interface BurnSum {
  productId: string;
  slug: string;
  name: string;
  /** In milliseconds. */
  start: number;
  burned: string;
  /** Credits that corrections gave back. */
  returned: string;
}

export const selectBurns = (id: AccountId, range: Range & { stepMs: number }): SQL => sql`
  select s.product_id::text as "productId", p.slug, p.name, (extract(epoch from s.start) * 1000)::float8 as start, trim_scale(s.burned)::text as burned, trim_scale(s.returned)::text as returned
  from (
    select product_id, date_bin(make_interval(secs => ${range.stepMs / 1000}), at, timestamptz '2000-01-01 00:00:00+00') as start,
      coalesce(sum(amount) filter (where kind = 'burn'), 0) as burned, coalesce(sum(amount) filter (where kind = 'return'), 0) as returned
    from credit_entries
    where ${ownRows('credit_entries', id)} and ${within(range)} and kind in ('burn', 'return')
    group by 1, 2
  ) s
  cross join lateral (select slug, name from products where id = s.product_id limit 1) p
  order by p.slug, s.start`;

export const readBurns = (orm: Orm, id: AccountId, range: Range & { stepMs: number }): Promise<BurnSum[]> =>
  selectRows(orm, selectBurns(id, range));

/** Credits given back by corrections are deducted. */
export interface CreditPace {
  quantity: string;
  /** Largest quantity first. */
  products: { slug: string; name: string; quantity: string }[];
  /** First entry since `from`. */
  firstAt: string | null;
  isOlder: boolean;
}

export const selectCreditPace = (id: AccountId, range: Range): SQL => sql`
  select trim_scale(coalesce(sum(s.quantity), 0))::text as quantity,
    coalesce(json_agg(json_build_object('slug', p.slug, 'name', p.name, 'quantity', trim_scale(s.quantity)::text) order by s.quantity desc, p.slug), '[]') as products,
    ${timeText(sql`min(s.first_at)`)} as "firstAt",
    (select at from credit_entries where ${ownRows('credit_entries', id)} and at < ${range.from.toISOString()}::timestamptz and kind = 'burn' order by at desc limit 1) is not null as "isOlder"
  from (
    select product_id, sum(case kind when 'burn' then amount else -amount end) as quantity, min(at) as first_at
    from credit_entries where ${ownRows('credit_entries', id)} and ${within(range)} and kind in ('burn', 'return')
    group by 1
  ) s
  cross join lateral (select slug, name from products where id = s.product_id limit 1) p`;

export const readCreditPace = async (orm: Orm, id: AccountId, range: Range): Promise<CreditPace> =>
  (await selectRow<CreditPace>(orm, selectCreditPace(id, range)))!;

/** Shown individually. */
export const MAX_PARTS = 20;
/** Time limit for reading the events. */
const PARTS_MS = 4_000;

/** With one subject, one API key or one value of a dimension. */
export interface CostPart {
  /** `costPlaces`, or the dimension's place, from 1. */
  place: number;
  value: string | null;
  /** All parts that are not among the largest. */
  isOther: boolean;
  credits: string;
  count: number;
}

/** Events and corrections at the recorded prices, by the time when the events occurred. */
function costsOf({ orgId, productId, livemode }: UsageScope, { from, to }: Range): SQL {
  const rows = (
    row: SQL,
  ) => sql`${row}.org_id = ${orgId}::uuid and ${row}.product_id = ${productId}::uuid and ${row}.livemode = ${livemode}
      and ${row}.occurred_at >= ${from.toISOString()}::timestamptz and ${row}.occurred_at < ${to.toISOString()}::timestamptz`;
  return sql`
    select e.api_key_id, e.occurred_at, e.metric, e.subject, e.dimensions, e.quantity * e.credit_price as credits
    from usage_events e where ${rows(sql`e`)} and e.credit_price > 0
    union all
    select e.api_key_id, e.occurred_at, e.metric, e.subject, e.dimensions, (c.quantity - c.previous_quantity) * c.credit_price
    from usage_corrections c
    join usage_events e on e.org_id = ${orgId}::uuid and e.idempotency_key = c.idempotency_key and e.occurred_at = c.occurred_at
    where ${rows(sql`c`)} and c.credit_price > 0`;
}

export const costPlaces = { subject: 0, key: -1 };

/** A rotated key and its successor are one. */
export function selectCostParts(
  scope: UsageScope,
  { places, metric, ...range }: Range & { places: readonly number[]; metric: string },
  part: Narrowing,
): SQL {
  const values = places.map((place) =>
    place === costPlaces.subject
      ? sql`(0, s.subject)`
      : place === costPlaces.key
        ? sql`(-1, coalesce(r.root, s.api_key_id)::text)`
        : sql`(${place}::int, split_part(s.dimensions, ${sql.raw(SEPARATOR_SQL)}, ${place}::int) collate "C")`,
  );
  return sql`
  with ${rootsOf(scope.orgId)}, cost as (${costsOf(scope, range)}
  ), sums as (
    select api_key_id, subject, dimensions, sum(credits) as credits from cost where ${isOf(metric, part)} group by 1, 2, 3
  ), ranked as (
    select v.place, v.value, sum(s.credits) as credits, row_number() over (partition by v.place order by sum(s.credits) desc, v.value) as rank
    from sums s left join roots r on r.id = s.api_key_id cross join lateral (values ${sql.join(values, sql`, `)}) as v (place, value)
    group by 1, 2
  )
  select place::int, case when rank <= ${MAX_PARTS} then value end as value, rank > ${MAX_PARTS} as "isOther",
    trim_scale(sum(credits))::text as credits, count(*)::int as count
  from ranked where credits > 0
  group by 1, 2, 3
  order by 1, 3, sum(credits) desc, 2`;
}

const isOf = (metric: string, { apiKeyIds, where = [], subject }: Narrowing) =>
  and(
    sql`metric = ${metric}`,
    apiKeyIds && sql`api_key_id = any (${textArray(apiKeyIds)}::uuid[])`,
    subject === undefined ? undefined : sql`subject = ${subject}`,
    ...where.map(
      ({ place, value }) => sql`split_part(dimensions, ${sql.raw(SEPARATOR_SQL)}, ${place}::int) = ${value}`,
    ),
  );

const CANCELLED = '57014';

/** By step and API key, or by step for a subject. */
export function selectCosts(
  scope: UsageScope,
  { stepMs, metric, ...range }: Range & { stepMs: number; metric: string },
  part: Narrowing,
): SQL {
  return sql`
  select (extract(epoch from start) * 1000)::float8 as start, api_key_id::text as "apiKeyId", trim_scale(sum(credits))::text as credits
  from (
    select date_bin(make_interval(secs => ${stepMs / 1000}), occurred_at, timestamptz '2000-01-01 00:00:00+00') as start,
      ${part.subject === undefined ? sql`api_key_id` : sql`null::uuid as api_key_id`}, credits
    from (${costsOf(scope, range)}) e where ${isOf(metric, part)}
  ) c
  group by 1, 2`;
}

interface Cost {
  /** In milliseconds. */
  start: number;
  apiKeyId: string | null;
  credits: string;
}

export const readCosts = (orm: Orm, ...query: Parameters<typeof selectCosts>): Promise<Cost[] | undefined> =>
  readInTime(orm, selectCosts(...query));

export const readCostParts = (
  orm: Orm,
  ...query: Parameters<typeof selectCostParts>
): Promise<CostPart[] | undefined> => readInTime(orm, selectCostParts(...query));

/** Undefined if there are too many events to read in time. */
export async function readInTime<T>(orm: Orm, query: SQL): Promise<T[] | undefined> {
  try {
    return await orm.transaction(async (tx) => {
      await tx.execute(sql.raw(`set local statement_timeout = ${PARTS_MS}`));
      return selectRows<T>(tx, query);
    });
  } catch (error) {
    if (sqlState(error) === CANCELLED) return undefined;
    throw error;
  }
}

/** Ever had credits, or has an entitlement to a product that costs some. */
export const selectHasCredits = (orgId: string): SQL => sql`
  select exists (select from credit_accounts where org_id = ${orgId}::uuid)
    or exists (
      select from entitlements e join products p on p.id = e.product_id
      where e.org_id = ${orgId}::uuid and p.credit_price is not null
    ) as "hasCredits"`;

export const readHasCredits = async (orm: Orm, orgId: string): Promise<boolean> =>
  (await selectRow<{ hasCredits: boolean }>(orm, selectHasCredits(orgId)))!.hasCredits;
