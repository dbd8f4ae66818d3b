/** HTTP statuses of the codes for an Organization that lacks access. */
export const accountStatuses = { entitlement_required: 403, entitlement_read_only: 403 } as const;

type AccountStatuses = typeof accountStatuses;

declare module '../core/errors.js' {
  interface ErrorStatuses extends AccountStatuses {}
}
