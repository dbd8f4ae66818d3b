import { and, sql, type SQL } from 'drizzle-orm';
import { groupBy } from '../../core/collections.js';
import { textArray, queryRows, selectRow, selectRows, timeText } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { SEPARATOR_SQL } from '../entitlements/dimensions.js';
import { effectiveCap, type EntitlementKind, type products } from '../entitlements/table.js';

/**
 * Each statement uses an index over one Organization's rows, which the plan test verifies. The pages have their own
 * pool, so a slow page cannot delay ingestion. Decimals are text with all digits; times are RFC 3339 with microseconds.
 */

export interface UsageProduct extends Pick<
  typeof products.$inferSelect,
  'id' | 'slug' | 'name' | 'usageMetric' | 'dimensions' | 'creditPrice' | 'creditPrices' | 'creditDimension'
> {
  countsSubjects: boolean;
  /** The effective one; null means unlimited. */
  unitCap: string | null;
  /** Null if the entitlement was deleted and only its usage remains. */
  kind: EntitlementKind | null;
  isUsedNow: boolean;
}

const productColumns = sql`p.id::text, p.slug, p.name, p.usage_metric as "usageMetric", p.dimensions, p.subjects_since is not null as "countsSubjects",
    trim_scale(${sql.raw(effectiveCap('e', 'p'))})::text as "unitCap", trim_scale(p.credit_price)::text as "creditPrice", p.credit_prices as "creditPrices", p.credit_dimension as "creditDimension", e.kind`;

/** `period` is the first day of a month. */
type MonthScope = Omit<UsageScope, 'productId'> & { period: string };

/** With usage or with an entitlement in any state, by slug. */
export const selectProducts = ({ orgId, period, livemode }: MonthScope, limit: number): SQL => sql`
  select ${productColumns}, coalesce(o.is_used_now, false) as "isUsedNow"
  from (
    select product_id, bool_or(is_used_now) as is_used_now from (
      select product_id, false as is_used_now from entitlements where org_id = ${orgId}::uuid
      union all
      select product_id, period = ${period}::date and livemode = ${livemode} from usage_totals where org_id = ${orgId}::uuid
    ) known group by product_id
  ) o
  cross join lateral (select * from products where id = o.product_id limit 1) p
  left join lateral (select kind, has_own_cap, unit_cap from entitlements where org_id = ${orgId}::uuid and product_id = o.product_id limit 1) e on true
  order by p.slug collate "C"
  limit ${limit}`;

export const listProducts = (orm: Orm, scope: MonthScope, limit: number): Promise<UsageProduct[]> =>
  selectRows(orm, selectProducts(scope, limit));

/** Undefined if `selectProducts` would not list it. */
export const selectProduct = (orgId: string, slug: string): SQL => sql`
  select ${productColumns}, false as "isUsedNow"
  from (select * from products where slug = ${slug} limit 1) p
  left join lateral (select kind, has_own_cap, unit_cap from entitlements where org_id = ${orgId}::uuid and product_id = p.id limit 1) e on true
  where e.kind is not null
    or (select hour from usage_hours where org_id = ${orgId}::uuid and product_id = p.id order by livemode, hour limit 1) is not null`;

export const findProduct = (orm: Orm, orgId: string, slug: string): Promise<UsageProduct | undefined> =>
  selectRow(orm, selectProduct(orgId, slug));

export const selectMonths = (orgId: string): SQL => sql`
  select distinct period::text as month from usage_totals where org_id = ${orgId}::uuid`;

export const listMonths = async (orm: Orm, orgId: string): Promise<string[]> =>
  (await selectRows<{ month: string }>(orm, selectMonths(orgId))).map(({ month }) => month);

export interface UsageScope {
  orgId: string;
  productId: string;
  livemode: boolean;
}

