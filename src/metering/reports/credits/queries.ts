import { sql, type SQL } from 'drizzle-orm';
import { sqlState, type Orm } from '../../../core/db/client.js';
import { queryRow, queryRows, selectRows, textArray, timeText } from '../../../core/db/sql.js';
import { ownRows, type AccountId } from '../../credit-grants/queries.js';
import { SEPARATOR_SQL } from '../../entitlements/dimensions.js';
import {
  countedEvents,
  isOfPart,
  rootsOf,
  type Narrowing,
  type UsageScope,
} from '../../events/page-queries.js';
import type { Period } from '../period.js';

export type Range = Pick<Period, 'from' | 'to'>;

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

export const readBurns = (orm: Orm, id: AccountId, range: Range & { stepMs: number }) =>
  queryRows(orm)<BurnSum>`
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

/** Credits given back by corrections are deducted. */
export interface CreditPace {
  quantity: string;
  /** Part of the quantity. UTC. */
  today: string;
  /** Before today, largest quantity first. */
  products: { slug: string; name: string; quantity: string }[];
  /** First entry since `from`. */
  firstAt: string | null;
  isOlder: boolean;
}

export const readCreditPace = async (orm: Orm, id: AccountId, range: Range & { today: Date }) =>
  (await queryRow(orm)<CreditPace>`
  select trim_scale(coalesce(sum(s.quantity), 0))::text as quantity, trim_scale(coalesce(sum(s.today), 0))::text as today,
    coalesce(json_agg(json_build_object('slug', p.slug, 'name', p.name, 'quantity', trim_scale(s.quantity - s.today)::text) order by s.quantity - s.today desc, p.slug), '[]') as products,
    ${timeText(sql`min(s.first_at)`)} as "firstAt",
    (select at from credit_entries where ${ownRows('credit_entries', id)} and at < ${range.from.toISOString()}::timestamptz and kind = 'burn' order by at desc limit 1) is not null as "isOlder"
  from (
    select product_id, sum(credits) as quantity, coalesce(sum(credits) filter (where at >= ${range.today.toISOString()}::timestamptz), 0) as today, min(at) as first_at
    from (select product_id, at, case kind when 'burn' then amount else -amount end as credits from credit_entries where ${ownRows('credit_entries', id)} and ${within(range)} and kind in ('burn', 'return')) e
    group by 1
  ) s
  cross join lateral (select slug, name from products where id = s.product_id limit 1) p`)!;

/** Shown individually. */
export const MAX_PARTS = 20;
/** Time limit for reading the events. */
const PARTS_MS = 4_000;

/** The events with one subject, one API key or one value of a dimension. */
export interface EventPart {
  place: number;
  value: string | null;
  /** All parts that are not among the largest. */
  isOther: boolean;
  quantity: string;
  events: string;
  credits: string;
  count: number;
}

/** A dimension has its own place, from 1. */
export const partPlaces = { subject: 0, key: -1 };

export const placeOfPart = (by: string, dimensions: readonly string[]): number =>
  by === 'subject' || by === 'key' ? partPlaces[by] : dimensions.indexOf(by) + 1;

const valueAt = (place: number, key: SQL): SQL =>
  place === partPlaces.subject
    ? sql`subject`
    : place === partPlaces.key
      ? key
      : sql`split_part(dimensions, ${sql.raw(SEPARATOR_SQL)}, ${place}::int) collate "C"`;

const amounts = sql`trim_scale(sum(quantity))::text as quantity, sum(events)::text as events, trim_scale(sum(credits))::text as credits`;

/** A rotated key and its successor are one. The largest parts, or the ones with the most credits. */
export function selectEventParts(
  scope: UsageScope,
  {
    places,
    metric,
    isByCredits,
    ...range
  }: Range & {
    places: readonly number[];
    metric: string;
    isByCredits: boolean;
  },
  part: Narrowing,
): SQL {
  const key = sql`coalesce(r.root, s.api_key_id)::text`;
  const values = places.map((place) => sql`(${place}::int, ${valueAt(place, key)})`);
  return sql`
  with ${rootsOf(scope.orgId)}, sums as (
    select api_key_id, subject, dimensions, sum(quantity) as quantity, sum(events) as events, sum(credits) as credits
    from (${countedEvents(scope, range)}) e where ${isOf(metric, part)} group by 1, 2, 3
  ), ranked as (
    select v.place, v.value, sum(s.quantity) as quantity, sum(s.events) as events, sum(s.credits) as credits,
      row_number() over (partition by v.place order by ${isByCredits ? sql`sum(s.credits) desc, ` : sql``}sum(s.quantity) desc, v.value) as rank
    from sums s left join roots r on r.id = s.api_key_id cross join lateral (values ${sql.join(values, sql`, `)}) as v (place, value)
    group by 1, 2
  )
  select place::int, case when rank <= ${MAX_PARTS} then value end as value, rank > ${MAX_PARTS} as "isOther", ${amounts},
    count(*)::int as count
  from ranked
  group by 1, 2, 3
  order by 1, 3, 2`;
}

const isOf = (metric: string, part: Narrowing): SQL => sql`metric = ${metric} and ${isOfPart(part)}`;

const CANCELLED = '57014';

interface EventSteps extends Range {
  stepMs: number;
  metric: string;
  /** Undefined for the sums of each step. */
  place: number | undefined;
  /** All other values become null, and a rotated key and its successor are one. Default: each value. */
  largest?: readonly string[] | undefined;
  limit: number;
}

/** By step and by the values at a place. */
export function selectEventSteps(
  scope: UsageScope,
  { stepMs, metric, place, largest, limit, ...range }: EventSteps,
  part: Narrowing,
): SQL {
  const isOfKeys = largest && place === partPlaces.key;
  const value = isOfKeys ? sql`coalesce(r.root::text, value)` : sql`value`;
  return sql`
  with ${rootsOf(scope.orgId)}
  select (extract(epoch from start) * 1000)::float8 as start,
    ${largest ? sql`case when ${value} = any (${textArray(largest)}) then ${value} end` : value} as value, ${amounts}
  from (
    select date_bin(make_interval(secs => ${stepMs / 1000}), occurred_at, timestamptz '2000-01-01 00:00:00+00') as start,
      ${place === undefined ? sql`null::text` : valueAt(place, sql`api_key_id::text`)} as value, quantity, events, credits
    from (${countedEvents(scope, range)}) e where ${isOf(metric, part)}
  ) c
  ${isOfKeys ? sql`left join roots r on r.id::text = value` : sql``}
  group by 1, 2
  limit ${limit}`;
}

interface EventStep extends Pick<EventPart, 'value' | 'quantity' | 'events' | 'credits'> {
  /** In milliseconds. */
  start: number;
}

export const readEventSteps = (orm: Orm, ...query: Parameters<typeof selectEventSteps>) =>
  readInTime<EventStep>(orm, selectEventSteps(...query));

export const readEventParts = (orm: Orm, ...query: Parameters<typeof selectEventParts>) =>
  readInTime<EventPart>(orm, selectEventParts(...query));

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
export async function readHasCredits(orm: Orm, orgId: string): Promise<boolean> {
  const row = await queryRow(orm)<{ hasCredits: boolean }>`
    select exists (select from credit_accounts where org_id = ${orgId}::uuid)
    or exists (
      select from entitlements e join products p on p.id = e.product_id
      where e.org_id = ${orgId}::uuid and p.credit_price is not null
    ) as "hasCredits"`;
  return row!.hasCredits;
}
