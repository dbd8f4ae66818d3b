import { z } from 'zod';
import { exactField, namedInput, periodSchema } from '../../core/http/fields.js';
import { text, textPattern } from '../../core/http/validate.js';
import { quantityInput } from '../entitlements/exact-number.js';
import { declaredLimitSchema } from '../entitlements/limits.js';
import {
  dimensionsSchema,
  isDimensions,
  MAX_COMBINATIONS,
  MAX_DIMENSIONS,
  MAX_SUBJECT_LENGTH,
  MAX_VALUE_LENGTH,
} from '../entitlements/dimensions.js';

export const MAX_EVENTS = 500;
export const MAX_TEXT_LENGTH = 255;
/** ASCII-only encoders write a character beyond the basic multilingual plane as two `\uXXXX` escapes. */
const MAX_CHARACTER_BYTES = 12;
export const MAX_KEY_BYTES = MAX_TEXT_LENGTH * MAX_CHARACTER_BYTES;
/** A subject, and dimensions with their keys. */
const DETAIL_BYTES = (MAX_SUBJECT_LENGTH + 2 * MAX_DIMENSIONS * MAX_VALUE_LENGTH) * MAX_CHARACTER_BYTES;
/** Field names and punctuation, a time, and a quantity of 100 digits. */
const OTHER_BYTES = 320;
/** A full batch of the largest possible events, fully escaped. */
export const MAX_BODY_BYTES = MAX_EVENTS * (3 * MAX_KEY_BYTES + DETAIL_BYTES + OTHER_BYTES);

export const subjectField = text(MAX_SUBJECT_LENGTH).describe(
  'Your own end user or team. Usage is also counted for each subject if the product counts subjects.',
);

export const dimensionsField = dimensionsSchema.describe(
  `Values of the product's dimensions, like \`{ "model": "large" }\`. A dimension that the product does not declare is \`unknown_dimension\`. Sums by dimension are kept for at most ${MAX_COMBINATIONS} combinations of values in a month.`,
);

export const namedDimensions = z.record(z.string(), z.string());

/** Plain types without transforms, because this runs for each of up to 500 events. */
export const usageEventSchema = namedInput('UsageEvent', {
  productSlug: text(MAX_TEXT_LENGTH).describe('A product for which the Organization has a live entitlement.'),
  metric: text(MAX_TEXT_LENGTH).describe("Must equal the product's `usageMetric`."),
  quantity: quantityInput
    .optional()
    .describe(
      "The number of units. Default: 1. An exact decimal of up to 100 digits: 0.1 and 0.2 add up to 0.3. At most the product's maximum per event, which is 1,000,000,000,000,000 unless the operator has set another.",
    ),
  occurredAt: z.iso
    .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z' })
    .optional()
    .describe(
      "When the usage happened, RFC 3339 with an offset (`Z` or `+02:00`). Default: the time of receipt. From 7 days before to 5 minutes after the receipt, inclusive. Stored to the microsecond. The event counts in this time's calendar month in UTC.",
    ),
  idempotencyKey: text(MAX_TEXT_LENGTH).describe(
    'Identifies the event within the Organization, across all its API keys, live and test: forever, or for as many months as the operator has set for old events. A repeat is counted as `deduped` and changes nothing.',
  ),
  subject: subjectField.optional(),
  dimensions: dimensionsField.optional(),
});

export type UsageEvent = z.infer<typeof usageEventSchema>;

const namePattern = textPattern(MAX_TEXT_LENGTH);
const subjectPattern = textPattern(MAX_SUBJECT_LENGTH);
const timePattern = z.core.regexes.datetime({ offset: true });
const isTextOf = (pattern: RegExp, value: unknown) => typeof value === 'string' && pattern.test(value);

/** A fifth of the schema's time ("JSON and HTTP by hand" in bench/README.md). */
export function isUsageEvent(event: unknown): event is UsageEvent {
  if (typeof event !== 'object' || event === null) return false;
  const { productSlug, metric, quantity, occurredAt, idempotencyKey, subject, dimensions } =
    event as UsageEvent;
  let unknown = Object.keys(event).length - 3;
  for (const value of [quantity, occurredAt, subject, dimensions]) if (value !== undefined) unknown--;
  return (
    unknown === 0 &&
    isTextOf(namePattern, productSlug) &&
    isTextOf(namePattern, metric) &&
    isTextOf(namePattern, idempotencyKey) &&
    (quantity === undefined || (typeof quantity === 'number' && quantity >= 0 && quantity < Infinity)) &&
    (occurredAt === undefined || isTextOf(timePattern, occurredAt)) &&
    (subject === undefined || isTextOf(subjectPattern, subject)) &&
    (dimensions === undefined || isDimensions(dimensions))
  );
}

export const usageBatchSchema = namedInput('UsageBatch', {
  events: z.array(usageEventSchema).min(1, 'must have at least one event').max(MAX_EVENTS),
});

export const batchFrameSchema = z.strictObject({
  events: z.array(z.unknown()).min(1, 'must have at least one event'),
});

