import { readFileSync } from 'node:fs';
import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { responseHeaders, type ResponseHeader } from './headers.js';
import { headersOf, statusesOf, toOperation } from './operation.js';
import { introduction, tags } from './prose.js';
import type { DescribedRoute } from './problem-examples.js';

export type OpenApiDocument = ReturnType<OpenApiGeneratorV31['generateDocument']>;

/** The OpenAPI 3.1 document of the service. Takes some tens of milliseconds. */
export function buildDocument(routes: readonly DescribedRoute[]): OpenApiDocument {
  const registry = new OpenAPIRegistry();
  for (const name of usedHeaders(routes))
    registry.registerComponent('headers', name, { ...responseHeaders[name] });
  for (const [name, scheme] of Object.entries(securitySchemes))
    registry.registerComponent('securitySchemes', name, scheme);
  for (const route of routes) registry.registerPath(toOperation(route));
  const document = new OpenApiGeneratorV31(registry.definitions).generateDocument({
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
  // Nothing calls back, and an empty list says no more than a missing one.
  delete document.webhooks;
  return document;
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
      "An Organization's API key. Only in the `Authorization` header, never in the address, and never beside a session cookie.",
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
