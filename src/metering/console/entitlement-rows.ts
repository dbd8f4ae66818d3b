import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { decimalField } from '../../core/http/validate.js';
import { textField, type FormFields } from '../../core/pages/form.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import {
  durationMs,
  longestMs,
  MAX_LIMITS,
  MAX_THRESHOLDS,
  shortestMs,
  shortestPerSubjectMs,
} from '../entitlements/limits.js';
import { enforcements, type UsageLimit } from '../entitlements/table.js';

/** Fields `limit1Quantity`, `limit1Window`, `limit1Length`, `limit1Enforcement` and `limit1Per`. */
const parts = ['Quantity', 'Window', 'Length', 'Enforcement', 'Per'] as const;
type LimitRow = Partial<Record<(typeof parts)[number], string>>;

const units = {
  days: { ms: DAY_MS, write: (length: number) => `P${length}D` },
  hours: { ms: HOUR_MS, write: (length: number) => `PT${length}H` },
  minutes: { ms: MINUTE_MS, write: (length: number) => `PT${length}M` },
  seconds: { ms: SECOND_MS, write: (length: number) => `PT${length}S` },
};
type Unit = keyof typeof units;
const unitNames = Object.keys(units) as Unit[];
const isUnit = (window: string): window is Unit => window in units;

export const windowOptions = [
  { value: 'calendar_month', label: 'Calendar month (UTC)' },
  { value: 'calendar_week', label: 'Calendar week (UTC)' },
  { value: 'calendar_day', label: 'Calendar day (UTC)' },
  ...unitNames.map((unit) => ({ value: unit, label: `Last … ${unit}` })),
];
export const perOptions = [
  { value: 'customer', label: 'All usage' },
  { value: 'subject', label: 'Each subject' },
];
export const rollingWindows = unitNames.join(' ');

const rowNumbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
const limitName = (n: number, part: string): string => `limit${n}${part}`;

/** A row may lack some of its fields. */
const limitNumbers = (fields: FormFields): number[] =>
  rowNumbers(MAX_LIMITS).filter((n) => parts.some((part) => limitName(n, part) in fields));

/** Messages use the labels. */
export function toRowsView(fields: FormFields) {
  const limits = limitNumbers(fields);
  const labels = limits.flatMap((n) =>
    parts.map((part) => [limitName(n, part), `Limit ${n}, ${part.toLowerCase()}`] as const),
  );
  return { limits, labels: Object.fromEntries(labels), hasRoomForLimit: limits.length < MAX_LIMITS };
}

const option = 'must be one of the options';
const partSchemas = {
  Quantity: decimalField,
  Window: z.enum(
    windowOptions.map(({ value }) => value),
    option,
  ),
  Length: z
    .string()
    .trim()
    .regex(/^[1-9]\d{0,7}$/, 'must be a whole number above 0, like 5')
    .optional(),
  Enforcement: z.enum(enforcements, option),
  Per: z.enum(['customer', 'subject'], option).default('customer'),
};

const thresholdsMessage = `must be at most ${MAX_THRESHOLDS} whole numbers from 1 to 1000, like 50, 80, 100`;
/** Percentages, in any order. */
export const thresholdsSchema = z
  .string()
  .default('')
  .transform((typed) => typed.split(/[\s,%]+/).filter((one) => one !== ''))
  .refine(
    (list) => list.length <= MAX_THRESHOLDS && list.every((one) => /^(?:[1-9]\d{0,2}|1000)$/.test(one)),
    thresholdsMessage,
  )
  .transform((list) => list.map(Number).toSorted((a, b) => a - b))
  .refine((list) => new Set(list).size === list.length, 'must not repeat a percentage');

export function rowSchemas(fields: FormFields): Record<string, z.ZodType> {
  const limits = limitNumbers(fields).flatMap((n) =>
    parts.map((part) => [limitName(n, part), partSchemas[part]]),
  );
  return Object.fromEntries(limits) as Record<string, z.ZodType>;
}

/**
 * For rows that have passed their schemas.
 * @param current an unchanged window keeps its text, such as `P1DT12H`
 */
