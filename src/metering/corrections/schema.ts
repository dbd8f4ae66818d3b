import { z } from 'zod';
import { exactField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { MAX_KEY_BYTES, usageEventSchema } from '../ingestion/schema.js';

export const MAX_CORRECTIONS = 100;

export const reasonField = text(200).describe('The reason, kept with the event and in the audit log.');

/** Three texts with every character escaped, and a quantity. */
export const MAX_BODY_BYTES = MAX_CORRECTIONS * (3 * MAX_KEY_BYTES + 320);

export const correctionsSchema = z
  .strictObject({
    corrections: z
      .array(
        z
          .strictObject({
            idempotencyKey: usageEventSchema.shape.idempotencyKey.describe(
              'The idempotency key of the event.',
            ),
            quantity: z
              .number('must be a finite number of at least 0')
              .min(0, 'must be a finite number of at least 0')
              .describe(
                'What the event should have been, an exact decimal of up to 100 digits; 0 voids it. At most what an event of its product may count.',
              ),
            reason: reasonField,
            correctionKey: text(255).describe(
              'Names the correction within the Organization, for ever: sent again, it is counted as `deduped` and changes nothing.',
            ),
          })
          .meta({ id: 'CorrectionInput' }),
      )
      .min(1, 'must hold at least one correction')
      .max(MAX_CORRECTIONS),
  })
  .meta({ id: 'UsageCorrections' });

export const correctedSchema = z
  .object({
    applied: z.int().min(0).describe('Corrections made now.'),
    deduped: z.int().min(0).describe('Corrections whose key was used before, for the same.'),
    results: z
      .array(
        z
          .object({
            idempotencyKey: z.string(),
            previousQuantity: exactField('What the event counted before.'),
            quantity: exactField('What it has counted since then.'),
          })
          .meta({ id: 'CorrectionResult' }),
      )
      .describe(
        'One for each correction, in the order of the request; of a repeat what it did the first time.',
      ),
  })
  .meta({ id: 'CorrectionAnswer', description: '`applied` and `deduped` add up to the corrections.' });
