import { z } from 'zod';
import { AppError } from '../core/errors.js';
import { parseInput, text } from '../core/http/validate.js';

/** Which rows of an Organization's log are looked at. */
export interface AuditFilter {
  action?: string | undefined;
  actor?: string | undefined;
  /** Days in UTC, both inclusive: `2026-01-31`. */
  from?: string | undefined;
  to?: string | undefined;
}

/** Fields that are left empty are sent as empty texts by a form. */
const optional = <T extends z.ZodType>(schema: T) => z.union([z.literal(''), schema]).optional();
const day = z.iso.date('must be a day, like 2026-01-31');

const filterSchema = z.object({
  action: optional(text(100)),
  actor: optional(text(100)),
  from: optional(day),
  to: optional(day),
  cursor: z
    .string()
    .regex(/^[\w-]{22}$/, 'is not one that this list gave out')
    .optional(),
});

/**
 * Reads the filter, and where the page begins, from an address.
 * @throws AppError invalid_request that names the fields
 */
export function readFilter(query: unknown): AuditFilter & { cursor: string | undefined } {
  const { action, actor, from, to, cursor } = parseInput(filterSchema, query);
  if (from && to && to < from) {
    const detail = 'must not be before the first day';
    const place = { pointer: '/to', code: 'invalid_request' as const, detail };
    throw new AppError('invalid_request', `/to ${detail}`, { errors: [place] });
  }
  return {
    action: action || undefined,
    actor: actor || undefined,
    from: from || undefined,
    to: to || undefined,
    cursor,
  };
}
