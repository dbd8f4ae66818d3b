import { sql, type SQL } from 'drizzle-orm';
import { textArray, queryRow, queryRows } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { OTHER_SQL } from '../entitlements/dimensions.js';

/**
 * Decimals and counts are text. `recorded` is null if the row is missing; `actual` is the sum of the events and their
 * corrections, null without events.
 */
export interface DriftRow {
  orgId: string;
  /** Slugs, or an id if the row was deleted. */
  organization: string;
  product: string;
  /** UTC: the month's first day, or the start of the hour or the five-minute slot. */
  period: string;
  livemode: boolean;
  metric: string;
  /** The combination of dimensions for hours, the subject for sums by subject; otherwise empty. */
  part: string;
  /** With the prefix; only for hours. */
  apiKeyId: string | null;
  apiKey: string | null;
  recordedQuantity: string | null;
  actualQuantity: string | null;
  difference: string;
  recordedEvents: string | null;
  actualEvents: string | null;
  /** All rows that differ. */
  count: number;
}

export const sumTables = ['totals', 'hours', 'subjects'] as const;
export type SumTable = (typeof sumTables)[number];

/** Recomputed under a lock as a unit. */
export type SumPlace = Record<'orgId' | 'productId' | 'period', string>;

interface SumShape {
  table: SQL;
  /** Columns of the primary key, in the order of `keysOfEvent`. */
  keys: SQL;
  /** For an event `e`. */
  keysOfEvent: SQL;
  /** Columns that only these sums need. `join` provides the event's. */
  own: { event: SQL; join: SQL; correction: SQL };
  /** For a row `d`, in the report. */
  shown: { period: SQL; part: SQL };
  /** First day, for a row `t`. */
  monthOfRow: SQL;
  /** Events deleted from archived months: `keys`, quantity, events. Undefined skips such months. */
  deleted: SQL | undefined;
}

const minuteText = (time: SQL): SQL => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;

const nothing = sql``;

const shapes: Record<SumTable, SumShape> = {
  totals: {
    table: sql`usage_totals`,
    keys: sql`org_id, product_id, livemode, metric, period`,
    keysOfEvent: sql`e.org_id, e.product_id, e.livemode, e.metric, date_trunc('month', e.occurred_at at time zone 'UTC')::date`,
    own: { event: nothing, join: nothing, correction: nothing },
    shown: { period: sql`d.period::text`, part: sql`''` },
    monthOfRow: sql`t.period`,
    deleted: sql`select org_id, product_id, livemode, metric, period, deleted_quantity, deleted_events from usage_archived_totals t`,
  },
  hours: {
    table: sql`usage_hours`,
    keys: sql`org_id, product_id, livemode, metric, hour, api_key_id, dimensions`,
    keysOfEvent: sql`e.org_id, e.product_id, e.livemode, e.metric, date_bin('1 hour', e.occurred_at, timestamptz '2000-01-01 00:00:00+00'), e.api_key_id, e.dimensions`,
    own: {
      event: sql`, case when e.dimensions = '' or l.number is not null then e.dimensions else ${sql.raw(OTHER_SQL)} end as dimensions`,
      join: sql`left join usage_combinations l on l.org_id = e.org_id and l.product_id = e.product_id and l.livemode = e.livemode
        and l.period = date_trunc('month', e.occurred_at at time zone 'UTC')::date and l.dimensions = e.dimensions`,
      correction: sql`, e.dimensions`,
    },
    shown: { period: minuteText(sql`d.hour`), part: sql`d.dimensions` },
    monthOfRow: sql`date_trunc('month', t.hour at time zone 'UTC')::date`,
    deleted: undefined,
  },
  subjects: {
    table: sql`usage_subjects`,
    keys: sql`org_id, product_id, livemode, metric, slot, subject`,
    keysOfEvent: sql`e.org_id, e.product_id, e.livemode, e.metric, date_bin('5 minutes', e.occurred_at, timestamptz '2000-01-01 00:00:00+00'), e.subject`,
    own: {
      event: sql`, e.subject`,
      join: sql`join products s on s.id = e.product_id and e.received_at >= s.subjects_since and e.subject <> ''`,
      correction: sql`, e.subject`,
    },
    shown: { period: minuteText(sql`d.slot`), part: sql`d.subject` },
    monthOfRow: sql`date_trunc('month', t.slot at time zone 'UTC')::date`,
    deleted: undefined,
  },
};

const columnsOfEvent = sql`e.org_id, e.product_id, e.livemode, e.metric, e.occurred_at, e.api_key_id`;

export type DriftScope = { orgId?: string | undefined } | { places: SumPlace[] };

