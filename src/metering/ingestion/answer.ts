import type { z } from 'zod';
import { keyError } from '../../accounts/api-keys/bearer-key.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { exact, toJson } from '../../core/http/json.js';
import { formatCount } from '../../core/pages/format.js';
import { declaredLimitJson, type LimitState } from '../entitlements/limits.js';
import type { UsageLimit } from '../entitlements/table.js';
import { MAX_COMBINATIONS } from '../entitlements/dimensions.js';
import { firstRemembered, type Batch, type ParsedEvents, type PointerOf } from './batch.js';
import { monthRange } from '../../core/time.js';
import { brokenProductRule, firstBroken } from './rules.js';
import type { usageAnswerSchema } from './schema.js';
import type { BatchOutcome } from './outcome.js';

export type UsageWarning =
  | {
      code: 'unit_cap_exceeded';
      productSlug: string;
      metric: string;
      unitCap: string;
      used: string;
      period: { start: string; end: string };
    }
  | {
      code: 'limit_exceeded';
      productSlug: string;
      metric: string;
      limit: UsageLimit;
      subject?: string;
      used: string;
    }
  | { code: 'duplicate_mismatch'; index: number; differs?: ['livemode'] }
  | { code: 'too_many_dimension_values'; productSlug: string; limit: number }
  | { code: 'credits_overdrawn'; productSlug: string; overdraft: string };

type Answer = z.output<typeof usageAnswerSchema>;
export type RejectedEvent = NonNullable<Answer['rejected']>[number];

export interface UsageAnswer extends Omit<Answer, 'warnings'> {
  warnings: UsageWarning[];
}

export function refuseBadKey(outcome: BatchOutcome): void {
  for (const verdict of outcome.verdicts) {
    const error = keyError(verdict?.problem ?? null, 'usage:write');
    if (error) throw error;
  }
}

/**
 * For a sender with a valid key.
 * @param suggestions "did you mean" questions for unknown slugs
 * @param horizonMonths how long idempotency keys are remembered; undefined if forever
 * @throws AppError for a strict batch with a broken rule: `errors` lists all of them
 */
export function toUsageAnswer(
  batch: Batch,
  outcome: BatchOutcome,
  suggestions: ReadonlyMap<string, string> | undefined,
  pointerOf: PointerOf,
  horizonMonths: number | undefined,
): UsageAnswer {
  const broken = findBrokenRules(batch, outcome, suggestions, horizonMonths);
  if (!batch.isLenient && broken.length > 0) throw brokenRulesError(broken, pointerOf);
  const rejected = firstPerEvent(broken);
  const deduped = outcome.repeats.length;
  return {
    accepted: batch.keys.length - rejected.length - deduped,
    deduped,
    warnings: [
      ...outcome.overCap.map(({ slug, metric, unitCap, used, period }) => ({
        code: 'unit_cap_exceeded' as const,
        productSlug: slug,
        metric,
        unitCap,
        used,
        period: monthRange(period),
      })),
      ...outcome.overLimit.map(({ slug, metric, state }) => limitWarning(slug, metric, state)),
      ...outcome.mismatches
        .toSorted((a, b) => a.index - b.index)
        .map(({ index, isOtherMode }): UsageWarning => ({
          code: 'duplicate_mismatch',
          index,
          ...(isOtherMode ? { differs: ['livemode'] } : {}),
        })),
      ...[...findCrowded(batch, outcome)].map(tooManyValues),
      ...outcome.overdrawn.map(({ slug, overdraft }) => creditsOverdrawn(slug, overdraft)),
    ],
    ...(batch.isLenient ? { rejected } : {}),
  };
}

/** Restores the body's indexes. */
export function withIndexes(answer: UsageAnswer, indexes: readonly number[]): UsageAnswer {
  const restore = <T extends { index: number }>(one: T): T => ({ ...one, index: indexes[one.index]! });
  return {
    ...answer,
    warnings: answer.warnings.map((warning) => ('index' in warning ? restore(warning) : warning)),
    ...(answer.rejected && { rejected: answer.rejected.map(restore) }),
  };
}

export function withUnreadable(
  answer: UsageAnswer,
  { indexes, places }: NonNullable<ParsedEvents['unreadable']>,
): UsageAnswer {
  const first = new Map<number, RejectedEvent>();
  for (const { index = 0, pointer, detail: problem } of places) {
    const field = pointer.replace(/^(\/events)?\/\d+\/?/, '');
    const detail = `${field || 'The event'} ${problem}`;
    if (!first.has(index)) first.set(index, { index, code: 'invalid_request', detail });
  }
  const { rejected = [], ...rest } = withIndexes(answer, indexes);
  return { ...rest, rejected: [...rejected, ...first.values()].toSorted((a, b) => a.index - b.index) };
}

export const tooManyValues = (productSlug: string): UsageWarning => ({
  code: 'too_many_dimension_values',
  productSlug,
  limit: MAX_COMBINATIONS,
});

export const creditsOverdrawn = (productSlug: string, overdraft: string): UsageWarning => ({
  code: 'credits_overdrawn',
  productSlug,
  overdraft,
});

