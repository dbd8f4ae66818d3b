import type { ErrorTitles } from '../core/errors.js';

export const accountStatuses = { entitlement_required: 403, entitlement_read_only: 403 } as const;

export const accountErrorTitles: ErrorTitles = {
  entitlement_required: 'Your Organization does not have access to this',
};

type AccountStatuses = typeof accountStatuses;

declare module '../core/errors.js' {
  interface ErrorStatuses extends AccountStatuses {}
}
