import { sql, type SQL } from 'drizzle-orm';
import { textArray, timeText, queryRow, queryRows } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import type { EventPosition } from '../events/event-queries.js';
import type { usageArchives } from '../ingestion/table.js';

export type ArchiveRow = Pick<
  typeof usageArchives.$inferSelect,
  'orgId' | 'period' | 'livemode' | 'state' | 'file' | 'sha256' | 'events'
>;

/** The unit of archiving. Every statement names the Organization, so it runs on one shard. */
export type Month = Pick<ArchiveRow, 'orgId' | 'period' | 'livemode'>;

export interface Sum {
  /** An exact decimal. */
  quantity: string;
  events: number;
}

export interface MetricSum extends Sum {
  productId: string;
  metric: string;
}

/** A line of the file. Times are RFC 3339 with microseconds. */
export interface ArchivedEvent extends EventPosition {
  productId: string;
  metric: string;
  quantity: string;
  apiKeyId: string;
  receivedAt: string;
  /** In declared order, separated by U+001F. Absent if empty. */
  subject?: string | undefined;
  dimensions?: string | undefined;
  /** Per unit. Absent if 0, and in files from older versions. */
  creditPrice?: string | undefined;
}

const ofMonth = ({ orgId, period, livemode }: Month): SQL =>
  sql`org_id = ${orgId}::uuid and period = ${period}::date and livemode = ${livemode}`;

/** The range of times allows the index on Organization, product, mode and time. */
const inMonth = ({ orgId, period, livemode }: Month, productId: SQL, time: SQL, of = sql``): SQL =>
  sql`${of}org_id = ${orgId}::uuid and ${of}product_id = ${productId} and ${of}livemode = ${livemode}
    and ${time} >= ${period}::timestamp at time zone 'UTC' and ${time} < (${period}::date + interval '1 month') at time zone 'UTC'`;

export const listOrganizations = (orm: Orm, orgId: string | undefined, after: string, limit: number) =>
  queryRows(orm)<{ id: string; slug: string }>`select id::text, slug from organizations
    where slug > ${after} ${orgId === undefined ? sql`` : sql`and id = ${orgId}::uuid`} order by slug limit ${limit}`;

export const listOpenMonths = (orm: Orm, orgId: string, before: string) =>
  queryRows(orm)<Month & { events: number }>`
    select t.org_id::text as "orgId", t.period::text, t.livemode, sum(t.events)::float8 as events
    from usage_totals t
    left join usage_archives a on a.org_id = t.org_id and a.period = t.period and a.livemode = t.livemode
    where t.org_id = ${orgId}::uuid and t.period < ${before}::date and a.state is distinct from 'archived'
    group by 1, 2, 3 order by 2, 3 desc`;

const archiveColumns = sql`org_id::text as "orgId", period::text, livemode, state, file, sha256, events::float8 as events`;

export const findArchive = (orm: Orm, month: Month): Promise<ArchiveRow | undefined> =>
  queryRow(orm)`select ${archiveColumns} from usage_archives where ${ofMonth(month)}`;

export const listArchives = (orm: Orm, orgId: string): Promise<ArchiveRow[]> =>
  queryRows(orm)`
    select ${archiveColumns} from usage_archives where org_id = ${orgId}::uuid order by period, livemode desc`;

/** A month's file holds its events as sent, before corrections. `s` is the row of a sum table. */
const correctedOf = (month: Month, ofRow: SQL): SQL => sql`(
      select coalesce(sum(c.quantity - c.previous_quantity), 0) from usage_corrections c
      where ${inMonth(month, sql`s.product_id`, sql`c.occurred_at`, sql`c.`)} and c.metric = s.metric ${ofRow})`;

/** The sums of the events as sent, in one snapshot. */
export const listTotals = (orm: Orm, month: Month): Promise<MetricSum[]> =>
  queryRows(orm)`
    select product_id::text as "productId", metric, trim_scale(quantity - ${correctedOf(month, sql``)})::text as quantity,
      events::float8 as events
    from usage_totals s where ${ofMonth(month)} order by product_id, metric collate "C"`;

export const listProductSlugs = (orm: Orm, ids: string[]): Promise<{ id: string; slug: string }[]> =>
  queryRows(orm)`select id::text, slug from products where id = any (${textArray(ids)}::uuid[])`;

export interface ArchivedSum extends MetricSum {
  deletedEvents: number;
}

