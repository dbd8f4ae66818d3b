import { and, sql, type SQL } from 'drizzle-orm';
import { textArray, selectRow, selectRows, timeText } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { monthOf } from '../../core/time.js';
import type { usageCorrections, usageEvents } from '../ingestion/table.js';
import { isOfPart, type Narrowing, type UsageScope } from './page-queries.js';

export interface EventRow extends Omit<
  typeof usageEvents.$inferSelect,
  'orgId' | 'productId' | 'occurredAt' | 'receivedAt'
> {
  occurredAt: string;
  receivedAt: string;
  productSlug: string;
  productName: string;
  /** The product's dimensions. */
  keys: string[];
  keyName: string | null;
  keyPrefix: string | null;
  /** Oldest first; null if the event was never corrected. */
  corrections: EventCorrection[] | null;
}

export interface EventCorrection extends Pick<
  typeof usageCorrections.$inferSelect,
  'correctionKey' | 'previousQuantity' | 'quantity' | 'reason' | 'actor'
> {
  correctedAt: string;
  /** A person or API key; null if deleted, or if the actor was neither. */
  author: string | null;
}

export const currentQuantity = ({ quantity, corrections }: Pick<EventRow, 'quantity' | 'corrections'>) =>
  corrections?.at(-1)?.quantity ?? quantity;

const correctionsOf = (orgId: string): SQL => sql`(
    select json_agg(json_build_object('correctionKey', c.correction_key, 'previousQuantity', trim_scale(c.previous_quantity)::text,
      'quantity', trim_scale(c.quantity)::text, 'reason', c.reason, 'correctedAt', ${timeText(sql`c.corrected_at`)}, 'actor', c.actor,
      'author', case when c.actor like 'api_key:%' then (select name from api_keys where org_id = ${orgId}::uuid and id = substr(c.actor, 9)::uuid limit 1)
        when c.actor like 'operator:%' then (select name from users where email = substr(c.actor, 10) limit 1)
        when c.actor ~ '^[0-9a-f-]{36}$' then (select name from users where id = c.actor::uuid limit 1) end) order by c.number)
    from usage_corrections c
    where c.org_id = ${orgId}::uuid and c.idempotency_key = e.idempotency_key and c.occurred_at = e.occurred_at
  )`;

/** Only for the rows that `events` selects from `usage_events`. */
const withNames = (orgId: string, events: SQL, order: SQL, more = sql``): SQL => sql`
  select e.idempotency_key as "idempotencyKey", ${timeText(sql`e.occurred_at`)} as "occurredAt", ${timeText(sql`e.received_at`)} as "receivedAt",
    trim_scale(e.quantity)::text as quantity, e.metric, e.livemode, p.slug as "productSlug", p.name as "productName",
    e.subject, e.dimensions, p.dimensions as keys, trim_scale(e.credit_price)::text as "creditPrice", e.api_key_id::text as "apiKeyId", k.name as "keyName", k.prefix as "keyPrefix",
    ${correctionsOf(orgId)} as corrections${more}
  from (${events}) e
  cross join lateral (select slug, name, dimensions from products where id = e.product_id limit 1) p
  left join lateral (select name, prefix from api_keys where org_id = ${orgId}::uuid and id = e.api_key_id limit 1) k on true
  ${order}`;

export const selectEvent = (orgId: string, idempotencyKey: string): SQL =>
  withNames(
    orgId,
    sql`select * from usage_events where org_id = ${orgId}::uuid and idempotency_key = ${idempotencyKey} limit 1`,
    sql``,
  );

export const findEvent = (orm: Orm, orgId: string, key: string): Promise<EventRow | undefined> =>
  selectRow(orm, selectEvent(orgId, key));

/** A prefix with this character sorts after every key with that prefix. */
export const LAST_CHARACTER = '\u{10ffff}';

/** By key, from the primary key's index. */
export const selectEventsFrom = (orgId: string, prefix: string, limit: number): SQL =>
  withNames(
    orgId,
    sql`select * from usage_events
      where org_id = ${orgId}::uuid and idempotency_key >= ${prefix} and idempotency_key < ${prefix + LAST_CHARACTER}
      order by idempotency_key limit ${limit}`,
    sql`order by e.idempotency_key`,
  );

export const listEventsFrom = (orm: Orm, orgId: string, prefix: string, limit: number): Promise<EventRow[]> =>
  selectRows(orm, selectEventsFrom(orgId, prefix, limit));

