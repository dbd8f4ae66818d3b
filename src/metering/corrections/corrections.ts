import type { z } from 'zod';
import { recordAudit } from '../../accounts/audit/audit.js';
import type { Tx } from '../../core/db/client.js';
import { compareDecimals, isDecimalAbove } from '../../core/decimal.js';
import { AppError, type ErrorCode, type ErrorPlace } from '../../core/errors.js';
import { DAY_MS } from '../../core/time.js';
import type { Source } from '../../accounts/identity/source.js';
import { exact } from '../../core/http/json.js';
import { formatDecimal } from '../../core/pages/format.js';
import { queueWebhook } from '../../accounts/webhooks/outbox.js';
import { lockOrganization } from '../../accounts/identity/organizations/queries.js';
import { findArchived } from '../events/event-queries.js';
import { firstBroken } from '../ingestion/rules.js';
import { correctCredits } from './credits.js';
import type { correctionsSchema } from './schema.js';
import {
  insertCorrections,
  listRecorded,
  listTargets,
  type NewCorrection,
  type RecordedCorrection,
  type CorrectionTarget,
} from './queries.js';

export type Correction = Record<keyof z.output<typeof correctionsSchema>['corrections'][number], string>;

export interface CorrectionRequest {
  orgId: string;
  /** Undefined accepts both modes. */
  livemode: boolean | undefined;
  /** An Organization's people and its own keys may correct only if the operator lets them. */
  by: 'operator' | 'member' | 'key' | 'service';
  corrections: readonly Correction[];
}

export type AppliedCorrections = Awaited<ReturnType<typeof correctEvents>>;

/** After receipt, for an API key. */
export const MAX_AGE_DAYS = 35;
/** By an API key. Reading an event returns all of its corrections, so this bounds the response. */
export const MAX_TIMES = 1_000;

const AUDITED_CORRECTIONS = 20;

/**
 * All or none. Corrections in one Organization run one at a time.
 * @throws AppError with the first broken rule: entitlement_required, event_not_found, idempotency_conflict,
 * timestamp_out_of_range, quantity_out_of_range, invalid_request
 */
export async function correctEvents(tx: Tx, request: CorrectionRequest, source: Source) {
  const { orgId, livemode, corrections } = request;
  // Changes of the right take the same lock.
  const { mayCorrect } = (await lockOrganization(tx, { id: orgId }))!;
  if ((request.by === 'member' || request.by === 'key') && !mayCorrect) throw mayNotCorrect();
  const keys = corrections.map(({ correctionKey }) => correctionKey);
  const recorded = await listRecorded(tx, orgId, keys);
  const eventKeys = new Set(corrections.map(({ idempotencyKey }) => idempotencyKey));
  const targets = await listTargets(tx, orgId, [...eventKeys]);
  const own = targets.filter((target) => livemode === undefined || target.livemode === livemode);
  const plan = planCorrections(request, recorded, own, source.at);
  if (plan.problems.length > 0) throw await toError(tx, orgId, plan.problems);
  const { added, results } = plan;
  if (added.length > 0) {
    await insertCorrections(tx, orgId, source, added);
    await correctCredits(tx, orgId, source.at, added);
    for (const one of added) await queueMessage(tx, orgId, one, source.at);
    await audit(tx, orgId, added, source);
  }
  return { applied: added.length, deduped: corrections.length - added.length, results };
}

function queueMessage(tx: Tx, orgId: string, { event, ...correction }: NewCorrection, at: Date) {
  const { productSlug, metric, livemode, idempotencyKey } = event;
  const { correctionKey, previousQuantity, quantity, reason } = correction;
  return queueWebhook(tx, {
    orgId,
    livemode,
    type: 'usage.corrected',
    at,
    data: {
      productSlug,
      metric,
      livemode,
      idempotencyKey,
      correctionKey,
      previousQuantity: exact(previousQuantity),
      quantity: exact(quantity),
      reason,
    },
  });
}

export const mayNotCorrect = (): AppError =>
  new AppError(
    'entitlement_required',
    'This Organization may not correct its usage. Ask the operator of this service to correct it, or to let you.',
  );

