import { z } from 'zod';
import { isUuid } from '../core/http/path-id.js';
import { slugSchema } from '../identity/operator/schema.js';
import { text } from '../core/http/validate.js';

/** The queries of the usage pages. Everything is optional, and what else an address carries is nobody's concern. */

const years = 'of the years 2000 to 2099';

const day = z.string().refine((value) => /^20\d\d-/.test(value) && z.iso.date().safeParse(value).success, {
  error: `must be a date like 2026-01-31, ${years}`,
});
const month = z.string().regex(/^20\d\d-(0[1-9]|1[0-2])$/, `must be a month like 2026-01, ${years}`);
const moment = z
  .string()
  .refine((value) => /^20\d\d-/.test(value) && z.iso.datetime({ local: true }).safeParse(value).success, {
    error: `must be a time in UTC like 2026-01-31T12:00, ${years}`,
  });

export const modes = ['live', 'test'] as const;
export type Mode = (typeof modes)[number];
export const mode = z.enum(modes, 'must be live or test');

export const ranges = ['day', 'month', 'custom'] as const;
export type RangeKind = (typeof ranges)[number];

export const productQuery = { product: slugSchema.optional(), mode: mode.optional() };

export const usageQuerySchema = z.object({
  ...productQuery,
  range: z.enum(ranges, 'must be day, month or custom').optional(),
  key: z.string().refine(isUuid, "must be an API key's id").optional(),
  metric: text(255).optional(),
});

/** What belongs to each range. The fields of the others are left alone. */
export const rangeSchemas = {
  day: z.object({ date: day.optional() }),
  month: z.object({ month: month.optional() }),
  custom: z.object({ from: day, to: day }),
};

export const eventsQuerySchema = z.object({
  ...productQuery,
  idempotencyKey: text(255).optional(),
  from: moment.optional(),
  to: moment.optional(),
  cursor: z.string().optional(),
});
