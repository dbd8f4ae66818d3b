import { z } from 'zod';
import { exactField, idField, timeField } from '../../core/http/fields.js';
import { timeInput } from '../../core/http/validate.js';
import { reasonField } from '../corrections/schema.js';
import { usageAnswerSchema } from '../ingestion/schema.js';
import { backfillStates } from './table.js';

export const newBackfillSchema = z
  .strictObject({
    reason: reasonField,
    from: timeInput.describe('Inclusive: before this no event is staged.'),
    to: timeInput.describe('Exclusive; later than `from`.'),
    livemode: z.boolean().default(true).describe('Whether the events are live; `true` if left out.'),
  })
  .refine(({ from, to }) => Date.parse(to) > Date.parse(from), {
    path: ['to'],
    error: 'must be later than from',
  })
  .meta({ id: 'BackfillInput' });

const count = (description: string) => z.int().min(0).describe(description);

export const backfillSchema = z
  .object({
    id: idField('Its events have it as their `apiKeyId`.'),
    state: z.enum(backfillStates),
    reason: z.string(),
    from: timeField('Inclusive.'),
    to: timeField('Exclusive.'),
    livemode: z.boolean(),
    progress: z
      .object({
        done: count('Events that the present or last step has dealt with.'),
        of: count('Events that are staged.'),
      })
      .meta({ id: 'BackfillProgress' }),
    createdAt: timeField('When it was opened.'),
    changedAt: timeField('When the last step was taken, or last made progress.'),
  })
  .meta({
    id: 'Backfill',
    description: 'Events of more than 7 days ago that are staged, reviewed, and then counted.',
  });

export const locatedBackfillSchema = z
  .object({ organization: z.string().describe('The slug of its Organization.'), backfill: backfillSchema })
  .meta({ id: 'LocatedBackfill' });

const changeSchema = z
  .object({
    productSlug: z.string(),
    metric: z.string(),
    month: z.string().regex(/^\d{4}-\d\d$/),
    events: count('Staged.'),
    quantity: exactField('Their sum.'),
    repeats: count('The number of these already recorded when they were staged: they are not counted again.'),
    mismatches: count('The number of repeats recorded as a different event.'),
    countedEvents: count('Counted when it was applied.'),
    countedQuantity: exactField('Their sum, as it was counted.'),
    archivedEvents: count('Not counted, because the month was archived meanwhile.'),
    revertedEvents: count('Taken back.'),
  })
  .meta({
    id: 'BackfillChange',
    description: 'What it would change, or has changed, for a product in a month.',
  });

export const backfillDetailSchema = z
  .object({
    backfill: backfillSchema,
    changes: z.array(changeSchema).describe('Ordered by product, metric and month.'),
    mismatches: z
      .array(z.string())
      .describe('The first 20 idempotency keys that were recorded for another event when they were staged.'),
  })
  .meta({ id: 'BackfillDetail' });

export const stagedSchema = z
  .object({
    accepted: count('Events staged now.'),
    deduped: count('Events whose idempotency key was staged before in this backfill.'),
    warnings: usageAnswerSchema.shape.warnings.describe(
      '`duplicate_mismatch` of a key that was staged for another event.',
    ),
    rejected: z
      .array(
        z
          .object({
            index: count('The index in `events`, from 0.'),
            code: z.enum(['not_found', 'unknown_metric', 'timestamp_out_of_range', 'quantity_out_of_range']),
            detail: z.string(),
          })
          .meta({ id: 'UnstagedEvent' }),
      )
      .optional()
      .describe('Present only with `Prefer: handling=lenient`.'),
  })
  .meta({
    id: 'StagedEvents',
    description: '`accepted`, `deduped` and `rejected` add up to the events of the batch.',
  });
