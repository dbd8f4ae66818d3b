import { readFileSync } from 'node:fs';
import { OpenAPIRegistry, OpenApiGeneratorV31, type RouteConfig } from '@asteasolutions/zod-to-openapi';
import { z } from 'zod';
import { timeField } from '../http/fields.js';
import { responseHeaders, type ResponseHeader } from './headers.js';
import { headersOf, statusesOf, toOperation } from './operation.js';
import type { DescribedRoute, DescribedWebhook, Reference } from './described.js';

export type OpenApiDocument = ReturnType<OpenApiGeneratorV31['generateDocument']>;

/** Takes tens of milliseconds. */
export function buildDocument(reference: Reference): OpenApiDocument {
  const { introduction, tags, routes, webhooks } = reference;
  const registry = new OpenAPIRegistry();
  for (const name of usedHeaders(routes))
    registry.registerComponent('headers', name, { ...responseHeaders[name] });
  for (const [name, scheme] of Object.entries(securitySchemes))
    registry.registerComponent('securitySchemes', name, scheme);
  for (const route of routes) registry.registerPath(toOperation(route, reference));
  for (const webhook of webhooks) registry.registerWebhook(toWebhook(webhook));
  return new OpenApiGeneratorV31(registry.definitions).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'Gauge',
      version: readVersion(),
      description: introduction,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The service that serves this document.' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
  });
}

const signedHeaders = z.object({
  'webhook-id': z.string().describe('The same on each attempt. Use it to recognise repeats.'),
  'webhook-timestamp': z.string().describe('When it was sent, in seconds since 1970.'),
  'webhook-signature': z
    .string()
    .describe(
      '`v1,` followed by the Base64 HMAC-SHA256 of id, timestamp and body, joined by dots, as Standard Webhooks defines it. One signature per valid secret, separated by spaces.',
    ),
});

function toWebhook({ type, summary, description, schema, example }: DescribedWebhook): RouteConfig {
  const body = z.object({
    type: z.literal(type),
    timestamp: timeField('When it happened.'),
    data: schema,
  });
  return {
    method: 'post',
    path: type,
    summary,
    description,
    security: [],
    request: {
      headers: signedHeaders,
      body: { required: true, content: { 'application/json': { schema: body, example } } },
    },
    responses: {
      '2XX': {
        description:
          'Received. Any other response, or none within 15 seconds, is retried; 410 disables the endpoint.',
      },
    },
  };
}

function usedHeaders(routes: readonly DescribedRoute[]): Set<ResponseHeader> {
  const answers = routes.flatMap((route) => statusesOf(route).map((status) => ({ route, status })));
  return new Set(answers.flatMap(({ route, status }) => headersOf(route, status)));
}

function readVersion(): string {
  const file = new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

const securitySchemes = {
  apiKey: {
    type: 'http' as const,
    scheme: 'bearer',
    bearerFormat: 'org_live_… or org_test_…',
    description:
      "An Organization's API key. Send it only in the `Authorization` header, never in the URL or with a session cookie.",
  },
  serviceKey: {
    type: 'http' as const,
    scheme: 'bearer',
    bearerFormat: 'service_live_… or service_test_…',
    description: 'A service key of the operator. Send it only in the `Authorization` header.',
  },
  session: {
    type: 'apiKey' as const,
    in: 'cookie' as const,
    name: 'gauge_session',
    description:
      'The session of a signed-in person, from `POST /login`. Over https the cookie is named `__Host-gauge_session`.',
  },
  operator: {
    type: 'http' as const,
    scheme: 'bearer',
    description: "The service's `OPERATOR_TOKEN`.",
  },
};
