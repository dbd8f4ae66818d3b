import { z } from 'zod';
import {
  exactField,
  flagInput,
  idField,
  namedObject,
  nextCursorField,
  signedField,
  timeField,
} from '../../core/http/fields.js';
import { pageSchema } from '../../core/http/page.js';
import { text, timeInput, withoutRepeats } from '../../core/http/validate.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { creditEntryKinds } from '../credits/table.js';
import { grantStatuses, MAX_CLOSED } from './credits.js';

const MAX_PRODUCTS = 100;

export const grantKeySchema = text(128);

const reason = text(200).describe('The reason, kept with the grant and in the audit log.');
const livemode = z
  .boolean()
  .default(true)
  .describe('Whether the credits are for live usage. Live and test credits are separate. Default: `true`.');

const latest = Date.UTC(9998, 0);

export const grantSchema = z
  .strictObject({
    amount: z
      .number()
      .positive('must be a finite number above 0')
      .describe('Credits, an exact decimal of up to 12 places and 100 digits.'),
    priority: z
      .int()
      .min(0)
      .max(100)
      .optional()
      .describe('Grants with the lowest priority burn first, 0 to 100. Default: 50.'),
    startsAt: timeInput.optional().describe('Inclusive; not in the past. Default: now.'),
    expiresAt: timeInput
      .refine((time) => Date.parse(time) < latest, 'must be before the year 9998')
      .nullish()
      .describe('Exclusive; rounded up to a whole hour. Default: `null`, never.'),
    productSlugs: withoutRepeats(z.array(slugSchema).min(1).max(MAX_PRODUCTS), 'product')
      .nullish()
      .describe('The products that it pays for. Default: `null`, all.'),
    rollover: z
      .strictObject({
        percent: z
          .int()
          .min(1)
          .max(100)
          .describe('The percentage of the remaining credits that rolls over, 1 to 100.'),
        for: z
          .string()
          .regex(/^P([1-9]|[1-9]\d|[12]\d\d|3[0-5]\d|36[0-6])D$/, 'must be a duration from P1D to P366D')
          .describe('For how many days after `expiresAt`, `P1D` to `P366D`.'),
      })
      .nullish()
      .describe(
        'Rolls over a part of the remaining credits at `expiresAt`, once. Needs `expiresAt`. Default: `null`, all of them expire.',
      ),
    livemode,
    reason,
  })
  .refine(({ rollover, expiresAt }) => rollover == null || expiresAt != null, {
    path: ['rollover'],
    error: 'needs expiresAt',
  })
  .meta({ id: 'CreditGrantInput' });

export const creditReasonSchema = z.strictObject({ reason, livemode }).meta({ id: 'CreditReason' });

const creditGrantSchema = namedObject('CreditGrant', {
  id: idField('The id of the grant.'),
  grantKey: z.string(),
  amount: exactField('Credits that were granted.'),
  priority: z.int().min(0).max(100).describe('Grants with the lowest priority burn first.'),
  startsAt: timeField('Inclusive.'),
  expiresAt: timeField('Exclusive, a whole hour; `null` for never.').nullable(),
  productSlugs: z.array(z.string()).nullable().describe('The products that it pays for; `null` for all.'),
  rollover: z
    .object({ percent: z.int(), for: z.string() })
    .nullable()
    .describe('The percentage of the remaining credits that rolls over at `expiresAt`, and for how long.'),
  livemode: z.boolean(),
  reason: z.string(),
  createdAt: timeField('When it was made.'),
  voidedAt: timeField('When it was voided; `null` if it was not.').nullable(),
  voidReason: z.string().nullable(),
  burned: exactField('Credits that usage has burned, less what corrections gave back.'),
  remaining: exactField('Credits that it can still pay; 0 once it is closed.'),
  status: z.enum(grantStatuses).describe('The state now. It begins, rolls over and expires by itself.'),
});

export const grantAnswerSchema = z.object({ grant: creditGrantSchema }).meta({ id: 'CreditGrantAnswer' });

export const creditsSchema = namedObject('Credits', {
  balance: signedField('What open grants have left, less the overdrafts. It can be negative.'),
  held: exactField('Credits that open reservations hold. They are still part of the balance.'),
  overdrafts: z
    .array(
      z
        .object({ productSlug: z.string(), quantity: exactField('Credits that no grant covered.') })
        .meta({ id: 'CreditOverdraft' }),
    )
    .describe('Ordered by `productSlug`.'),
  grants: z
    .array(creditGrantSchema)
    .describe(
      `All open and scheduled grants in the order in which they burn, then the ${MAX_CLOSED} newest that are closed.`,
    ),
});

export const forgivenSchema = namedObject('ForgivenOverdraft', {
  productSlug: z.string(),
  forgiven: exactField('The overdraft that was forgiven; 0 if there was none.'),
});

/** An API key implies its own mode. */
export const customerQuerySchema = z.strictObject({
  livemode: flagInput.default('true').describe('`true`: live credits; `false`: test credits.'),
});

export const entriesQuerySchema = pageSchema
  .extend({
    productSlug: slugSchema.optional().describe('Only entries about this product.'),
    grantKey: grantKeySchema.optional().describe('Only entries about this grant.'),
    kind: z.enum(creditEntryKinds).optional().describe('Only entries of this kind.'),
    from: timeInput.optional().describe('Only entries with an `at` from this time on.'),
    to: timeInput.optional().describe('Only entries with an `at` before this time.'),
  })
  .strict();

export const customerEntriesQuerySchema = entriesQuerySchema.extend(customerQuerySchema.shape);

export const entriesSchema = namedObject('CreditEntries', {
  entries: z
    .array(
      namedObject('CreditEntry', {
        at: timeField(
          'When the events were received (for a `return`, the corrected events), or the change was made.',
        ),
        hour: timeField('The hour of the usage, or the end of the grant.'),
        kind: z
          .enum(creditEntryKinds)
          .describe(
            '`burn`: usage burned credits. `return`: a correction gave them back. `expire`: they were left at the end of a grant. `roll`: they rolled over at its end. `void`: they were forfeited. `repay`: a grant paid an overdraft. `forgive`: the operator forgave an overdraft.',
          ),
        productSlug: z.string().nullable().describe('`null` for `expire`, `roll` and `void`.'),
        grantKey: z
          .string()
          .nullable()
          .describe('`null` for `forgive`, and for usage that no grant covered: it is an overdraft.'),
        amount: signedField('Credits. `repay` and `forgive` are negative where a correction undid them.'),
      }),
    )
    .describe('Newest first. With `grantKey` or `kind`, a page can be short or empty before the last.'),
  nextCursor: nextCursorField,
});
