import { z } from 'zod';
import { withoutRepeats } from '../../core/http/validate.js';
import { addDecimals, compareDecimals, isDecimalAbove, subtractDecimals } from '../../core/decimal.js';
import { exactField, namedObject, timeField } from '../../core/http/fields.js';
import { exact } from '../../core/http/json.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { quantityInput } from './exact-number.js';
import { enforcements, type UsageLimit } from './table.js';

export const MAX_LIMITS = 8;

const calendarWindows = new Set(['calendar_month', 'calendar_week', 'calendar_day']);

const duration = /^P(?:(\d{1,3})D)?(?:T(?=\d)(?:(\d{1,4})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?$/;
export const shortestMs = MINUTE_MS;
export const longestMs = 31 * DAY_MS;
export const shortestPerSubjectMs = HOUR_MS;

/** Undefined for a calendar window or an invalid duration. */
export function durationMs(window: string): number | undefined {
  const parts = duration.exec(window);
  if (!parts) return undefined;
  const [days = 0, hours = 0, minutes = 0, seconds = 0] = parts.slice(1).map((part) => Number(part ?? 0));
  return days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS;
}

const windowField = z
  .string()
  .refine((window) => {
    const ms = durationMs(window);
    if (ms === undefined) return calendarWindows.has(window);
    return ms >= shortestMs && ms <= longestMs;
  }, 'must be calendar_month, calendar_week, calendar_day or a duration from PT1M to P31D, like PT5H')
  .describe(
    '`calendar_month`, `calendar_week` (ISO, from Monday) or `calendar_day`, in UTC; or a rolling window, an ISO 8601 duration of days, hours, minutes and seconds from `PT1M` to `P31D`, like `PT5H`.',
  );

const enforcementField = z
  .enum(enforcements)
  .describe(
    '`block` refuses checks and reservations beyond the limit; `warn` allows them. Events are recorded in both cases, with a warning.',
  );

const perField = z
  .enum(['subject'])
  .describe(
    '`subject`: the limit holds for each subject separately. Usage without a subject is not limited by it. Rolling windows then start at whole 5 minutes, rounded outwards. The product must count subjects.',
  );

export const limitsSchema = z
  .array(
    z
      .strictObject({
        quantity: quantityInput.describe('Units, an exact decimal of up to 100 digits.'),
        window: windowField,
        enforcement: enforcementField.default('warn'),
        per: perField.optional(),
      })
      .refine(
        ({ window, per }) => per === undefined || (durationMs(window) ?? Infinity) >= shortestPerSubjectMs,
        {
          path: ['window'],
          error: 'must be a calendar window or a duration from PT1H for a limit per subject',
        },
      )
      .meta({ id: 'LimitInput' }),
  )
  .max(MAX_LIMITS, `must have at most ${MAX_LIMITS} limits`);

export const declaredLimitSchema = namedObject('DeclaredLimit', {
  quantity: exactField('Units.'),
  window: z.string(),
  enforcement: enforcementField,
  per: perField.optional(),
});

export const limitSchema = z
  .object({
    quantity: exactField('Units.'),
    window: windowField,
    enforcement: enforcementField,
    per: perField.optional(),
    subject: z.string().optional().describe('The subject of a limit per subject.'),
    used: exactField('Units used in the window, by `occurredAt`.'),
    held: exactField('Units held by reservations now.'),
    remaining: exactField(
      'Units available to a reservation, never below 0: `quantity` minus `used`, `held` and events dated in the future.',
    ),
    resetsAt: timeField(
      'When the calendar window ends. For an exhausted rolling window: when enough usage has left it for something to remain; `null` if waiting does not help.',
    ).nullable(),
  })
  .meta({
    id: 'Limit',
    description: 'A limit of an entitlement and its usage in the mode of the calling key.',
  });

export const declaredLimitJson = ({ quantity, window, enforcement, per }: UsageLimit) => ({
  quantity: exact(quantity),
  window,
  enforcement,
  ...(per ? { per } : {}),
});

/** For the audit log, like `1800 P7D warn per subject`. */
export const logLimit = ({ quantity, window, enforcement, per }: UsageLimit): string =>
  `${quantity} ${window} ${enforcement}${per ? ` per ${per}` : ''}`;

export const readLimits = (logged: string): UsageLimit[] =>
  [...logged.matchAll(/(\S+) (\S+) (block|warn)( per subject)?/g)].map(([, quantity, window, by, per]) => ({
    quantity: quantity!,
    window: window!,
    enforcement: by as UsageLimit['enforcement'],
    ...(per && { per: 'subject' }),
  }));

/** Quantities are exact decimals. */
export interface LimitState extends UsageLimit {
  subject?: string;
  used: string;
  /** Dated after the window, by clocks that run ahead. These already take up room. */
  ahead: string;
  held: string;
  /** The end of a calendar window, or when a rolling one has room again. Undefined if waiting does not help. */
  resetsAtMs: number | undefined;
}

export const takenOf = ({ used, ahead, held }: LimitState) => addDecimals(addDecimals(used, ahead), held);

/** For zero, whether the limit is reached. */
export function isBeyond(state: LimitState, more: string): boolean {
  const isNothing = !isDecimalAbove(more, '0');
  const order = compareDecimals(
    isNothing ? takenOf(state) : addDecimals(takenOf(state), more),
    state.quantity,
  );
  return isNothing ? order >= 0 : order > 0;
}

export const remainingOf = (state: LimitState): string => subtractDecimals(state.quantity, takenOf(state));

export const limitJson = (state: LimitState) => ({
  ...declaredLimitJson(state),
  ...(state.subject === undefined ? {} : { subject: state.subject }),
  used: exact(state.used),
  held: exact(state.held),
  remaining: exact(remainingOf(state)),
  resetsAt: state.resetsAtMs === undefined ? null : new Date(state.resetsAtMs).toISOString(),
});

/** Undefined for a rolling window. */
export function endOfWindow(window: string, nowMs: number): number | undefined {
  const at = new Date(nowMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  switch (window) {
    case 'calendar_month':
      return Date.UTC(year, month + 1);
    case 'calendar_week':
      return Date.UTC(year, month, day + 7 - ((at.getUTCDay() + 6) % 7));
    case 'calendar_day':
      return Date.UTC(year, month, day + 1);
    default:
      return undefined;
  }
}

/** A calendar window includes events at exactly its start; a rolling window excludes them. */
export function startOfWindow(window: string, nowMs: number): number {
  const ms = durationMs(window);
  if (ms !== undefined) return nowMs - ms;
  const end = endOfWindow(window, nowMs)!;
  if (window === 'calendar_month') {
    const last = new Date(end - 1);
    return Date.UTC(last.getUTCFullYear(), last.getUTCMonth());
  }
  return end - (window === 'calendar_week' ? 7 : 1) * DAY_MS;
}

export const MAX_THRESHOLDS = 10;

/** In percent of a cap or limit. */
export const defaultThresholds: readonly number[] = [50, 80, 100];

const thresholdMessage = 'must be a whole number from 1 to 1000';

export const thresholdsSchema = withoutRepeats(
  z
    .array(
      z.number(thresholdMessage).int(thresholdMessage).min(1, thresholdMessage).max(1_000, thresholdMessage),
    )
    .max(MAX_THRESHOLDS, `must have at most ${MAX_THRESHOLDS} thresholds`),
  'threshold',
);

export const thresholdsField = z
  .array(z.number().int())
  .describe('Percentages of the cap and of each limit at which a webhook is sent.');

/** Sorted, or null for the default. */
export function toStoredThresholds(declared: readonly number[] | undefined): number[] | null {
  const sorted = declared?.toSorted((a, b) => a - b);
  return sorted === undefined || sorted.join() === defaultThresholds.join() ? null : sorted;
}
