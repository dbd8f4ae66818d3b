import { v7 as uuid } from 'uuid';
import { recordAudit } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { addDecimals, isDecimalAbove, toPlain } from '../../core/decimal.js';
import { AppError, type ErrorCode, type ErrorPlace } from '../../core/errors.js';
import type { Range } from '../../core/http/page.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import type { Source } from '../../accounts/identity/source.js';
import { MAX_PAST_MS, pointerInBatch, toStorableTime } from '../ingestion/batch.js';
import { encodeDimensions, findUnknownKey, unknownDimension } from '../entitlements/dimensions.js';
import { firstBroken } from '../ingestion/rules.js';
import type { UsageEvent } from '../ingestion/schema.js';
import {
  addStagedSums,
  findBackfill,
  insertBackfill,
  insertStaged,
  listArchivedMonths,
  listBackfills,
  listRecorded,
  listMismatches,
  listStageable,
  listStagedCombinations,
  listStagedOtherwise,
  listSums,
  lockBackfill,
  updateBackfill,
  type AddedSum,
  type Backfill,
  type BackfillSum,
  type StagedEvent,
} from './queries.js';
import type { BackfillState } from './table.js';

interface NewBackfill {
  reason: string;
  from: Date;
  to: Date;
  livemode: boolean;
  burnsCredits: boolean;
}

export async function openBackfill(
  tx: Tx,
  orgId: string,
  input: NewBackfill,
  source: Source,
): Promise<Backfill> {
  const { reason, from, to, livemode, burnsCredits } = input;
  const { at, actor } = source;
  const id = uuid({ msecs: at.getTime() });
  const times = { fromTime: from, toTime: to, createdAt: at, changedAt: at };
  const row = { orgId, id, ...times, livemode, burnsCredits, state: 'open' as const, reason, actor };
  const backfill = await insertBackfill(tx, row);
  await audit(tx, backfill, source, 'opened', {
    from: from.toISOString(),
    to: to.toISOString(),
    ...(burnsCredits ? {} : { credits: 'none' }),
  });
  return backfill;
}

export interface Staged {
  accepted: number;
  deduped: number;
  /** Indexes of events whose key had already been staged or recorded for a different event. */
  mismatches: number[];
  rejected: ErrorPlace[];
}

interface Batch {
  events: readonly UsageEvent[];
  exactQuantities: ReadonlyMap<number, string>;
  isLenient: boolean;
}

/**
 * Adds a batch to an open backfill.
 * @throws AppError not_found, backfill_state, or the first broken rule: unknown_metric, unknown_dimension,
 * timestamp_out_of_range, quantity_out_of_range
 */
export async function stageEvents(
  tx: Tx,
  orgId: string,
  id: string,
  batch: Batch,
  now: Date,
): Promise<Staged> {
  const backfill = known(await lockBackfill(tx, orgId, id));
  if (backfill.state !== 'open') throw wrongState(backfill.state, 'accepts no events');
  const { good, rejected } = await validate(tx, backfill, batch, now);
  if (rejected.length > 0 && !batch.isLenient) throw toError(rejected);
  const first = new Map<string, StagedEvent>();
  for (const { event } of good) if (!first.has(event.idempotencyKey)) first.set(event.idempotencyKey, event);
  const distinct = [...first.values()];
  const recorded = new Map(
    (await listRecorded(tx, orgId, backfill.livemode, distinct)).map((one) => [
      one.idempotencyKey,
      one.isMismatch,
    ]),
  );
  const others = new Set([...recorded].flatMap(([key, isMismatch]) => (isMismatch ? [key] : [])));
  await listStagedCombinations(tx, backfill, distinct);
  const added = await insertStaged(tx, backfill, distinct, others);
  const sums = sumUp(
    distinct.filter(({ idempotencyKey }) => added.has(idempotencyKey)),
    recorded,
  );
  if (sums.length > 0) await addStagedSums(tx, backfill, sums);
  const repeats = good.filter(
    ({ event }) => !added.has(event.idempotencyKey) || first.get(event.idempotencyKey) !== event,
  );
  const mismatches = await listStagedOtherwise(
    tx,
    backfill,
    repeats.map(({ index, event }) => ({ index, ...event })),
  );
  return { accepted: added.size, deduped: repeats.length, mismatches, rejected };
}