export const listArchivedSums = (orm: Orm, month: Month): Promise<ArchivedSum[]> =>
  queryRows(orm)`
    select product_id::text as "productId", metric, trim_scale(quantity)::text as quantity, events::float8 as events,
      deleted_events::float8 as "deletedEvents"
    from usage_archived_totals where ${ofMonth(month)} order by product_id, metric collate "C"`;

/** The hour is like `2025-10-31T13`. */
type HourSum = Sum & Record<'hour' | 'apiKeyId' | 'metric' | 'dimensions', string>;

const hourText = (time: SQL): SQL => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24')`;

/** Without corrections, like `listTotals`. */
export const listHours = (orm: Orm, month: Month, productId: string): Promise<HourSum[]> =>
  queryRows(orm)`
    select ${hourText(sql`hour`)} as hour, api_key_id::text as "apiKeyId", metric, dimensions, events::float8 as events,
      trim_scale(quantity - ${correctedOf(month, sql`and c.api_key_id = s.api_key_id and c.dimensions = s.dimensions and c.occurred_at >= s.hour and c.occurred_at < s.hour + interval '1 hour'`)})::text as quantity
    from usage_hours s where ${inMonth(month, sql`${productId}::uuid`, sql`hour`)}`;

export const sumEvents = (orm: Orm, month: Month, productId: string): Promise<HourSum[]> =>
  queryRows(orm)`
    select ${hourText(sql`occurred_at`)} as hour, api_key_id::text as "apiKeyId", metric, dimensions,
      trim_scale(sum(quantity))::text as quantity, count(*)::float8 as events
    from usage_events where ${inMonth(month, sql`${productId}::uuid`, sql`occurred_at`)} group by 1, 2, 3, 4`;

/** Listed combinations have sums of their own. */
export async function listCombinations(orm: Orm, month: Month, productId: string): Promise<Set<string>> {
  const rows = await queryRows(orm)<{ dimensions: string }>`
    select dimensions from usage_combinations where ${ofMonth(month)} and product_id = ${productId}::uuid`;
  return new Set(rows.map(({ dimensions }) => dimensions));
}

export const listEventsOf = (
  orm: Orm,
  month: Month,
  productId: string,
  after: EventPosition | undefined,
  limit: number,
): Promise<Omit<ArchivedEvent, 'productId'>[]> =>
  queryRows(orm)`
    select idempotency_key as "idempotencyKey", metric, trim_scale(quantity)::text as quantity, api_key_id::text as "apiKeyId",
      ${timeText(sql`occurred_at`)} as "occurredAt", ${timeText(sql`received_at`)} as "receivedAt",
      nullif(subject, '') as subject, nullif(dimensions, '') as dimensions,
      case when credit_price <> 0 then trim_scale(credit_price)::text end as "creditPrice"
    from (
      select * from usage_events
      where ${inMonth(month, sql`${productId}::uuid`, sql`occurred_at`)} ${
        after === undefined
          ? sql``
          : sql`and occurred_at >= ${after.occurredAt}::timestamptz
        and (occurred_at, idempotency_key) > (${after.occurredAt}::timestamptz, ${after.idempotencyKey})`
      }
      order by occurred_at, idempotency_key limit ${limit}
    ) e
    order by e.occurred_at, e.idempotency_key`;

export interface PricedSum extends Sum {
  metric: string;
  /** 0 if the events had no price. */
  creditPrice: string;
}

/** Both positions are inclusive. Returns the sums by metric and price. */
export const deleteEvents = (
  orm: Orm,
  { orgId, livemode }: Month,
  productId: string,
  first: EventPosition,
  last: EventPosition,
): Promise<PricedSum[]> =>
  queryRows(orm)`with gone as (
      delete from usage_events
      where org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode}
        and occurred_at between ${first.occurredAt}::timestamptz and ${last.occurredAt}::timestamptz
        and (occurred_at, idempotency_key) >= (${first.occurredAt}::timestamptz, ${first.idempotencyKey})
        and (occurred_at, idempotency_key) <= (${last.occurredAt}::timestamptz, ${last.idempotencyKey})
      returning metric, quantity, credit_price
    )
    select metric, trim_scale(credit_price)::text as "creditPrice", trim_scale(sum(quantity))::text as quantity, count(*)::float8 as events
    from gone group by 1, 2`;

