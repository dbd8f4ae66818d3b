import { z } from 'zod';
import { idField, nextCursorField, timeField } from '../../core/http/fields.js';
import { text, timeInput } from '../../core/http/validate.js';
import { deliveryStatuses } from './table.js';
import { allTypes, webhookTypes, type AnyType, type WebhookType } from './types.js';

const typeNames = Object.keys(webhookTypes) as [WebhookType, ...WebhookType[]];
const allTypeNames = Object.keys(allTypes) as [AnyType, ...AnyType[]];

export const webhookInputSchema = z
  .strictObject({
    url: text(2_000).describe(
      'Where messages are sent: `https`, without a user, a password or a fragment. Private and reserved addresses are refused, also behind a name.',
    ),
    types: z
      .array(z.enum(typeNames))
      .min(1, 'must have at least one type')
      .refine((list) => new Set(list).size === list.length, 'must not name a type twice')
      .describe('The types that the endpoint receives; none twice.'),
    livemode: z.boolean().describe('True for what happens in live mode, false for test mode.'),
    isEnabled: z
      .boolean()
      .default(true)
      .describe('While false nothing is sent, and nothing is kept for later.'),
  })
  .meta({ id: 'WebhookInput' });

export const rotateWebhookSchema = z
  .strictObject({
    graceMinutes: z
      .int()
      .min(0)
      .max(10_080)
      .default(1_440)
      .describe(
        'How long the old secret signs, too, in minutes: 0 to 10080 (a week), 1440 (a day) if left out.',
      ),
  })
  .meta({ id: 'WebhookRotation' });

export const resendWebhookSchema = z
  .strictObject({ since: timeInput.describe('Messages from then on.') })
  .meta({ id: 'WebhookResend' });

export const listDeliveriesSchema = z.object({
  status: z.enum(deliveryStatuses).optional().describe('Only deliveries with this status.'),
  type: z.enum(allTypeNames).optional().describe('Only deliveries of this type.'),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, 'must be a whole number from 1 to 100')
    .optional()
    .describe('The maximum number to return, 1 to 100; 50 if left out.'),
  cursor: z
    .string()
    .regex(/^[\w-]{22}$/, 'must be a nextCursor of an earlier answer')
    .optional()
    .describe('The `nextCursor` of the page before.'),
});

/** Must not include the secret. */
export const webhookSchema = z
  .object({
    id: idField('Names the endpoint within its Organization.'),
    url: z.string().describe('Where messages are sent.'),
    types: z.array(z.string()).describe('The types that it receives.'),
    livemode: z.boolean().describe('True for live mode, false for test mode.'),
    isEnabled: z.boolean().describe('Whether it is sent anything.'),
    disabledReason: z
      .enum(['gone', 'failing'])
      .nullable()
      .describe(
        'Why the service disabled it: `gone`, it answered 410; `failing`, nothing but failures for five days. `null` if it did not.',
      ),
    failingSince: timeField(
      'The first failure that no success has followed; `null` if the last attempt succeeded.',
    ).nullable(),
    previousSecretEndsAt: timeField(
      'Until then messages are signed with the secret from before the last rotation, too; `null` without one.',
    ).nullable(),
    createdAt: timeField('When it was created.'),
  })
  .meta({ id: 'Webhook', description: 'An endpoint, without its secret.' });

export const webhookListSchema = z
  .object({ webhooks: z.array(webhookSchema).describe('All, oldest first; 20 at most.') })
  .meta({ id: 'WebhookList' });

export const webhookAnswerSchema = z.object({ webhook: webhookSchema }).meta({ id: 'WebhookAnswer' });

export const newWebhookSchema = z
  .object({
    webhook: webhookSchema,
    secret: z
      .string()
      .regex(/^whsec_[\w+/]{43}=$/)
      .describe('Verifies messages. It is shown only here: store it now.'),
  })
  .meta({ id: 'NewWebhook' });

const deliveryFields = {
  messageId: idField('The `webhook-id` of every attempt.'),
  type: z.string().describe('The type of the message.'),
  livemode: z.boolean().describe('True for live mode, false for test mode.'),
  status: z
    .enum(deliveryStatuses)
    .describe('`waiting` for its first or another attempt, `delivered`, or `failed`: given up.'),
  attempts: z.int().min(0).describe('The number of attempts begun.'),
  lastAttemptAt: timeField('The last attempt that has ended; `null` before.').nullable(),
  statusCode: z
    .int()
    .nullable()
    .describe('The status of the answer to the last attempt; `null` if there was none.'),
  error: z.string().nullable().describe('Why the last attempt got no complete answer, in plain language.'),
  nextAttemptAt: timeField('While it waits.').nullable(),
  createdAt: timeField('When what it reports happened.'),
};

export const deliveryListSchema = z
  .object({
    deliveries: z
      .array(z.object(deliveryFields).meta({ id: 'WebhookDelivery' }))
      .describe('Newest first; they are kept for 30 days.'),
    nextCursor: nextCursorField,
  })
  .meta({ id: 'WebhookDeliveryList' });

export const deliveryAnswerSchema = z
  .object({
    delivery: z
      .object({
        ...deliveryFields,
        body: z.string().describe('The body exactly as it is sent and signed.'),
        attemptLog: z
          .array(
            z.object({
              attempt: z.int().min(1).describe('Counted from 1.'),
              at: timeField('When it began.'),
              durationMs: z.int().min(0).describe('Up to the end of the answer, in milliseconds.'),
              statusCode: z.int().nullable().describe('The status of the answer; `null` if there was none.'),
              error: z.string().nullable().describe('Why there was no complete answer, in plain language.'),
              answer: z.string().nullable().describe('The first 1 KB of the answer.'),
            }),
          )
          .describe('Newest first, 50 at most.'),
      })
      .meta({ id: 'WebhookDeliveryDetails' }),
  })
  .meta({ id: 'WebhookDeliveryAnswer' });

export const testAnswerSchema = z
  .object({ messageId: idField('The `webhook-id` of the test message.') })
  .meta({ id: 'WebhookTest' });

export const resentAnswerSchema = z
  .object({
    resent: z
      .int()
      .min(0)
      .describe('The number sent again: at most 1000, oldest first. Repeat the request for the rest.'),
  })
  .meta({ id: 'WebhooksResent' });
