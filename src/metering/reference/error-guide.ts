import type { ErrorGuide } from '../../core/reference/error-guide.js';

export const errorGuide: ErrorGuide = {
  entitlement_required: {
    meaning:
      'The Organization has no live entitlement for the product, the product was archived, or it does not exist.',
    remedy:
      'Check the slug, and whether the entitlement has begun and has not ended. With `Prefer: handling=lenient` the other events of the batch are recorded.',
  },
  entitlement_read_only: {
    meaning: 'The entitlement allows reading only.',
    remedy: 'Ask the operator of the service for a live entitlement.',
  },
  entitlement_not_found: {
    meaning: 'The Organization has no entitlement for this product in effect.',
    remedy: 'Check the slug, and whether the entitlement has begun and has not ended.',
  },
  event_not_found: {
    meaning:
      "No event with this idempotency key was recorded for the Organization in the key's mode, or its month was archived.",
    remedy: 'Send the event, unless its month was archived.',
  },
  idempotency_conflict: {
    meaning:
      'The key of a correction is its `correctionKey`. A reservation that was settled before cannot be settled with another body. The key of a credit grant is in its address; a grant is never edited.',
  },
  limit_reached: {
    meaning:
      'A blocking limit of the entitlement leaves no room for the reservation. `limit` has the limit and what remains of it. Nothing is held.',
    remedy:
      'Reserve less, or wait the seconds in `Retry-After` if the response has it. Without it, waiting does not help; ask the operator of the service for a higher limit.',
  },
  credits_exhausted: {
    meaning:
      'The credits that are left after all open holds do not cover the reservation. `required` has what it costs, `available` what is left for the product. Nothing is held.',
    remedy:
      'Reserve less, or settle and release other reservations. Otherwise ask the operator of the service for credits.',
  },
  too_many_grants: {
    meaning:
      'The Organization has 64 credit grants in this mode that are open or scheduled, or 256 with those that expired in the last 8 days.',
    remedy: 'Void a grant, or wait until one is spent or expires. One grant can also be larger.',
  },
  grant_closed: {
    meaning: 'The credit grant is spent or has expired, so nothing is left to void.',
    remedy: 'Nothing needs to be done: a closed grant pays for nothing.',
  },
  unknown_product: {
    meaning: 'A slug in `productSlugs`, or in an entitlement of a plan, names no product.',
    remedy: 'Check the slug, or declare the product first.',
  },
  unknown_plan: {
    meaning: 'The slug in `plan` names no plan.',
    remedy: 'Check the slug, or declare the plan first.',
  },
  trial_used: {
    meaning: 'An Organization has one trial of a plan, and none of a plan that it is already on.',
    remedy: 'Leave out `trial`.',
  },
  unknown_metric: {
    meaning: 'The product counts a different metric than the one in the event, or it has no usage.',
    remedy: "Send the product's `usageMetric`, which `GET /api/entitlements` shows.",
  },
  unknown_dimension: {
    meaning: 'A name in `dimensions` is not one of those that the product declares.',
    remedy: 'Check the name. The operator of the service can add up to 4 dimensions to a product.',
  },
  timestamp_out_of_range: {
    meaning:
      '`occurredAt` is more than 7 days before or 5 minutes after the request was received; or the event to correct was received more than 35 days ago.',
    remedy:
      'Send events within 7 days, and check the clock. Leave out `occurredAt` to use the time of receipt. The operator of the service can send events of the last 400 days. Older events can be corrected by the operator of the service, or by an owner or admin on the page of the event.',
  },
  quantity_out_of_range: {
    meaning: "`quantity` exceeds the product's `maxQuantity`, the most that one event may count.",
    remedy: 'Check the unit and the number. The operator can raise the maximum of the product.',
  },
  unavailable: { remedy: 'Usage events are counted once by their idempotency keys.' },
  internal: {
    remedy: 'Repeating usage events is safe: they are counted once by their idempotency keys.',
  },
};