/**
 * `drift` keeps the differences. Both sides have the same keys, so one full join finds wrong, missing and surplus rows.
 * The hours of an archived month exist only in its file, which `npm run archive -- --verify` compares; a repair would
 * remove them.
 */
function driftOf(name: SumTable, scope: DriftScope): SQL {
  const { table, keys, keysOfEvent, own, monthOfRow, deleted } = shapes[name];
  const isKept = deleted === undefined ? sql`not ${isArchived(monthOfRow)}` : sql`true`;
  return sql`${placesOf(scope)} found (${keys}, quantity, events) as (
    select ${keysOfEvent}, sum(e.quantity), sum(e.events) from (
      select ${columnsOfEvent}${own.event}, e.quantity, 1 as events from ${rowsIn(sql`usage_events`, scope, own.join)}
      union all
      select ${columnsOfEvent}${own.correction}, e.quantity - e.previous_quantity, 0 from ${rowsIn(sql`usage_corrections`, scope)}
    ) e ${name === 'subjects' ? sql`where e.subject <> ''` : nothing} group by ${keysOfEvent}
  ), actual as (
    ${
      deleted === undefined
        ? // A shard coordinator runs correlated subqueries only on tables.
          sql`select t.* from found t left join usage_archived_totals a on ${archivedOf(monthOfRow)} where a.org_id is null`
        : sql`select ${keys}, sum(quantity) as quantity, sum(events) as events
    from (select * from found union all ${deleted} where deleted_events > 0 and ${isIn(scope, monthOfRow)}) t
    group by ${keys}`
    }
  ), recorded as (
    select t.* from ${table} t where ${isIn(scope, monthOfRow)} and ${isKept}
  ), drift as (
    select ${keys}, r.quantity as recorded_quantity, r.events as recorded_events, a.quantity as actual_quantity, a.events as actual_events
    from actual a full join recorded r using (${keys})
    where r.quantity is distinct from a.quantity or r.events is distinct from a.events
  )`;
}

const isArchived = (month: SQL): SQL => sql`exists (
      select from usage_archived_totals a where ${archivedOf(month)})`;

const archivedOf = (
  month: SQL,
): SQL => sql`a.org_id = t.org_id and a.product_id = t.product_id and a.livemode = t.livemode
        and a.metric = t.metric and a.period = ${month} and a.deleted_events > 0`;

function placesOf(scope: DriftScope): SQL {
  if (!('places' in scope)) return sql``;
  const { places } = scope;
  return sql`place as materialized (select * from unnest(${textArray(places.map((p) => p.orgId))}::uuid[], ${textArray(places.map((p) => p.productId))}::uuid[],
    ${textArray(places.map((p) => p.period))}::date[]) as p (org_id, product_id, period)),`;
}

function rowsIn(table: SQL, scope: DriftScope, join = nothing): SQL {
  // Written out, so that the index on Organization, product, mode and time is used.
  if ('places' in scope)
    return sql`place p join ${table} e on e.org_id = p.org_id and e.product_id = p.product_id
      and e.livemode = any ('{f,t}'::bool[])
      and e.occurred_at >= p.period::timestamp at time zone 'UTC' and e.occurred_at < (p.period + interval '1 month') at time zone 'UTC' ${join}`;
  return scope.orgId === undefined
    ? sql`${table} e ${join}`
    : sql`${table} e ${join} where e.org_id = ${scope.orgId}::uuid`;
}

function isIn(scope: DriftScope, month: SQL): SQL {
  if ('places' in scope)
    return sql`(t.org_id, t.product_id, ${month}) in (select org_id, product_id, period from place)`;
  return scope.orgId === undefined ? sql`true` : sql`t.org_id = ${scope.orgId}::uuid`;
}

export async function findDrift(tx: Orm, table: SumTable, scope: DriftScope, limit: number) {
  const { period, part } = shapes[table].shown;
  const key = table === 'hours' ? sql`d.api_key_id` : sql`null::uuid`;
  return queryRows(tx)<DriftRow>`with ${driftOf(table, scope)}
    select d.org_id::text as "orgId", coalesce(o.slug, d.org_id::text) as organization, coalesce(p.slug, d.product_id::text) as product,
      ${period} as period, d.livemode, d.metric, ${part} as part, ${key}::text as "apiKeyId", coalesce(k.prefix, ${key}::text) as "apiKey",
      trim_scale(recorded_quantity)::text as "recordedQuantity", trim_scale(actual_quantity)::text as "actualQuantity",
      trim_scale(coalesce(recorded_quantity, 0) - coalesce(actual_quantity, 0))::text as difference,
      recorded_events::text as "recordedEvents", actual_events::text as "actualEvents", (count(*) over ())::int as count
    from drift d
    left join organizations o on o.id = d.org_id
    left join products p on p.id = d.product_id
    left join api_keys k on k.org_id = d.org_id and k.id = ${key}
    order by 2, 3, 4, 5, 6, 7, 8
    limit ${limit}`;
}

