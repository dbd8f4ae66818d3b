import { z } from 'zod';
import { daysBeforeField, describeType, inDays, type TypeDescription } from '../accounts/webhooks/types.js';
import { exactField, idField, signedField, timeField } from '../core/http/fields.js';
import { formatDay, formatDecimal, formatMonth, formatTime, inSentence } from '../core/pages/format.js';
import { DAY_MS } from '../core/time.js';
import { nameWindow } from './window-name.js';

const useFields = {
  productSlug: z.string(),
  metric: z.string(),
  livemode: z.boolean().describe('True for live usage, false for test usage.'),
};

const limitField = z
  .object({
    quantity: exactField('Units.'),
    window: z
      .string()
      .describe(
        '`calendar_month`, `calendar_week`, `calendar_day`, or the ISO 8601 duration of a rolling window.',
      ),
    enforcement: z.enum(['warn', 'block']),
    per: z.enum(['subject']).optional().describe('The limit holds for each subject separately.'),
  })
  .describe('A cap is reported as a warning limit for the calendar month.');

const nameUse = ({ productSlug, metric, livemode }: z.output<z.ZodObject<typeof useFields>>) =>
  `${productSlug} (${metric}${livemode ? '' : ', test'})`;

/** `the limit of 1,000 (this month, UTC)`. */
const describeLimit = ({ quantity, window }: { quantity: string; window: string }) =>
  `the limit of ${formatDecimal(quantity)} (${inSentence(nameWindow(window)).replace(' (UTC)', ', UTC')})`;

export type Window = Record<'windowStart' | 'windowEnd', string>;

/** For an alert. `product` is null for credits. */
export function sayUse({
  product,
  metric,
  level,
  cap,
  used,
  balance,
  ...window
}: Record<'product' | 'metric' | 'cap' | 'used' | 'balance', string | null> & Window & { level: string }) {
  const at = new Date(window.windowStart);
  if (balance !== null) {
    const subject = `Fewer than ${formatDecimal(level)} credits left`;
    return { subject, text: `${subject}: ${formatDecimal(balance)}.` };
  }
  const quantity = formatDecimal(used ?? '0');
  if (product === null || cap === null) {
    const isDay = Date.parse(window.windowEnd) - at.getTime() === DAY_MS;
    const subject = `More than ${formatDecimal(level)} credits burned ${isDay ? `on ${formatDay(at)}` : `in ${formatMonth(at)}`}`;
    return { subject, text: `${subject} (UTC): ${quantity} so far.` };
  }
  const subject = `${product} ${level === '100' ? 'has reached its cap' : `has used ${level}% of its cap`}`;
  return {
    subject,
    text: `${subject} in ${formatMonth(at)}: ${quantity} of ${formatDecimal(cap)} ${metric}.`,
  };
}

const grantFields = {
  grantKey: z.string().describe('The key of the grant.'),
  livemode: z.boolean().describe('True for live credits, false for test credits.'),
};

const rolloverField = z
  .object({
    percent: z.int().describe('The percentage of the remaining credits that rolls over at the expiry.'),
    for: z.string().describe('For how long, as an ISO 8601 duration in days.'),
  })
  .nullable()
  .describe('`null` if nothing rolls over.');

const creditsPage = '/dashboard/credits';

const nameCredits = (livemode: boolean) => (livemode ? 'credits' : 'test credits');

type MeteringTypes = typeof meteringTypes;

declare module '../accounts/webhooks/types.js' {
  interface ChosenTypes extends MeteringTypes {}
}

