import { z } from 'zod';
import { text } from '../http/validate.js';

export const MAX_EVENTS = 500;

/** One usage event as it is sent. Plain types, no transforms: this runs for each of up to 500 events. */
export const usageEventSchema = z.strictObject({
  productSlug: text(255),
  metric: text(255),
  quantity: z.number().min(0, 'must be a finite number of at least 0').optional(),
  occurredAt: z.iso
    .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z' })
    .optional(),
  idempotencyKey: text(255),
});

export type UsageEvent = z.infer<typeof usageEventSchema>;

export const usageBatchSchema = z.strictObject({
  events: z.array(usageEventSchema).min(1, 'must hold at least one event').max(MAX_EVENTS),
});