export async function raiseDeleted(
  orm: Orm,
  month: Month,
  { productId, metric, quantity, events, creditPrice }: MetricSum & PricedSum,
): Promise<void> {
  await orm.execute(sql`update usage_archived_totals
    set deleted_quantity = deleted_quantity + ${quantity}::numeric, deleted_events = deleted_events + ${events}::bigint,
      deleted_credits = deleted_credits + ${quantity}::numeric * ${creditPrice}::numeric
    where ${ofMonth(month)} and product_id = ${productId}::uuid and metric = ${metric}`);
}

const dayOf = (time: SQL): SQL => sql`date_bin('1 day', ${time}, timestamptz '2000-01-01 00:00:00+00')`;

const entriesOf = (month: Month): SQL => sql`org_id = ${month.orgId}::uuid and livemode = ${month.livemode}
      and hour >= ${month.period}::timestamp at time zone 'UTC' and hour < (${month.period}::date + interval '1 month') at time zone 'UTC'
      and (at <> ${dayOf(sql`at`)} or hour <> ${dayOf(sql`hour`)})`;

/** Omits products that still have events in the month, because correcting an event reads its entries. */
export const listEntryDays = (orm: Orm, month: Month): Promise<{ productId: string; day: string }[]> =>
  queryRows(orm)`
    select product_id::text as "productId", (${dayOf(sql`at`)} at time zone 'UTC')::date::text as day from credit_entries e
    where ${entriesOf(month)} and not exists (select from usage_events where ${inMonth(month, sql`e.product_id`, sql`occurred_at`)})
    group by product_id, 2 order by 1, 2`;

export async function sumEntries(
  orm: Orm,
  month: Month,
  { productId, day }: { productId: string; day: string },
  limit: number,
): Promise<number> {
  const key = sql`product_id, at, hour, grant_id, kind`;
  const row = await queryRow(orm)<{ removed: number }>`with removed as (
      delete from credit_entries where org_id = ${month.orgId}::uuid and livemode = ${month.livemode} and (${key}) in (
        select ${key} from credit_entries
        where ${entriesOf(month)} and product_id = ${productId}::uuid and at >= ${day}::timestamp at time zone 'UTC'
          and at < (${day}::timestamp + interval '1 day') at time zone 'UTC'
        limit ${limit}
      ) returning *
    ), summed as (
      insert into credit_entries as e (org_id, livemode, product_id, at, hour, grant_id, kind, amount)
      select org_id, livemode, product_id, ${dayOf(sql`at`)}, ${dayOf(sql`hour`)}, grant_id, kind, sum(amount) from removed
      group by 1, 2, 3, 4, 5, 6, 7
      on conflict (org_id, livemode, product_id, at, hour, grant_id, kind) do update set amount = e.amount + excluded.amount
    )
    select count(*)::int as removed from removed`;
  return row!.removed;
}

/** The earlier run must not have deleted any events. */
export async function replaceArchive(
  tx: Orm,
  { file, sha256, events, ...month }: Omit<ArchiveRow, 'state'>,
  sums: MetricSum[],
  now: Date,
): Promise<void> {
  await tx.execute(sql`delete from usage_archived_totals where ${ofMonth(month)}`);
  await tx.execute(sql`delete from usage_archives where ${ofMonth(month)}`);
  await tx.execute(sql`insert into usage_archives (org_id, period, livemode, state, file, sha256, events, written_at)
    values (${month.orgId}::uuid, ${month.period}::date, ${month.livemode}, 'written', ${file}, ${sha256}, ${events}::bigint, ${now.toISOString()}::timestamptz)`);
  for (const sum of sums)
    await tx.execute(sql`insert into usage_archived_totals
      (org_id, period, livemode, product_id, metric, quantity, events, deleted_quantity, deleted_events)
      values (${month.orgId}::uuid, ${month.period}::date, ${month.livemode}, ${sum.productId}::uuid, ${sum.metric},
        ${sum.quantity}::numeric, ${sum.events}::bigint, 0, 0)`);
}

/** @param archivedAt only for the final state */
export async function moveState(orm: Orm, month: Month, state: ArchiveRow['state'], archivedAt?: Date) {
  await orm.execute(sql`update usage_archives set state = ${state}, archived_at = ${archivedAt?.toISOString() ?? null}::timestamptz
    where ${ofMonth(month)}`);
}

/** An arbitrary constant. */
const ARCHIVE_LOCK = 4_283_641_098;

/** Lasts until this connection ends. @throws 55P03 if another process holds the lock after 5 s */
export async function lockArchive(orm: Orm): Promise<void> {
  await orm.execute(sql`set lock_timeout = '5s'`);
  await orm.execute(sql`select pg_advisory_lock(${ARCHIVE_LOCK}::bigint)`);
}
