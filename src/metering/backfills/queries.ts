import { and, asc, eq, gt, sql, type SQL } from 'drizzle-orm';
import { textArray, selectRows } from '../../core/db/sql.js';
import { monthOf } from '../../core/time.js';
import { MAX_COMBINATIONS } from '../entitlements/dimensions.js';
import { usageCombinations } from '../ingestion/table.js';
import type { Orm, Tx } from '../../core/db/client.js';
import type { Range } from '../../core/http/page.js';
import { organizations } from '../../accounts/organizations/table.js';
import { usageBackfills, type BackfillState, type usageBackfillEvents } from './table.js';

export type Backfill = typeof usageBackfills.$inferSelect;

const selectTexts = async (orm: Orm, query: SQL): Promise<string[]> =>
  (await selectRows<{ text: string }>(orm, query)).map(({ text }) => text);

const is = (orgId: string, id: string) => and(eq(usageBackfills.orgId, orgId), eq(usageBackfills.id, id));

export async function insertBackfill(
  tx: Tx,
  backfill: typeof usageBackfills.$inferInsert,
): Promise<Backfill> {
  const [row] = await tx.insert(usageBackfills).values(backfill).returning();
  return row!;
}

export async function findBackfill(orm: Orm, orgId: string, id: string): Promise<Backfill | undefined> {
  const [row] = await orm.select().from(usageBackfills).where(is(orgId, id));
  return row;
}

/** Finds a backfill and its Organization's slug by the backfill's id alone. */
export async function locateBackfill(orm: Orm, id: string): Promise<[string, Backfill] | undefined> {
  const [row] = await orm
    .select({ slug: organizations.slug, backfill: usageBackfills })
    .from(usageBackfills)
    .innerJoin(organizations, eq(organizations.id, usageBackfills.orgId))
    .where(eq(usageBackfills.id, id));
  return row && [row.slug, row.backfill];
}

/** Locks the backfill until the transaction ends, which keeps other staging requests and the runner out. */
export async function lockBackfill(tx: Tx, orgId: string, id: string): Promise<Backfill | undefined> {
  const [row] = await tx.select().from(usageBackfills).where(is(orgId, id)).for('update');
  return row;
}

export const listBackfills = (orm: Orm, orgId: string, { after, limit }: Range): Promise<Backfill[]> =>
  orm
    .select()
    .from(usageBackfills)
    .where(
      and(eq(usageBackfills.orgId, orgId), after === undefined ? undefined : gt(usageBackfills.id, after)),
    )
    .orderBy(asc(usageBackfills.id))
    .limit(limit + 1);

export const listUnfinished = (
  orm: Orm,
  limit: number,
): Promise<Pick<Backfill, 'orgId' | 'id' | 'state'>[]> =>
  selectRows(
    orm,
    sql`select org_id::text as "orgId", id::text, state from usage_backfills
    where state in ('applying', 'reverting', 'discarding') order by changed_at limit ${limit}`,
  );

export async function updateBackfill(
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  values: { state: BackfillState; changedAt: Date; actor?: string; cursor?: string; done?: number },
): Promise<Backfill> {
  const [row] = await tx.update(usageBackfills).set(values).where(is(orgId, id)).returning();
  return row!;
}

/** How a backfill would change, or has changed, a product's month. Quantities are exact decimals. */
export interface BackfillSum {
  productSlug: string;
  metric: string;
  period: string;
  events: number;
  quantity: string;
  repeats: number;
  mismatches: number;
  countedEvents: number;
  countedQuantity: string;
  archivedEvents: number;
  revertedEvents: number;
}

export const listSums = (orm: Orm, orgId: string, ids: string[]): Promise<(BackfillSum & { id: string })[]> =>
  selectRows(
    orm,
    sql`select s.backfill_id::text as id, p.slug as "productSlug", s.metric, s.period::text, s.events::float8 as events, trim_scale(s.quantity)::text as quantity,
      s.repeats::float8 as repeats, s.mismatches::float8 as mismatches, s.counted_events::float8 as "countedEvents",
      trim_scale(s.counted_quantity)::text as "countedQuantity", s.archived_events::float8 as "archivedEvents",
      s.reverted_events::float8 as "revertedEvents"
    from usage_backfill_sums s
    join products p on p.id = s.product_id
    where s.org_id = ${orgId}::uuid and s.backfill_id = any (${textArray(ids)}::uuid[])
    order by s.backfill_id, p.slug, s.metric, s.period`,
  );