/** For one time step (`start`), one API key (`apiKeyId`), or both. */
export interface UsageSum {
  metric: string;
  start: string | null;
  apiKeyId: string | null;
  keyName: string | null;
  keyPrefix: string | null;
  quantity: string;
  events: string;
  /** Sum of the requested key, or of all; null if the key has no usage here. */
  keyQuantity: string | null;
  keyEvents: string | null;
  /** All sums of this kind. */
  count: number;
}

/** A part of a product's usage. A subject's stored sums have no API keys or dimensions; its events do. */
export interface Narrowing {
  /** A key and those that it was rotated from and to. */
  apiKeyIds?: readonly string[] | undefined;
  where?: readonly { place: number; value: string }[] | undefined;
  subject?: string | undefined;
}

/** For rows with these columns. */
export const isOfPart = ({ apiKeyIds, where = [], subject }: Narrowing): SQL =>
  and(
    sql`true`,
    apiKeyIds && sql`api_key_id = any (${textArray(apiKeyIds)}::uuid[])`,
    subject === undefined ? undefined : sql`subject = ${subject}`,
    ...where.map(
      ({ place, value }) => sql`split_part(dimensions, ${sql.raw(SEPARATOR_SQL)}, ${place}::int) = ${value}`,
    ),
  )!;

interface SumRange extends Narrowing {
  from: Date;
  to: Date;
  stepMs: number;
  maxKeys: number;
  /** API keys with sums by step. */
  maxSeries?: number;
  /** Reads a subject's events instead of its stored sums. */
  isOfEvents?: boolean;
}

/** Each API key with the first one of its rotations. */
export const rootsOf = (orgId: string): SQL => sql`recursive roots as (
    select id, id as root from api_keys where org_id = ${orgId}::uuid and rotated_from_id is null
    union all
    select k.id, r.root from roots r join api_keys k on k.org_id = ${orgId}::uuid and k.rotated_from_id = r.id
  )`;

export async function listRotations(orm: Orm, orgId: string, keyId: string): Promise<string[]> {
  const rows = await queryRows(orm)<{ id: string }>`
    with ${rootsOf(orgId)} select id::text from roots where root = (select root from roots where id = ${keyId}::uuid)`;
  return rows.map(({ id }) => id);
}

/** Without the prefix if the key was rotated, because more than one key is counted. */
const keyOf = (orgId: string): SQL => sql`left join lateral (
    select name, case when count(*) over () = 1 then prefix end as prefix from api_keys where org_id = ${orgId}::uuid and id in (select id from roots where root = s.api_key_id)
    order by created_at desc limit 1
  ) k on true`;

/** Events and corrections by the time when the events occurred, with credits at the recorded prices. */
export function countedEvents(
  { orgId, productId, livemode }: UsageScope,
  { from, to }: Pick<SumRange, 'from' | 'to'>,
): SQL {
  const rows = (
    row: SQL,
  ) => sql`${row}.org_id = ${orgId}::uuid and ${row}.product_id = ${productId}::uuid and ${row}.livemode = ${livemode}
      and ${row}.occurred_at >= ${from.toISOString()}::timestamptz and ${row}.occurred_at < ${to.toISOString()}::timestamptz`;
  return sql`
    select e.api_key_id, e.occurred_at, e.metric, e.subject, e.dimensions, e.quantity, 1 as events, e.quantity * e.credit_price as credits
    from usage_events e where ${rows(sql`e`)}
    union all
    select e.api_key_id, e.occurred_at, e.metric, e.subject, e.dimensions, c.quantity - c.previous_quantity, 0,
      (c.quantity - c.previous_quantity) * c.credit_price
    from usage_corrections c
    join usage_events e on e.org_id = ${orgId}::uuid and e.idempotency_key = c.idempotency_key and e.occurred_at = c.occurred_at
    where ${rows(sql`c`)}`;
}

