import { z } from 'zod';
import { idCursorField } from '../../core/http/page.js';
import { dayField, parseInput, text } from '../../core/http/validate.js';
import { requireDayOrder } from '../../core/pages/form.js';

/** Forms send empty fields as empty strings. */
const optional = <T extends z.ZodType<string>>(schema: T) =>
  z
    .union([z.literal(''), schema])
    .optional()
    .transform((value) => value || undefined);

const filterSchema = z.object({
  /** The slug of a customer, among the changes to all. */
  organization: optional(text(254)),
  action: optional(text(100)),
  actor: optional(text(100)),
  /** Found anywhere in the target or in a value of the details. */
  object: optional(text(100)),
  /** Days in UTC, both inclusive, such as `2026-01-31`. */
  from: optional(dayField),
  to: optional(dayField),
  cursor: idCursorField,
});

export type AuditFilter = Partial<Omit<z.output<typeof filterSchema>, 'cursor'>>;

export function readFilter(query: unknown) {
  const filter = parseInput(filterSchema, query);
  requireDayOrder(filter);
  return filter;
}