/** The first keys that had already been recorded for a different event when they were staged. */
export const listMismatches = (orm: Orm, orgId: string, id: string, limit: number): Promise<string[]> =>
  selectTexts(
    orm,
    sql`select idempotency_key as text from usage_backfill_events
    where org_id = ${orgId}::uuid and backfill_id = ${id}::uuid and is_mismatch order by idempotency_key limit ${limit}`,
  );

export interface StageableProduct {
  id: string;
  slug: string;
  usageMetric: string;
  maxQuantity: string;
  dimensions: string[];
}

export const listStageable = (orm: Orm, slugs: string[]): Promise<StageableProduct[]> =>
  selectRows(
    orm,
    sql`select id::text, slug, usage_metric as "usageMetric", trim_scale(max_quantity)::text as "maxQuantity", dimensions
    from products where slug = any (${textArray(slugs)}::text[])`,
  );

/** Months whose events in the given mode are archived or being archived. */
export const listArchivedMonths = (orm: Orm, orgId: string, livemode: boolean): Promise<string[]> =>
  selectTexts(
    orm,
    sql`select period::text as text from usage_archives where org_id = ${orgId}::uuid and livemode = ${livemode}`,
  );

export interface StagedEvent extends Pick<
  typeof usageBackfillEvents.$inferSelect,
  'idempotencyKey' | 'productId' | 'metric' | 'quantity' | 'subject' | 'dimensions'
> {
  /** RFC 3339. */
  occurredAt: string;
}

const asRows = (events: readonly StagedEvent[]) =>
  sql`json_to_recordset(${JSON.stringify(events)}::json)
      as d (index int, "idempotencyKey" text, "productId" uuid, metric text, quantity numeric, "occurredAt" timestamptz, subject text, dimensions text)`;

export const listRecorded = (
  tx: Tx,
  orgId: string,
  livemode: boolean,
  events: readonly StagedEvent[],
): Promise<{ idempotencyKey: string; isMismatch: boolean }[]> =>
  selectRows(
    tx,
    sql`select d."idempotencyKey", u.livemode <> ${livemode} or u.product_id <> d."productId" or u.metric <> d.metric
      or u.quantity <> d.quantity or u.occurred_at <> d."occurredAt" or u.subject <> d.subject or u.dimensions <> d.dimensions as "isMismatch"
    from ${asRows(events)}
    join usage_events u on u.org_id = ${orgId}::uuid and u.idempotency_key = d."idempotencyKey"`,
  );

/** Stages the events that are not staged yet, and returns them. */
export async function insertStaged(
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  events: readonly StagedEvent[],
  mismatches: ReadonlySet<string>,
): Promise<Set<string>> {
  const keys = await selectTexts(
    tx,
    sql`insert into usage_backfill_events (org_id, backfill_id, product_id, occurred_at, idempotency_key, metric, quantity, subject, dimensions, is_mismatch)
    select ${orgId}::uuid, ${id}::uuid, "productId", "occurredAt", "idempotencyKey", metric, quantity, subject, dimensions, "idempotencyKey" = any (${textArray([...mismatches])}::text[])
    from ${asRows(events)}
    order by "idempotencyKey" collate "C"
    on conflict (org_id, backfill_id, idempotency_key) do nothing
    returning idempotency_key as text`,
  );
  return new Set(keys);
}

/** Indexes of events that are already staged with different content. */
export const listStagedOtherwise = async (
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  events: readonly (StagedEvent & { index: number })[],
): Promise<number[]> =>
  (
    await selectRows<{ index: number }>(
      tx,
      sql`select d.index from ${asRows(events)}
      join usage_backfill_events s on s.org_id = ${orgId}::uuid and s.backfill_id = ${id}::uuid and s.idempotency_key = d."idempotencyKey"
      where s.product_id <> d."productId" or s.metric <> d.metric or s.quantity <> d.quantity or s.occurred_at <> d."occurredAt"
        or s.subject <> d.subject or s.dimensions <> d.dimensions
      order by 1`,
    )
  ).map(({ index }) => index);