export const findDriftingPlaces = (tx: Orm, table: SumTable, scope: DriftScope): Promise<SumPlace[]> =>
  queryRows(tx)`with ${driftOf(table, scope)}
    select distinct org_id::text as "orgId", product_id::text as "productId", ${shapes[table].monthOfRow}::text as period from drift t`;

export interface Repair {
  orgId: string;
  rows: number;
  /** With old and new quantities and event counts, null for a row that did not exist. */
  changes: Record<string, unknown>[];
}

/** Adds missing rows and removes surplus ones. */
export async function repairDrift(tx: Orm, table: SumTable, places: SumPlace[], maxChanges: number) {
  const { table: sums, keys } = shapes[table];
  const period = {
    totals: sql`'period', d.period`,
    hours: sql`'hour', d.hour at time zone 'UTC', 'apiKeyId', d.api_key_id`,
    subjects: sql`'slot', d.slot at time zone 'UTC', 'subject', d.subject`,
  }[table];
  // Thresholds may have been evaluated from the wrong sums.
  const orgIds = textArray([...new Set(places.map(({ orgId }) => orgId))]);
  await tx.execute(
    sql`update usage_totals set unreached = null where org_id = any (${orgIds}::uuid[]) and unreached is not null`,
  );
  return queryRows(tx)<Repair>`with ${driftOf(table, { places })}, removed as (
      delete from ${sums} where (${keys}) in (select ${keys} from drift where actual_events is null)
    ), stored as (
      insert into ${sums} (${keys}, quantity, events)
      select ${keys}, actual_quantity, actual_events from drift where actual_events is not null
      on conflict (${keys}) do update set quantity = excluded.quantity, events = excluded.events
    ), numbered as (
      select drift.*, row_number() over (partition by org_id order by ${keys}) as number from drift
    )
    select d.org_id::text as "orgId", count(*)::int as rows, json_agg(json_build_object(
        'product', coalesce(p.slug, d.product_id::text), ${period}, 'livemode', d.livemode, 'metric', d.metric,
        'old', case when recorded_events is not null then json_build_object('quantity', recorded_quantity::text, 'events', recorded_events) end,
        'new', case when actual_events is not null then json_build_object('quantity', actual_quantity::text, 'events', actual_events) end
      ) order by number) filter (where number <= ${maxChanges}) as changes
    from numbered d left join products p on p.id = d.product_id
    group by 1 order by 1`;
}

/** The event is neither recorded nor archived. One commit writes both, so this should never happen. */
export interface LostSettlement extends Record<
  'organization' | 'id' | 'idempotencyKey' | 'settledAt',
  string
> {
  count: number;
}

export const findLostSettlements = (tx: Orm, orgId: string | undefined, limit: number) =>
  queryRows(tx)<LostSettlement>`
    select coalesce(o.slug, r.org_id::text) as organization, r.id::text, r.idempotency_key as "idempotencyKey",
      to_char(r.settled_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as "settledAt", (count(*) over ())::int as count
    from usage_reservations r
    left join usage_events e on e.org_id = r.org_id and e.idempotency_key = r.idempotency_key
    left join organizations o on o.id = r.org_id
    where r.settled_at is not null and e.org_id is null and not exists (
      select from usage_archives a
      where a.org_id = r.org_id and a.livemode = r.livemode and a.state in ('deleting', 'archived')
        and (not r.is_counted or a.period = date_trunc('month', coalesce(r.settle_occurred_at, r.settled_at) at time zone 'UTC')::date))
      and ${orgId === undefined ? sql`true` : sql`r.org_id = ${orgId}::uuid`}
    order by 1, 2
    limit ${limit}`;

/** Those by subject need no pass over all events if no product counts subjects. */
export async function listTables(tx: Orm): Promise<readonly SumTable[]> {
  const found = await queryRows(tx)`select from products where subjects_since is not null limit 1`;
  return sumTables.filter((table) => table !== 'subjects' || found.length > 0);
}

export async function sumArchives(orm: Orm, orgId: string | undefined) {
  const sums = await queryRow(orm)<{ files: number; events: number }>`
    select count(*)::int as files, coalesce(sum(events), 0)::float8 as events
    from usage_archives where state = 'archived' ${orgId === undefined ? sql`` : sql`and org_id = ${orgId}::uuid`}`;
  return sums!;
}