/** Corrections of the same event in one request build on each other. */
function planCorrections(
  { livemode, by, corrections }: CorrectionRequest,
  recorded: readonly RecordedCorrection[],
  targets: readonly CorrectionTarget[],
  now: Date,
) {
  const known = new Map(recorded.map((correction) => [correction.correctionKey, correction]));
  const events = new Map(targets.map((target) => [target.idempotencyKey, { ...target }]));
  const added: NewCorrection[] = [];
  const results: Record<'idempotencyKey' | 'previousQuantity' | 'quantity', string>[] = [];
  const problems: ErrorPlace[] = [];
  for (const [index, { idempotencyKey, correctionKey, quantity, reason }] of corrections.entries()) {
    const refuse = (field: keyof Correction, code: ErrorCode, detail: string) =>
      problems.push({ index, pointer: `/corrections/${index}/${field}`, code, detail });
    const before = known.get(correctionKey);
    if (before) {
      const isSame =
        before.idempotencyKey === idempotencyKey &&
        before.reason === reason &&
        compareDecimals(before.quantity, quantity) === 0 &&
        (livemode === undefined || before.livemode === livemode);
      if (isSame)
        results.push({
          idempotencyKey,
          previousQuantity: before.previousQuantity,
          quantity: before.quantity,
        });
      else
        refuse(
          'correctionKey',
          'idempotency_conflict',
          `The correction key ${correctionKey} was used for another correction.`,
        );
      continue;
    }
    const event = events.get(idempotencyKey);
    if (!event) refuse('idempotencyKey', 'event_not_found', `No event ${idempotencyKey} was recorded.`);
    else if (by === 'key' && now.getTime() - Date.parse(event.receivedAt) > MAX_AGE_DAYS * DAY_MS)
      refuse(
        'idempotencyKey',
        'timestamp_out_of_range',
        `The event ${idempotencyKey} was received more than ${MAX_AGE_DAYS} days ago. Only the operator of this service can correct it now, or an owner or admin on the event's page.`,
      );
    else if (by === 'key' && event.corrections >= MAX_TIMES)
      refuse(
        'idempotencyKey',
        'invalid_request',
        `The event ${idempotencyKey} was corrected ${formatDecimal(MAX_TIMES)} times. Only the operator of this service can correct it again, or an owner or admin on the event's page.`,
      );
    else if (isDecimalAbove(quantity, event.maxQuantity))
      refuse(
        'quantity',
        'quantity_out_of_range',
        `An event of the product ${event.productSlug} can count at most ${event.maxQuantity}.`,
      );
    else {
      const previousQuantity = event.quantity;
      const number = event.corrections + 1;
      added.push({ event, number, correctionKey, previousQuantity, quantity, reason });
      results.push({ idempotencyKey, previousQuantity, quantity });
      known.set(correctionKey, { ...event, correctionKey, previousQuantity, quantity, reason });
      events.set(idempotencyKey, { ...event, quantity, corrections: number });
    }
  }
  return { added, results, problems };
}

async function toError(tx: Tx, orgId: string, problems: ErrorPlace[]): Promise<AppError> {
  const { code, detail } = firstBroken(problems);
  const archived = code === 'event_not_found' ? await findArchived(tx, orgId, {}) : undefined;
  const months = archived && [...new Set([archived.first, archived.last])].map((day) => day.slice(0, 7));
  const hint = months ? ` Events of ${months.join(' to ')} are archived and can no longer be corrected.` : '';
  return new AppError(code, `Nothing was corrected. ${detail}${hint}`, { errors: problems });
}

function audit(tx: Tx, orgId: string, added: readonly NewCorrection[], source: Source): Promise<void> {
  const [first] = added;
  const changes = added
    .slice(0, AUDITED_CORRECTIONS)
    .map(({ event, correctionKey, previousQuantity, quantity, reason }) => ({
      idempotencyKey: event.idempotencyKey,
      livemode: event.livemode,
      product: event.productSlug,
      before: previousQuantity,
      after: quantity,
      reason,
      correctionKey,
    }));
  return recordAudit(tx, orgId, {
    ...source,
    action: 'usage.corrected',
    target: added.length === 1 ? first!.event.idempotencyKey : `${added.length} events`,
    details: { corrections: added.length, changes },
  });
}
