import { z } from 'zod';
import { scopes } from '../auth/key-reader.js';
import { text } from '../http/validate.js';

export const createApiKeySchema = z.strictObject({
  /** Named after the runtime that holds the key, not after a person. */
  name: text(100).refine((name) => name === '' || name.trim() !== '', 'must not be blank'),
  livemode: z.boolean(),
  scopes: z
    .array(z.enum(scopes))
    .min(1, 'must name at least one scope')
    .refine((list) => new Set(list).size === list.length, 'must not name a scope twice')
    .optional(),
  expiresAt: z.iso
    .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset, like 2030-01-31T12:00:00Z' })
    .nullable()
    .optional(),
});

export const rotateApiKeySchema = z.strictObject({
  /** How long the old key stays valid: at most a week. */
  graceMinutes: z.int().min(0).max(10_080).optional(),
});

export const listApiKeysSchema = z.object({
  limit: z
    .string()
    .regex(/^([1-9]\d?|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional(),
  cursor: z
    .string()
    .regex(/^[\w-]{22}$/, 'must be a nextCursor of an earlier answer')
    .optional(),
});
