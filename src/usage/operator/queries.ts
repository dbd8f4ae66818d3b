import { sql, type SQL } from 'drizzle-orm';
import type { GroupTables } from '../../core/db/client.js';
import { timeText } from '../../core/db/select-rows.js';
import { selectFromAll, wholeTables, type ReportedDatabase } from '../../core/db/shards.js';
import { DAY_MS, HOUR_MS, monthOf } from '../../core/time.js';

export const granularities = ['hour', 'day', 'month', 'total'] as const;
export type Granularity = (typeof granularities)[number];

/** What a customer used of a product in a step of time. The sums are exact decimals. */
export interface CustomerUsage {
  organization: string;
  product: string;
  /** RFC 3339 in UTC. */
  start: string;
  metric: string;
  quantity: string;
  events: string;
}

/** The unique key that the rows are ordered by. */
export type UsagePosition = Pick<CustomerUsage, 'organization' | 'product' | 'start' | 'metric'>;

export interface CustomerUsageRange {
  /** Whole hours, days or months. */
  from: Date;
  to: Date;
  granularity: Granularity;
  livemode: boolean;
  /** Only of these. */
  orgId: string | undefined;
  productId: string | undefined;
  after: UsagePosition | undefined;
  limit: number;
}

const isMonthStart = (at: Date): boolean => at.getUTCDate() === 1 && at.getTime() % DAY_MS === 0;

/** `quantity` and `events` of an Organization `o` by product, start and metric. */
function sumsOf(range: CustomerUsageRange, t: GroupTables): SQL {
  const { from, to, granularity, livemode, productId, after } = range;
  const fromTime = sql`${from.toISOString()}::timestamptz`;
  const lastDay = new Date(to.getTime() - 1).toISOString().slice(0, 10);
  const ofProduct = productId === undefined ? sql`` : sql`and u.product_id = ${productId}::uuid`;
  const totals = sql`${t('usage_totals')} u
      cross join lateral (select slug from ${t('products')} where id = u.product_id limit 1) p
      where u.org_id = o.id and u.period between ${monthOf(from.getTime())}::date and ${lastDay}::date and u.livemode = ${livemode} ${ofProduct}`;
  // Months are kept as sums already.
  if (granularity === 'month' || (granularity === 'total' && isMonthStart(from) && isMonthStart(to))) {
    const start = granularity === 'month' ? sql`u.period::timestamp at time zone 'UTC'` : fromTime;
    return sql`
      select p.slug as product, ${start} as start, u.metric, sum(u.quantity) as quantity, sum(u.events) as events
      from ${totals}
      group by 1, 2, 3`;
  }
  const stepMs = { hour: HOUR_MS, day: DAY_MS, total: to.getTime() - from.getTime() }[granularity];
  // The totals of the months tell which products there are; the hours of each follow its primary key.
  const isBehind = after && sql`and (o.slug > ${after.organization} or p.slug >= ${after.product})`;
  const first =
    after === undefined
      ? fromTime
      : sql`case when o.slug = ${after.organization} and s.product = ${after.product} then ${after.start}::timestamptz else ${fromTime} end`;
  return sql`
      select s.product, h.start, h.metric, h.quantity, h.events
      from (select distinct u.product_id, p.slug as product from ${totals} ${isBehind ?? sql``}) s
      cross join lateral (
        select date_bin(make_interval(secs => ${stepMs / 1000}), hour, ${fromTime}) as start, metric, sum(quantity) as quantity, sum(events) as events
        from ${t('usage_hours')}
        where org_id = o.id and product_id = s.product_id and livemode = ${livemode}
          and hour >= ${first} and hour < ${to.toISOString()}::timestamptz
        group by 1, 2
      ) h`;
}

/**
 * The rows beyond `after`, over all customers. Organizations are walked by their slug, and no more of them than it takes
 * to fill the page: the sums of each are read by its own rows of the primary keys.
 */
export function selectCustomerUsage(range: CustomerUsageRange, t: GroupTables = wholeTables): SQL {
  const { orgId, after, limit } = range;
  const organizations = [
    t.owns(sql`id`),
    orgId === undefined ? undefined : sql`id = ${orgId}::uuid`,
    after && sql`slug >= ${after.organization}`,
  ].filter((condition) => condition !== undefined);
  const isBeyond =
    after &&
    sql`where (o.slug, u.product, u.start, u.metric) > (${after.organization}, ${after.product}, ${after.start}::timestamptz, ${after.metric})`;
  return sql`
    select o.slug as organization, r.product, ${timeText(sql`r.start`)} as start, r.metric,
      trim_scale(r.quantity)::text as quantity, r.events::text as events
    from (
      select id, slug from ${t('organizations')} where ${sql.join(organizations, sql` and `)}
    ) o
    cross join lateral (
      select u.* from (${sumsOf(range, t)}) u ${isBeyond ?? sql``}
      order by u.product, u.start, u.metric
      limit ${limit}
    ) r
    order by o.slug, r.product, r.start, r.metric
    limit ${limit}`;
}

export async function listCustomerUsage(
  db: ReportedDatabase,
  range: CustomerUsageRange,
): Promise<CustomerUsage[]> {
  const rows = await selectFromAll<CustomerUsage>(
    db,
    (tables) => selectCustomerUsage(range, tables),
    ({ organization, product, start, metric }) => [organization, product, start, metric],
    range.limit,
  );
  return rows.map((row) => ({ ...row, start: new Date(row.start).toISOString() }));
}
