import { z } from 'zod';
import { idField, timeField } from '../core/http/fields.js';

interface TypeDescription {
  summary: string;
  /** Of `data`. */
  schema: z.ZodObject;
  /** One `data`. */
  example: Record<string, unknown>;
}

const apiKeyFields = {
  id: idField('Names the key within its Organization.'),
  name: z.string().describe('Chosen by its maker, after the runtime that holds it.'),
  prefix: z.string().length(12).describe('The first 12 characters of the secret.'),
  expiresAt: timeField('Stops working then; `null` is without end.').nullable(),
};

/** What an endpoint can be told of. */
export const webhookTypes = {
  'api_key.created': {
    summary: 'An API key was created.',
    schema: z.object({ apiKey: z.object(apiKeyFields) }),
    example: {
      apiKey: {
        id: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90',
        name: 'Runtime in Frankfurt',
        prefix: 'org_live_7Hq',
        expiresAt: null,
      },
    },
  },
} as const satisfies Record<string, TypeDescription>;

/** What an endpoint is told of without having chosen it. */
export const serviceTypes = {
  'webhook.disabled': {
    summary: 'Another endpoint of the Organization was disabled, because its deliveries failed.',
    schema: z.object({
      endpointId: idField('The endpoint.'),
      url: z.string().describe('Where it receives.'),
      reason: z
        .enum(['gone', 'failing'])
        .describe('`gone`: it answered 410. `failing`: nothing but failures.'),
      disabledAt: timeField('When.'),
    }),
    example: {
      endpointId: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90',
      url: 'https://example.com/webhooks',
      reason: 'gone',
      disabledAt: '2026-05-04T10:00:00.000Z',
    },
  },
  'webhook.test': {
    summary: 'A person asked for a test delivery.',
    schema: z.object({ endpointId: idField('The endpoint.') }),
    example: { endpointId: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90' },
  },
} as const satisfies Record<string, TypeDescription>;

export const allTypes = { ...webhookTypes, ...serviceTypes };

export type WebhookType = keyof typeof webhookTypes;
export type AnyType = keyof typeof allTypes;
export type DataOf<T extends AnyType> = z.input<(typeof allTypes)[T]['schema']>;