interface Indexed {
  index: number;
  event: StagedEvent;
}

async function validate(tx: Tx, backfill: Backfill, { events, exactQuantities }: Batch, now: Date) {
  const slugs = [...new Set(events.map(({ productSlug }) => productSlug))];
  const products = new Map((await listStageable(tx, slugs)).map((product) => [product.slug, product]));
  const archived = new Set(await listArchivedMonths(tx, backfill.orgId, backfill.livemode));
  const latest = Math.min(backfill.toTime.getTime(), now.getTime() - MAX_PAST_MS + 1);
  const good: Indexed[] = [];
  const rejected: ErrorPlace[] = [];
  for (const [
    index,
    { productSlug, metric, quantity: rounded = 1, occurredAt, idempotencyKey, subject = '', dimensions = {} },
  ] of events.entries()) {
    const quantity = toPlain(exactQuantities.get(index) ?? String(rounded));
    const refuse = (field: keyof UsageEvent, code: ErrorCode, detail: string) =>
      rejected.push({ index, pointer: pointerInBatch(index, field), code, detail });
    const product = products.get(productSlug);
    const ms = occurredAt === undefined ? NaN : Date.parse(occurredAt);
    if (!product) refuse('productSlug', 'not_found', `There is no product ${productSlug}.`);
    else if (product.usageMetric !== metric)
      refuse(
        'metric',
        'unknown_metric',
        `The product ${productSlug} counts ${product.usageMetric}, not ${metric}.`,
      );
    else if (findUnknownKey(product.dimensions, dimensions) !== undefined)
      refuse(
        'dimensions',
        'unknown_dimension',
        unknownDimension(productSlug, product.dimensions, dimensions),
      );
    else if (!(ms >= backfill.fromTime.getTime() && ms < latest))
      refuse(
        'occurredAt',
        'timestamp_out_of_range',
        `occurredAt must be from ${backfill.fromTime.toISOString()} on, before ${backfill.toTime.toISOString()}, and more than ${MAX_PAST_MS / DAY_MS} days ago.`,
      );
    else if (archived.has(monthOf(ms)))
      refuse(
        'occurredAt',
        'timestamp_out_of_range',
        `The month ${monthOf(ms).slice(0, 7)} is archived. No events can be added to it.`,
      );
    else if (isDecimalAbove(quantity, product.maxQuantity))
      refuse(
        'quantity',
        'quantity_out_of_range',
        `An event of the product ${productSlug} can count at most ${product.maxQuantity}.`,
      );
    else
      good.push({
        index,
        event: {
          idempotencyKey,
          productId: product.id,
          metric,
          quantity,
          occurredAt: toStorableTime(occurredAt!),
          subject,
          dimensions: encodeDimensions(product.dimensions, dimensions),
        },
      });
  }
  return { good, rejected };
}

function toError(errors: ErrorPlace[]): AppError {
  const { code, detail } = firstBroken(errors);
  return new AppError(code, `Nothing was staged. ${detail}`, { errors });
}

function sumUp(events: readonly StagedEvent[], recorded: ReadonlyMap<string, boolean>): AddedSum[] {
  const sums = new Map<string, AddedSum>();
  for (const { idempotencyKey, productId, metric, quantity, occurredAt } of events) {
    const period = monthOf(Date.parse(occurredAt));
    const name = `${period} ${productId} ${metric}`;
    const counts = { events: 0, quantity: '0', repeats: 0, mismatches: 0 };
    const sum = sums.get(name) ?? { period, productId, metric, ...counts };
    const isMismatch = recorded.get(idempotencyKey);
    sum.events++;
    sum.quantity = addDecimals(sum.quantity, quantity);
    if (isMismatch !== undefined) sum.repeats++;
    if (isMismatch === true) sum.mismatches++;
    sums.set(name, sum);
  }
  return [...sums.values()];
}