export function readLimits(values: Record<string, unknown>, current: readonly UsageLimit[]): UsageLimit[] {
  const mistakes: [name: string, detail: string][] = [];
  const limits = limitNumbers(values as FormFields).map((n): UsageLimit => {
    const read = (part: string) => values[limitName(n, part)] as string | undefined;
    const { window, mistake } = readWindow(read('Window')!, read('Length'), current);
    if (mistake !== undefined) mistakes.push([limitName(n, 'Length'), mistake]);
    const quantity = toPlainDecimal(read('Quantity')!, 0);
    const per = read('Per') === 'subject' ? ('subject' as const) : undefined;
    if (per && (durationMs(window) ?? Infinity) < shortestPerSubjectMs)
      mistakes.push([limitName(n, 'Length'), 'must be at least 1 hour for a limit per subject']);
    const enforcement = read('Enforcement') as UsageLimit['enforcement'];
    return { quantity, window, enforcement, ...(per ? { per } : {}) };
  });
  if (mistakes.length > 0) throw refuse(mistakes);
  return limits;
}

function readWindow(
  window: string,
  length: string | undefined,
  current: readonly UsageLimit[],
): { window: string; mistake?: string } {
  if (!isUnit(window)) {
    if (length === undefined) return { window };
    const mistake =
      'is filled in, but a calendar window is selected: choose “Last … hours”, or clear this field';
    return { window, mistake };
  }
  if (length === undefined) return { window, mistake: `is required for a window of the last … ${window}` };
  const { ms, write } = units[window];
  const lengthMs = Number(length) * ms;
  if (lengthMs < shortestMs || lengthMs > longestMs)
    return { window, mistake: 'must be from 1 minute to 31 days' };
  const unchanged = current.find((limit) => durationMs(limit.window) === lengthMs);
  return { window: unchanged?.window ?? write(Number(length)) };
}

function refuse(mistakes: [name: string, detail: string][]): AppError {
  const errors = mistakes.map(([name, detail]) => ({
    pointer: `/${name}`,
    code: 'invalid_request' as const,
    detail,
  }));
  return new AppError('invalid_request', mistakes[0]!.join(' '), { errors });
}

export const toRowFields = (limits: readonly UsageLimit[]): FormFields =>
  writeRows(
    limits.map(({ quantity, window, enforcement, per }) => ({
      Quantity: quantity,
      Enforcement: enforcement,
      Per: per ?? 'customer',
      ...splitWindow(window),
    })),
  );

/** The largest unit that divides the duration. */
function splitWindow(window: string): Pick<LimitRow, 'Window' | 'Length'> {
  const ms = durationMs(window);
  if (ms === undefined) return { Window: window, Length: '' };
  const unit = unitNames.find((name) => ms % units[name].ms === 0)!;
  return { Window: unit, Length: String(ms / units[unit].ms) };
}

const writeRows = (rows: readonly LimitRow[]): FormFields =>
  Object.fromEntries(
    rows.flatMap((row, i) => parts.map((part) => [limitName(i + 1, part), row[part] ?? ''])),
  );

export const editSchema = z.string().regex(/^(?:add|remove[1-9]\d?)Limit$/, 'is not a known button');

/** Keeps everything that was typed. `focus` names the field to focus. */
export function editRows(fields: FormFields, edit: string): { values: FormFields; focus: string } {
  const rows: LimitRow[] = limitNumbers(fields).map((n) =>
    Object.fromEntries(parts.map((part) => [part, textField(fields, limitName(n, part)) ?? ''])),
  );
  const removed = /\d+/.exec(edit)?.[0];
  if (removed !== undefined) rows.splice(Number(removed) - 1, 1);
  else if (rows.length < MAX_LIMITS)
    rows.push({ Window: 'calendar_month', Enforcement: 'warn', Per: 'customer' });
  const others = Object.entries(fields).filter(([name]) => !/^limit\d/.test(name));
  return {
    values: { ...Object.fromEntries(others), ...writeRows(rows) },
    focus: removed === undefined ? limitName(rows.length, 'Quantity') : 'addLimit',
  };
}
