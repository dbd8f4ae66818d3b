export const meteringStatuses = {
  entitlement_not_found: 404,
  event_not_found: 404,
  limit_reached: 409,
  credits_exhausted: 409,
  too_many_grants: 409,
  grant_closed: 409,
  trial_used: 409,
  unknown_metric: 422,
  unknown_dimension: 422,
  unknown_product: 422,
  unknown_plan: 422,
  timestamp_out_of_range: 422,
  quantity_out_of_range: 422,
} as const;

type MeteringStatuses = typeof meteringStatuses;

declare module '../core/errors.js' {
  interface ErrorStatuses extends MeteringStatuses {}
  interface ProblemMembers {
    /** As `toJson` expects. */
    required?: unknown;
    available?: unknown;
  }
}
