import type { ReferencePart } from '../core/reference/described.js';
import { keyChangeRoutes } from './api-keys/key-change-routes.js';
import { apiKeyReadRoutes, ownKeyRoute } from './api-keys/routes.js';
import { memberRoutes } from './identity/members/operator/routes.js';
import { organizationRoutes } from './identity/organizations/operator/routes.js';
import { sessionRoutes } from './identity/organizations/routes.js';
import { signInRoutes } from './identity/sign-in/sign-in-routes.js';
import { singleSignOnRoutes } from './identity/single-sign-on/operator-routes.js';
import { userRoutes } from './identity/users/routes.js';
import { accountStatuses } from './errors.js';
import { operatorPortalRoutes, portalRoutes } from './portal/routes.js';
import { serviceKeyRoutes } from './service-keys/operator-routes.js';
import { deliveryRoutes } from './webhooks/delivery-routes.js';
import { operatorWebhookRoutes } from './webhooks/operator-routes.js';
import type { WebhookSchemas } from './webhooks/schema.js';
import { webhookRoutes } from './webhooks/routes.js';

const credentials = {
  none: 'no credential',
  liveKey: 'an active live key with `usage:write`, `usage:read` and `entitlements:read`',
  testKey: 'an active test key with `usage:write`, `usage:read`, `entitlements:read` and `trading:read`',
  usageKey: 'a live key with `usage:write` only',
  expiredKey: 'an expired key',
  revokedKey: 'a revoked key',
  unknownKey: 'a key that does not exist',
  ownerSession: "an owner's session",
  memberSession: "a member's session",
  newcomerSession: 'the session of a person without an Organization',
  operator: 'the operator token',
  wrongOperator: 'a wrong operator token',
  serviceKey: 'an active live service key with every scope but `usage:backfill`',
  narrowServiceKey: 'a live service key with `usage:backfill` only',
  expiredServiceKey: 'an expired service key',
  revokedServiceKey: 'a revoked service key',
  unknownServiceKey: 'a service key that does not exist',
};

const circumstances = { no_market_access: 'the Organization has no access to markets' };

declare module '../core/reference/names.js' {
  interface Credentials extends Record<keyof typeof credentials, string> {}
  interface Circumstances extends Record<keyof typeof circumstances, string> {}
}

export const accountsReference = (schemas: WebhookSchemas): ReferencePart => ({
  tags: {
    'API keys': `A key belongs to an Organization, not to the person who created it, so it keeps working when that person leaves. Its secret is \`org_live_\` or \`org_test_\`
followed by 32 letters and digits. The secret is shown once, in the response that creates it; only its SHA-256 is stored. A key cannot act as a person: it cannot create keys, invite people or change plans. Its scopes are fixed
at creation.

\`state\` is derived from the timestamps: \`active\`; \`grace\`, from a rotation until \`expiresAt\`; \`expired\`; \`revoked\`. Owners and admins manage
keys; every change writes an audit row in the same transaction.`,
    'On behalf of customers': `A service key belongs to the operator of the service. With it, the operator's own programs report and read usage, and check
entitlements, for any Organization: each route of \`/api\` for usage, entitlements and credits also exists at \`/service/organizations/{slug}/…\`, with the same body, answers and promises. An
Organization's own key is refused there, and a service key is refused at \`/api\`. The Organization sees on its page of API keys which service keys act for it.`,
    Webhooks: `Gauge sends notifications to the Organization's endpoints, following [Standard Webhooks](https://www.standardwebhooks.com): a \`POST\` of \`{ type, timestamp, data }\` with the headers
\`webhook-id\`, \`webhook-timestamp\` and \`webhook-signature\`. Verify it with a Standard Webhooks library and the endpoint's secret (\`whsec_…\`). A 2xx response within 15 seconds is
a success; redirects are not followed. Anything else is retried after 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours, with the same \`webhook-id\`. A message can arrive more than once and in any
order, so remember the ids that you have handled. A 410 response, or five days without a success, disables the endpoint. Deliveries are kept for 30 days. Only owners and admins can manage endpoints.`,
    'Signing in': `People sign in with e-mail and password, and with a code if they use a second factor. The service can end a session at any time; it ends as soon as the person signs out, the password
changes or the membership ends. Changes from a browser must come from the service's own pages (\`Sec-Fetch-Site\`, else \`Origin\`).`,
  },
  circumstances,
  credentials,
  statuses: accountStatuses,
  errors: new URL('reference/errors.yaml', import.meta.url),
  routes: [
    ownKeyRoute,
    ...apiKeyReadRoutes,
    ...keyChangeRoutes,
    ...webhookRoutes(schemas),
    ...deliveryRoutes(schemas),
    ...signInRoutes,
    ...sessionRoutes,
    ...organizationRoutes,
    ...userRoutes,
    ...singleSignOnRoutes,
    ...memberRoutes,
    ...serviceKeyRoutes,
    ...portalRoutes,
    ...operatorPortalRoutes,
    ...operatorWebhookRoutes(schemas),
  ],
});
