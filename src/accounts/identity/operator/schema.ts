import { z } from 'zod';
import { idField, timeField } from '../../../core/http/fields.js';
import { nameField } from '../../../core/http/validate.js';
import { marketAccesses, roles } from '../../organizations/table.js';

const createdAt = timeField('When it was created.');

export const userAnswerSchema = z
  .object({ id: idField('The id of the User.'), email: z.string(), name: z.string(), createdAt })
  .meta({ id: 'User', description: 'A person who may sign in. The password is never shown.' });

export const memberAnswerSchema = z
  .object({
    userId: idField('The id of the User.'),
    email: z.string(),
    name: z.string(),
    role: z.enum(roles),
    createdAt: timeField('When the membership began.'),
  })
  .meta({ id: 'Member' });

const auditEntrySchema = z
  .object({
    id: idField('The id of the entry. Ids are in order of time.'),
    at: timeField('When it happened.'),
    action: z.string().describe('What happened, noun first: `product.created`.'),
    actor: z
      .string()
      .describe(
        'The actor: the id of a User, `operator` (`operator:` and a name where its token has one), `api_key:` and its id, `system`, or `unknown`.',
      ),
    target: z.string().describe('The target: an id, a slug or an address.'),
    details: z
      .record(z.string(), z.unknown())
      .describe('What is specific to the action; `before` and `after` hold the fields that changed.'),
    ip: z.string().nullable().describe('The address the request came from.'),
    requestId: z.string().nullable().describe('The `X-Request-Id` of the request.'),
  })
  .meta({ id: 'AuditEntry' });

export const chainedAuditEntrySchema = auditEntrySchema
  .extend({
    seq: z
      .int()
      .min(1)
      .nullable()
      .describe('1, 2, 3 … within the log; `null` for entries from before they were chained.'),
    hash: z
      .string()
      .regex(/^[\da-f]{64}$/)
      .nullable()
      .describe(
        'SHA-256 of the entry and of the hash before it. Kept elsewhere, it proves the log up to here.',
      ),
  })
  .meta({ id: 'ChainedAuditEntry' });

/** Names products and Organizations in addresses; never changes. */
export const slugSchema = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    'must be 1 to 64 of a-z and 0-9, with -, _ or . inside only',
  );

/** The caller trims and lower-cases the address first. */
export const emailSchema = z.email('must be an e-mail address').max(254, 'must have at most 254 characters');

export const organizationSchema = z
  .strictObject({
    name: nameField.describe('For people.'),
    requireSecondFactor: z
      .boolean()
      .optional()
      .describe(
        'Whether members need a second factor for everything in the Organization. Left out: as it was, and false for a new one.',
      ),
    archived: z
      .boolean()
      .optional()
      .describe(
        'Whether its API keys and its pages are closed. Left out: as it was, and false for a new one.',
      ),
    marketAccess: z
      .enum(marketAccesses)
      .optional()
      .describe(
        'What it may do with markets: `none` of it, `read` them and close what it holds, or `trade`. Left out: as it was, and `trade` for a new one. Without effect where the service has no markets.',
      ),
  })
  .meta({ id: 'OrganizationInput' });

const passwordPattern = '^[^\\p{Cc}\\p{Cs}]{12,256}$';

export const userSchema = z
  .strictObject({
    name: nameField.describe('For people.'),
    password: z
      .string()
      .regex(new RegExp(passwordPattern, 'u'), 'must be 12 to 256 characters without control characters')
      .meta({
        pattern: passwordPattern,
        minLength: 12,
        maxLength: 256,
        description:
          'Not one that is easy to guess, unless it is the current one. Only its argon2id hash is kept. A new password ends every session of the User.',
      }),
  })
  .meta({ id: 'UserInput' });

export const memberSchema = z
  .strictObject({
    role: z.enum(roles).describe('`owner` and `admin` change keys; `member` and `billing` read.'),
  })
  .meta({ id: 'MemberInput' });
