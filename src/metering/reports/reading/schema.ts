import type { Request } from 'express';
import { z } from 'zod';
import { queryError } from '../../../core/http/page.js';
import { MAX_VALUE_LENGTH } from '../../entitlements/dimensions.js';
import { exactField, idField, namedObject, timeField } from '../../../core/http/fields.js';
import { text } from '../../../core/http/validate.js';
import { steps } from '../operator/queries.js';
import { instant } from '../operator/steps.js';
import {
  MAX_EVENTS,
  MAX_KEY_BYTES,
  namedDimensions,
  subjectField,
  usageEventSchema,
} from '../../ingestion/schema.js';

export const MAX_POINTS = 400;
/** Across all series. */
export const MAX_SUMS = 20_000;

export const usageQuerySchema = z.strictObject({
  productSlug: text(255).optional().describe('Only this product. Default: all products used in the range.'),
  from: instant.describe('Inclusive. A date (UTC) or an RFC 3339 time, at the start of a step.'),
  to: instant.describe(`Exclusive, in the same form. At most ${MAX_POINTS} steps after \`from\`.`),
  granularity: z
    .enum(steps, 'must be hour, day or month')
    .default('day')
    .describe('The step size, in UTC. Default: `day`.'),
  groupBy: text(64)
    .optional()
    .describe(
      "`apiKey`: one series per API key that reported the usage. `subject`: one for each of the 100 largest subjects, and one for the others. A dimension's name, like `model`: one per value; needs `productSlug`. By month, at most 13 months.",
    ),
  subject: subjectField.optional().describe('Only usage of this subject.'),
});

const DIMENSION = 'dimension.';
const dimensionValue = text(MAX_VALUE_LENGTH);

/** Values of dimensions are parameters such as `dimension.model=large`. */
export function divideQuery(query: Request['query']) {
  // Without a prototype, `__proto__` is an ordinary name.
  const dimensions = Object.create(null) as Record<string, string>;
  const rest = Object.create(null) as Request['query'];
  for (const [name, value] of Object.entries(query)) {
    if (!name.startsWith(DIMENSION)) rest[name] = value;
    else if (Array.isArray(value)) throw queryError(name, 'must appear only once');
    else if (!dimensionValue.safeParse(value).success)
      throw queryError(name, `must be 1 to ${MAX_VALUE_LENGTH} characters without control characters`);
    else dimensions[name.slice(DIMENSION.length)] = value as string;
  }
  return { dimensions, rest };
}

const pointSchema = namedObject('UsagePoint', {
  start: timeField('The start of the step.'),
  quantity: exactField('The sum of its events.'),
  events: z.int().min(1).describe('The number of events in the sum.'),
});

export const usageSeriesSchema = namedObject('UsageSums', {
  granularity: z.enum(steps),
  series: z
    .array(
      z
        .object({
          productSlug: z.string(),
          metric: z.string().describe('The metric of the events, even if the product no longer counts it.'),
          apiKeyId: idField('Only with `groupBy=apiKey`.').optional(),
          subject: z.string().optional().describe('Only for sums of subjects.'),
          dimensions: z
            .record(z.string(), z.string().nullable())
            .optional()
            .describe(
              'The value of the dimension by which the sums are grouped; `null` for events without one.',
            ),
          other: z
            .boolean()
            .optional()
            .describe(
              'True for the usage of all other subjects, or of combinations of dimension values beyond the first 500 of a month. The latter may have any value, so it is present with every condition on a dimension.',
            ),
          points: z.array(pointSchema).describe('In order. Steps without events are left out.'),
          total: exactField('The sum of the points.'),
        })
        .meta({ id: 'UsageSeries' }),
    )
    .describe('Ordered by `productSlug`, `metric`, `apiKeyId` and subject or value.'),
});

const authorKinds = ['api_key', 'member', 'operator'] as const;
export type AuthorKind = (typeof authorKinds)[number];

export const recordedEventSchema = z
  .object({
    idempotencyKey: z.string(),
    productSlug: z.string(),
    metric: z.string(),
    quantity: exactField('The quantity as sent.'),
    occurredAt: timeField('To the microsecond.'),
    receivedAt: timeField('To the microsecond.'),
    livemode: z.boolean(),
    apiKeyId: idField('The API key that sent it.'),
    subject: z.string().optional().describe('Present if the event names one, as is `dimensions`.'),
    dimensions: namedDimensions.optional(),
    corrections: z
      .array(
        z
          .object({
            correctionKey: z.string(),
            previousQuantity: exactField('The quantity before the correction.'),
            quantity: exactField('The quantity after the correction.'),
            reason: z.string(),
            correctedAt: timeField('To the microsecond.'),
            correctedBy: z.enum(authorKinds),
          })
          .meta({ id: 'EventCorrection' }),
      )
      .describe('In order. The last one has the current quantity.'),
  })
  .meta({
    id: 'RecordedEvent',
    description: 'A usage event as recorded, with its corrections.',
  });

/** Across all events in a response: 20 MB at their maximum length. */
export const MAX_LOOKUP_CORRECTIONS = 10_000;

export const MAX_LOOKUP_BYTES = MAX_EVENTS * (MAX_KEY_BYTES + 8) + 1024;

export const lookupSchema = z
  .strictObject({
    idempotencyKeys: z
      .array(usageEventSchema.shape.idempotencyKey)
      .min(1, 'must have at least one idempotency key')
      .max(MAX_EVENTS),
  })
  .meta({ id: 'UsageLookup' });

export const lookupAnswerSchema = namedObject('UsageLookupAnswer', {
  results: z
    .array(
      z
        .object({
          idempotencyKey: z.string(),
          recorded: z.boolean(),
          event: recordedEventSchema.optional().describe('Present if it was recorded.'),
        })
        .meta({ id: 'LookupResult' }),
    )
    .describe('One for each requested key, in the order of the request.'),
});
