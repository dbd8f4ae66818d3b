import { z } from 'zod';
import { text } from '../http/validate.js';

export const MAX_SLUGS = 50;

export const entitlementCheckSchema = z.strictObject({
  productSlugs: z.array(text(255)).min(1, 'must hold at least one slug').max(MAX_SLUGS),
});

export const entitlementPageSchema = z.strictObject({
  limit: z
    .string()
    .regex(/^([1-9]|[1-9]\d|[1-4]\d\d|500)$/, 'must be a whole number from 1 to 500')
    .optional(),
  cursor: text(255).optional(),
});
