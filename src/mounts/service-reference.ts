import { exampleWorld } from '../core/reference/example-world.js';
import type { ReferencePart } from '../core/reference/described.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { healthRoutes } from '../health/routes.js';
import { documentationRoutes } from './documentation.js';

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

export const serviceReference: ReferencePart = {
  tags: {
    Operator: `Declares products, Organizations, people, memberships, entitlements and webhook endpoints. A \`PUT\` declares the desired state and creates or updates the resource. It can be
repeated: if nothing differs, nothing changes and no audit row is written. Without \`OPERATOR_TOKEN\`, every address of this face is 404.`,
    Service: `Health, readiness, metrics, and this document.`,
  },
  routes: [...auditLogRoutes, ...healthRoutes, ...documentationRoutes],
};