/** The sums of a range, with the first one of each key's rotations. */
function sumsOf(scope: UsageScope, { from, to, stepMs, where = [], subject, isOfEvents }: SumRange): SQL {
  const { orgId, productId, livemode } = scope;
  const at = isOfEvents ? sql`occurred_at` : subject === undefined ? sql`hour` : sql`slot`;
  const isOwn = sql`h.org_id = ${orgId}::uuid and h.product_id = ${productId}::uuid and h.livemode = ${livemode}
        and ${at} >= ${from.toISOString()}::timestamptz and ${at} < ${to.toISOString()}::timestamptz`;
  const start = sql`date_bin(make_interval(secs => ${stepMs / 1000}), ${at}, timestamptz '2000-01-01 00:00:00+00') as start`;
  if (subject !== undefined && !isOfEvents)
    return sql`select metric, null::uuid as key_id, null::uuid as api_key_id, quantity, events, ${start}
      from usage_subjects h where ${isOwn} and subject = ${subject}`;
  const keys = sql`select metric, h.api_key_id as key_id, coalesce(r.root, h.api_key_id) as api_key_id, quantity, events, ${start}`;
  const rows = isOfEvents
    ? sql`(${countedEvents(scope, { from, to })}) h left join roots r on r.id = h.api_key_id where subject = ${subject}`
    : sql`usage_hours h left join roots r on r.id = h.api_key_id where ${isOwn}`;
  return sql`${keys} from ${rows} and ${isOfPart({ where })}`;
}

/** By step, by API key, and by both, in one pass. Only the keys with the largest sums. */
export function selectSums(scope: UsageScope, range: SumRange): SQL {
  const { apiKeyIds, maxKeys, maxSeries = 0 } = range;
  // Without a key, the database computes the same expression once.
  const ofKey = apiKeyIds ? sql`filter (where key_id = any (${textArray(apiKeyIds)}::uuid[]))` : sql``;
  const kind = sql`grouping(start, api_key_id)`;
  const both = maxSeries > 0 ? sql`, (metric, start, api_key_id)` : sql``;
  return sql`
  with ${rootsOf(scope.orgId)}
  select s.metric, ${timeText(sql`s.start`)} as start, s.api_key_id::text as "apiKeyId", k.name as "keyName", k.prefix as "keyPrefix",
    trim_scale(s.quantity)::text as quantity, s.events::text, trim_scale(s.key_quantity)::text as "keyQuantity", s.key_events::text as "keyEvents",
    s.count::int
  from (
    select *, count(*) over (partition by metric, kind) as count,
      dense_rank() over (partition by metric, kind order by whole desc, whole_events desc, api_key_id) as place
    from (
      select metric, start, api_key_id, ${kind} as kind, sum(quantity) as quantity, sum(events) as events,
        sum(quantity) ${ofKey} as key_quantity, sum(events) ${ofKey} as key_events,
        sum(sum(quantity)) over (partition by metric, ${kind}, api_key_id) as whole,
        sum(sum(events)) over (partition by metric, ${kind}, api_key_id) as whole_events
      from (${sumsOf(scope, range)}) h
      group by grouping sets ((metric, start), (metric, api_key_id)${both})
    ) g
  ) s
  ${keyOf(scope.orgId)}
  where s.api_key_id is null or s.place <= case when s.start is null then ${maxKeys}::int else ${maxSeries}::int end
  order by s.metric, s.kind, s.start, s.place`;
}

export const readSums = (orm: Orm, scope: UsageScope, range: SumRange): Promise<UsageSum[]> =>
  selectRows(orm, selectSums(scope, range));

