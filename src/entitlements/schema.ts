import { z } from 'zod';
import { exactField, nextCursorField, periodSchema, timeField } from '../core/http/fields.js';
import { text } from '../core/http/validate.js';
import { entitlementKinds } from './table.js';

export const MAX_BODY_BYTES = 256 * 1024;

export const MAX_SLUGS = 50;

export const entitlementCheckSchema = z
  .strictObject({
    productSlugs: z
      .array(text(255))
      .min(1, 'must hold at least one slug')
      .max(MAX_SLUGS)
      .describe('Product slugs, each answered in its place. A slug may repeat.'),
  })
  .meta({ id: 'EntitlementCheck' });

export const entitlementPageSchema = z.strictObject({
  limit: z
    .string()
    .regex(/^([1-9]|[1-9]\d|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional()
    .describe('How many at most, 1 to 500; 100 if left out.'),
  cursor: text(255).optional().describe('The `nextCursor` of the page before.'),
});

const kindField = z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.');

export const entitlementSchema = z
  .object({
    productSlug: z.string(),
    productName: z.string(),
    kind: kindField,
    usageMetric: z.string().describe('The `metric` that usage events of this product must name.'),
    unitCap: exactField('Units per calendar month; `null` is unlimited.').nullable(),
    used: exactField('Units of the current month in the mode of the asking key.'),
    remaining: exactField('`unitCap` less `used`, never below 0; `null` where there is no cap.').nullable(),
    period: periodSchema,
    startsAt: timeField('In effect from then, inclusive.'),
    endsAt: timeField('In effect until then, exclusive; `null` is without end.').nullable(),
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
    allowed: z.boolean().describe('True for a live entitlement, above its cap, too.'),
    reason: z
      .enum(['entitlement_required', 'entitlement_read_only'])
      .nullable()
      .describe('Why it is not allowed; `null` where it is.'),
    kind: kindField.nullable(),
    unitCap: exactField('Units per calendar month; `null` is unlimited, or no entitlement.').nullable(),
    used: exactField(
      'Units of the current month in the mode of the asking key; `null` without entitlement.',
    ).nullable(),
    remaining: exactField('`unitCap` less `used`, never below 0.').nullable(),
    overCap: z.boolean().describe('True if `used` is greater than `unitCap`.'),
  })
  .meta({ id: 'EntitlementCheckResult' });

export const entitlementCheckAnswerSchema = z
  .object({ results: z.array(checkResultSchema).describe('One for each slug, in the order of the request.') })
  .meta({ id: 'EntitlementCheckAnswer' });
