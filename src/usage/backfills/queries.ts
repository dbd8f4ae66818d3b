import { and, asc, eq, gt, sql } from 'drizzle-orm';
import { textArray } from '../../core/db/array-literal.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import type { Range } from '../../core/http/page.js';
import { organizations } from '../../organizations/table.js';
import { usageBackfills, type BackfillState } from './table.js';

export type Backfill = typeof usageBackfills.$inferSelect;

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

/** The Organization's slug, and the backfill, by its id alone. */
export async function locateBackfill(orm: Orm, id: string): Promise<[string, Backfill] | undefined> {
  const [row] = await orm
    .select({ slug: organizations.slug, backfill: usageBackfills })
    .from(usageBackfills)
    .innerJoin(organizations, eq(organizations.id, usageBackfills.orgId))
    .where(eq(usageBackfills.id, id));
  return row && [row.slug, row.backfill];
}

/** Held until the transaction ends: what is staged meanwhile waits, and what goes on by itself does. */
export async function lockBackfill(tx: Tx, orgId: string, id: string): Promise<Backfill | undefined> {
  const [row] = await tx.select().from(usageBackfills).where(is(orgId, id)).for('update');
  return row;
}

/** In the order in which they were opened, beyond the one with the id `after`. */
export const listBackfills = (orm: Orm, orgId: string, { after, limit }: Range): Promise<Backfill[]> =>
  orm
    .select()
    .from(usageBackfills)
    .where(
      and(eq(usageBackfills.orgId, orgId), after === undefined ? undefined : gt(usageBackfills.id, after)),
    )
    .orderBy(asc(usageBackfills.id))
    .limit(limit + 1);

/** Those that go on by themselves, of all Organizations. */
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

/** What a backfill would change, or has changed, of a product's month. Quantities are exact decimals. */
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
    where s.org_id = ${orgId}::uuid and s.backfill_id = any (${`{${ids.join(',')}}`}::uuid[])
    order by s.backfill_id, p.slug, s.metric, s.period`,
  );

/** Keys that were recorded for other events when theirs were staged, the first of them. */
export const listMismatches = async (orm: Orm, orgId: string, id: string, limit: number): Promise<string[]> =>
  (
    await selectRows<{ key: string }>(
      orm,
      sql`select idempotency_key as key from usage_backfill_events
      where org_id = ${orgId}::uuid and backfill_id = ${id}::uuid and is_mismatch order by idempotency_key limit ${limit}`,
    )
  ).map(({ key }) => key);

export interface StageableProduct {
  id: string;
  slug: string;
  usageMetric: string;
  maxQuantity: string;
}

export const listStageable = (orm: Orm, slugs: string[]): Promise<StageableProduct[]> =>
  selectRows(
    orm,
    sql`select id::text, slug, usage_metric as "usageMetric", trim_scale(max_quantity)::text as "maxQuantity"
    from products where slug = any (${textArray(slugs)}::text[])`,
  );

/** Months of a mode whose events are in files, or on their way there. */
export const listArchivedMonths = async (orm: Orm, orgId: string, livemode: boolean): Promise<string[]> =>
  (
    await selectRows<{ period: string }>(
      orm,
      sql`select period::text from usage_archives where org_id = ${orgId}::uuid and livemode = ${livemode}`,
    )
  ).map(({ period }) => period);

/** An event that is to be staged. */
export interface StagedEvent {
  idempotencyKey: string;
  productId: string;
  metric: string;
  quantity: string;
  /** RFC 3339. */
  occurredAt: string;
}

const toJson = (events: readonly StagedEvent[]): string =>
  JSON.stringify(
    events.map((event) => ({
      idempotency_key: event.idempotencyKey,
      product_id: event.productId,
      metric: event.metric,
      quantity: event.quantity,
      occurred_at: event.occurredAt,
    })),
  );

const asRows = sql`(idempotency_key text, product_id uuid, metric text, quantity numeric, occurred_at timestamptz)`;

interface Known {
  idempotencyKey: string;
  isMismatch: boolean;
}

/** Which of the keys have been recorded, and whether for another event. */
export const listKnown = (
  tx: Tx,
  orgId: string,
  livemode: boolean,
  events: readonly StagedEvent[],
): Promise<Known[]> =>
  selectRows(
    tx,
    sql`select d.idempotency_key as "idempotencyKey", u.livemode <> ${livemode} or u.product_id <> d.product_id or u.metric <> d.metric
      or u.quantity <> d.quantity or u.occurred_at <> d.occurred_at as "isMismatch"
    from json_to_recordset(${toJson(events)}::json) as d ${asRows}
    join usage_events u on u.org_id = ${orgId}::uuid and u.idempotency_key = d.idempotency_key`,
  );

/** Stages those that are not staged yet, and tells which. */
export async function insertStaged(
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  events: readonly StagedEvent[],
  mismatches: ReadonlySet<string>,
): Promise<Set<string>> {
  const rows = await selectRows<{ key: string }>(
    tx,
    sql`insert into usage_backfill_events (org_id, backfill_id, product_id, occurred_at, idempotency_key, metric, quantity, is_mismatch)
    select ${orgId}::uuid, ${id}::uuid, product_id, occurred_at, idempotency_key, metric, quantity, idempotency_key = any (${textArray([...mismatches])}::text[])
    from json_to_recordset(${toJson(events)}::json) as d ${asRows}
    order by idempotency_key collate "C"
    on conflict (org_id, backfill_id, idempotency_key) do nothing
    returning idempotency_key as key`,
  );
  return new Set(rows.map(({ key }) => key));
}

/** Of events that were staged before, those that were other ones then. */
export const listStagedOtherwise = async (
  tx: Tx,
  { orgId, id }: Pick<Backfill, 'orgId' | 'id'>,
  events: readonly StagedEvent[],
): Promise<Set<string>> =>
  new Set(
    (
      await selectRows<{ key: string }>(
        tx,
        sql`select d.idempotency_key as key
        from json_to_recordset(${toJson(events)}::json) as d ${asRows}
        join usage_backfill_events s on s.org_id = ${orgId}::uuid and s.backfill_id = ${id}::uuid and s.idempotency_key = d.idempotency_key
        where s.product_id <> d.product_id or s.metric <> d.metric or s.quantity <> d.quantity or s.occurred_at <> d.occurred_at`,
      )
    ).map(({ key }) => key),
  );

/** What a batch adds to the sums of a month. */
export interface AddedSum {
  period: string;
  product_id: string;
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
    select ${orgId}::uuid, ${id}::uuid, period, product_id, metric, events, quantity, repeats, mismatches
    from json_to_recordset(${JSON.stringify(sums)}::json)
      as d (period date, product_id uuid, metric text, events bigint, quantity numeric, repeats bigint, mismatches bigint)
    on conflict (org_id, backfill_id, period, product_id, metric) do update
    set events = s.events + excluded.events, quantity = s.quantity + excluded.quantity,
      repeats = s.repeats + excluded.repeats, mismatches = s.mismatches + excluded.mismatches`);
}