export const meteringTypes = {
  'usage.threshold_reached': describeType({
    summary: 'Usage reached a threshold of a cap or limit.',
    schema: z.object({
      ...useFields,
      threshold: z.int().describe('In percent of `limit.quantity`.'),
      limit: limitField,
      used: exactField('Units used in the window at evaluation; at or above the threshold.'),
      windowStart: timeField('Inclusive. For a rolling window: exclusive.'),
      windowEnd: timeField('Exclusive. For a rolling window: the time of evaluation, inclusive.'),
    }),
    sentence: ({ threshold, limit, used, ...use }) =>
      `Usage of ${nameUse(use)} reached ${threshold}% of ${describeLimit(limit)}: ${formatDecimal(used)} used.`,
    page: '/dashboard/usage',
  }),
  'usage.alert': describeType({
    summary: 'Usage reached the level of an alert that a member set.',
    schema: z.object({
      alertId: idField('The alert.'),
      productSlug: useFields.productSlug.nullable().describe('`null` for credits of all products.'),
      metric: useFields.metric.nullable().describe('`null` for credits.'),
      level: z.int().describe('Percent of `cap`, or credits.'),
      cap: exactField('Units per calendar month.').nullable().describe('`null` for credits.'),
      used: exactField('Units used in the window, or credits burned in it.')
        .nullable()
        .describe('`null` for credits left.'),
      balance: signedField('Credits left.').nullable().describe('`null` for other alerts.'),
      windowStart: timeField('Inclusive.'),
      windowEnd: timeField('Exclusive.'),
    }),
    sentence: ({ productSlug: slug, ...use }) =>
      sayUse({ ...use, product: slug && `The product ${slug}` }).text,
    page: '/dashboard/usage',
  }),
  'usage.limit_reached': describeType({
    summary: 'A reservation was refused because a blocking limit left no room for it.',
    schema: z.object({
      ...useFields,
      limit: limitField,
      used: exactField('Units used in the window.'),
      held: exactField('Units held by other reservations.'),
      remaining: exactField('Units that remained.'),
      requested: exactField('Units that were requested.'),
      subject: z.string().optional().describe('The subject of a limit per subject.'),
    }),
    sentence: ({ requested, remaining, limit, ...use }) =>
      `A reservation of ${formatDecimal(requested)} for ${nameUse(use)} was refused: ${formatDecimal(remaining)} of ${describeLimit(limit)} remained.`,
    page: '/dashboard/entitlements',
  }),
  'usage.corrected': describeType({
    summary: 'Recorded events were corrected.',
    schema: z.object({
      ...useFields,
      idempotencyKey: z.string().describe('The idempotency key of the event.'),
      correctionKey: z.string().describe('The key of the correction.'),
      previousQuantity: exactField('The quantity before the correction.'),
      quantity: exactField('The quantity after the correction; 0 if the event was voided.'),
      reason: z.string(),
    }),
    sentence: ({ idempotencyKey, previousQuantity, quantity, reason, ...use }) =>
      `The event ${idempotencyKey} of ${nameUse(use)} was corrected from ${formatDecimal(previousQuantity)} to ${formatDecimal(quantity)}: ${reason}`,
    page: '/dashboard/usage',
  }),
  'entitlement.changed': describeType({
    summary: 'An entitlement was granted, changed or withdrawn.',
    schema: z.object({
      productSlug: z.string(),
      change: z.enum(['granted', 'changed', 'withdrawn']),
      entitlement: z
        .object({
          kind: z.enum(['live', 'read_only']),
          startsAt: timeField('Start of the entitlement, inclusive.'),
          endsAt: timeField('End of the entitlement, exclusive; `null` if it has no end.').nullable(),
          unitCap: exactField('Units per calendar month; `null` is unlimited.').nullable(),
          limits: z.array(limitField).describe('The declared limits, without the cap.'),
          thresholds: z.array(z.int()).describe('Percentages of the cap and of each limit.'),
          features: z
            .record(z.string(), z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]))
            .describe('With those of the product.'),
        })
        .nullable()
        .describe('The current entitlement; `null` if it was withdrawn.'),
    }),
    sentence: ({ productSlug, change }) => `The entitlement to ${productSlug} was ${change}.`,
    page: '/dashboard/entitlements',
  }),
  'entitlement.ending': describeType({
    summary: 'An entitlement ends soon.',
    schema: z.object({
      productSlug: z.string(),
      kind: z.enum(['live', 'read_only']),
      endsAt: timeField('End of the entitlement, exclusive.'),
      daysBefore: daysBeforeField,
    }),
    sentence: ({ productSlug, daysBefore, endsAt }) =>
      `The entitlement to ${productSlug} ends in ${inDays(daysBefore)}, on ${formatTime(new Date(endsAt))}.`,
    page: '/dashboard/entitlements',
  }),
  'credits.threshold_reached': describeType({
    summary: 'Credits run out.',
    schema: z.object({
      livemode: grantFields.livemode,
      threshold: z.int().describe('In percent of `granted`.'),
      balance: signedField(
        'What open grants have left, less the overdrafts. Negative if overdrafts exceed it.',
      ),
      granted: exactField('The granted amount of the open grants.'),
    }),
    sentence: ({ livemode, threshold, balance, granted }) =>
      threshold === '0'
        ? `No ${nameCredits(livemode)} are left: the balance is ${formatDecimal(balance)}.`
        : `At most ${threshold}% of the ${nameCredits(livemode)} are left: ${formatDecimal(balance)} of ${formatDecimal(granted)}.`,
    page: creditsPage,
  }),
  'credits.granted': describeType({
    summary: 'Credits were granted.',
    schema: z.object({
      ...grantFields,
      amount: exactField('Credits.'),
      priority: z.int().describe('0 to 100; the lowest burns first.'),
      startsAt: timeField('When the grant can first be burned, inclusive.'),
      expiresAt: timeField('Exclusive; `null` if it never expires.').nullable(),
      productSlugs: z.array(z.string()).nullable().describe('`null` for every product.'),
      rollover: rolloverField,
    }),
    sentence: ({ grantKey, livemode, amount, expiresAt }) =>
      `The grant ${grantKey} adds ${formatDecimal(amount)} ${nameCredits(livemode)}${expiresAt === null ? '' : `, which expire on ${formatTime(new Date(expiresAt))}`}.`,
    page: creditsPage,
  }),
  'credits.expiring': describeType({
    summary: 'Granted credits expire soon.',
    schema: z.object({
      ...grantFields,
      remaining: exactField('What is left of the grant.'),
      expiresAt: timeField('Exclusive.'),
      rollover: rolloverField,
      daysBefore: daysBeforeField,
    }),
    sentence: ({ grantKey, livemode, remaining, expiresAt, rollover, daysBefore }) =>
      `The grant ${grantKey} ends in ${inDays(daysBefore)}, on ${formatTime(new Date(expiresAt))}, with ${formatDecimal(remaining)} ${nameCredits(livemode)} left${rollover === null ? '' : `. ${rollover.percent}% of that rolls over`}.`,
    page: creditsPage,
  }),
} as const satisfies Record<string, TypeDescription>;
