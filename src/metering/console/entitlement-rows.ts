import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { decimalField } from '../../core/http/validate.js';
import { toRows, type FieldTree } from '../../core/pages/rows.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import {
  featureLines,
  featureOverridesSchema,
  writeFeatures,
  type FeatureOverrides,
} from '../entitlements/features.js';
import {
  defaultThresholds,
  durationMs,
  longestMs,
  MAX_LIMITS,
  MAX_THRESHOLDS,
  shortestMs,
  shortestPerSubjectMs,
} from '../entitlements/limits.js';
import {
  enforcements,
  entitlementKinds,
  type EntitlementKind,
  type UsageLimit,
} from '../entitlements/table.js';

const units = {
  days: { ms: DAY_MS, write: (length: number) => `P${length}D` },
  hours: { ms: HOUR_MS, write: (length: number) => `PT${length}H` },
  minutes: { ms: MINUTE_MS, write: (length: number) => `PT${length}M` },
  seconds: { ms: SECOND_MS, write: (length: number) => `PT${length}S` },
};
type Unit = keyof typeof units;
const unitNames = Object.keys(units) as Unit[];
const isUnit = (window: string): window is Unit => Object.hasOwn(units, window);

const windowOptions = [
  { value: 'calendar_month', label: 'Calendar month (UTC)' },
  { value: 'calendar_week', label: 'Calendar week (UTC)' },
  { value: 'calendar_day', label: 'Calendar day (UTC)' },
  ...unitNames.map((unit) => ({ value: unit, label: `Last … ${unit}` })),
];

export const limitKind = {
  limits: {
    most: MAX_LIMITS,
    blank: { quantity: '', window: 'calendar_month', length: '', enforcement: 'warn', per: 'customer' },
  },
};

/** For the template. */
export const limitOptions = {
  windowOptions,
  rollingWindows: unitNames.join(' '),
  perOptions: [
    { value: 'customer', label: 'All usage' },
    { value: 'subject', label: 'Each subject' },
  ],
};

export const option = 'must be one of the options';

const thresholdsMessage = `must be at most ${MAX_THRESHOLDS} whole numbers from 1 to 1000, like 50, 80, 100`;
/** Percentages, in any order. */
const thresholdsSchema = z
  .string()
  .default('')
  .transform((typed) => typed.split(/[\s,%]+/).filter((one) => one !== ''))
  .refine(
    (list) => list.length <= MAX_THRESHOLDS && list.every((one) => /^(?:[1-9]\d{0,2}|1000)$/.test(one)),
    thresholdsMessage,
  )
  .transform((list) => list.map(Number).toSorted((a, b) => a - b))
  .refine((list) => new Set(list).size === list.length, 'must not repeat a percentage');

const limitSchema = z
  .strictObject({
    quantity: decimalField,
    window: z.enum(
      windowOptions.map(({ value }) => value),
      option,
    ),
    length: z
      .string()
      .trim()
      .regex(/^[1-9]\d{0,7}$/, 'must be a whole number above 0, like 5')
      .optional(),
    enforcement: z.enum(enforcements, option),
    per: z.enum(['customer', 'subject'], option).default('customer'),
  })
  .transform(({ quantity, window: chosen, length, enforcement, per }, context): UsageLimit => {
    const refuse = (message: string) =>
      context.addIssue({ code: 'custom', path: ['length'], message, input: length });
    const window = isUnit(chosen) ? units[chosen].write(Number(length)) : chosen;
    const ms = durationMs(window) ?? Infinity;
    if (!isUnit(chosen) && length !== undefined)
      refuse('is filled in, but a calendar window is selected: choose “Last … hours”, or clear this field');
    else if (isUnit(chosen) && length === undefined)
      refuse(`is required for a window of the last … ${chosen}`);
    else if (isUnit(chosen) && (ms < shortestMs || ms > longestMs))
      refuse('must be from 1 minute to 31 days');
    else if (per === 'subject' && ms < shortestPerSubjectMs)
      refuse('must be at least 1 hour for a limit per subject');
    return {
      quantity: toPlainDecimal(quantity, 0),
      window,
      enforcement,
      ...(per === 'subject' && { per }),
    };
  });

export const termsShape = {
  kind: z.enum(entitlementKinds, option),
  cap: z.enum(['product', 'own', 'none'], option),
  unitCap: decimalField.optional(),
  limits: z.array(limitSchema).max(MAX_LIMITS, `must have at most ${MAX_LIMITS} limits`).default([]),
  thresholds: thresholdsSchema,
  features: featureLines.default({}).pipe(featureOverridesSchema),
};
type TypedTerms = z.output<z.ZodObject<typeof termsShape>>;

/** @returns undefined to apply the product's cap, null for no cap */
export function toOwnCap({ cap, unitCap }: TypedTerms, context: z.RefinementCtx): string | null | undefined {
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', path: ['unitCap'], message, input: unitCap });
    return undefined;
  };
  if (cap !== 'own' && unitCap !== undefined)
    return refuse('is filled in, but another option is selected: choose the custom cap, or clear this field');
  if (cap === 'product') return undefined;
  if (cap === 'none') return null;
  return unitCap === undefined ? refuse('is required for a custom cap') : toPlainDecimal(unitCap, 0);
}

/** A window that is as long as before keeps its text, such as `P1DT12H`. */
export const keepWindows = (limits: UsageLimit[], current: readonly UsageLimit[]): UsageLimit[] =>
  limits.map((limit) => {
    const ms = durationMs(limit.window);
    const same = current.find(({ window }) => ms !== undefined && durationMs(window) === ms);
    return { ...limit, window: same?.window ?? limit.window };
  });

interface Terms {
  kind: EntitlementKind;
  /** Undefined if the product's cap applies; null without a cap. */
  unitCap?: string | null | undefined;
  limits?: readonly UsageLimit[] | null | undefined;
  thresholds?: readonly number[] | null | undefined;
  features?: FeatureOverrides | null | undefined;
}

export const writeTerms = ({ kind, unitCap, limits, thresholds, features }: Terms) => ({
  kind,
  cap: unitCap === undefined ? 'product' : unitCap === null ? 'none' : 'own',
  unitCap: unitCap ?? '',
  limits: toRows((limits ?? []).map(writeLimit)),
  thresholds: (thresholds ?? defaultThresholds).join(', '),
  features: writeFeatures(features ?? null),
});

const writeLimit = ({ quantity, window, enforcement, per }: UsageLimit): FieldTree => ({
  quantity,
  enforcement,
  per: per ?? 'customer',
  ...splitWindow(window),
});

/** The largest unit that divides the duration. */
function splitWindow(window: string): { window: string; length: string } {
  const ms = durationMs(window);
  if (ms === undefined) return { window, length: '' };
  const unit = unitNames.find((name) => ms % units[name].ms === 0)!;
  return { window: unit, length: String(ms / units[unit].ms) };
}