/** Each series has a quantity for every step. Keys of the same name show prefixes. */
export function toKeySeries(
  sums: readonly Pick<UsageSum, 'apiKeyId' | 'keyName' | 'keyPrefix' | 'start' | 'quantity'>[],
  steps: readonly Date[],
) {
  const byKey = [...groupBy(sums, ({ apiKeyId }) => apiKeyId).values()];
  const byName = groupBy(byKey, ([first]) => first!.keyName);
  return byKey.map((own) => {
    const { keyName, keyPrefix } = own[0]!;
    const isShared = keyName !== null && byName.get(keyName)!.length > 1;
    const byStart = new Map(own.map(({ start, quantity }) => [Date.parse(start!), quantity]));
    return {
      name: isShared ? `${keyName} (${keyPrefix?.concat('…') ?? 'rotated'})` : (keyName ?? 'Operator'),
      quantities: steps.map((step) => byStart.get(step.getTime()) ?? '0'),
    };
  });
}

/** `quantity` includes only the product's metric; `events` counts events of any metric. */
export interface ProductSum {
  productId: string;
  /** In milliseconds. */
  start: number;
  quantity: string;
  events: string;
  /** At the present prices, of the API keys and of all. Undefined without API keys. */
  credits?: string;
  wholeCredits?: string;
}

export interface ProductRange extends Omit<Narrowing, 'where'>, Pick<SumRange, 'from' | 'to' | 'stepMs'> {
  productIds: string[];
  livemode: boolean;
}

const within = (orgId: string, range: Omit<ProductRange, 'stepMs'>, at: SQL) =>
  sql`org_id = ${orgId}::uuid and product_id = any(${textArray(range.productIds)}::uuid[]) and livemode = ${range.livemode}
      and ${at} >= ${range.from.toISOString()}::timestamptz and ${at} < ${range.to.toISOString()}::timestamptz`;

/** The product of a row with its dimensions. */
const withPrice = sql`cross join lateral (
      select usage_metric, coalesce((credit_prices ->> split_part(h.dimensions, ${sql.raw(SEPARATOR_SQL)}, array_position(dimensions, credit_dimension)))::numeric, credit_price, 0) as price
      from products where id = h.product_id limit 1
    ) p`;

export function selectProductSums(orgId: string, range: ProductRange): SQL {
  const { stepMs, apiKeyIds, subject } = range;
  const [table, at] =
    subject === undefined ? [sql`usage_hours`, sql`hour`] : [sql`usage_subjects`, sql`slot`];
  const parts = apiKeyIds
    ? sql`dimensions, api_key_id = any (${textArray(apiKeyIds)}::uuid[])`
    : sql`'' as dimensions, true`;
  const creditsOf = (condition: SQL) =>
    sql`trim_scale(coalesce(sum(h.quantity * p.price) filter (where h.metric = p.usage_metric${condition}), 0))::text`;
  const credits = sql`, ${creditsOf(sql` and h.is_own`)} as credits, ${creditsOf(sql``)} as "wholeCredits"`;
  return sql`
  select h.product_id::text as "productId", (extract(epoch from h.start) * 1000)::float8 as start,
    trim_scale(coalesce(sum(h.quantity) filter (where h.metric = p.usage_metric and h.is_own), 0))::text as quantity,
    coalesce(sum(h.events) filter (where h.is_own), 0)::text as events${apiKeyIds ? credits : sql``}
  from (
    select product_id, metric, ${parts} as is_own, sum(quantity) as quantity, sum(events) as events,
      date_bin(make_interval(secs => ${stepMs / 1000}), ${at}, timestamptz '2000-01-01 00:00:00+00') as start
    from ${table} where ${within(orgId, range, at)} and ${isOfPart({ subject })}
    group by product_id, metric, 3, is_own, start
  ) h
  ${withPrice}
  group by h.product_id, h.start
  order by h.start, h.product_id`;
}

export const readProductSums = (orm: Orm, orgId: string, range: ProductRange): Promise<ProductSum[]> =>
  selectRows(orm, selectProductSums(orgId, range));

/** A key or a subject, in one product. */
export interface ProductPart {
  kind: 'key' | 'subject';
  value: string;
  keyName: string | null;
  keyPrefix: string | null;
  productSlug: string;
  /** Start of a step, in milliseconds; null for the whole range. */
  start: number | null;
  events: string;
  /** At the present prices; null for a subject, whose stored sums have no dimensions. */
  credits: string | null;
}

