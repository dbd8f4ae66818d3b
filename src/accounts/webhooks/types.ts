import { parse } from 'yaml';
import { z } from 'zod';
import { readFeatureFiles } from '../../core/feature-files.js';
import { idField, timeField } from '../../core/http/fields.js';
import type { ExactNumber } from '../../core/http/json.js';
import type { DescribedWebhook } from '../../core/reference/described.js';

export interface TypeDescription {
  /** More words and an example are in `webhook-types.yaml`. */
  summary: string;
  schema: z.ZodObject;
  /** For a chat. */
  sentence: (data: never) => string;
  /** A chat message links to it. */
  page: string;
}

/** Numbers as text keep all their digits. */
export type AsText<T> = T extends number
  ? string
  : T extends readonly (infer Item)[]
    ? AsText<Item>[]
    : T extends object
      ? { [Key in keyof T]: AsText<T[Key]> }
      : T;

export const describeType = <Schema extends z.ZodObject>(
  description: Omit<TypeDescription, 'schema' | 'sentence'> & {
    schema: Schema;
    sentence: (data: AsText<z.output<Schema>>) => string;
  },
) => description;

const apiKeyField = z.object({
  id: idField('Unique within the Organization.'),
  name: z.string().describe('A label chosen by its creator, named after the runtime that holds it.'),
  prefix: z.string().length(12).describe('The first 12 characters of the secret.'),
  scopes: z.array(z.string()).min(1),
  livemode: z.boolean().describe('True for a live key, false for a test key.'),
  expiresAt: timeField('When it stops working; `null`: never.').nullable(),
});

export const daysBeforeField = z
  .union([z.literal(7), z.literal(1)])
  .describe('Sent 7 days and 1 day before. A missed notice is sent late, unless the next one is due.');

const keysPage = '/dashboard/api-keys';
const webhooksPage = '/dashboard/webhooks';

const nameKey = ({ name, prefix }: { name: string; prefix: string }) => `The API key “${name}” (${prefix}…)`;

export const inDays = (days: string): string => `${days} ${days === '1' ? 'day' : 'days'}`;

/** Each product adds its own. */
export const keyTypes = {
  'api_key.created': describeType({
    summary: 'An API key was created.',
    schema: z.object({ apiKey: apiKeyField }),
    sentence: ({ apiKey }) => `${nameKey(apiKey)} was created.`,
    page: keysPage,
  }),
  'api_key.rotated': describeType({
    summary: 'An API key was rotated. A new key replaces it.',
    schema: z.object({
      apiKey: apiKeyField.describe('The new key.'),
      previous: apiKeyField.describe('The old key. It works until its `expiresAt`.'),
    }),
    sentence: ({ apiKey, previous }) => `${nameKey(previous)} was rotated. ${apiKey.prefix}… replaces it.`,
    page: keysPage,
  }),
  'api_key.revoked': describeType({
    summary: 'An API key was revoked.',
    schema: z.object({ apiKey: apiKeyField, revokedAt: timeField('When the key stopped working.') }),
    sentence: ({ apiKey }) => `${nameKey(apiKey)} was revoked.`,
    page: keysPage,
  }),
  'api_key.expiring': describeType({
    summary: 'An API key expires soon and was not rotated.',
    schema: z.object({ apiKey: apiKeyField, daysBefore: daysBeforeField }),
    sentence: ({ apiKey, daysBefore }) => `${nameKey(apiKey)} expires in ${inDays(daysBefore)}.`,
    page: keysPage,
  }),
} as const satisfies Record<string, TypeDescription>;

/** Endpoints receive these without choosing them. */
export const serviceTypes = {
  'webhook.disabled': describeType({
    summary: 'Another endpoint of the Organization was disabled because its deliveries failed.',
    schema: z.object({
      endpointId: idField('The endpoint.'),
      url: z.string().describe('The URL of the endpoint.'),
      reason: z
        .enum(['gone', 'failing'])
        .describe('`gone`: it responded with 410. `failing`: every delivery failed for five days.'),
      disabledAt: timeField('When it was disabled.'),
    }),
    sentence: ({ url, reason }) =>
      `The webhook endpoint ${url} was disabled: ${reason === 'gone' ? 'it responded with 410' : 'every delivery failed for five days'}.`,
    page: webhooksPage,
  }),
  'webhook.test': describeType({
    summary: 'A person requested a test delivery.',
    schema: z.object({ endpointId: idField('The endpoint.') }),
    sentence: () => 'This is a test message from Gauge.',
    page: webhooksPage,
  }),
} as const satisfies Record<string, TypeDescription>;

type KeyTypes = typeof keyTypes;

/** Each product adds its own with `declare module`. */
export interface ChosenTypes extends KeyTypes {}

export type WebhookTypes = Readonly<Record<WebhookType, TypeDescription>>;

export const joinTypes = (parts: readonly Partial<WebhookTypes>[]): WebhookTypes =>
  Object.assign({}, keyTypes, ...parts) as WebhookTypes;

type Words = Record<string, { description?: string; example: Record<string, unknown> }>;

export function describeWebhooks(types: WebhookTypes): DescribedWebhook[] {
  const files = readFeatureFiles('webhook-types.yaml').map((text) => parse(text) as Words);
  const words = Object.assign({}, ...files) as Words;
  return Object.entries<TypeDescription>({ ...types, ...serviceTypes }).map(([type, { summary, schema }]) => {
    const { description = '', example } = words[type]!;
    const sent = { type, timestamp: '2026-01-31T12:00:00.000Z', data: example };
    return { type, summary, description, schema, example: sent };
  });
}

export type WebhookType = keyof ChosenTypes;
export type AnyType = WebhookType | keyof typeof serviceTypes;
export type DataOf<T extends AnyType> = Exactly<z.input<(ChosenTypes & typeof serviceTypes)[T]['schema']>>;

/** `ExactNumber` is accepted wherever a number is. */
type Exactly<T> = T extends number
  ? T | ExactNumber
  : T extends readonly (infer Item)[]
    ? readonly Exactly<Item>[]
    : T extends object
      ? { [Key in keyof T]: Exactly<T[Key]> }
      : T;
