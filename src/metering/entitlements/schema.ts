import { z } from 'zod';
import {
  exactField,
  namedInput,
  namedObject,
  nextCursorField,
  periodSchema,
  timeField,
} from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { dimensionsSchema, MAX_SUBJECT_LENGTH } from './dimensions.js';
import { quantityInput } from './exact-number.js';
import { featuresField } from './features.js';
import { declaredLimitSchema, limitSchema } from './limits.js';
import { creditPriceAnswerSchema } from './price.js';
import { entitlementKinds } from './table.js';

export const MAX_BODY_BYTES = 640 * 1024;

export const MAX_SLUGS = 50;

export const checkItemSchema = namedInput('EntitlementCheckItem', {
  productSlug: text(255),
  quantity: quantityInput
    .optional()
    .describe('The units that you intend to use, an exact decimal of up to 100 digits. Default: 0.'),
  subject: text(MAX_SUBJECT_LENGTH)
    .optional()
    .describe('The subject of the use. Its limits are checked too.'),
  dimensions: dimensionsSchema.optional().describe("Values of the product's dimensions."),
});

export const entitlementCheckSchema = z
  .strictObject({
    productSlugs: z
      .array(text(255))
      .min(1, 'must have at least one slug')
      .max(MAX_SLUGS)
      .optional()
      .describe('Product slugs. A slug can appear more than once.'),
    items: z
      .array(checkItemSchema)
      .min(1, 'must have at least one item')
      .max(MAX_SLUGS)
      .optional()
      .describe('Products with quantities, instead of `productSlugs`.'),
  })
  .refine(({ productSlugs, items }) => (productSlugs === undefined) !== (items === undefined), {
    error: 'or items is required, but not both',
    path: ['productSlugs'],
  })
  .meta({ id: 'EntitlementCheck' });

export const entitlementPageSchema = z.strictObject({
  limit: z
    .string()
    .regex(/^([1-9]|[1-9]\d|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional()
    .describe('The maximum number to return, 1 to 500. Default: 100.'),
  cursor: text(255).optional().describe('The `nextCursor` of the previous page.'),
});

const kindField = z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.');

const limitsField = z
  .array(limitSchema)
  .describe('The declared limits, without the cap. Their usage is in the mode of the calling key.');

const entitlementCreditsSchema = namedObject('EntitlementCredits', {
  ...creditPriceAnswerSchema.shape,
  available: exactField(
    'Credits that a reservation of the product can hold now, in the mode of the calling key.',
  ),
});

export const entitlementSchema = z
  .object({
    productSlug: z.string(),
    productName: z.string(),
    kind: kindField,
    usageMetric: z
      .string()
      .nullable()
      .describe("The `metric` that this product's usage events must have; `null` if it has no usage."),
    unitCap: exactField('Units per calendar month; `null` is unlimited.').nullable(),
    used: exactField('Units used in the current month, in the mode of the calling key.'),
    remaining: exactField('`unitCap` minus `used`, never below 0; `null` without a cap.').nullable(),
    period: periodSchema,
    limits: limitsField,
    limitsPerSubject: z
      .array(declaredLimitSchema)
      .optional()
      .describe('The declared limits that hold for each subject separately. Present if there are any.'),
    credits: entitlementCreditsSchema
      .optional()
      .describe('What a unit costs, and what is available for it. Present if the product costs credits.'),
    features: featuresField,
    startsAt: timeField('Start of the entitlement, inclusive.'),
    endsAt: timeField('End of the entitlement, exclusive; `null` if it has no end.').nullable(),
  })
  .meta({
    id: 'Entitlement',
    description: 'An entitlement in effect, with the balance of the current month.',
  });

export const entitlementListSchema = namedObject('EntitlementList', {
  entitlements: z.array(entitlementSchema).describe('Ordered by `productSlug`.'),
  nextCursor: nextCursorField,
});

export const checkResultSchema = namedObject('EntitlementCheckResult', {
  productSlug: z.string(),
  allowed: z
    .boolean()
    .describe(
      'True for a live entitlement, even above its cap, unless a blocking limit or the credits leave no room.',
    ),
  reason: z
    .enum(['entitlement_required', 'entitlement_read_only', 'limit_reached', 'credits_exhausted'])
    .nullable()
    .describe('Why it is not allowed; `null` if it is.'),
  kind: kindField.nullable(),
  unitCap: exactField('Units per calendar month; `null` if unlimited or without an entitlement.').nullable(),
  used: exactField(
    'Units used in the current month, in the mode of the calling key; `null` without an entitlement.',
  ).nullable(),
  remaining: exactField('`unitCap` minus `used`, never below 0.').nullable(),
  overCap: z.boolean().describe('True if `used` is greater than `unitCap`.'),
  limits: limitsField,
  features: featuresField,
});

export const entitlementCheckAnswerSchema = z
  .object({ results: z.array(checkResultSchema).describe('One for each slug, in the order of the request.') })
  .meta({ id: 'EntitlementCheckAnswer' });
