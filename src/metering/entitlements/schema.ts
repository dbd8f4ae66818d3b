import { z } from 'zod';
import { exactField, nextCursorField, periodSchema, timeField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { limitSchema } from './limits.js';
import { entitlementKinds } from './table.js';

export const MAX_BODY_BYTES = 256 * 1024;

export const MAX_SLUGS = 50;

export const entitlementCheckSchema = z
  .strictObject({
    productSlugs: z
      .array(text(255))
      .min(1, 'must hold at least one slug')
      .max(MAX_SLUGS)
      .optional()
      .describe('Product slugs, each answered in its place. A slug may repeat.'),
    items: z
      .array(
        z
          .strictObject({
            productSlug: text(255),
            quantity: z
              .number()
              .min(0, 'must be a finite number of at least 0')
              .optional()
              .describe('The units you intend to use, an exact decimal of up to 100 digits; 0 if left out.'),
          })
          .meta({ id: 'EntitlementCheckItem' }),
      )
      .min(1, 'must hold at least one item')
      .max(MAX_SLUGS)
      .optional()
      .describe('Instead of `productSlugs`: products with quantities.'),
  })
  .refine(({ productSlugs, items }) => (productSlugs === undefined) !== (items === undefined), {
    error: 'is required, or items instead, and not both',
    path: ['productSlugs'],
  })
  .meta({ id: 'EntitlementCheck' });

export const entitlementPageSchema = z.strictObject({
  limit: z
    .string()
    .regex(/^([1-9]|[1-9]\d|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional()
    .describe('The maximum number to return, 1 to 500; 100 if left out.'),
  cursor: text(255).optional().describe('The `nextCursor` of the page before.'),
});

const kindField = z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.');

const limitsField = z
  .array(limitSchema)
  .describe('Beside the cap, as they were declared. Their use is in the mode of the calling key.');

export const entitlementSchema = z
  .object({
    productSlug: z.string(),
    productName: z.string(),
    kind: kindField,
    usageMetric: z.string().describe('The `metric` that usage events of this product must name.'),
    unitCap: exactField('Units per calendar month; `null` is unlimited.').nullable(),
    used: exactField('Units of the current month in the mode of the calling key.'),
    remaining: exactField('`unitCap` less `used`, never below 0; `null` where there is no cap.').nullable(),
    period: periodSchema,
    limits: limitsField,
    startsAt: timeField('From when it is in effect, inclusive.'),
    endsAt: timeField('Until when it is in effect, exclusive; `null` is without end.').nullable(),
  })
  .meta({
    id: 'Entitlement',
    description: 'An entitlement in effect, with the balance of the current month.',
  });

export const entitlementListSchema = z
  .object({
    entitlements: z.array(entitlementSchema).describe('Ordered by `productSlug`.'),
    nextCursor: nextCursorField,
  })
  .meta({ id: 'EntitlementList' });

const checkResultSchema = z
  .object({
    productSlug: z.string(),
    allowed: z
      .boolean()
      .describe(
        'True for a live entitlement, even above its cap, unless a limit that blocks leaves no room.',
      ),
    reason: z
      .enum(['entitlement_required', 'entitlement_read_only', 'limit_reached'])
      .nullable()
      .describe('Why it is not allowed; `null` where it is.'),
    kind: kindField.nullable(),
    unitCap: exactField('Units per calendar month; `null` is unlimited, or no entitlement.').nullable(),
    used: exactField(
      'Units of the current month in the mode of the calling key; `null` without entitlement.',
    ).nullable(),
    remaining: exactField('`unitCap` less `used`, never below 0.').nullable(),
    overCap: z.boolean().describe('True if `used` is greater than `unitCap`.'),
    limits: limitsField,
  })
  .meta({ id: 'EntitlementCheckResult' });

export const entitlementCheckAnswerSchema = z
  .object({ results: z.array(checkResultSchema).describe('One for each slug, in the order of the request.') })
  .meta({ id: 'EntitlementCheckAnswer' });
