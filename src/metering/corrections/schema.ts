import { z } from 'zod';
import { exactField, namedInput, namedObject } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { MAX_KEY_BYTES, usageEventSchema } from '../ingestion/schema.js';

export const MAX_CORRECTIONS = 100;

export const reasonField = text(200).describe('The reason, kept with the event and in the audit log.');

/** Three fully escaped texts and a quantity per correction. */
export const MAX_BODY_BYTES = MAX_CORRECTIONS * (3 * MAX_KEY_BYTES + 320);

export const correctionsSchema = namedInput('UsageCorrections', {
  corrections: z
    .array(
      namedInput('CorrectionInput', {
        idempotencyKey: usageEventSchema.shape.idempotencyKey.describe('The idempotency key of the event.'),
        quantity: z
          .number('must be a finite number of at least 0')
          .min(0, 'must be a finite number of at least 0')
          .describe(
            "The correct quantity, an exact decimal of up to 100 digits; 0 voids the event. At most the product's maximum per event.",
          ),
        reason: reasonField,
        correctionKey: text(255).describe(
          'Identifies the correction within the Organization, forever. A repeat is counted as `deduped` and changes nothing.',
        ),
      }),
    )
    .min(1, 'must have at least one correction')
    .max(MAX_CORRECTIONS),
});

export const correctedSchema = z
  .object({
    applied: z.int().min(0).describe('Corrections made by this request.'),
    deduped: z.int().min(0).describe('Corrections that repeat an earlier one.'),
    results: z
      .array(
        namedObject('CorrectionResult', {
          idempotencyKey: z.string(),
          previousQuantity: exactField('The quantity before the correction.'),
          quantity: exactField('The quantity after the correction.'),
        }),
      )
      .describe('One for each correction, in the order of the request. A repeat has its original result.'),
  })
  .meta({ id: 'CorrectionAnswer', description: '`applied` and `deduped` add up to the corrections.' });