/** With live usage. Reads a few entries of the primary key's index for each subject and product. */
export function selectSubjectsFrom(orgId: string, prefix: string, limit: number): SQL {
  const first = (product: SQL, start: SQL) => sql`lateral (
    select subject from usage_subjects where org_id = ${orgId}::uuid and product_id = ${product} and livemode
      and ${start} and subject < ${prefix + LAST_CHARACTER} order by subject limit 1) s`;
  return sql`
    with recursive found as (
      select e.product_id, s.subject, 1 as number from entitlements e, ${first(sql`e.product_id`, sql`subject >= ${prefix}`)}
      where e.org_id = ${orgId}::uuid
      union all
      select f.product_id, s.subject, f.number + 1 from found f, ${first(sql`f.product_id`, sql`subject > f.subject`)}
      where f.number < ${limit}::int
    )
    select f.subject, ${timeText(sql`max(l.slot)`)} as "lastAt" from found f, lateral (
      select slot from usage_subjects where org_id = ${orgId}::uuid and product_id = f.product_id and livemode and subject = f.subject
      order by slot desc limit 1) l
    group by 1 order by 1 limit ${limit}`;
}

export const listSubjectsFrom = (orm: Orm, ...query: Parameters<typeof selectSubjectsFrom>) =>
  selectRows<{ subject: string; lastAt: string }>(orm, selectSubjectsFrom(...query));

export const selectEventsOf = (orgId: string, livemode: boolean, idempotencyKeys: string[]): SQL =>
  withNames(
    orgId,
    sql`select u.* from unnest(${textArray(idempotencyKeys)}::text[]) as asked (key)
      cross join lateral (select * from usage_events where org_id = ${orgId}::uuid and idempotency_key = asked.key limit 1) u
      where u.livemode = ${livemode}`,
    sql``,
  );

export const listEventsOf = (
  orm: Orm,
  { orgId, livemode }: Pick<UsageScope, 'orgId' | 'livemode'>,
  idempotencyKeys: string[],
): Promise<EventRow[]> => selectRows(orm, selectEventsOf(orgId, livemode, idempotencyKeys));

export const selectCorrectionCount = (orgId: string, idempotencyKeys: string[], most: number): SQL => sql`
  select count(*)::int as count from (
    select 1 from unnest(${textArray(idempotencyKeys)}::text[]) as asked (key)
    cross join lateral (select 1 from usage_corrections where org_id = ${orgId}::uuid and idempotency_key = asked.key limit ${most}) c
    limit ${most}
  ) counted`;

/** Up to `most`. */
export const countCorrections = async (orm: Orm, orgId: string, idempotencyKeys: string[], most: number) =>
  (await selectRow<{ count: number }>(orm, selectCorrectionCount(orgId, idempotencyKeys, most)))!.count;

/** A page starts after it. */
export type EventPosition = Pick<EventRow, 'occurredAt' | 'idempotencyKey'>;

export interface EventRange {
  /** UTC; undefined means unbounded. */
  from: string | undefined;
  to: string | undefined;
  order: 'newest first' | 'oldest first';
  after: EventPosition | undefined;
  limit: number;
  /** No index covers these fields, so at most `scan` events are examined. */
  match?: Narrowing & { scan: number };
}

export interface EventScope extends Omit<UsageScope, 'productId'> {
  productIds: readonly string[];
}

/** The last event examined is included even if it does not match: the next page starts after it. */
export interface MatchedRow extends EventRow {
  isMatch: boolean;
  isLastScanned: boolean;
}

/** Each product's events are read from its own part of the index. */
export function selectEvents({ orgId, productIds, livemode }: EventScope, range: EventRange): SQL {
  const { from, to, after, limit } = range;
  const isNewestFirst = range.order === 'newest first';
  const beyond = isNewestFirst ? sql`<` : sql`>`;
  const direction = isNewestFirst ? sql`desc` : sql`asc`;
  const isRequested = and(
    sql`org_id = ${orgId}::uuid and product_id = asked.product and livemode = ${livemode}`,
    from === undefined ? undefined : sql`occurred_at >= ${from}::timestamptz`,
    to === undefined ? undefined : sql`occurred_at < ${to}::timestamptz`,
    // Redundant, but the index can seek only by a bound on the time.
    after && sql`occurred_at ${beyond}= ${after.occurredAt}::timestamptz`,
    after &&
      sql`(occurred_at, idempotency_key) ${beyond} (${after.occurredAt}::timestamptz, ${after.idempotencyKey})`,
  );
  const byTime = sql`order by occurred_at ${direction}, idempotency_key ${direction}`;
  const count = range.match?.scan ?? limit;
  const found = sql`select u.* from unnest(${textArray(productIds)}::uuid[]) as asked (product)
    cross join lateral (select * from usage_events where ${isRequested} ${byTime} limit ${count}) u ${byTime} limit ${count}`;
  const order = sql`order by e.occurred_at ${direction}, e.idempotency_key ${direction}`;
  if (!range.match) return withNames(orgId, found, order);
  const marks = sql`, e.is_match as "isMatch", e.is_last as "isLastScanned"`;
  return withNames(orgId, selectMatches(found, byTime, range.match, limit), order, marks);
}

