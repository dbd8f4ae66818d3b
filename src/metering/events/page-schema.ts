import { z } from 'zod';
import { isUuid } from '../../core/http/request.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { dayField, text } from '../../core/http/validate.js';
import { MAX_VALUE_LENGTH } from '../entitlements/dimensions.js';

/** All fields are optional, and unknown fields are ignored. */

const years = 'of the years 2000 to 2099';

const month = z.string().regex(/^20\d\d-(0[1-9]|1[0-2])$/, `must be a month like 2026-01, ${years}`);
const hour = z.string().regex(/^([01]\d|2[0-3])$/, 'must be an hour from 00 to 23');
const minute = z
  .string()
  .refine((value) => /^20\d\d-/.test(value) && z.iso.datetime({ local: true }).safeParse(value).success, {
    error: `must be a time in UTC ${years}, like 2026-01-31T12:00`,
  })
  .transform((time) => (time.endsWith('Z') ? time : `${time}Z`));

export const modes = ['live', 'test'] as const;
export type Mode = (typeof modes)[number];
export const mode = z.enum(modes, 'must be live or test');

export const ranges = ['day', 'last7', 'last30', 'month', 'custom'] as const;
export type RangeKind = (typeof ranges)[number];

const key = z.string().refine(isUuid, "must be an API key's id");
export const amount = z.string().regex(/^\d{1,40}(\.\d{1,40})?$/, 'must be a number like 12 or 0.5');

const productQuery = { product: slugSchema.optional(), mode: mode.default('live') };

const range = z.enum(ranges, 'must be day, last7, last30, month or custom').default('month');

export const productsQuerySchema = z.object({ mode: productQuery.mode, range });

export const usageQuerySchema = z.object({
  ...productQuery,
  range,
  key: key.optional(),
  metric: text(255).optional(),
  by: text(64).optional(),
  subject: text(128).optional(),
  sum: z.literal('1', 'must be 1').optional(),
  measure: z.literal('credits', 'must be credits').optional(),
  event: text(255).optional(),
  cursor: z.string().optional(),
});

export const dimensionValue = text(MAX_VALUE_LENGTH);

export const rangeSchemas = {
  day: z.object({ date: dayField.optional(), hour: hour.optional() }),
  month: z.object({ month: month.optional() }),
  custom: z.object({ from: dayField, to: dayField }),
};

export const eventsQuerySchema = z.object({
  ...productQuery,
  idempotencyKey: text(255).optional(),
  from: minute.optional(),
  to: minute.optional(),
  key: key.optional(),
  subject: text(128).optional(),
  cursor: z.string().optional(),
});
