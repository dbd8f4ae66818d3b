import { and, sql, type SQL } from 'drizzle-orm';
import type { Database, GroupTables } from '../../../core/db/client.js';
import { timeJson } from '../../../core/db/sql.js';
import { selectFromAll, wholeTables, type ReportedDatabase } from '../../../core/db/shards.js';
import { DAY_MS, HOUR_MS, monthOf } from '../../../core/time.js';

export const steps = ['hour', 'day', 'month'] as const;
export const granularities = [...steps, 'total'] as const;
export type Granularity = (typeof granularities)[number];

/** A customer's usage of a product in a time step. The sums are exact decimals. */
export interface CustomerUsage {
  organization: string;
  product: string;
  /** RFC 3339 in UTC. */
  start: string;
  metric: string;
  quantity: string;
  events: string;
}

/** The unique key of the row order. */
export type UsagePosition = Pick<CustomerUsage, 'organization' | 'product' | 'start' | 'metric'>;

interface SumRange {
  /** Whole hours, days or months. */
  from: Date;
  to: Date;
  granularity: Granularity;
  livemode: boolean;
  /** If undefined, all products. */
  productId: string | undefined;
  after: UsagePosition | undefined;
  limit: number;
}

export interface CustomerUsageRange extends SumRange {
  /** If undefined, all Organizations. */
  orgId: string | undefined;
}

const isMonthStart = (at: Date): boolean => at.getUTCDate() === 1 && at.getTime() % DAY_MS === 0;

/** `quantity` and `events` of an Organization `o` by product, start and metric, and by API key if `isByKey`. */
function sumsOf(range: SumRange, t: GroupTables, isByKey = false): SQL {
  const { from, to, granularity, livemode, productId, after } = range;
  const fromTime = sql`${from.toISOString()}::timestamptz`;
  const lastDay = new Date(to.getTime() - 1).toISOString().slice(0, 10);
  const ofProduct = productId === undefined ? sql`` : sql`and u.product_id = ${productId}::uuid`;
  const totals = sql`${t('usage_totals')} u
      cross join lateral (select slug from ${t('products')} where id = u.product_id limit 1) p
      where u.org_id = o.id and u.period between ${monthOf(from.getTime())}::date and ${lastDay}::date and u.livemode = ${livemode} ${ofProduct}`;
  // Monthly sums exist already, but sums of API keys exist only by hour.
  const hasMonthlySums =
    granularity === 'month' || (granularity === 'total' && isMonthStart(from) && isMonthStart(to));
  if (hasMonthlySums && !isByKey) {
    const start = granularity === 'month' ? sql`u.period::timestamp at time zone 'UTC'` : fromTime;
    return sql`
      select p.slug as product, ${start} as start, u.metric, sum(u.quantity) as quantity, sum(u.events) as events
      from ${totals}
      group by 1, 2, 3`;
  }
  const start =
    granularity === 'month'
      ? sql`date_trunc('month', hour at time zone 'UTC') at time zone 'UTC'`
      : sql`date_bin(make_interval(secs => ${stepMsOf(granularity, from, to) / 1000}), hour, ${fromTime})`;
  const key = isByKey ? sql`, api_key_id` : sql``;
  // The monthly totals list the products; the hours of each are then read by primary key.
  const isBehind = after && sql`and (o.slug > ${after.organization} or p.slug >= ${after.product})`;
  const first =
    after === undefined
      ? fromTime
      : sql`case when o.slug = ${after.organization} and s.product = ${after.product} then ${after.start}::timestamptz else ${fromTime} end`;
  return sql`
      select s.product, h.*
      from (select distinct u.product_id, p.slug as product from ${totals} ${isBehind ?? sql``}) s
      cross join lateral (
        select ${start} as start, metric, sum(quantity) as quantity, sum(events) as events${key}
        from ${t('usage_hours')}
        where org_id = o.id and product_id = s.product_id and livemode = ${livemode}
          and hour >= ${first} and hour < ${to.toISOString()}::timestamptz
        group by 1, 2${key}
      ) h`;
}

const stepMsOf = (granularity: 'hour' | 'day' | 'total', from: Date, to: Date): number =>
  ({ hour: HOUR_MS, day: DAY_MS, total: to.getTime() - from.getTime() })[granularity];

/** Walks Organizations by slug only until the page is full, and reads each one's sums by primary key. */
export function selectCustomerUsage(range: CustomerUsageRange, t: GroupTables = wholeTables): SQL {
  const { orgId, after, limit } = range;
  const isAsked = and(
    t.owns(sql`id`),
    orgId === undefined ? undefined : sql`id = ${orgId}::uuid`,
    after && sql`slug >= ${after.organization}`,
  );
  const isBeyond =
    after &&
    sql`where (o.slug, u.product, u.start, u.metric) > (${after.organization}, ${after.product}, ${after.start}::timestamptz, ${after.metric})`;
  return sql`
    select o.slug as organization, r.product, ${sql.raw(timeJson('r.start'))} as start, r.metric,
      trim_scale(r.quantity)::text as quantity, r.events::text as events
    from (
      select id, slug from ${t('organizations')} where ${isAsked}
    ) o
    cross join lateral (
      select u.* from (${sumsOf(range, t)}) u ${isBeyond ?? sql``}
      order by u.product, u.start, u.metric
      limit ${limit}
    ) r
    order by o.slug, r.product, r.start, r.metric
    limit ${limit}`;
}

export const listCustomerUsage = (
  db: ReportedDatabase,
  range: CustomerUsageRange,
): Promise<CustomerUsage[]> =>
  selectFromAll(
    db,
    (tables) => selectCustomerUsage(range, tables),
    ({ organization, product, start, metric }) => [organization, product, start, metric],
    range.limit,
  );

export interface SeriesPoint extends Omit<CustomerUsage, 'organization'> {
  apiKeyId?: string;
}

export interface SeriesRange extends Omit<SumRange, 'after'> {
  orgId: string;
  isByKey: boolean;
}

export function selectSeries({ orgId, isByKey, ...range }: SeriesRange, tables = wholeTables): SQL {
  const key = isByKey ? sql`, u.api_key_id::text as "apiKeyId"` : sql``;
  return sql`
    select u.product, u.metric, ${sql.raw(timeJson('u.start'))} as start, trim_scale(u.quantity)::text as quantity, u.events::text as events${key}
    from (select ${orgId}::uuid as id) o
    cross join lateral (${sumsOf({ ...range, after: undefined }, tables, isByKey)}) u
    order by u.product, u.metric${isByKey ? sql`, u.api_key_id` : sql``}, u.start
    limit ${range.limit}`;
}

export async function listSeries(
  { shards }: Pick<Database, 'shards'>,
  range: SeriesRange,
): Promise<SeriesPoint[]> {
  const group = await shards.locateOrganization(range.orgId);
  return group.select((tables) => selectSeries(range, tables));
}
