import { z } from 'zod';
import { exactField, idField, timeField } from '../../core/http/fields.js';
import { timeInput } from '../../core/http/validate.js';
import { reasonField } from '../corrections/schema.js';
import { usageAnswerSchema } from '../ingestion/schema.js';
import { backfillStates } from './table.js';

const backfillCredits = ['burn', 'none'] as const;
export const backfillCreditsSchema = z.enum(backfillCredits).default('burn');

export const newBackfillSchema = z
  .strictObject({
    reason: reasonField,
    from: timeInput.describe('Inclusive. Earlier events are refused.'),
    to: timeInput.describe('Exclusive; later than `from`.'),
    livemode: z.boolean().default(true).describe('Whether the events are live. Default: `true`.'),
    credits: backfillCreditsSchema.describe(
      '`burn`: the events burn the grants that are open when it is applied, at the price of that time. `none`: they are counted and cost nothing. Default: `burn`.',
    ),
  })
  .refine(({ from, to }) => Date.parse(to) > Date.parse(from), {
    path: ['to'],
    error: 'must be later than from',
  })
  .meta({ id: 'BackfillInput' });

const count = (description: string) => z.int().min(0).describe(description);

export const backfillSchema = z
  .object({
    id: idField('The `apiKeyId` of its events.'),
    state: z.enum(backfillStates),
    reason: z.string(),
    from: timeField('Inclusive.'),
    to: timeField('Exclusive.'),
    livemode: z.boolean(),
    credits: z.enum(backfillCredits).describe('Whether its events burn credits.'),
    progress: z
      .object({
        done: count('Events processed by the current or last step.'),
        of: count('Staged events.'),
      })
      .meta({ id: 'BackfillProgress' }),
    createdAt: timeField('When it was opened.'),
    changedAt: timeField('When the last step began or made progress.'),
  })
  .meta({
    id: 'Backfill',
    description: 'Events older than 7 days that are staged, reviewed and then counted.',
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
    repeats: count('Staged events that were already recorded. They are not counted again.'),
    mismatches: count('Repeats that were recorded as a different event.'),
    countedEvents: count('Events counted when it was applied.'),
    countedQuantity: exactField('The sum of the counted events.'),
    archivedEvents: count('Events not counted because their month had been archived.'),
    revertedEvents: count('Taken back.'),
  })
  .meta({
    id: 'BackfillChange',
    description: "The change to a product's month that the backfill would make or has made.",
  });

export const backfillDetailSchema = z
  .object({
    backfill: backfillSchema,
    changes: z.array(changeSchema).describe('Ordered by product, metric and month.'),
    mismatches: z
      .array(z.string())
      .describe('The first 20 idempotency keys that were already recorded for a different event at staging.'),
  })
  .meta({ id: 'BackfillDetail' });

export const stagedSchema = z
  .object({
    accepted: count('Events staged by this request.'),
    deduped: count('Events whose idempotency key was already staged in this backfill.'),
    warnings: usageAnswerSchema.shape.warnings.describe(
      '`duplicate_mismatch` for each key that was already staged for a different event.',
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
