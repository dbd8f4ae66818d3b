import { readFileSync } from 'node:fs';
import { OpenAPIRegistry, OpenApiGeneratorV31, type RouteConfig } from '@asteasolutions/zod-to-openapi';
import { z } from 'zod';
import { timeField } from '../http/fields.js';
import type { Tag } from './define-route.js';
import { exampleWorld } from './example-world.js';
import { responseHeaders, type ResponseHeader } from './headers.js';
import { headersOf, statusesOf, toOperation } from './operation.js';
import type { DescribedRoute } from './problem-examples.js';

export const introduction = `
Gauge meters what the customers of a software service use, checks what they are entitled to, and manages their API keys. It has
three faces:

| face | callers | credential |
|---|---|---|
| \`/api\` | runtimes, self-hosted licences, internal jobs | an Organization's API key: \`Authorization: Bearer org_live_…\` |
| \`/dashboard\`, \`/login\` | people: owner, admin, member, billing | a session cookie |
| \`/operator\` | the operator of the service, their billing system | the operator token: \`Authorization: Bearer …\` |

**Failures** are RFC 9457 problem documents (\`application/problem+json\`) with a stable \`code\` and a \`requestId\` that identifies the request
in the service's log. \`errors\` lists every invalid place in the body. [All codes](/docs/errors) are explained in one list. Programs should
rely on the status and \`code\` only; \`title\` and \`detail\` are for people.

**Retries.** For a 429 or 503, wait the number of seconds in \`Retry-After\`. After a 5xx or a lost connection, the change may or may not have
been made. Usage events are always safe to resend: their idempotency keys count each event once. Every \`PUT\` and \`DELETE\` can be
repeated and leaves the same state; a repeated \`DELETE\` may return 404.

**Times** are RFC 3339 in UTC with \`Z\`. A time that you send must have an offset; any offset is accepted. Months and days begin in UTC.
**Quantities** are exact decimals, sent as JSON numbers with all their digits. **Ids** are UUIDv7. **Text** is Unicode
without control characters; lengths count code points. Unknown fields in a request are rejected. Responses may gain fields and warnings; ignore those you do not know.

**Freshness.** Responses come from the database, never from a cache. A revoked key, a withdrawn entitlement or an ended session takes effect on the next request,
on every instance, and totals include every batch that got a 202.

**Modes.** Live keys record live usage and test keys record test usage; the two never mix.

**Examples.** All examples share one small data set, and the service's tests send each of them. The time is ${exampleWorld.now.replace('.000Z', 'Z')}. The
Organization \`acme\` has a live entitlement for \`api-calls\` (metric \`calls\`, cap 1000, of which 400 were used this month in live mode) and for \`storage\` (metric \`bytes\`, no
cap), and a read-only one for \`archive\` (metric \`documents\`). It has no entitlement for the product \`reports\`.
`.trim();

export const tags: Record<Tag, string> = {
  Usage: `Runtimes report usage. The Organization is always the one that owns the key; a client cannot choose another.`,
  Entitlements: `What the key's Organization may use, and how much it has used. An entitlement is in effect from \`startsAt\` (inclusive) to \`endsAt\`
(exclusive); otherwise it is not listed. \`live\` allows use, \`read_only\` does not. \`unitCap\` is a number of units per calendar month in UTC; \`null\` is unlimited. Gauge does not stop usage at the
cap; the caller decides what \`overCap\` means. \`limits\` count in calendar or rolling windows. At a blocking limit, checks deny and reservations fail, but events are still recorded. Balances are for the current month in the mode of the calling key.`,
  'Market data': `Markets, forecasts and signals. No credential is needed. Each address can make 600 reads a minute, including 60 of \`/signals\` with its own bankroll. Pages of the origins in
\`CORS_ORIGINS\` can read from a browser. Every response comes from one in-memory snapshot that is replaced every 30 seconds; no read waits for a venue. \`asOf\` is the time at which the markets were fetched, \`ageSeconds\` their age,
\`stale\` is true if they are older than 30 seconds, and \`sources\` has the state of each source. If a source fails, its last good data stays, so check \`stale\` before you act.

The \`ETag\` changes with the snapshot and when the snapshot becomes stale. Responses are \`no-store\`, because their age would be wrong in a cache. Keep your own copy and send \`If-None-Match\`; the age of the copy
is the time since its \`asOf\`. Responses are compressed with Brotli or gzip if the client accepts it. Prices are decimal strings in dollars, probabilities numbers from 0 to 1, temperatures °F.`,
  Trading: `Weather markets, and the portfolio of the key's Organization. Amounts are decimal strings in dollars. Read them with a decimal parser, never as floats. \`paper\` and \`live\` are two
accounts that never mix. Market data is from the last refresh, and each response has its age.`,
  'API keys': `A key belongs to an Organization, not to the person who created it, so it keeps working when that person leaves. Its secret is \`org_live_\` or \`org_test_\`
followed by 32 letters and digits. The secret is shown once, in the response that creates it; only its SHA-256 is stored. A key cannot act as a person: it cannot create keys, invite people or change plans. Its scopes are fixed
at creation.

\`state\` is derived from the timestamps: \`active\`; \`grace\`, from a rotation until \`expiresAt\`; \`expired\`; \`revoked\`. Owners and admins manage
keys; every change writes an audit row in the same transaction.`,
  Webhooks: `Gauge sends notifications to the Organization's endpoints, following [Standard Webhooks](https://www.standardwebhooks.com): a \`POST\` of \`{ type, timestamp, data }\` with the headers
\`webhook-id\`, \`webhook-timestamp\` and \`webhook-signature\`. Verify it with a Standard Webhooks library and the endpoint's secret (\`whsec_…\`). A 2xx response within 15 seconds is
a success; redirects are not followed. Anything else is retried after 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours, with the same \`webhook-id\`. A message can arrive more than once and in any
order, so remember the ids that you have handled. A 410 response, or five days without a success, disables the endpoint. Deliveries are kept for 30 days. Only owners and admins can manage endpoints.`,
  'Signing in': `People sign in with e-mail and password, and with a code if they use a second factor. The service can end a session at any time; it ends as soon as the person signs out, the password
changes or the membership ends. Changes from a browser must come from the service's own pages (\`Sec-Fetch-Site\`, else \`Origin\`).`,
  Operator: `Declares products, Organizations, people, memberships and entitlements. A \`PUT\` declares the desired state and creates or updates the resource. It can be
repeated: if nothing differs, nothing changes and no audit row is written. Without \`OPERATOR_TOKEN\`, every address of this face is 404.`,
  Service: `Health, readiness, metrics, and this document.`,
};

export interface DescribedWebhook {
  type: string;
  summary: string;
  description: string;
  schema: z.ZodObject;
  example: { type: string; timestamp: string; data: Record<string, unknown> };
}

export type OpenApiDocument = ReturnType<OpenApiGeneratorV31['generateDocument']>;

/** The OpenAPI 3.1 document of the service. Building it takes tens of milliseconds. */
export function buildDocument(
  routes: readonly DescribedRoute[],
  webhooks: readonly DescribedWebhook[],
): OpenApiDocument {
  const registry = new OpenAPIRegistry();
  for (const name of usedHeaders(routes))
    registry.registerComponent('headers', name, { ...responseHeaders[name] });
  for (const [name, scheme] of Object.entries(securitySchemes))
    registry.registerComponent('securitySchemes', name, scheme);
  for (const route of routes) registry.registerPath(toOperation(route));
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
