import { z } from 'zod';
import { entitlementKinds } from '../../entitlements/table.js';
import { text, timeInput } from '../../core/http/validate.js';
import { roles } from '../../organizations/table.js';

/** Names products and Organizations in addresses; never changes. */
export const slugSchema = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    'must be 1 to 64 of a-z and 0-9, with -, _ or . inside only',
  );

/** Trimmed and lower-cased before it is checked. */
export const emailSchema = z.email('must be an e-mail address').max(254, 'must have at most 254 characters');

export const productSchema = z
  .strictObject({
    name: text(200).describe('For people.'),
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
  })
  .meta({ id: 'ProductInput' });

export const organizationSchema = z
  .strictObject({
    name: text(200).describe('For people.'),
    requireSecondFactor: z
      .boolean()
      .optional()
      .describe(
        'Whether members need a second factor for everything in the Organization. Left out: as it was, and false for a new one.',
      ),
  })
  .meta({ id: 'OrganizationInput' });

const passwordPattern = '^[^\\p{Cc}\\p{Cs}]{12,256}$';

export const userSchema = z
  .strictObject({
    name: text(200).describe('For people.'),
    password: z
      .string()
      .regex(new RegExp(passwordPattern, 'u'), 'must be 12 to 256 characters without control characters')
      .meta({
        pattern: passwordPattern,
        minLength: 12,
        maxLength: 256,
        description:
          'Not one that is easy to guess, unless it is the present one. Only its argon2id hash is kept. One that differs from the present one ends every session of the User.',
      }),
  })
  .meta({ id: 'UserInput' });

export const memberSchema = z
  .strictObject({
    role: z.enum(roles).describe('`owner` and `admin` change keys; `member` and `billing` read.'),
  })
  .meta({ id: 'MemberInput' });

export const entitlementSchema = z
  .strictObject({
    kind: z.enum(entitlementKinds).describe('`live` allows use, `read_only` does not.'),
    startsAt: timeInput
      .optional()
      .describe(
        'In effect from then, inclusive, in the years 1970 to 9999. Left out: from now, or for an entitlement that exists, as it was.',
      ),
    endsAt: timeInput
      .nullable()
      .optional()
      .describe('In effect until then, exclusive; later than the start. `null` or left out: without end.'),
  })
  .meta({ id: 'GrantInput' });
