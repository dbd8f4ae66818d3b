import type { ReferencePart } from '../core/reference/described.js';
import { callsPerKey } from '../core/reference/part.js';
import { correctionRoutes, operatorCorrectionRoutes } from './corrections/routes.js';
import { creditRoutes, operatorCreditRoutes } from './credit-grants/routes.js';
import { entitlementRoutes as operatorEntitlementRoutes } from './entitlements/operator/routes.js';
import { productRoutes } from './entitlements/products/routes.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { operatorUsageRoutes } from './ingestion/operator-routes.js';
import { usageRoutes } from './ingestion/routes.js';
import { manyUsageRoutes } from './ingestion/many-routes.js';
import { verifyRoutes } from './entitlements/verify-routes.js';
import { forOrganization } from '../accounts/service-keys/routes.js';
import { meteringStatuses } from './errors.js';
import { planRoutes } from './plans/operator-routes.js';
import { customerUsageRoutes } from './reports/operator/routes.js';
import { usageReadRoutes } from './reports/reading/routes.js';
import { reservationRoutes } from './reservations/routes.js';

const tags = {
  Usage: `Runtimes report usage. The Organization is always the one that owns the key; a client cannot choose another.`,
  Entitlements: `What the key's Organization may use, and how much it has used. An entitlement is in effect from \`startsAt\` (inclusive) to \`endsAt\`
(exclusive); otherwise it is not listed. \`live\` allows use, \`read_only\` does not. \`unitCap\` is a number of units per calendar month in UTC; \`null\` is unlimited. Gauge does not stop usage at the
cap; the caller decides what \`overCap\` means. \`limits\` count in calendar or rolling windows. At a blocking limit, checks deny and reservations fail, but events are still recorded. Balances are for the current month in the mode of the calling key.`,
};

const circumstances = {
  old_event: 'the event was received 36 days ago',
  no_corrections: 'the Organization may not correct its usage',
};

const credentials = {
  readerKey: 'a live key with `entitlements:read` only',
  correctorKey: 'a live key with `usage:correct` only',
};

const limits = { usage: callsPerKey('600 usage'), entitlements: callsPerKey('1200 entitlements') };

declare module '../core/reference/names.js' {
  interface Tags extends Record<keyof typeof tags, string> {}
  interface Circumstances extends Record<keyof typeof circumstances, string> {}
  interface Credentials extends Record<keyof typeof credentials, string> {}
  interface Limits extends Record<keyof typeof limits, string> {}
}

export const meteringReference: ReferencePart = {
  tags,
  circumstances,
  credentials,
  limits,
  scopes: {
    'usage:write': { holder: 'liveKey', limited: 'usageKey', outsider: 'readerKey' },
    'usage:read': { holder: 'liveKey', outsider: 'usageKey' },
    'usage:correct': { holder: 'correctorKey', outsider: 'usageKey' },
    'entitlements:read': { holder: 'liveKey', limited: 'readerKey', outsider: 'usageKey' },
  },
  statuses: meteringStatuses,
  errors: new URL('reference/errors.yaml', import.meta.url),
  routes: [
    ...usageRoutes,
    ...usageReadRoutes,
    ...reservationRoutes,
    ...correctionRoutes,
    ...creditRoutes,
    ...entitlementRoutes,
    ...manyUsageRoutes,
    ...verifyRoutes,
    ...[...usageRoutes, ...usageReadRoutes, ...reservationRoutes].map(forOrganization),
    ...[...correctionRoutes, ...creditRoutes, ...entitlementRoutes].map(forOrganization),
    ...productRoutes,
    ...operatorEntitlementRoutes,
    ...customerUsageRoutes,
    ...operatorCorrectionRoutes,
    ...operatorCreditRoutes,
    ...operatorUsageRoutes,
    ...planRoutes,
  ],
};