interface PartRange extends Omit<ProductRange, 'stepMs'> {
  stepMs?: number;
  limit: number;
}

export const selectProductParts = (orgId: string, { stepMs, limit, ...range }: PartRange): SQL => {
  const startOf = (at: SQL) =>
    stepMs === undefined
      ? sql`null::timestamptz`
      : sql`date_bin(make_interval(secs => ${stepMs / 1000}), ${at}, timestamptz '2000-01-01 00:00:00+00')`;
  return sql`
  with ${rootsOf(orgId)}
  select s.kind, s.value, k.name as "keyName", k.prefix as "keyPrefix", p.slug as "productSlug", (extract(epoch from s.start) * 1000)::float8 as start,
    s.events::text, trim_scale(s.credits)::text as credits
  from (
    select 'key' as kind, coalesce(r.root, h.api_key_id)::text as value, coalesce(r.root, h.api_key_id) as api_key_id, h.product_id, h.start,
      sum(h.events) as events, coalesce(sum(h.quantity * p.price) filter (where h.metric = p.usage_metric), 0) as credits
    from (
      select product_id, metric, api_key_id, dimensions, ${startOf(sql`hour`)} as start, sum(quantity) as quantity, sum(events) as events
      from usage_hours where ${within(orgId, range, sql`hour`)} group by 1, 2, 3, 4, 5
    ) h
    left join roots r on r.id = h.api_key_id
    ${withPrice}
    group by 2, 3, 4, 5
    union all
    select 'subject', subject, null, product_id, ${startOf(sql`slot`)}, sum(events), null
    from usage_subjects where ${within(orgId, range, sql`slot`)} group by 2, 4, 5
    order by events desc
    limit ${limit}
  ) s
  cross join lateral (select slug from products where id = s.product_id limit 1) p
  ${keyOf(orgId)}
  order by s.events desc, s.value`;
};

export const readProductParts = (orm: Orm, orgId: string, range: PartRange) =>
  selectRows<ProductPart>(orm, selectProductParts(orgId, range));

const latestHour = (orgId: string, productId: string, livemode: boolean): SQL => sql`(
    select ${timeText(sql`hour`)} from usage_hours
    where org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode}
    order by hour desc limit 1)`;

export const selectLatest = (orgId: string, productId: string): SQL => sql`
  select ${latestHour(orgId, productId, true)} as live, ${latestHour(orgId, productId, false)} as test`;

export const findLatest = async (orm: Orm, orgId: string, productId: string) =>
  (await selectRow<{ live: string | null; test: string | null }>(orm, selectLatest(orgId, productId)))!;

type HoldingKey = Record<'id' | 'quantity' | 'nextExpiresAt', string> &
  Record<'name' | 'prefix', string | null> & { count: number };

export async function listHolds(orm: Orm, scope: UsageScope, metric: string, now: Date, limit: number) {
  const { orgId, productId, livemode } = scope;
  const rows = await queryRows(orm)<HoldingKey>`
  select h.api_key_id::text as id, k.name, k.prefix, h.quantity, h.count, h.next_expires_at as "nextExpiresAt"
  from (
    select api_key_id, trim_scale(sum(quantity))::text as quantity, sum(quantity) as total, count(*)::int as count,
      ${timeText(sql`min(expires_at)`)} as next_expires_at
    from usage_reservations
    where org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode} and metric = ${metric}
      and settled_at is null and released_at is null and expires_at > ${now.toISOString()}::timestamptz
    group by api_key_id
    order by total desc
    limit ${limit}
  ) h
  left join lateral (select name, prefix from api_keys where org_id = ${orgId}::uuid and id = h.api_key_id limit 1) k on true
  order by h.total desc`;
  return rows.map((row) => ({ ...row, nextExpiresAt: new Date(row.nextExpiresAt) }));
}