const organizationField = text(64).describe('The slug of the Organization whose usage this is.');

export const manyBatchSchema = namedInput('UsageBatchOfMany', {
  events: z
    .array(usageEventSchema.extend({ organization: organizationField }).meta({ id: 'UsageEventOfMany' }))
    .min(1, 'must have at least one event')
    .max(MAX_EVENTS),
});

export const manyFrameSchema = z.strictObject({
  events: z.array(z.looseObject({ organization: organizationField })).min(1, 'must have at least one event'),
});

export const warningSchema = z.discriminatedUnion('code', [
  z
    .object({
      code: z.literal('unit_cap_exceeded'),
      productSlug: z.string(),
      metric: z.string(),
      unitCap: exactField('Units per calendar month.'),
      used: exactField('Units used in the month, including this batch.'),
      period: periodSchema,
    })
    .meta({
      id: 'UnitCapExceeded',
      description:
        'The month is above its cap. The events were still recorded. One warning for each product and month.',
    }),
  z
    .object({
      code: z.literal('limit_exceeded'),
      productSlug: z.string(),
      metric: z.string(),
      limit: declaredLimitSchema,
      subject: z.string().optional().describe('The subject of a limit per subject.'),
      used: exactField("Units used in the limit's window, including this batch."),
    })
    .meta({
      id: 'LimitExceeded',
      description: 'The usage falls in the current window of a limit and exceeds it. It was still recorded.',
    }),
  z
    .object({
      code: z.literal('duplicate_mismatch'),
      index: z.int().min(0),
      differs: z
        .array(z.enum(['livemode']))
        .optional()
        .describe(
          'Present only if the mode differs. A live event with the key of a test event is not counted as live, and vice versa. Treat it as an error.',
        ),
    })
    .meta({
      id: 'DuplicateMismatch',
      description:
        'The idempotency key at `index` belongs to a different recorded event. This event was not recorded and counts as `deduped`.',
    }),
  z
    .object({
      code: z.literal('too_many_dimension_values'),
      productSlug: z.string(),
      limit: z.int().describe('Combinations of values that have sums of their own in a month.'),
    })
    .meta({
      id: 'TooManyDimensionValues',
      description:
        'The month has more combinations of dimension values than have sums of their own. The event was recorded with its values. It counts in every total, and by dimension under `other`.',
    }),
  z
    .object({
      code: z.literal('credits_overdrawn'),
      productSlug: z.string(),
      overdraft: exactField(
        'Credits that the product has used beyond all grants. A new grant pays them first.',
      ),
    })
    .meta({
      id: 'CreditsOverdrawn',
      description: 'The usage costs more credits than the open grants have left. It was still recorded.',
    }),
]);

export const usageAnswerSchema = z
  .object({
    accepted: z.int().min(0).describe('Events recorded by this request.'),
    deduped: z
      .int()
      .min(0)
      .describe('Events whose idempotency key was already recorded, or appears earlier in this batch.'),
    warnings: z
      .array(warningSchema)
      .describe('Conditions that did not stop an event. New codes may be added.'),
    rejected: z
      .array(
        z
          .object({
            index: z.int().min(0).describe('The index in `events`, from 0.'),
            code: z.enum([
              'entitlement_required',
              'entitlement_read_only',
              'unknown_metric',
              'timestamp_out_of_range',
              'quantity_out_of_range',
              'unknown_dimension',
              'invalid_request',
            ]),
            detail: z.string(),
          })
          .meta({
            id: 'RejectedEvent',
            description: 'An event that was not recorded, and the first rule that it broke.',
          }),
      )
      .optional()
      .describe('Present only with `Prefer: handling=lenient`.'),
  })
  .meta({
    id: 'UsageAnswer',
    description: '`accepted`, `deduped` and `rejected` add up to the events of the batch.',
  });

const ofOrganization = z.object({ organization: z.string().describe('The slug of the Organization.') });

export const manyAnswerSchema = z
  .object({
    accepted: usageAnswerSchema.shape.accepted,
    deduped: usageAnswerSchema.shape.deduped,
    warnings: z
      .array(z.intersection(ofOrganization, z.union(warningSchema.options)))
      .describe('Conditions that did not stop an event. `index` is that of the body.'),
    rejected: usageAnswerSchema.shape.rejected,
    refused: z
      .array(
        ofOrganization
          .extend({
            status: z.int().describe('The status that the part alone would have had.'),
            code: z.string(),
            detail: z.string(),
            errors: z
              .array(
                z.object({
                  index: z.int().min(0).optional(),
                  pointer: z.string(),
                  code: z.string(),
                  detail: z.string(),
                }),
              )
              .optional()
              .describe('The invalid places, by the index in the body.'),
          })
          .meta({
            id: 'RefusedPart',
            description: 'An Organization whose events were not recorded, and why.',
          }),
      )
      .optional()
      .describe('Present if a part was refused. The other parts are recorded.'),
  })
  .meta({ id: 'UsageAnswerOfMany', description: 'The sums over all Organizations.' });
