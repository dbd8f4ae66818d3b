import { z } from 'zod';
import { exactField, idField, namedInput, namedObject, timeField } from '../../../core/http/fields.js';
import { nameField, text, timeInput, withoutRepeats } from '../../../core/http/validate.js';
import {
  declaredLimitSchema,
  defaultThresholds,
  limitsSchema,
  thresholdsField,
  thresholdsSchema,
} from '../limits.js';
import { entitlementKinds } from '../table.js';
import { featureOverridesSchema, featuresField, featuresSchema } from '../features.js';
import { MAX_DIMENSIONS } from '../dimensions.js';
import { creditPriceAnswerSchema, creditPriceSchema } from '../price.js';

const featuresText =
  'up to 32 names of a-z, 0-9 and _, with values that are true or false, numbers, texts of up to 256 characters or lists of up to 32 such texts; at most 4 KB.';

/** In `groupBy`, these are not names of dimensions. */
const reservedKeys = new Set(['subject', 'apiKey']);

export const dimensionKeysSchema = withoutRepeats(
  z
    .array(
      z
        .string()
        .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'must be a name like model')
        .refine((key) => !reservedKeys.has(key), 'is a reserved name'),
    )
    .max(MAX_DIMENSIONS, `must have at most ${MAX_DIMENSIONS} dimensions`),
  'dimension',
);

const capInput = z.number().min(0, 'must be null or a finite number of at least 0').nullish();

const createdAt = timeField('When it was created.');
const updatedAt = timeField('When it was last changed.');

export const productSchema = namedInput('ProductInput', {
  name: nameField.describe('For people.'),
  usageMetric: text(255)
    .nullable()
    .describe(
      "The `metric` that the product's usage events must have. `null`: the product has features and no usage, and events for it are refused as `unknown_metric`.",
    ),
  unitCap: capInput.describe(
    'Units per Organization and calendar month in UTC, an exact decimal of up to 100 digits. Default: `null`, unlimited.',
  ),
  maxQuantity: z
    .number()
    .positive('must be a finite number above 0')
    .optional()
    .describe(
      'The maximum quantity of one usage event, an exact decimal of up to 100 digits. Default: 1,000,000,000,000,000. An event above it is refused as `quantity_out_of_range`.',
    ),
  dimensions: dimensionKeysSchema
    .optional()
    .describe(
      'Names of the dimensions that events may have, like `["model", "region"]`. Names can be added at the end, never renamed, moved or removed. Default: unchanged, or none for a new product.',
    ),
  countsSubjects: z
    .boolean()
    .optional()
    .describe(
      'Whether usage is also counted for each `subject`. It cannot be turned off. For an existing product it starts with the events received a minute after the change. Default: unchanged, or false for a new product.',
    ),
  archived: z
    .boolean()
    .optional()
    .describe(
      'While true, no entitlement to the product is in effect. Default: unchanged, or false for a new product.',
    ),
  stripeMeterEvent: text(100)
    .nullish()
    .describe(
      'Event name of the Stripe meter that counts its usage, from the beginning of the hour in which it is first set. The meter must add up values (`sum`). `null`: no usage is sent to Stripe. Default: unchanged, or `null` for a new product.',
    ),
  credits: creditPriceSchema
    .nullish()
    .describe(
      'What its usage costs in credits from now on. What was recorded keeps its price. `null`: no credits. Default: unchanged, or `null` for a new product.',
    ),
  features: featuresSchema
    .optional()
    .describe(
      `What its entitlements have, unless they replace it by name: ${featuresText} Default: unchanged, or none for a new product.`,
    ),
});

export const productAnswerSchema = namedObject('Product', {
  id: idField('The id of the product.'),
  slug: z.string(),
  name: z.string(),
  usageMetric: z.string().nullable().describe('`null` if the product has no usage.'),
  unitCap: exactField('Units per Organization and calendar month in UTC; `null` is unlimited.').nullable(),
  maxQuantity: exactField('The maximum quantity of one usage event.'),
  dimensions: z.array(z.string()).describe('Names of the dimensions that events may have.'),
  countsSubjects: z.boolean().describe('Whether usage is also counted for each `subject`.'),
  archivedAt: timeField('When it was archived; `null` if it is not.').nullable(),
  stripeMeterEvent: z
    .string()
    .nullable()
    .describe('Event name of its Stripe meter; `null`: no usage is sent to Stripe.'),
  stripeSince: timeField('First hour whose usage is sent to Stripe; `null` without a meter.').nullable(),
  credits: creditPriceAnswerSchema
    .nullable()
    .describe('What its usage costs in credits; `null`: no credits.'),
  features: featuresField.describe('The features of its entitlements; `{}` without any.'),
  createdAt,
  updatedAt,
});

export const entitlementSchema = namedInput('GrantInput', {
  kind: z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.'),
  startsAt: timeInput
    .optional()
    .describe(
      'Start of the entitlement, inclusive, in the years 1970 to 9999. Default: now, or unchanged for an existing entitlement.',
    ),
  endsAt: timeInput
    .nullish()
    .describe('End of the entitlement, exclusive; later than the start. Default: `null`, no end.'),
  unitCap: capInput.describe(
    "A cap for this Organization instead of the product's: units per calendar month in UTC, an exact decimal of up to 100 digits; `null` is unlimited. Default: the product's cap.",
  ),
  limits: limitsSchema
    .optional()
    .describe(
      'Up to 8 limits in addition to the cap, in calendar or rolling windows. Default: none. Events above a limit are recorded with a warning; a blocking limit refuses checks and reservations.',
    ),
  thresholds: thresholdsSchema
    .optional()
    .describe(
      `Up to 10 percentages of the cap and of each limit, whole numbers from 1 to 1000. The webhook \`usage.threshold_reached\` reports each once per window. Default: ${defaultThresholds.join(', ')}. An empty list: none.`,
    ),
  features: featureOverridesSchema
    .optional()
    .describe(
      `Replace the features of the product by name; \`null\` removes one. ${featuresText} Default: those of the product.`,
    ),
});

export const grantAnswerSchema = z
  .object({
    productSlug: z.string(),
    productName: z.string(),
    kind: z.enum(entitlementKinds),
    startsAt: timeField('Start of the entitlement, inclusive.'),
    endsAt: timeField('End of the entitlement, exclusive; `null` if it has no end.').nullable(),
    unitCap: exactField(
      'The cap declared for this Organization: units per calendar month in UTC; `null` is unlimited. Absent if none was declared.',
    ).nullish(),
    effectiveUnitCap: exactField(
      "The effective cap: `unitCap` if present, otherwise the product's. `null` is unlimited.",
    ).nullable(),
    limits: z.array(declaredLimitSchema).describe('The declared limits, without the cap.'),
    thresholds: thresholdsField,
    features: featuresField,
    featureOverrides: featureOverridesSchema
      .optional()
      .describe('The `features` declared for this Organization; `null` removes one. Absent if none were.'),
    plan: z
      .string()
      .nullable()
      .describe('The slug of the plan that set the terms; `null` if they were set by hand.'),
    createdAt,
    updatedAt,
  })
  .meta({ id: 'Grant', description: 'A declared entitlement, in effect or not.' });