const steps = {
  apply: { from: ['open'], to: 'applying', done: 'applied', needs: 'cannot be applied' },
  revert: { from: ['applied'], to: 'reverting', done: 'reverted', needs: 'cannot be reverted' },
  discard: { from: ['open'], to: 'discarding', done: 'discarded', needs: 'cannot be discarded' },
} as const satisfies Record<
  string,
  { from: BackfillState[]; to: BackfillState; done: BackfillState; needs: string }
>;
export type Step = keyof typeof steps;

/**
 * Starts a step, which the runner carries out. Repeating the call changes nothing. @throws AppError not_found,
 * backfill_state
 */
export async function beginStep(
  tx: Tx,
  orgId: string,
  id: string,
  step: Step,
  source: Source,
): Promise<Backfill> {
  const backfill = known(await lockBackfill(tx, orgId, id));
  const { from, to, done, needs } = steps[step];
  if (backfill.state === to || backfill.state === done) return backfill;
  if (!(from as readonly BackfillState[]).includes(backfill.state)) throw wrongState(backfill.state, needs);
  const { at: changedAt, actor } = source;
  const changed = await updateBackfill(tx, backfill, { state: to, changedAt, actor, cursor: '', done: 0 });
  await audit(tx, changed, source, to, { reason: changed.reason });
  return changed;
}

const doneOf = new Map<BackfillState, BackfillState>(Object.values(steps).map(({ to, done }) => [to, done]));

/** Ends a step that has nothing left to do, unless another instance has already ended it. */
export async function endStep(
  tx: Tx,
  { orgId, id, state }: Pick<Backfill, 'orgId' | 'id' | 'state'>,
  at: Date,
): Promise<void> {
  const backfill = await lockBackfill(tx, orgId, id);
  if (!backfill || backfill.state !== state) return;
  const changed = await updateBackfill(tx, backfill, { state: doneOf.get(state)!, changedAt: at });
  const changes = await listSums(tx, orgId, [id]);
  const [events, reverted] = [sumOf(changes, 'countedEvents'), sumOf(changes, 'revertedEvents')];
  const { actor } = backfill;
  await audit(tx, changed, { at, actor, ip: undefined, requestId: undefined }, changed.state, {
    events,
    reverted,
  });
}

export const sumOf = (
  sums: readonly BackfillSum[],
  field: 'events' | 'repeats' | 'mismatches' | 'countedEvents' | 'archivedEvents' | 'revertedEvents',
): number => sums.reduce((sum, one) => sum + one[field], 0);

export async function readBackfills(
  orm: Orm,
  orgId: string,
  range: Range,
): Promise<(Backfill & { staged: number })[]> {
  const backfills = await listBackfills(orm, orgId, range);
  if (backfills.length === 0) return [];
  const ids = backfills.map(({ id }) => id);
  const sums = await listSums(orm, orgId, ids);
  const sumsOf = (id: string) => sums.filter((sum) => sum.id === id);
  return backfills.map((one) => ({ ...one, staged: sumOf(sumsOf(one.id), 'events') }));
}

const MAX_MISMATCHES = 20;

/** @throws AppError not_found */
export async function readBackfill(orm: Orm, orgId: string, id: string) {
  const backfill = known(await findBackfill(orm, orgId, id));
  const changes = await listSums(orm, orgId, [id]);
  const mismatches = await listMismatches(orm, orgId, id, MAX_MISMATCHES);
  return { backfill, changes, mismatches };
}

function known(backfill: Backfill | undefined): Backfill {
  if (!backfill) throw new AppError('not_found', 'The Organization has no such backfill.');
  return backfill;
}

const wrongState = (state: BackfillState, what: string) =>
  new AppError('backfill_state', `The backfill is ${state}. It ${what}.`);

const audit = (
  tx: Tx,
  { orgId, id, livemode }: Backfill,
  source: Source,
  verb: BackfillState | 'opened',
  details: Record<string, unknown>,
): Promise<void> =>
  recordAudit(tx, orgId, {
    ...source,
    action: `usage.backfill_${verb}`,
    target: id,
    details: { livemode, ...details },
  });
