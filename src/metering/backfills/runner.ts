import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { byService, change } from '../../accounts/audit/audit.js';
import type { Names, Template } from '../../core/db/client.js';
import { retryOnConflict } from '../../core/db/sql.js';
import type { Context } from '../../core/http/context.js';
import { correctCredits } from '../corrections/credits.js';
import { insertCorrections, listTargets } from '../corrections/queries.js';
import { priceOfEncoded } from '../entitlements/price.js';
import { effectiveCap } from '../entitlements/table.js';
import { addToSums } from '../ingestion/sums.js';
import { endStep } from './backfills.js';
import {
  addReverted,
  listStagedKeys,
  listUnfinished,
  takeBackfill,
  updateBackfill,
  type Backfill,
} from './queries.js';
import type { BackfillState } from './table.js';

type Deps = Pick<Context, 'db' | 'clock'>;
type Unfinished = Pick<Backfill, 'orgId' | 'id' | 'state'>;

/**
 * Takes the next staged events of a backfill in the given state and moves its cursor in the same commit, so a killed
 * step resumes where it stopped. Returns no row while another instance holds the backfill.
 * $1 org, $2 backfill, $3 maximum events, $4 now
 */
const job = (t: Names, state: string): string => `
${t.with} job as materialized (
  select b.* from ${t('usage_backfills')} b${t.held}
  where b.org_id = $1::uuid and b.id = $2::uuid and b.state = '${state}'
  for update of b skip locked
), batch as materialized (
  select e.*, j.livemode, j.burns_credits, date_trunc('month', e.occurred_at at time zone 'UTC')::date as period
  from job j
  cross join lateral (
    select * from ${t('usage_backfill_events')}
    where org_id = j.org_id and backfill_id = j.id and idempotency_key > j.cursor
    order by idempotency_key
    limit $3::int
  ) e
), moved as (
  update ${t('usage_backfills')} b
  set cursor = last.idempotency_key, done = b.done + last.count, changed_at = $4::timestamptz
  from (select max(idempotency_key) as idempotency_key, count(*) as count from batch) last
  where b.org_id = $1::uuid and b.id = $2::uuid and last.count > 0
)`;

const taken = `select (select count(*) from batch)::text as taken from job`;

/**
 * Counts staged events like any other events. A key recorded since staging is a repeat; an archived month is left
 * unchanged. Events burn the grants that are open now. Ledger entries carry the hour of the usage, because corrections
 * look them up by that hour.
 */
const applyNext: Template = {
  name: 'backfill_apply',
  text: (t) => `${job(t, 'applying')}, dated as materialized (
  select b.*, exists (
    select from ${t('usage_archives')} where org_id = b.org_id and period = b.period and livemode = b.livemode
  ) as is_archived, case when burns_credits then ${priceOfEncoded('b.dimensions')} else 0 end as credit_price
  from batch b
  cross join lateral (
    select dimensions, credit_price, credit_dimension, credit_prices from ${t('products')} where id = b.product_id limit 1
  ) pr
), inserted as (
  insert into ${t('usage_events')}
    (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at, subject, dimensions, credit_price)
  select org_id, idempotency_key, product_id, metric, quantity, livemode, backfill_id, occurred_at, $4::timestamptz, subject, dimensions, credit_price
  from dated
  where not is_archived
  order by org_id, idempotency_key
  on conflict (org_id, idempotency_key) do nothing
  returning org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, subject, dimensions, credit_price
), entitled as materialized (
  select b.*, ${effectiveCap('e', 'p')} as unit_cap, e.limits, e.thresholds, p.subjects_since
  from (select distinct org_id, product_id from batch) b
  cross join lateral (select unit_cap, subjects_since from ${t('products')} where id = b.product_id limit 1) p
  cross join lateral (
    select has_own_cap, unit_cap, limits, thresholds from ${t('entitlements')}
    where org_id = b.org_id and product_id = b.product_id limit 1
  ) e
), ${addToSums(t, { now: '$4::timestamptz', entitled: 'entitled', hasThresholds: true, hasSubjects: true, hasDimensions: true, burns: 'open now' }).join(', ')}, shown as (
  update ${t('usage_backfill_sums')} s
  set counted_events = s.counted_events + n.events, counted_quantity = s.counted_quantity + n.quantity,
    archived_events = s.archived_events + n.archived
  from (
    select period, product_id, metric, sum(events) as events, sum(quantity) as quantity, sum(archived) as archived from (
      select date_trunc('month', occurred_at at time zone 'UTC')::date as period, product_id, metric, 1 as events, quantity, 0 as archived
      from inserted
      union all
      select period, product_id, metric, 0, 0, 1 from dated where is_archived
    ) one group by 1, 2, 3
  ) n
  where s.org_id = $1::uuid and s.backfill_id = $2::uuid and s.period = n.period and s.product_id = n.product_id and s.metric = n.metric
)
${taken}`,
};

