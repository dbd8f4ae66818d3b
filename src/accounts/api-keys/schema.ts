import { z } from 'zod';
import { idField, namedObject, nextCursorField, timeField } from '../../core/http/fields.js';
import { text, timeInput, withoutRepeats } from '../../core/http/validate.js';
import { organizationFields } from '../identity/organizations/schema.js';
import { scopes } from './scopes.js';

export const MAX_BODY_BYTES = 16 * 1024;

const name = text(100)
  .refine((name) => !/^\s+$/.test(name), 'must not be blank')
  .describe('Named after the runtime that holds the key, not after a person.');

/** Forms send other fields too. */
export const renameApiKeySchema = z.object({ name });

export const createApiKeySchema = z
  .strictObject({
    name,
    livemode: z.boolean().describe('True for a live key, false for a test key.'),
    scopes: withoutRepeats(z.array(z.enum(scopes)).min(1, 'must have at least one scope'), 'scope')
      .optional()
      .describe(
        'What the key may do, for its whole life. Default: `["usage:write"]`. Each scope once; trading scopes only within the Organization\'s access to markets.',
      ),
    expiresAt: timeInput
      .nullish()
      .describe(
        'In the future and before the year 10000, RFC 3339 with an offset. Default: `null`, the key never expires.',
      ),
  })
  .meta({ id: 'ApiKeyInput' });

export const DEFAULT_GRACE_MINUTES = 60;

export const rotateApiKeySchema = z
  .strictObject({
    graceMinutes: z
      .int()
      .min(0)
      .max(10_080)
      .optional()
      .describe('How long the old key stays valid, in minutes: 0 to 10080 (a week). Default: 60.'),
  })
  .meta({ id: 'Rotation' });

export const listApiKeysSchema = z.object({
  limit: z
    .string()
    .regex(/^([1-9]\d?|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional()
    .describe('The maximum number to return, 1 to 500. Default: 100.'),
  cursor: z
    .string()
    .regex(/^[\w-]{22}$/, 'must be a nextCursor from an earlier response')
    .optional()
    .describe('The `nextCursor` of the previous page.'),
});

export const apiKeySchema = z
  .object({
    id: idField('Unique within the Organization.'),
    name: z.string().describe('A label chosen by its creator, named after the runtime that holds it.'),
    prefix: z.string().length(12).describe('The first 12 characters of the secret.'),
    scopes: z.array(z.enum(scopes)).min(1),
    livemode: z.boolean().describe('True for a live key, false for a test key.'),
    state: z
      .enum(['active', 'grace', 'expired', 'revoked'])
      .describe('`active` and `grace` keys work. `grace`: rotated, valid until `expiresAt`.'),
    lastUsedAt: timeField('The last use, up to a minute late; `null` if it was never used.').nullable(),
    expiresAt: timeField('When it stops working; `null`: never.').nullable(),
    revokedAt: timeField('`null` if it was not revoked.').nullable(),
    createdAt: timeField('When it was created.'),
    createdBy: idField(
      'The User who created it; `null` if no person did, or if the User was removed.',
    ).nullable(),
    rotatedFromId: idField('The key that this one replaces; `null` if none.').nullable(),
  })
  .meta({ id: 'ApiKey', description: 'An API key without its secret.' });

export const ownKeySchema = namedObject('OwnApiKey', {
  apiKey: apiKeySchema,
  organization: z.object(organizationFields),
});

const secretField = z
  .string()
  .regex(/^org_(live|test)_[0-9A-Za-z]{32}$/)
  .describe('The secret of the new key. It is shown only here: store it now.');

export const apiKeyListSchema = namedObject('ApiKeyList', {
  apiKeys: z.array(apiKeySchema).describe('Newest first.'),
  nextCursor: nextCursorField,
});

export const apiKeyAnswerSchema = z.object({ apiKey: apiKeySchema }).meta({ id: 'ApiKeyAnswer' });

export const newApiKeySchema = z
  .object({ apiKey: apiKeySchema, secret: secretField })
  .meta({ id: 'NewApiKey' });

export const rotatedApiKeySchema = z
  .object({
    apiKey: apiKeySchema,
    secret: secretField,
    previous: apiKeySchema,
  })
  .meta({ id: 'RotatedApiKey', description: '`previous` is the old key, now in its grace period.' });