export interface AddedSum {
  period: string;
  productId: string;
  metric: string;
  events: number;
  quantity: string;
  repeats: number;
  mismatches: number;
}

export async function addStagedSums(
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  sums: readonly AddedSum[],
): Promise<void> {
  await tx.execute(sql`insert into usage_backfill_sums as s (org_id, backfill_id, period, product_id, metric, events, quantity, repeats, mismatches)
    select ${orgId}::uuid, ${id}::uuid, period, "productId", metric, events, quantity, repeats, mismatches
    from json_to_recordset(${JSON.stringify(sums)}::json)
      as d (period date, "productId" uuid, metric text, events bigint, quantity numeric, repeats bigint, mismatches bigint)
    on conflict (org_id, backfill_id, period, product_id, metric) do update
    set events = s.events + excluded.events, quantity = s.quantity + excluded.quantity,
      repeats = s.repeats + excluded.repeats, mismatches = s.mismatches + excluded.mismatches`);
}

/** Adds reverted events to the backfill's sums. */
export const addReverted = (
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  events: readonly { productId: string; metric: string; occurredAt: string }[],
): Promise<unknown> =>
  tx.execute(sql`insert into usage_backfill_sums as s (org_id, backfill_id, period, product_id, metric, reverted_events)
    select ${orgId}::uuid, ${id}::uuid, date_trunc('month', "occurredAt" at time zone 'UTC')::date, "productId", metric, count(*)
    from json_to_recordset(${JSON.stringify(events)}::json) as d ("productId" uuid, metric text, "occurredAt" timestamptz)
    group by 3, 4, 5
    order by 3, 4, 5
    on conflict (org_id, backfill_id, period, product_id, metric) do update
    set reverted_events = s.reverted_events + excluded.reverted_events`);

/** Locks a backfill that is in the given state. Undefined if it is in another state or another instance holds it. */
export async function takeBackfill(
  tx: Tx,
  { orgId, id, state }: Pick<Backfill, 'orgId' | 'id' | 'state'>,
): Promise<Backfill | undefined> {
  const [row] = await tx
    .select()
    .from(usageBackfills)
    .where(and(is(orgId, id), eq(usageBackfills.state, state)))
    .for('update', { skipLocked: true });
  return row;
}

export const listStagedKeys = (tx: Tx, { orgId, id, cursor }: Backfill, limit: number): Promise<string[]> =>
  selectTexts(
    tx,
    sql`select idempotency_key as text from usage_backfill_events
    where org_id = ${orgId}::uuid and backfill_id = ${id}::uuid and idempotency_key > ${cursor}
    order by idempotency_key limit ${limit}`,
  );

/**
 * Adds the combinations of dimensions in staged events to each month's list while the list has room, so that each
 * event's sums are known before it is counted. If a concurrent request takes the same number in the list, the insert
 * fails and `change` retries.
 */
export async function listStagedCombinations(
  tx: Tx,
  { orgId, livemode }: Pick<Backfill, 'orgId' | 'livemode'>,
  events: readonly StagedEvent[],
): Promise<void> {
  const lists = new Map<string, { productId: string; period: string; dimensions: Set<string> }>();
  for (const { productId, occurredAt, dimensions } of events) {
    if (dimensions === '') continue;
    const period = monthOf(Date.parse(occurredAt));
    const name = `${productId} ${period}`;
    const list = lists.get(name) ?? { productId, period, dimensions: new Set() };
    lists.set(name, list);
    list.dimensions.add(dimensions);
  }
  for (const { productId, period, dimensions } of lists.values()) {
    const ofList = sql`org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode} and period = ${period}::date`;
    const known = await selectRows<{ dimensions: string; number: number }>(
      tx,
      sql`select dimensions, number from usage_combinations where ${ofList}`,
    );
    const listed = new Set(known.map((one) => one.dimensions));
    const last = Math.max(0, ...known.map(({ number }) => number));
    const added = [...dimensions].filter((one) => !listed.has(one)).slice(0, MAX_COMBINATIONS - last);
    if (added.length === 0) continue;
    const rows = added.map((one, i) => ({
      orgId,
      productId,
      livemode,
      period,
      number: last + 1 + i,
      dimensions: one,
    }));
    await tx.insert(usageCombinations).values(rows);
  }
}