/**
 * Corrects the counted events to zero, which gives their credits back. If someone else corrects one of them at the same
 * time, both corrections get the same number, so the transaction fails and is retried with the remaining quantity.
 * Correction keys are random, so they cannot collide with a customer's keys. Returns the number of staged events
 * processed.
 */
const revertNext = ({ db, clock }: Deps, target: Unfinished, chunk: number): Promise<number | undefined> =>
  change({ db, clock }, byService, async (tx) => {
    const backfill = await takeBackfill(tx, target);
    if (!backfill) return undefined;
    const { orgId, id, state, actor, reason, done } = backfill;
    const keys = await listStagedKeys(tx, backfill, chunk);
    if (keys.length === 0) return 0;
    const at = new Date(clock.now());
    const own = (await listTargets(tx, orgId, keys)).filter(({ apiKeyId }) => apiKeyId === id);
    const corrections = own
      .filter(({ quantity }) => quantity !== '0')
      .map((event) => ({
        event,
        number: event.corrections + 1,
        correctionKey: `backfill ${id} ${randomUUID()}`,
        previousQuantity: event.quantity,
        quantity: '0',
        reason: `Backfill reverted: ${reason}`,
      }));
    if (corrections.length > 0) {
      await insertCorrections(tx, orgId, { actor, at }, corrections);
      await correctCredits(tx, orgId, at, corrections);
    }
    await addReverted(tx, backfill, own);
    await updateBackfill(tx, backfill, {
      state,
      changedAt: at,
      cursor: keys.at(-1)!,
      done: done + keys.length,
    });
    return keys.length;
  });

const discardNext: Template = {
  name: 'backfill_discard',
  text: (t) => `${job(t, 'discarding')}, gone as (
  delete from ${t('usage_backfill_events')} e
  using batch b
  where e.org_id = b.org_id and e.backfill_id = b.backfill_id and e.idempotency_key = b.idempotency_key
)
${taken}`,
};

const statements: Partial<Record<BackfillState, Template>> = {
  applying: applyNext,
  discarding: discardNext,
};

/** Length of one turn, slightly shorter than the job's interval. */
const TURN_MS = 1_500;
const BACKFILLS = 20;

/**
 * Runs one turn of work on backfills, in chunks. Each chunk is committed separately, followed by a pause as long as the
 * chunk took, so that other work can use the database. Any instance may continue in the next turn.
 */
export function createBackfillRunner(
  { db, clock }: Deps,
  // Smaller chunks for the embedded database, because it blocks the event loop during a statement.
  { chunk = db.kind === 'embedded' ? 200 : 1_000, turnMs = TURN_MS } = {},
): () => Promise<void> {
  return async () => {
    const until = performance.now() + turnMs;
    const failures: unknown[] = [];
    for (const backfill of await listUnfinished(db.orm, BACKFILLS)) {
      // A failing backfill must not hold up the others.
      const hasTimeLeft = await work({ db, clock }, backfill, chunk, until).catch((error: unknown) => {
        failures.push(error);
        return true;
      });
      if (!hasTimeLeft) break;
    }
    if (failures.length > 0) throw failures[0];
  };
}

async function runNext(
  { db, clock }: Deps,
  { orgId, id, state }: Unfinished,
  chunk: number,
): Promise<number | undefined> {
  const group = await db.shards.locateOrganization(orgId);
  const values = [orgId, id, chunk, new Date(clock.now()).toISOString()];
  const [row] = await retryOnConflict(() => group.run(statements[state]!, values));
  return row && Number(row.taken);
}

/** Returns false once the turn is over. */
async function work(
  { db, clock }: Deps,
  backfill: Unfinished,
  chunk: number,
  until: number,
): Promise<boolean> {
  for (;;) {
    const startedAt = performance.now();
    const taken = await (backfill.state === 'reverting' ? revertNext : runNext)(
      { db, clock },
      backfill,
      chunk,
    );
    // Another instance is working on the backfill or has finished it.
    if (taken === undefined) return true;
    if (taken === 0) {
      await change({ db, clock }, byService, (tx) => endStep(tx, backfill, new Date(clock.now())));
      return true;
    }
    const tookMs = performance.now() - startedAt;
    if (startedAt + 2 * tookMs > until) return false;
    await setTimeout(tookMs);
  }
}
