import { z } from 'zod';
import { daysBeforeField, describeType, inDays, type TypeDescription } from '../accounts/webhooks/types.js';
import { exactField, idField, signedField, timeField } from '../core/http/fields.js';
import { formatDay, formatDecimal, formatMonth, formatTime, inSentence } from '../core/pages/format.js';
import { nameWindow } from './window-name.js';

const exampleUse = { productSlug: 'api-calls', metric: 'calls', livemode: true };

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

const exampleLimit = { quantity: 1000, window: 'calendar_month', enforcement: 'warn' };

const nameUse = ({
  productSlug,
  metric,
  livemode,
}: {
  productSlug: string;
  metric: string;
  livemode: boolean;
}) => `${productSlug} (${metric}${livemode ? '' : ', test'})`;

/** `the limit of 1,000 (this month, UTC)`. */
const describeLimit = ({ quantity, window }: { quantity: string; window: string }) =>
  `the limit of ${formatDecimal(quantity)} (${inSentence(nameWindow(window)).replace(' (UTC)', ', UTC')})`;

/** For an alert. `product` is null for credits. */
export function sayUse({
  product,
  metric,
  level,
  cap,
  used,
  at,
}: Record<'product' | 'metric' | 'cap', string | null> & { level: string; used: string; at: Date }) {
  const quantity = formatDecimal(used);
  if (product === null || cap === null) {
    const subject = `More than ${formatDecimal(level)} credits burned on ${formatDay(at)}`;
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

const exampleGrant = { grantKey: 'pack-2026-01', livemode: true };

const creditsPage = '/dashboard/credits';

const nameCredits = (livemode: boolean) => (livemode ? 'credits' : 'test credits');

type MeteringTypes = typeof meteringTypes;

declare module '../accounts/webhooks/types.js' {
  interface ChosenTypes extends MeteringTypes {}
}

export const meteringTypes = {
  'usage.threshold_reached': describeType({
    summary: 'Usage reached a threshold of a cap or limit.',
    description:
      'Sent once for each threshold, limit and window. For a rolling window, it is sent again only after a full window length. Usage is evaluated at the time at which an event was recorded, or at which it occurred if that is later.',
    schema: z.object({
      ...useFields,
      threshold: z.int().describe('In percent of `limit.quantity`.'),
      limit: limitField,
      used: exactField('Units used in the window at evaluation; at or above the threshold.'),
      windowStart: timeField('Inclusive. For a rolling window: exclusive.'),
      windowEnd: timeField('Exclusive. For a rolling window: the time of evaluation, inclusive.'),
    }),
    example: {
      ...exampleUse,
      threshold: 80,
      limit: exampleLimit,
      used: 803.5,
      windowStart: '2026-01-01T00:00:00.000Z',
      windowEnd: '2026-02-01T00:00:00.000Z',
    },
    sentence: ({ threshold, limit, used, ...use }) =>
      `Usage of ${nameUse(use)} reached ${threshold}% of ${describeLimit(limit)}: ${formatDecimal(used)} used.`,
    page: '/dashboard/usage',
  }),
  'usage.alert': describeType({
    summary: 'Usage reached the level of an alert that a member set.',
    description:
      'Sent once for each alert and window: the month for an alert on a product’s cap, the day for one on credits. If usage passes the levels of several alerts at once, only the highest is sent. Alerts watch live usage, once a minute.',
    schema: z.object({
      alertId: idField('The alert.'),
      productSlug: useFields.productSlug.nullable().describe('`null` for credits of all products.'),
      metric: useFields.metric.nullable().describe('`null` for credits.'),
      level: z.int().describe('Percent of `cap`, or credits.'),
      cap: exactField('Units per calendar month.').nullable().describe('`null` for credits.'),
      used: exactField('Units used in the window, or credits burned in it.'),
      windowStart: timeField('Inclusive.'),
      windowEnd: timeField('Exclusive.'),
    }),
    example: {
      alertId: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90',
      productSlug: 'api-calls',
      metric: 'calls',
      level: 90,
      cap: 1000,
      used: 903.5,
      windowStart: '2026-01-01T00:00:00.000Z',
      windowEnd: '2026-02-01T00:00:00.000Z',
    },
    sentence: ({ productSlug: slug, windowStart, ...use }) =>
      sayUse({ ...use, product: slug && `The product ${slug}`, at: new Date(windowStart) }).text,
    page: '/dashboard/usage',
  }),
  'usage.limit_reached': describeType({
    summary: 'A reservation was refused because a blocking limit left no room for it.',
    description: 'Sent at most once a minute for each limit.',
    schema: z.object({
      ...useFields,
      limit: limitField,
      used: exactField('Units used in the window.'),
      held: exactField('Units held by other reservations.'),
      remaining: exactField('Units that remained.'),
      requested: exactField('Units that were requested.'),
      subject: z.string().optional().describe('The subject of a limit per subject.'),
    }),
    example: {
      ...exampleUse,
      limit: { quantity: 1000, window: 'PT5H', enforcement: 'block' },
      used: 950,
      held: 20,
      remaining: 30,
      requested: 50,
    },
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
    example: {
      ...exampleUse,
      idempotencyKey: 'req_8f14e45f',
      correctionKey: 'fix-2026-01-31-1',
      previousQuantity: 12,
      quantity: 2,
      reason: 'Counted retries.',
    },
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
    example: {
      productSlug: 'api-calls',
      change: 'changed',
      entitlement: {
        kind: 'live',
        startsAt: '2026-01-05T09:00:00.000Z',
        endsAt: null,
        unitCap: 25_000.5,
        limits: [{ quantity: 100, window: 'PT5H', enforcement: 'block' }],
        thresholds: [50, 80, 100],
        features: { max_seats: 5, sso: true },
      },
    },
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
    example: { productSlug: 'api-calls', kind: 'live', endsAt: '2026-02-07T12:00:00.000Z', daysBefore: 7 },
    sentence: ({ productSlug, daysBefore, endsAt }) =>
      `The entitlement to ${productSlug} ends in ${inDays(daysBefore)}, on ${formatTime(new Date(endsAt))}.`,
    page: '/dashboard/entitlements',
  }),
  'credits.threshold_reached': describeType({
    summary: 'Credits run out.',
    description:
      'Sent when the balance falls to 20, 10 or 0 percent of the granted amount of the open grants, or to the `creditThresholds` of the Organization. If it falls past several at once, only the lowest is sent. A threshold is sent again only after a new grant has lifted the balance above it.',
    schema: z.object({
      livemode: grantFields.livemode,
      threshold: z.int().describe('In percent of `granted`.'),
      balance: signedField(
        'What open grants have left, less the overdrafts. Negative if overdrafts exceed it.',
      ),
      granted: exactField('The granted amount of the open grants.'),
    }),
    example: { livemode: true, threshold: 20, balance: 187.5, granted: 1000 },
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
    example: {
      ...exampleGrant,
      amount: 1000,
      priority: 50,
      startsAt: '2026-01-01T00:00:00.000Z',
      expiresAt: '2026-02-01T00:00:00.000Z',
      productSlugs: null,
      rollover: { percent: 50, for: 'P30D' },
    },
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
    example: {
      ...exampleGrant,
      remaining: 312.5,
      expiresAt: '2026-02-07T12:00:00.000Z',
      rollover: { percent: 50, for: 'P30D' },
      daysBefore: 7,
    },
    sentence: ({ grantKey, livemode, remaining, expiresAt, rollover, daysBefore }) =>
      `The grant ${grantKey} ends in ${inDays(daysBefore)}, on ${formatTime(new Date(expiresAt))}, with ${formatDecimal(remaining)} ${nameCredits(livemode)} left${rollover === null ? '' : `. ${rollover.percent}% of that rolls over`}.`,
    page: creditsPage,
  }),
} as const satisfies Record<string, TypeDescription>;
