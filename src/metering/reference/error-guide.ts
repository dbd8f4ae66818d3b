import type { ErrorGuide } from '../../core/reference/error-guide.js';

export const errorGuide: ErrorGuide = {
  entitlement_required: {
    meaning:
      'The Organization has no live entitlement for the product, the product was archived, or there is no such product.',
    remedy:
      'Check the slug, and whether the entitlement has begun and has not ended. With `Prefer: handling=lenient` the other events of the batch are recorded.',
  },
  entitlement_read_only: {
    meaning: 'The entitlement allows reading, not use.',
    remedy: 'Ask the operator of the service for a live entitlement.',
  },
  entitlement_not_found: {
    meaning: 'No entitlement of the Organization for this product is in effect.',
    remedy: 'Check the slug, and whether the entitlement has begun and has not ended.',
  },
  event_not_found: {
    meaning:
      'No event with this idempotency key was recorded for the Organization in the mode of the key, or its month was archived.',
    remedy: 'Send the event, unless its month was archived.',
  },
  idempotency_conflict: {
    meaning:
      'The key of a correction is its `correctionKey`. A reservation that was settled before cannot be settled with another body.',
  },
  backfill_state: {
    meaning:
      'The backfill is in a state that does not allow the step: events are staged into an open one, an open one is applied or discarded, and an applied one reverted.',
    remedy: 'Read the backfill: `state` says where it is. A background step ends by itself.',
  },
  limit_reached: {
    meaning:
      'A blocking limit of the entitlement leaves no room for the reservation. `limit` says which, and what remains. Nothing is held.',
    remedy:
      'Reserve less, or wait the seconds in `Retry-After` if the answer has it. Without it, waiting does not help: ask the operator of the service for a higher limit.',
  },
  unknown_metric: {
    meaning: 'The product counts a different metric than the one in the event.',
    remedy: 'Send the `usageMetric` of the product, as `GET /api/entitlements` shows it.',
  },
  timestamp_out_of_range: {
    meaning:
      '`occurredAt` is more than 7 days before or 5 minutes after the request was received; or the event to correct was received more than 35 days ago.',
    remedy:
      'Send events within 7 days, and check the clock. Leave out `occurredAt` to use the time of receipt. Older events can be corrected by the operator of the service, or by an owner or admin on the page of the event.',
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
