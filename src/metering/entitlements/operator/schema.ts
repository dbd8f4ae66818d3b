import { z } from 'zod';
import { exactField, idField, timeField } from '../../../core/http/fields.js';
import { nameField, text, timeInput } from '../../../core/http/validate.js';
import {
  declaredLimitSchema,
  defaultThresholds,
  limitsSchema,
  thresholdsField,
  thresholdsSchema,
} from '../limits.js';
import { entitlementKinds } from '../table.js';

const createdAt = timeField('When it was created.');
const updatedAt = timeField('When it was last changed.');

export const productSchema = z
  .strictObject({
    name: nameField.describe('For people.'),
    usageMetric: text(255).describe('The `metric` that usage events of the product must name.'),
    unitCap: z
      .number()
      .min(0, 'must be null or a finite number of at least 0')
      .nullable()
      .optional()
      .describe(
        'Units per Organization and calendar month in UTC, an exact decimal of up to 100 digits; `null` or left out: unlimited.',
      ),
    maxQuantity: z
      .number()
      .positive('must be a finite number above 0')
      .optional()
      .describe(
        'What one usage event may count at most, an exact decimal of up to 100 digits; left out: 1,000,000,000,000,000. An event above it is refused as `quantity_out_of_range`.',
      ),
    archived: z
      .boolean()
      .optional()
      .describe(
        'Whether entitlements to it are out of effect. Left out: as it was, and false for a new one.',
      ),
  })
  .meta({ id: 'ProductInput' });

export const productAnswerSchema = z
  .object({
    id: idField('The id of the product.'),
    slug: z.string(),
    name: z.string(),
    usageMetric: z.string(),
    unitCap: exactField('Units per Organization and calendar month in UTC; `null` is unlimited.').nullable(),
    maxQuantity: exactField('What one usage event may count at most.'),
    archivedAt: timeField('When it was archived; `null` if it is not.').nullable(),
    createdAt,
    updatedAt,
  })
  .meta({ id: 'Product' });

export const entitlementSchema = z
  .strictObject({
    kind: z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.'),
    startsAt: timeInput
      .optional()
      .describe(
        'Start of the entitlement, inclusive, in the years 1970 to 9999. If left out: now, or unchanged for an existing entitlement.',
      ),
    endsAt: timeInput
      .nullable()
      .optional()
      .describe('End of the entitlement, exclusive; later than the start. `null` or left out: no end.'),
    unitCap: z
      .number()
      .min(0, 'must be null or a finite number of at least 0')
      .nullable()
      .optional()
      .describe(
        'A cap for this Organization in place of that of the product: units per calendar month in UTC, an exact decimal of up to 100 digits; `null` is unlimited. Left out: the cap of the product.',
      ),
    limits: limitsSchema
      .optional()
      .describe(
        'Up to 8 limits beside the cap, in calendar or rolling windows. Left out: none. Events are recorded above them, with a warning; one that blocks stops checks and reservations.',
      ),
    thresholds: thresholdsSchema
      .optional()
      .describe(
        `Up to 10 shares of the cap and of each limit, whole percents from 1 to 1000, that the webhook \`usage.threshold_reached\` reports, once in each window. Left out: ${defaultThresholds.join(', ')}; an empty list: none.`,
      ),
  })
  .meta({ id: 'GrantInput' });

export const grantAnswerSchema = z
  .object({
    productSlug: z.string(),
    productName: z.string(),
    kind: z.enum(entitlementKinds),
    startsAt: timeField('From when it is in effect, inclusive.'),
    endsAt: timeField('Until when it is in effect, exclusive; `null` is without end.').nullable(),
    unitCap: exactField(
      'As it was declared for this Organization: units per calendar month in UTC; `null` is unlimited. Left out where none was declared.',
    )
      .nullable()
      .optional(),
    effectiveUnitCap: exactField(
      'The cap that applies: `unitCap` where it is there, else that of the product. `null` is unlimited.',
    ).nullable(),
    limits: z.array(declaredLimitSchema).describe('Beside the cap, as they were declared.'),
    thresholds: thresholdsField,
    createdAt,
    updatedAt,
  })
  .meta({
    id: 'Grant',
    description: 'An entitlement as it was declared, whether or not it is in effect now.',
  });
