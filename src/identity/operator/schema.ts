import { z } from 'zod';
import { text } from '../../core/http/validate.js';
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

/** The query of every list. */
export const pageSchema = z.object({
  limit: z.coerce
    .number('must be a whole number')
    .int('must be a whole number')
    .min(1)
    .max(500)
    .default(100)
    .describe('How many at most, 1 to 500.'),
  cursor: z
    .string()
    .regex(/^[\w-]{1,400}$/, 'is not one that a list gave out')
    .optional()
    .describe('The `nextCursor` of the page before.'),
});
