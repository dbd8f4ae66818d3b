import { z } from 'zod';
import { scopes } from '../auth/key-reader.js';
import { idField, timeField } from '../http/fields.js';

/** A key as people and clients see it: never its secret, nor the hash of it. */
export const apiKeySchema = z
  .object({
    id: idField('Names the key within its Organization.'),
    name: z.string().describe('Chosen by whoever made it, after the runtime that holds it.'),
    prefix: z.string().length(12).describe('The first 12 characters of the secret.'),
    scopes: z.array(z.enum(scopes)).min(1),
    livemode: z.boolean().describe('True for a live key, false for a test key.'),
    state: z
      .enum(['active', 'grace', 'expired', 'revoked'])
      .describe('`active` and `grace` keys work. `grace`: rotated, and valid until `expiresAt`.'),
    lastUsedAt: timeField('The last use, up to a minute late; `null` if it was never used.').nullable(),
    expiresAt: timeField('Stops working then; `null` is without end.').nullable(),
    revokedAt: timeField('`null` if it was not revoked.').nullable(),
    createdAt: timeField(''),
    createdBy: idField(
      'The User who made it; `null` if that was no person, or the person is gone.',
    ).nullable(),
    rotatedFromId: idField('The key that this one replaces; `null` if none.').nullable(),
  })
  .meta({ id: 'ApiKey', description: 'An API key without its secret.' });

export const ownKeySchema = z
  .object({
    apiKey: apiKeySchema,
    organization: z
      .object({ id: idField(''), slug: z.string(), name: z.string() })
      .meta({ id: 'Organization' }),
  })
  .meta({ id: 'OwnApiKey' });
