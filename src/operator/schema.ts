import { z } from 'zod';
import { entitlementKinds } from '../entitlements/table.js';
import { text } from '../http/validate.js';
import { roles } from '../organizations/table.js';

/** Names products and Organizations in addresses; never changes. */
export const slugSchema = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    'must be 1 to 64 of a-z and 0-9, with -, _ or . inside only',
  );

/** Trimmed and lower-cased before it is checked. */
export const emailSchema = z.email('must be an e-mail address').max(254, 'must have at most 254 characters');

export const productSchema = z.strictObject({
  name: text(200),
  usageMetric: text(255),
  unitCap: z.number().min(0, 'must be null or a finite number of at least 0').nullable().optional(),
});

export const organizationSchema = z.strictObject({ name: text(200) });

export const userSchema = z.strictObject({
  name: text(200),
  password: z
    .string()
    .regex(/^[^\p{Cc}\p{Cs}]{12,256}$/u, 'must be 12 to 256 characters without control characters'),
});

export const memberSchema = z.strictObject({ role: z.enum(roles) });

/** Years beyond these cannot be written as RFC 3339 in UTC, or cannot be meant. */
const earliest = Date.parse('1970-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

const time = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z' })
  .refine((value) => {
    const ms = Date.parse(value);
    return ms >= earliest && ms <= latest;
  }, 'must lie in the years 1970 to 9999');

export const entitlementSchema = z.strictObject({
  kind: z.enum(entitlementKinds),
  startsAt: time.optional(),
  endsAt: time.nullable().optional(),
});

/** The query of every list. */
export const pageSchema = z.object({
  limit: z.coerce.number('must be a whole number').int('must be a whole number').min(1).max(500).default(100),
  cursor: z
    .string()
    .regex(/^[\w-]{1,400}$/, 'is not one that a list gave out')
    .optional(),
});
