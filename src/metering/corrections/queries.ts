import { sql } from 'drizzle-orm';
import { textArray, timeText, queryRows } from '../../core/db/sql.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { countedSubject, OTHER_SQL } from '../entitlements/dimensions.js';
import { addToHours, addToSubjects, addToTotals } from '../ingestion/sums.js';
import { noteCorrected } from '../thresholds/statements.js';
import type { usageCorrections, usageEvents } from '../ingestion/table.js';

/** `quantity` is that after `corrections` corrections. The event counts under `subject` and `dimensions`. */
export interface CorrectionTarget extends Omit<
  typeof usageEvents.$inferSelect,
  'orgId' | 'occurredAt' | 'receivedAt'
> {
  productSlug: string;
  /** Per event. */
  maxQuantity: string;
  /** RFC 3339 with microseconds. */
  occurredAt: string;
  receivedAt: string;
  corrections: number;
}

/** In any order. The statement names the Organization, so it runs on one shard. */
export const listTargets = (orm: Orm, orgId: string, idempotencyKeys: string[]) =>
  queryRows(orm)<CorrectionTarget>`
    select e.idempotency_key as "idempotencyKey", e.product_id::text as "productId", p.slug as "productSlug",
      trim_scale(p.max_quantity)::text as "maxQuantity", e.api_key_id::text as "apiKeyId", ${timeText(sql`e.occurred_at`)} as "occurredAt",
      ${timeText(sql`e.received_at`)} as "receivedAt", e.livemode, e.metric, trim_scale(coalesce(c.quantity, e.quantity))::text as quantity,
      coalesce(c.number, 0) as corrections, trim_scale(e.credit_price)::text as "creditPrice", ${sql.raw(countedSubject('e', 'p'))} as subject,
      case when e.dimensions = '' or l.number is not null then e.dimensions else ${sql.raw(OTHER_SQL)} end as dimensions
    from usage_events e
    join products p on p.id = e.product_id
    left join usage_combinations l on l.org_id = e.org_id and l.product_id = e.product_id and l.livemode = e.livemode
      and l.period = date_trunc('month', e.occurred_at at time zone 'UTC')::date and l.dimensions = e.dimensions
    left join lateral (
      select number, quantity from usage_corrections
      where org_id = ${orgId}::uuid and idempotency_key = e.idempotency_key and occurred_at = e.occurred_at
      order by number desc limit 1
    ) c on true
    where e.org_id = ${orgId}::uuid and e.idempotency_key = any (${textArray(idempotencyKeys)}::text[])`;

export type RecordedCorrection = Pick<
  typeof usageCorrections.$inferSelect,
  'correctionKey' | 'idempotencyKey' | 'livemode' | 'previousQuantity' | 'quantity' | 'reason'
>;

export const listRecorded = (orm: Orm, orgId: string, correctionKeys: string[]) =>
  queryRows(orm)<RecordedCorrection>`
    select correction_key as "correctionKey", idempotency_key as "idempotencyKey", livemode, reason,
      trim_scale(previous_quantity)::text as "previousQuantity", trim_scale(quantity)::text as quantity
    from usage_corrections
    where org_id = ${orgId}::uuid and correction_key = any (${textArray(correctionKeys)}::text[])`;

export interface NewCorrection extends Omit<RecordedCorrection, 'idempotencyKey' | 'livemode'> {
  event: CorrectionTarget;
  number: number;
}

/** Updates the sums in primary-key order, totals before hours. Queues threshold evaluations for increases. */
export async function insertCorrections(
  tx: Tx,
  orgId: string,
  { actor, at }: { actor: string; at: Date },
  corrections: readonly NewCorrection[],
): Promise<void> {
  const rows = corrections.map(({ event, ...correction }) => ({ ...event, ...correction }));
  // Two corrections from the same quantity have the same number: the later one fails and `change` retries it.
  await tx.execute(sql`insert into usage_corrections (org_id, product_id, api_key_id, occurred_at, corrected_at, livemode, number,
      idempotency_key, correction_key, metric, previous_quantity, quantity, actor, reason, subject, dimensions, credit_price)
    select ${orgId}::uuid, "productId", "apiKeyId", "occurredAt", ${at.toISOString()}::timestamptz, livemode, number,
      "idempotencyKey", "correctionKey", metric, "previousQuantity", quantity, ${actor}::text, reason, subject, dimensions, "creditPrice"
    from json_to_recordset(${JSON.stringify(rows)}::json) as c ("productId" uuid, "apiKeyId" uuid, "occurredAt" timestamptz,
      livemode bool, number int, "idempotencyKey" text, "correctionKey" text, metric text, "previousQuantity" numeric, quantity numeric, reason text, subject text, dimensions text, "creditPrice" numeric)
    order by "idempotencyKey" collate "C", number`);
  // The SQL text contains only our own literals; the keys are parameters.
  const keys = textArray(corrections.map(({ correctionKey }) => correctionKey));
  const isCorrected = sql`c.org_id = ${orgId}::uuid and c.correction_key = any (${keys}::text[])`;
  const inserted = sql`with corrected as materialized (select * from usage_corrections c where ${isCorrected})`;
  await tx.execute(sql`${inserted} ${sql.raw(addToTotals((name) => name))}`);
  await tx.execute(sql`${inserted} ${sql.raw(addToHours((name) => name))}`);
  if (corrections.some(({ event }) => event.subject !== ''))
    await tx.execute(sql`${inserted} ${sql.raw(addToSubjects((name) => name))}`);
  // A distributed database cannot correlate a subquery with a CTE.
  await tx.execute(noteCorrected(isCorrected));
}

/** By event key and correction number. `correctedAt` is RFC 3339 with microseconds. */
export const listHistory = (
  orm: Orm,
  orgId: string,
  events: readonly Pick<CorrectionTarget, 'idempotencyKey' | 'occurredAt'>[],
  newKeys: string[],
) =>
  queryRows(orm)<Record<'idempotencyKey' | 'correctedAt' | 'previousQuantity' | 'quantity', string>>`
    select c.idempotency_key as "idempotencyKey", ${timeText(sql`c.corrected_at`)} as "correctedAt",
      trim_scale(c.previous_quantity)::text as "previousQuantity", trim_scale(c.quantity)::text as quantity
    from unnest(${textArray(events.map(({ idempotencyKey }) => idempotencyKey))}::text[], ${textArray(events.map(({ occurredAt }) => occurredAt))}::timestamptz[])
      as e (idempotency_key, occurred_at)
    join usage_corrections c on c.org_id = ${orgId}::uuid and c.idempotency_key = e.idempotency_key and c.occurred_at = e.occurred_at
    where c.correction_key <> all (${textArray(newKeys)}::text[])
    order by c.idempotency_key, c.number`;
