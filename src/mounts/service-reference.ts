import { exampleWorld } from '../core/reference/example-world.js';
import type { ReferencePart } from '../core/reference/described.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { healthRoutes } from '../health/routes.js';
import { documentationRoutes } from './documentation.js';

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

export const serviceReference: ReferencePart = {
  tags: {
    Operator: `Declares products, Organizations, people, memberships and entitlements. A \`PUT\` declares the desired state, creates or updates the resource, and may be
repeated; if nothing differs, nothing changes and no audit row is written. Where the service has no \`OPERATOR_TOKEN\`, this face does not exist: every address is 404.`,
    Service: `Health, readiness, metrics, and this document.`,
  },
  routes: [...auditLogRoutes, ...healthRoutes, ...documentationRoutes],
};
