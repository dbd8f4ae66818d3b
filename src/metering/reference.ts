import type { ReferencePart } from '../core/reference/described.js';
import { callsPerKey } from '../core/reference/part.js';
import { backfillRoutes } from './backfills/routes.js';
import { correctionRoutes, operatorCorrectionRoutes } from './corrections/routes.js';
import { entitlementRoutes as operatorEntitlementRoutes } from './entitlements/operator/routes.js';
import { productRoutes } from './entitlements/products/routes.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { usageRoutes } from './ingestion/routes.js';
import { meteringStatuses } from './errors.js';
import { errorGuide } from './reference/error-guide.js';
import { customerUsageRoutes } from './reports/operator/routes.js';
import { usageReadRoutes } from './reports/reading/routes.js';
import { reservationRoutes } from './reservations/routes.js';

const tags = {
  Usage: `Runtimes report what was used. The Organization is always that of the key; a client cannot name another.`,
  Entitlements: `What the Organization of the key may use, and how much of it is used. An entitlement is in effect from \`startsAt\` (inclusive) to \`endsAt\`
(exclusive); those that are not in effect do not appear. \`live\` allows use, \`read_only\` does not. \`unitCap\` is a number of units per calendar month in UTC; \`null\` is unlimited. Nothing stops at the
cap: it is for the caller to decide what \`overCap\` means. \`limits\` count in calendar or rolling windows; one that blocks makes checks deny and reservations fail, while events are recorded all the same. Balances are those of the current month in the mode of the calling key.`,
};

const circumstances = { old_event: 'the event was received 36 days ago' };

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
  errors: errorGuide,
  routes: [
    ...usageRoutes,
    ...usageReadRoutes,
    ...reservationRoutes,
    ...correctionRoutes,
    ...entitlementRoutes,
    ...productRoutes,
    ...operatorEntitlementRoutes,
    ...customerUsageRoutes,
    ...operatorCorrectionRoutes,
    ...backfillRoutes,
  ],
};
