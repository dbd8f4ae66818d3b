import { and, sql, type SQL } from 'drizzle-orm';
import type { Database, GroupTables } from '../../../core/db/client.js';
import { textArray, timeJson } from '../../../core/db/sql.js';
import { selectFromAll, wholeTables, type ReportedDatabase } from '../../../core/db/shards.js';
import { DAY_MS, HOUR_MS, monthOf } from '../../../core/time.js';
import { OTHER_SQL, SEPARATOR_SQL } from '../../entitlements/dimensions.js';

export const steps = ['hour', 'day', 'month'] as const;
export const granularities = [...steps, 'total'] as const;
export type Granularity = (typeof granularities)[number];

/** In one time step. Sums are exact decimals. */
export interface CustomerUsage {
  organization: string;
  product: string;
  /** RFC 3339 in UTC. */
  start: string;
  metric: string;
  quantity: string;
  events: string;
  /** By the product's usage in the step, on the row of its first metric; 0 on its other rows. */
  credits: string;
}

/** Rows are ordered by this unique key. */
export type UsagePosition = Pick<CustomerUsage, 'organization' | 'product' | 'start' | 'metric'>;

interface SumRange {
  /** Aligned to hours, days or months. */
  from: Date;
  to: Date;
  granularity: Granularity;
  livemode: boolean;
  productId: string | undefined;
  after: UsagePosition | undefined;
  limit: number;
}

export interface CustomerUsageRange extends SumRange {
  orgId: string | undefined;
}

const isMonthStart = (at: Date): boolean => at.getUTCDate() === 1 && at.getTime() % DAY_MS === 0;

export interface SumParts {
  isByKey: boolean;
  /** In declared order, from 1. */
  byDimension?: number | undefined;
  where?: readonly { place: number; value: string }[] | undefined;
  apiKeyIds?: readonly string[] | undefined;
}

const whole: SumParts = { isByKey: false };

const valueAt = (place: number): SQL => sql`split_part(dimensions, ${sql.raw(SEPARATOR_SQL)}, ${place}::int)`;
const isOther = sql`dimensions = ${sql.raw(OTHER_SQL)}`;

const hasDimensions = ({ byDimension, where = [] }: SumParts): boolean =>
  byDimension !== undefined || where.length > 0;

/**
 * For an Organization `o`. Usage in combinations beyond the limit may have any value, so every condition includes it,
 * as a separate part.
 */
function sumsOf(range: SumRange, t: GroupTables, parts: SumParts = whole): SQL {
  const { from, to, granularity, livemode, after } = range;
  const fromTime = sql`${from.toISOString()}::timestamptz`;
  const totals = totalsOf(range, t);
  // Monthly sums are stored, but sums by API key exist only by hour.
  const hasMonthlySums =
    granularity === 'month' || (granularity === 'total' && isMonthStart(from) && isMonthStart(to));
  const { byDimension, where = [], apiKeyIds } = parts;
  if (hasMonthlySums && !parts.isByKey && !apiKeyIds && !hasDimensions(parts)) {
    const start = granularity === 'month' ? sql`u.period::timestamp at time zone 'UTC'` : fromTime;
    return sql`
      select p.slug as product, ${start} as start, u.metric, sum(u.quantity) as quantity, sum(u.events) as events
      from ${totals}
      group by 1, 2, 3`;
  }
  const value =
    byDimension === undefined
      ? sql`null::text`
      : sql`case when not ${isOther} then ${valueAt(byDimension)} end`;
  const names = sql`${parts.isByKey ? sql`, api_key_id` : sql``}${hasDimensions(parts) ? sql`, value, is_other` : sql``}`;
  const columns = sql`${parts.isByKey ? sql`, api_key_id` : sql``}${hasDimensions(parts) ? sql`, ${value} as value, ${isOther} as is_other` : sql``}`;
  const isOfKeys = apiKeyIds ? sql` and api_key_id = any (${textArray(apiKeyIds)}::uuid[])` : sql``;
  const isWanted = where.map((one) => sql` and (${isOther} or ${valueAt(one.place)} = ${one.value})`);
  // Each product's hours are then read by primary key.
  const isBehind = after && sql`and (o.slug > ${after.organization} or p.slug >= ${after.product})`;
  const first =
    after === undefined
      ? fromTime
      : sql`case when o.slug = ${after.organization} and s.product = ${after.product} then ${after.start}::timestamptz else ${fromTime} end`;
  return sql`
      select s.product, h.*
      from (select distinct u.product_id, p.slug as product from ${totals} ${isBehind ?? sql``}) s
      cross join lateral (
        select ${startOf(range, sql`hour`)} as start, metric, sum(quantity) as quantity, sum(events) as events${columns}
        from ${t('usage_hours')}
        where org_id = o.id and product_id = s.product_id and livemode = ${livemode}
          and hour >= ${first} and hour < ${to.toISOString()}::timestamptz${sql.join(isWanted)}${isOfKeys}
        group by 1, 2${names}
      ) h`;
}

/** With a series of their own. */
export const MAX_SUBJECTS = 100;

