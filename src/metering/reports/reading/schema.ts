import { z } from 'zod';
import { exactField, idField, timeField } from '../../../core/http/fields.js';
import { text } from '../../../core/http/validate.js';
import { steps } from '../operator/queries.js';
import { instant } from '../operator/steps.js';
import { MAX_EVENTS, MAX_KEY_BYTES, usageEventSchema } from '../../ingestion/schema.js';

export const MAX_POINTS = 400;
/** Across all series. */
export const MAX_SUMS = 20_000;

export const usageQuerySchema = z.strictObject({
  productSlug: text(255)
    .optional()
    .describe('The one product to read; left out, all that were used in the range.'),
  from: instant.describe('Inclusive: a date (UTC) or an RFC 3339 time, the start of a whole step.'),
  to: instant.describe(`Exclusive, in the same form: at most ${MAX_POINTS} steps later than \`from\`.`),
  granularity: z
    .enum(steps, 'must be hour, day or month')
    .default('day')
    .describe('The steps of time, in UTC; `day` if left out.'),
  groupBy: z
    .enum(['apiKey'], 'must be apiKey')
    .optional()
    .describe('`apiKey`: a series for each API key that reported the usage. With months, at most 13.'),
});

const pointSchema = z
  .object({
    start: timeField('The start of the step.'),
    quantity: exactField('The sum of its events.'),
    events: z.int().min(1).describe('The number of events in the sum.'),
  })
  .meta({ id: 'UsagePoint' });

export const usageSeriesSchema = z
  .object({
    granularity: z.enum(steps),
    series: z
      .array(
        z
          .object({
            productSlug: z.string(),
            metric: z
              .string()
              .describe('As the events named it: one that the product no longer counts is included, too.'),
            apiKeyId: idField('Only with `groupBy=apiKey`.').optional(),
            points: z.array(pointSchema).describe('In order; steps without an event have none.'),
            total: exactField('The sum of the points.'),
          })
          .meta({ id: 'UsageSeries' }),
      )
      .describe('Ordered by `productSlug`, `metric` and `apiKeyId`.'),
  })
  .meta({ id: 'UsageSums' });

const authorKinds = ['api_key', 'member', 'operator'] as const;
export type AuthorKind = (typeof authorKinds)[number];

export const recordedEventSchema = z
  .object({
    idempotencyKey: z.string(),
    productSlug: z.string(),
    metric: z.string(),
    quantity: exactField('As it was sent.'),
    occurredAt: timeField('To the microsecond.'),
    receivedAt: timeField('To the microsecond.'),
    livemode: z.boolean(),
    apiKeyId: idField('The API key that sent it.'),
    corrections: z
      .array(
        z
          .object({
            correctionKey: z.string(),
            previousQuantity: exactField('What it counted before.'),
            quantity: exactField('What it has counted since then.'),
            reason: z.string(),
            correctedAt: timeField('To the microsecond.'),
            correctedBy: z.enum(authorKinds),
          })
          .meta({ id: 'EventCorrection' }),
      )
      .describe('In their order; the last one says what it counts.'),
  })
  .meta({
    id: 'RecordedEvent',
    description: 'A usage event as it was recorded, and what it was corrected to.',
  });

/** Across all events of an answer: 20 MB if each correction has the maximum length. */
export const MAX_LOOKUP_CORRECTIONS = 10_000;

export const MAX_LOOKUP_BYTES = MAX_EVENTS * (MAX_KEY_BYTES + 8) + 1024;

export const lookupSchema = z
  .strictObject({
    idempotencyKeys: z
      .array(usageEventSchema.shape.idempotencyKey)
      .min(1, 'must hold at least one idempotency key')
      .max(MAX_EVENTS),
  })
  .meta({ id: 'UsageLookup' });

export const lookupAnswerSchema = z
  .object({
    results: z
      .array(
        z
          .object({
            idempotencyKey: z.string(),
            recorded: z.boolean(),
            event: recordedEventSchema.optional().describe('Where it was recorded.'),
          })
          .meta({ id: 'LookupResult' }),
      )
      .describe('One for each key that was asked for, in the order of the request.'),
  })
  .meta({ id: 'UsageLookupAnswer' });
