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
Gauge counts what the customers of a software service use, answers what they are entitled to, and keeps the API keys with which their
runtimes ask. It has three faces:

| face | who calls it | how they prove who they are |
|---|---|---|
| \`/api\` | runtimes, self-hosted licences, internal jobs | an Organization's API key: \`Authorization: Bearer org_live_…\` |
| \`/dashboard\`, \`/login\` | people: owner, admin, member, billing | a session cookie |
| \`/operator\` | the operator of the service, their billing system | the operator token: \`Authorization: Bearer …\` |

**Failures** are RFC 9457 problem documents (\`application/problem+json\`) with a stable \`code\` to switch on and a \`requestId\` that finds the request
in the service's log. \`errors\` names every offending place of the body. [All codes](/docs/errors) are explained in one list. Nothing but the
status and \`code\` is meant for programs; \`title\` and \`detail\` are for people.

**Repeating.** A 429 or 503 says in \`Retry-After\` how many seconds to wait. After a 5xx or a lost connection it is unknown whether a
change was made. Usage events may always be sent again: their idempotency keys count them once. Every \`PUT\` and \`DELETE\` may be
repeated and leaves the same state; a \`DELETE\` that finds nothing left may answer 404.

**Time** is RFC 3339 in UTC with \`Z\`; a time that you send must carry an offset, and any offset will do. Months and days begin in UTC.
**Numbers** of units are exact decimals, sent as JSON numbers with all their digits. **Ids** are UUIDv7. **Text** is Unicode
without control characters; lengths count code points. A field that a route does not know is refused. Responses may gain fields and warnings: ignore those you do not know.

**Freshness.** Answers come from the database, never from a cache: a revoked key, a withdrawn entitlement or an ended session takes effect on the next request,
on every instance, and totals include every batch that was answered with 202.

**Modes.** A live key counts live usage, a test key test usage; the two never mix.

**Examples.** All examples take place in one small world, and each is sent to the service by its tests. It is ${exampleWorld.now.replace('.000Z', 'Z')}. The
Organization \`acme\` has a live entitlement for \`api-calls\` (metric \`calls\`, cap 1000, of which 400 were used this month in live mode) and for \`storage\` (metric \`bytes\`, no
cap), and a read-only one for \`archive\` (metric \`documents\`). There is a product \`reports\` that it has none for.
`.trim();

export const tags: Record<Tag, string> = {
  Usage: `Runtimes report what was used. The Organization is always that of the key; a client cannot name another.`,
  Entitlements: `What the Organization of the key may use, and how much of it is used. An entitlement is in effect from \`startsAt\` (inclusive) to \`endsAt\`
(exclusive); those that are not in effect do not appear. \`live\` allows use, \`read_only\` does not. \`unitCap\` is a number of units per calendar month in UTC; \`null\` is unlimited. Nothing stops at the
cap: it is for the caller to decide what \`overCap\` means. \`limits\` count in calendar or rolling windows; one that blocks makes checks deny and reservations fail, while events are recorded all the same. Balances are those of the current month in the mode of the calling key.`,
  'Market data': `Markets, forecasts and signals: no credential is needed. Each address may make 600 reads a minute, of them 60 of \`/signals\` for a bankroll of its own, and pages of the origins in
\`CORS_ORIGINS\` may read from a browser. Every answer comes from one snapshot in memory that a refresh swaps whole every 30 seconds; no read waits for a venue. It says \`asOf\` when the markets were fetched, \`ageSeconds\`, whether they
are \`stale\` (older than 30 seconds), and the state of each of the \`sources\`. A source that fails keeps its last good part, so look at \`stale\` before you act.

An answer's \`ETag\` changes with the snapshot and when it goes stale. Answers are \`no-store\`, because their age would be wrong in a cache: keep a copy yourself and send \`If-None-Match\`; its age then
is the time since its \`asOf\`. Answers are compressed with Brotli or gzip for clients that accept it. Prices are decimal strings in dollars, probabilities numbers from 0 to 1, temperatures °F.`,
  Trading: `Weather markets and what the Organization of the key has in them. Amounts are decimal strings in dollars: read them with a decimal parser, never as floats. \`paper\` and \`live\` are two
accounts that never mix. Everything about markets is as of the last refresh, and says how old it is.`,
  'API keys': `A key belongs to an Organization, not to the person who created it: it keeps working when that person leaves. Its secret is \`org_live_\` or \`org_test_\`
and 32 letters and digits, and is shown once, in the answer that creates it; only its SHA-256 is stored. A key never acts as a person: it cannot create keys, invite or change plans. Its scopes are fixed
when it is made.

\`state\` follows from the timestamps: \`active\`; \`grace\`, after a rotation until its \`expiresAt\`; \`expired\`; \`revoked\`. Owners and admins change
keys; every change writes an audit row in the same transaction.`,
  Webhooks: `What happens is sent to endpoints of the Organization, following [Standard Webhooks](https://www.standardwebhooks.com): a \`POST\` of \`{ type, timestamp, data }\` with the headers
\`webhook-id\`, \`webhook-timestamp\` and \`webhook-signature\`. Verify it with a library of Standard Webhooks and the endpoint's secret (\`whsec_…\`). Any answer of 2xx within 15 seconds is
a success; redirects are not followed. Everything else is tried again after 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours, with the same \`webhook-id\`: a message may come more than once and in any
order, so keep the ids that you have handled. An answer of 410, or five days of nothing but failures, disables the endpoint. Deliveries are kept for 30 days. For owners and admins.`,
  'Signing in': `People sign in with e-mail and password, and with a code where they have turned on a second factor, and get a session that the service can end at any time: it is over as soon as the person signs out, the password
changes or the membership ends. Every change from a browser must come from the service's own pages (\`Sec-Fetch-Site\`, else \`Origin\`).`,
  Operator: `Declares products, Organizations, people, memberships and entitlements. A \`PUT\` declares the desired state, creates or updates the resource, and may be
repeated; if nothing differs, nothing changes and no audit row is written. Where the service has no \`OPERATOR_TOKEN\`, this face does not exist: every address is 404.`,
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
  'webhook-id': z.string().describe('The same on each attempt: use it to recognise repeats.'),
  'webhook-timestamp': z.string().describe('When it was sent, in seconds since 1970.'),
  'webhook-signature': z
    .string()
    .describe(
      '`v1,` and the HMAC-SHA256 of id, timestamp and body with dots between them, in Base64, as Standard Webhooks defines it; one for each secret that is valid, with spaces between them.',
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
          'Received. Anything else, or none within 15 seconds, is tried again; 410 disables the endpoint.',
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