/** The subjects with the largest sums in the range, then all others together. */
function subjectSumsOf(range: SumRange, t: GroupTables, subject: string | undefined): SQL {
  const { from, to, livemode } = range;
  return sql`
      select s.product, h.*
      from (select distinct u.product_id, p.slug as product from ${totalsOf(range, t)}) s
      cross join lateral (
        select start, metric, sum(quantity) as quantity, sum(events) as events, case when place <= ${MAX_SUBJECTS} then subject end as value,
          place > ${MAX_SUBJECTS} as is_other
        from (
          select *, dense_rank() over (partition by metric order by total desc, subject) as place
          from (
            select ${startOf(range, sql`slot`)} as start, metric, subject, sum(quantity) as quantity, sum(events) as events,
              sum(sum(quantity)) over (partition by metric, subject) as total
            from ${t('usage_subjects')}
            where org_id = o.id and product_id = s.product_id and livemode = ${livemode}
              and slot >= ${from.toISOString()}::timestamptz and slot < ${to.toISOString()}::timestamptz
              ${subject === undefined ? sql`` : sql`and subject = ${subject}`}
            group by 1, 2, 3
          ) sums
        ) ranked
        group by 1, 2, value, is_other
      ) h`;
}

/** With the slug of each product `p`. */
function totalsOf({ from, to, livemode, productId }: SumRange, t: GroupTables): SQL {
  const lastDay = new Date(to.getTime() - 1).toISOString().slice(0, 10);
  const ofProduct = productId === undefined ? sql`` : sql`and u.product_id = ${productId}::uuid`;
  return sql`${t('usage_totals')} u
      cross join lateral (select slug from ${t('products')} where id = u.product_id limit 1) p
      where u.org_id = o.id and u.period between ${monthOf(from.getTime())}::date and ${lastDay}::date and u.livemode = ${livemode} ${ofProduct}`;
}

/** The step in which a time lies. */
function startOf({ from, to, granularity }: SumRange, at: SQL): SQL {
  if (granularity === 'month') return sql`date_trunc('month', ${at} at time zone 'UTC') at time zone 'UTC'`;
  const stepMs = { hour: HOUR_MS, day: DAY_MS, total: to.getTime() - from.getTime() }[granularity];
  return sql`date_bin(make_interval(secs => ${stepMs / 1000}), ${at}, ${from.toISOString()}::timestamptz)`;
}

/** Minus credits given back by corrections. Ledger entries carry the hour of the usage. */
function creditsOf(range: SumRange, t: GroupTables): SQL {
  const { from, to, livemode, productId } = range;
  const fromTime = sql`${from.toISOString()}::timestamptz`;
  return sql`
      select e.product_id, ${startOf(range, sql`e.hour`)} as start, sum(case e.kind when 'burn' then e.amount else -e.amount end) as credits
      from ${t('credit_entries')} e
      where e.org_id = o.id and e.livemode = ${livemode} and e.at >= ${fromTime} - interval '1 hour'
        and e.hour >= ${fromTime} and e.hour < ${to.toISOString()}::timestamptz and e.kind in ('burn', 'return')
        ${productId === undefined ? sql`` : sql`and e.product_id = ${productId}::uuid`}
      group by 1, 2`;
}

/** Walks Organizations by slug only until the page is full. */
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
      trim_scale(r.quantity)::text as quantity, r.events::text as events, trim_scale(coalesce(r.credits, 0))::text as credits
    from (
      select id, slug from ${t('organizations')} where ${isAsked}
    ) o
    cross join lateral (
      select u.*, case when u.place = 1 then c.credits end as credits
      from (select s.*, row_number() over (partition by s.product, s.start order by s.metric) as place from (${sumsOf(range, t)}) s) u
      left join (
        select p.slug as product, e.start, e.credits from (${creditsOf(range, t)}) e
        cross join lateral (select slug from ${t('products')} where id = e.product_id limit 1) p
      ) c on c.product = u.product and c.start = u.start ${isBeyond ?? sql``}
      order by u.product, u.start, u.metric
      limit ${limit}
    ) r
    order by o.slug, r.product, r.start, r.metric
    limit ${limit}`;
}

export const listCustomerUsage = (db: ReportedDatabase, range: CustomerUsageRange) =>
  selectFromAll<CustomerUsage>(
    db,
    (tables) => selectCustomerUsage(range, tables),
    ({ organization, product, start, metric }) => [organization, product, start, metric],
    range.limit,
  );

export interface SeriesPoint extends Omit<CustomerUsage, 'organization' | 'credits'> {
  apiKeyId?: string;
  /** A subject or a dimension's value; null if the point covers all other usage (`isOther`). */
  value?: string | null;
  isOther?: boolean;
}

export interface SeriesRange extends Omit<SumRange, 'after'>, SumParts {
  orgId: string;
  /** By subject, for one or for all. */
  subjects?: { only: string | undefined } | undefined;
}

export function selectSeries(
  { orgId, isByKey, byDimension, where, apiKeyIds, subjects, ...range }: SeriesRange,
  tables = wholeTables,
): SQL {
  const parts = { isByKey, byDimension, where, apiKeyIds };
  const hasValues = subjects !== undefined || hasDimensions(parts);
  const key = sql`${isByKey ? sql`, u.api_key_id::text as "apiKeyId"` : sql``}${hasValues ? sql`, u.value, u.is_other as "isOther"` : sql``}`;
  const sums = { ...range, after: undefined };
  return sql`
    select u.product, u.metric, ${sql.raw(timeJson('u.start'))} as start, trim_scale(u.quantity)::text as quantity, u.events::text as events${key}
    from (select ${orgId}::uuid as id) o
    cross join lateral (${subjects ? subjectSumsOf(sums, tables, subjects.only) : sumsOf(sums, tables, parts)}) u
    order by u.product, u.metric${isByKey ? sql`, u.api_key_id` : sql``}${hasValues ? sql`, u.is_other, u.value collate "C"` : sql``}, u.start
    limit ${range.limit}`;
}

export async function listSeries({ shards }: Pick<Database, 'shards'>, range: SeriesRange) {
  const group = await shards.locateOrganization(range.orgId);
  return group.select<SeriesPoint>((tables) => selectSeries(range, tables));
}