/** Their combination of dimensions has no sums of its own. */
function findCrowded({ pairs, pairOf, outOfRange }: Batch, { verdicts, aboveCeiling }: BatchOutcome) {
  const crowded = new Set<string>();
  if (!verdicts.some((verdict) => verdict?.isOther)) return crowded;
  for (const [i, pair] of pairOf.entries())
    if (verdicts[pair]?.isOther && !outOfRange.has(i) && !aboveCeiling.has(i)) crowded.add(pairs[pair]!.slug);
  return crowded;
}

export const limitWarning = (productSlug: string, metric: string, state: LimitState): UsageWarning => {
  const { quantity, window, enforcement, per, subject, used } = state;
  const limit = { quantity, window, enforcement, per };
  const ofSubject = subject === undefined ? {} : { subject };
  return { code: 'limit_exceeded', productSlug, metric, limit, ...ofSubject, used };
};

/** These products have no live entitlement. */
export function findUnknownProducts(batch: Batch, { verdicts }: BatchOutcome) {
  const first = verdicts.find((verdict) => verdict?.problem === 'entitlement_required');
  if (first?.orgId == null) return undefined;
  const unknown = batch.pairs.filter((_pair, i) => verdicts[i]?.problem === 'entitlement_required');
  return { orgId: first.orgId, slugs: [...new Set(unknown.map(({ slug }) => slug))] };
}

interface BrokenRule extends RejectedEvent {
  field: 'productSlug' | 'metric' | 'dimensions' | 'occurredAt' | 'quantity';
}

function findBrokenRules(
  batch: Batch,
  outcome: BatchOutcome,
  suggestions: ReadonlyMap<string, string> | undefined,
  horizonMonths: number | undefined,
): BrokenRule[] {
  const hasPairProblem = outcome.verdicts.some((verdict) => verdict?.problem != null);
  if (!hasPairProblem && batch.outOfRange.size === 0 && outcome.aboveCeiling.size === 0) return [];
  const broken: BrokenRule[] = [];
  for (let index = 0; index < batch.keys.length; index++) {
    const pair = batch.pairOf[index]!;
    const { slug, metric, dimensions, month } = batch.pairs[pair]!;
    const verdict = outcome.verdicts[pair];
    const { usageMetric, keys } = verdict ?? {};
    const rule = brokenProductRule(verdict?.problem, { slug, metric, usageMetric, keys, dimensions, month });
    if (rule) broken.push({ index, ...rule, detail: `${rule.detail}${suggestions?.get(slug) ?? ''}` });
    if (batch.outOfRange.has(index)) {
      const detail = outOfRangeDetail(batch, index, horizonMonths);
      broken.push({ index, field: 'occurredAt', code: 'timestamp_out_of_range', detail });
    }
    const ceiling = outcome.aboveCeiling.get(index);
    if (ceiling !== undefined) {
      const detail = `An event of the product ${slug} can count at most ${ceiling}.`;
      broken.push({ index, field: 'quantity', code: 'quantity_out_of_range', detail });
    }
  }
  return broken;
}

function outOfRangeDetail(
  { times, receivedAtMs, takesOld }: Batch,
  index: number,
  horizonMonths: number | undefined,
): string {
  if (takesOld) return 'occurredAt must be from 400 days before to 5 minutes after the receipt.';
  const detail = 'occurredAt must be from 7 days before to 5 minutes after the receipt.';
  if (horizonMonths === undefined) return detail;
  if (Date.parse(times[index]!) >= Date.parse(firstRemembered(horizonMonths, receivedAtMs))) return detail;
  return `${detail} It is older than the ${formatCount(horizonMonths, 'month')} for which idempotency keys are kept. If it was already recorded, sending it without occurredAt would count it again.`;
}

function brokenRulesError(broken: BrokenRule[], pointerOf: PointerOf): AppError {
  const first = firstBroken(broken);
  const errors = broken.map(({ field, ...rest }): ErrorPlace => ({
    ...rest,
    pointer: pointerOf(rest.index, field),
  }));
  return new AppError(first.code, `Nothing was recorded. Event ${first.index}: ${first.detail}`, { errors });
}

/** Expects each event's rules in the documented order. */
function firstPerEvent(broken: BrokenRule[]): RejectedEvent[] {
  return broken
    .filter((b, i) => i === 0 || broken[i - 1]!.index !== b.index)
    .map(({ index, code, detail }) => ({ index, code, detail }));
}

export function usageAnswerJson(answer: UsageAnswer): string {
  if (answer.warnings.length === 0) return JSON.stringify(answer);
  return toJson({ ...answer, warnings: answer.warnings.map(warningJson) });
}

export const warningJson = (warning: UsageWarning) => {
  switch (warning.code) {
    case 'unit_cap_exceeded':
      return { ...warning, unitCap: exact(warning.unitCap), used: exact(warning.used) };
    case 'limit_exceeded':
      return { ...warning, limit: declaredLimitJson(warning.limit), used: exact(warning.used) };
    case 'credits_overdrawn':
      return { ...warning, overdraft: exact(warning.overdraft) };
    default:
      return warning;
  }
};