/** Ends with the last event examined if there may be more after it. */
function selectMatches(
  found: SQL,
  byTime: SQL,
  { scan, ...part }: Narrowing & { scan: number },
  limit: number,
): SQL {
  return sql`select * from (
    select f.*, place = ${scan} as is_last, sum(is_match::int) over (order by place) as matches
    from (
      select f.*, row_number() over (${byTime}) as place, (${isOfPart(part)}) as is_match from (${found}) f
    ) f
  ) m where (is_match and matches <= ${limit}) or is_last`;
}

export const listMatches = (
  orm: Orm,
  scope: EventScope,
  range: EventRange & { match: Narrowing & { scan: number } },
): Promise<MatchedRow[]> => selectRows(orm, selectEvents(scope, range));

export const listEvents = (orm: Orm, scope: EventScope, range: EventRange): Promise<EventRow[]> =>
  selectRows(orm, selectEvents(scope, range));

/** The number of matching events, their credits, and their quantity with its metric, null for several. At most `most` events are examined, and `isCut` says whether that is all. */
export const selectEventSums = (
  { orgId, productIds, livemode }: EventScope,
  { part, from = '-infinity', to = 'infinity' }: Pick<EventRange, 'from' | 'to'> & { part: Narrowing },
  most = 10_000,
): SQL => sql`
  select count(*)::int as count, trim_scale(coalesce(sum(coalesce(c.quantity, e.quantity) * e.credit_price), 0))::text as credits,
    trim_scale(sum(coalesce(c.quantity, e.quantity)))::text as quantity, case when min(e.metric) = max(e.metric) then min(e.metric) end as metric,
    coalesce(bool_or(e.is_cut), false) as "isCut"
  from (
    select *, count(*) over () = ${most} as is_cut from (
      select u.* from unnest(${textArray(productIds)}::uuid[]) as asked (product) cross join lateral (
        select * from usage_events where org_id = ${orgId}::uuid and product_id = asked.product and livemode = ${livemode}
          and occurred_at >= ${from}::timestamptz and occurred_at < ${to}::timestamptz order by occurred_at desc limit ${most}
      ) u limit ${most}
    ) u
  ) e left join lateral (
    select quantity from usage_corrections
    where org_id = ${orgId}::uuid and idempotency_key = e.idempotency_key and occurred_at = e.occurred_at order by number desc limit 1
  ) c on true where ${isOfPart(part)}`;

type EventSums = { count: number; isCut: boolean; credits: string } & Record<
  'quantity' | 'metric',
  string | null
>;

export const readEventSums = async (orm: Orm, ...query: Parameters<typeof selectEventSums>) =>
  (await selectRow<EventSums>(orm, selectEventSums(...query)))!;

export type ArchivedEvents = NonNullable<Awaited<ReturnType<typeof findArchived>>>;

interface ArchivedRow {
  /** First days of months. */
  first: string;
  last: string;
  events: number;
  /** Null while the first month is being archived. */
  archivedAt: string | null;
}

interface ArchivedRange {
  /** Default: all products and modes. */
  of?: Pick<EventScope, 'productIds' | 'livemode'>;
  /** UTC; undefined means unbounded. */
  from?: string | undefined;
  to?: string | undefined;
}

export function selectArchived(orgId: string, { of, from, to }: ArchivedRange): SQL {
  const isRequested = and(
    sql`t.org_id = ${orgId}::uuid and t.deleted_events > 0`,
    of && sql`t.product_id = any (${textArray(of.productIds)}::uuid[]) and t.livemode = ${of.livemode}`,
    from === undefined ? undefined : sql`t.period >= ${monthOf(Date.parse(from))}::date`,
    to === undefined ? undefined : sql`t.period::timestamp at time zone 'UTC' < ${to}::timestamptz`,
  );
  return sql`
  select min(t.period)::text as first, max(t.period)::text as last, sum(t.deleted_events)::float8 as events,
    ${timeText(sql`max(a.archived_at)`)} as "archivedAt"
  from usage_archived_totals t
  join usage_archives a on a.org_id = t.org_id and a.period = t.period and a.livemode = t.livemode
  where ${isRequested}
  having count(*) > 0`;
}

export async function findArchived(orm: Orm, orgId: string, range: ArchivedRange) {
  const row = await selectRow<ArchivedRow>(orm, selectArchived(orgId, range));
  return row && { ...row, archivedAt: row.archivedAt === null ? null : new Date(row.archivedAt) };
}
