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

/** Fields `limit1Quantity`, `limit1Window`, `limit1Length`, `limit1Enforcement`, `limit1Per`, and `threshold1`. */
const parts = ['Quantity', 'Window', 'Length', 'Enforcement', 'Per'] as const;
type LimitRow = Partial<Record<(typeof parts)[number], string>>;

interface Rows {
  limits: LimitRow[];
  thresholds: string[];
}

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
const thresholdNumbers = (fields: FormFields): number[] =>
  rowNumbers(MAX_THRESHOLDS).filter((n) => `threshold${n}` in fields);

/** Messages use the labels. */
export function toRowsView(fields: FormFields) {
  const [limits, thresholds] = [limitNumbers(fields), thresholdNumbers(fields)];
  const labels = [
    ...limits.flatMap((n) =>
      parts.map((part) => [limitName(n, part), `Limit ${n}, ${part.toLowerCase()}`] as const),
    ),
    ...thresholds.map((n) => [`threshold${n}`, `Threshold ${n}`] as const),
  ];
  return {
    limits,
    thresholds,
    labels: Object.fromEntries(labels),
    hasRoomForLimit: limits.length < MAX_LIMITS,
    hasRoomForThreshold: thresholds.length < MAX_THRESHOLDS,
  };
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
const percentMessage = 'must be a whole number from 1 to 1000';
const percentSchema = z
  .string()
  .trim()
  .regex(/^\d{1,4}\s*%?$/, percentMessage)
  .transform((typed) => parseInt(typed, 10))
  .refine((percent) => percent >= 1 && percent <= 1_000, percentMessage);

export function rowSchemas(fields: FormFields): Record<string, z.ZodType> {
  const limits = limitNumbers(fields).flatMap((n) =>
    parts.map((part) => [limitName(n, part), partSchemas[part]]),
  );
  const thresholds = thresholdNumbers(fields).map((n) => [`threshold${n}`, percentSchema]);
  return Object.fromEntries([...limits, ...thresholds]) as Record<string, z.ZodType>;
}

/**
 * For rows that have passed their schemas.
 * @param current an unchanged window keeps its text, such as `P1DT12H`
 */
export function readRows(
  values: Record<string, unknown>,
  current: readonly UsageLimit[],
): { limits: UsageLimit[]; thresholds: number[] } {
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
  const thresholds: number[] = [];
  for (const n of thresholdNumbers(values as FormFields)) {
    const percent = values[`threshold${n}`] as number;
    if (thresholds.includes(percent)) mistakes.push([`threshold${n}`, `repeats ${percent}%`]);
    thresholds.push(percent);
  }
  if (mistakes.length > 0) throw refuse(mistakes);
  return { limits, thresholds };
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

export function toRowFields(limits: readonly UsageLimit[], thresholds: readonly number[]): FormFields {
  return writeRows({
    limits: limits.map(({ quantity, window, enforcement, per }) => ({
      Quantity: quantity,
      Enforcement: enforcement,
      Per: per ?? 'customer',
      ...splitWindow(window),
    })),
    thresholds: thresholds.map(String),
  });
}

/** The largest unit that divides the duration. */
function splitWindow(window: string): Pick<LimitRow, 'Window' | 'Length'> {
  const ms = durationMs(window);
  if (ms === undefined) return { Window: window, Length: '' };
  const unit = unitNames.find((name) => ms % units[name].ms === 0)!;
  return { Window: unit, Length: String(ms / units[unit].ms) };
}

function writeRows({ limits, thresholds }: Rows): FormFields {
  const entries = limits.flatMap((row, i) => parts.map((part) => [limitName(i + 1, part), row[part] ?? '']));
  return Object.fromEntries([...entries, ...thresholds.map((percent, i) => [`threshold${i + 1}`, percent])]);
}

export const editSchema = z
  .string()
  .regex(/^(?:add|remove[1-9]\d?)(?:Limit|Threshold)$/, 'is not a known button');

/** Keeps everything that was typed. `focus` names the field to focus. */
export function editRows(fields: FormFields, edit: string): { values: FormFields; focus: string } {
  const rows = {
    limits: limitNumbers(fields).map((n) =>
      Object.fromEntries(parts.map((part) => [part, textField(fields, limitName(n, part)) ?? ''])),
    ),
    thresholds: thresholdNumbers(fields).map((n) => textField(fields, `threshold${n}`) ?? ''),
  };
  const isLimit = edit.endsWith('Limit');
  const list: unknown[] = isLimit ? rows.limits : rows.thresholds;
  const removed = /\d+/.exec(edit)?.[0];
  if (removed !== undefined) list.splice(Number(removed) - 1, 1);
  else if (list.length < (isLimit ? MAX_LIMITS : MAX_THRESHOLDS))
    list.push(isLimit ? { Window: 'calendar_month', Enforcement: 'warn', Per: 'customer' } : '');
  const { edit: _, ...rest } = fields;
  const others = Object.entries(rest).filter(([name]) => !/^(?:limit|threshold)\d/.test(name));
  const added = isLimit ? limitName(list.length, 'Quantity') : `threshold${list.length}`;
  return {
    values: { ...Object.fromEntries(others), ...writeRows(rows) },
    focus: removed === undefined ? added : `add${isLimit ? 'Limit' : 'Threshold'}`,
  };
}
