import { z } from 'zod';
import { idField, namedObject, nextCursorField, timeField } from '../../core/http/fields.js';
import { text, timeInput, withoutRepeats } from '../../core/http/validate.js';
import { formats } from './chat.js';
import { deliveryStatuses } from './table.js';
import { serviceTypes, type AnyType, type WebhookType, type WebhookTypes } from './types.js';

export type WebhookSchemas = ReturnType<typeof createWebhookSchemas>;

export function createWebhookSchemas(types: WebhookTypes) {
  const typeNames = Object.keys(types) as [WebhookType, ...WebhookType[]];
  const allTypeNames = [...typeNames, ...Object.keys(serviceTypes)] as [AnyType, ...AnyType[]];
  const webhookInputSchema = z
    .strictObject({
      format: z
        .enum(formats)
        .default('standard')
        .describe(
          '`standard`: signed messages of [Standard Webhooks](https://www.standardwebhooks.com). `slack`, `discord` and `teams`: posts with a sentence and a link for each message, at most two posts a second. It cannot be changed later.',
        ),
      url: text(2_000)
        .meta({ format: 'uri' })
        .describe(
          'Where messages are sent: `https`, without a user name, password or fragment. Private and reserved addresses are refused, also if a host name resolves to one. The URL of a chat is a credential: it is stored encrypted, and the masked URL in answers keeps it when sent back.',
        ),
      types: withoutRepeats(
        z.array(z.enum(typeNames)).min(1, 'must have at least one type'),
        'type',
      ).describe('The types that the endpoint receives, each once.'),
      livemode: z.boolean().describe('True for messages of live mode, false for test mode.'),
      isEnabled: z
        .boolean()
        .default(true)
        .describe('While false, messages are neither sent nor kept for later.'),
    })
    .meta({ id: 'WebhookInput' });
  const listDeliveriesSchema = z.object({
    status: z.enum(deliveryStatuses).optional().describe('Only deliveries with this status.'),
    type: z.enum(allTypeNames).optional().describe('Only deliveries of this type.'),
    limit: z
      .string()
      .regex(/^([1-9]\d?|100)$/, 'must be a whole number from 1 to 100')
      .optional()
      .describe('The maximum number to return, 1 to 100. Default: 50.'),
    cursor: z
      .string()
      .regex(/^[\w-]{22}$/, 'must be a nextCursor from an earlier response')
      .optional()
      .describe('The `nextCursor` of the previous page.'),
  });
  return { webhookInputSchema, listDeliveriesSchema };
}

export const rotateWebhookSchema = z
  .strictObject({
    graceMinutes: z
      .int()
      .min(0)
      .max(10_080)
      .default(1_440)
      .describe(
        'How long the old secret also signs, in minutes: 0 to 10080 (a week). Default: 1440 (a day).',
      ),
  })
  .meta({ id: 'WebhookRotation' });

export const resendWebhookSchema = z
  .strictObject({ since: timeInput.describe('Messages created at this time or later.') })
  .meta({ id: 'WebhookResend' });

/** Must not include the secret. */
export const webhookSchema = z
  .object({
    id: idField('Unique within the Organization.'),
    format: z.enum(formats).describe('`standard`, or the chat that gets posts.'),
    url: z.string().describe('Where messages are sent. The URL of a chat is masked.'),
    types: z.array(z.string()).describe('The types that it receives.'),
    livemode: z.boolean().describe('True for live mode, false for test mode.'),
    isEnabled: z.boolean().describe('Whether messages are sent to it.'),
    disabledReason: z
      .enum(['gone', 'failing'])
      .nullable()
      .describe(
        'Why the service disabled it. `gone`: it responded with 410. `failing`: every delivery failed for five days. Otherwise `null`.',
      ),
    failingSince: timeField(
      'The first failure since the last success; `null` if the last attempt succeeded.',
    ).nullable(),
    previousSecretEndsAt: timeField(
      'Until this time, messages are also signed with the previous secret; `null` if only the current secret signs.',
    ).nullable(),
    createdAt: timeField('When it was created.'),
  })
  .meta({ id: 'Webhook', description: 'A webhook endpoint without its secret.' });

export const webhookListSchema = z
  .object({ webhooks: z.array(webhookSchema).describe('All endpoints, oldest first; at most 20.') })
  .meta({ id: 'WebhookList' });

export const webhookAnswerSchema = z.object({ webhook: webhookSchema }).meta({ id: 'WebhookAnswer' });

export const newWebhookSchema = namedObject('NewWebhook', {
  webhook: webhookSchema,
  secret: z
    .string()
    .regex(/^whsec_[\w+/]{43}=$/)
    .nullable()
    .describe('Verifies messages. It is shown only here: store it now. `null` for a chat.'),
});

const deliveryFields = {
  messageId: idField('The `webhook-id` of every attempt.'),
  type: z.string().describe('The type of the message.'),
  livemode: z.boolean().describe('True for live mode, false for test mode.'),
  status: z
    .enum(deliveryStatuses)
    .describe('`waiting` for its first or another attempt, `delivered`, or `failed`: given up.'),
  attempts: z.int().min(0).describe('The number of attempts begun.'),
  lastAttemptAt: timeField('The last finished attempt; `null` before the first.').nullable(),
  statusCode: z
    .int()
    .nullable()
    .describe('The response status of the last attempt; `null` without a response.'),
  error: z.string().nullable().describe('Why the last attempt got no complete response, for people.'),
  nextAttemptAt: timeField('Set while it waits.').nullable(),
  createdAt: timeField('When the reported change happened.'),
};

export const deliveryListSchema = namedObject('WebhookDeliveryList', {
  deliveries: z
    .array(z.object(deliveryFields).meta({ id: 'WebhookDelivery' }))
    .describe('Newest first. Deliveries are kept for 30 days.'),
  nextCursor: nextCursorField,
});

export const deliveryAnswerSchema = namedObject('WebhookDeliveryAnswer', {
  delivery: z
    .object({
      ...deliveryFields,
      body: z.string().describe('The message: the exact body that is sent and signed, except to a chat.'),
      attemptLog: z
        .array(
          z.object({
            attempt: z.int().min(1).describe('Counted from 1.'),
            at: timeField('When it began.'),
            durationMs: z.int().min(0).describe('Time to the end of the response, in milliseconds.'),
            statusCode: z.int().nullable().describe('The response status; `null` without a response.'),
            error: z.string().nullable().describe('Why there was no complete response, for people.'),
            answer: z.string().nullable().describe('The first 1 KB of the response.'),
          }),
        )
        .describe('Newest first, at most 50.'),
    })
    .meta({ id: 'WebhookDeliveryDetails' }),
});

export const testAnswerSchema = z
  .object({ messageId: idField('The `webhook-id` of the test message.') })
  .meta({ id: 'WebhookTest' });

export const resentAnswerSchema = namedObject('WebhooksResent', {
  resent: z
    .int()
    .min(0)
    .describe(
      'The number of messages resent, at most 1000, oldest first. Repeat the request to resend the rest.',
    ),
});
