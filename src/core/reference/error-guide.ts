import type { ErrorCode } from '../errors.js';

/** Meaning of each code and what its caller can do: the text of `/docs/errors`. */
export const errorGuide: Record<ErrorCode, { meaning: string; remedy: string }> = {
  invalid_json: {
    meaning: 'The body is not JSON, or not UTF-8.',
    remedy: 'Correct the body. The same request will fail again.',
  },
  invalid_request: {
    meaning: "The body, a header or a parameter does not match the route's schema, or has an unknown field.",
    remedy:
      '`errors` lists every invalid place in the body as a JSON pointer. Correct them all; the same request will fail again.',
  },
  session_cookie_not_allowed: {
    meaning: 'An API-key route was called with a session cookie.',
    remedy: 'Send the key without cookies; in a browser, call without credentials (`credentials: "omit"`).',
  },
  key_in_query_string: {
    meaning: 'The URL seems to contain a key. URLs are stored in logs and browser histories.',
    remedy:
      'Send the key in the `Authorization` header. If it was a real key, rotate it: it may have been logged on the way.',
  },
  missing_key: {
    meaning: 'The request has no `Authorization` header.',
    remedy: 'Send `Authorization: Bearer` followed by the API key; on operator routes, the operator token.',
  },
  invalid_key: {
    meaning:
      'The `Authorization` header does not contain an existing key; on operator routes, the operator token.',
    remedy:
      'Check that the whole secret was copied. A lost secret cannot be shown again: rotate the key or create another.',
  },
  key_expired: {
    meaning: 'The key has expired, or the grace period after its rotation has ended.',
    remedy: "Use the key's successor, or create a new key.",
  },
  key_revoked: {
    meaning:
      'The key was revoked, which cannot be undone, or its Organization was archived. `detail` says which.',
    remedy: 'Create a new key, or ask the operator of the service to restore the Organization.',
  },
  not_signed_in: {
    meaning:
      'There is no session, or it has ended: the person signed out, the session expired, or the password or membership changed. In response to a sign-in: the address or the password is wrong, or the second factor is still required.',
    remedy: 'Sign in.',
  },
  insufficient_scope: {
    meaning: 'The key is valid but does not have the scope that this route requires.',
    remedy: 'Use a key with that scope. The scopes of a key never change.',
  },
  forbidden_role: {
    meaning:
      'The signed-in person may not do this in this Organization (changing keys requires an owner or an admin), or belongs to no Organization.',
    remedy: 'Ask an owner or an admin of the Organization.',
  },
  cross_site_request: {
    meaning: 'A browser sent this change from another site.',
    remedy:
      "Send it from the service's own pages, or from a program that sends neither `Sec-Fetch-Site` nor `Origin`.",
  },
  entitlement_required: {
    meaning:
      'The Organization has no live entitlement for the product, the product was archived, or it does not exist. On trading routes: the Organization has no access to markets.',
    remedy:
      'Check the slug, and whether the entitlement has begun and has not ended. With `Prefer: handling=lenient` the other events of the batch are recorded.',
  },
  entitlement_read_only: {
    meaning:
      'The entitlement allows reading only. On an order: the Organization may read markets and close positions, and this order would open or increase a position.',
    remedy: 'Ask the operator of the service for a live entitlement, or for trading access to markets.',
  },
  live_trading_disabled: {
    meaning:
      "A live order needs a live key, the server's live switch, the Organization named in the server's configuration, and a market whose subject is certain. One of these is missing.",
    remedy: 'Trade with `"mode": "paper"`, or ask the operator of the service.',
  },
  not_found: {
    meaning: 'Nothing exists at this address, or the caller may not see it.',
    remedy: 'Check the address and the id.',
  },
  method_not_allowed: {
    meaning: 'The address does not support the method of the request.',
    remedy: 'The `Allow` header lists the methods it supports.',
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
  unknown_station: {
    meaning: 'There is no such station.',
    remedy: '`GET /stations` lists them; ids are like `KNYC`.',
  },
  unknown_market: {
    meaning: 'There is no such market, or it is no longer listed.',
    remedy: '`GET /markets` lists them.',
  },
  key_not_active: {
    meaning: 'A revoked or expired key cannot be rotated.',
    remedy: 'Create a new key.',
  },
  key_already_rotated: {
    meaning: 'The key already has a successor and is in its grace period.',
    remedy: 'Use or rotate the successor.',
  },
  idempotency_conflict: {
    meaning:
      'This idempotency key (for a correction, its `correctionKey`) was already used for another order, reservation or correction, or the reservation was already settled with another body.',
    remedy: 'Use a new key for each new request. Reuse a key only to repeat the same request.',
  },
  backfill_state: {
    meaning:
      "The backfill's state does not allow this step. Only an open backfill takes events and can be applied or discarded; only an applied one can be reverted.",
    remedy: "Read the backfill's `state`. Background steps finish without further requests.",
  },
  limit_reached: {
    meaning:
      'A blocking limit of the entitlement leaves no room for the reservation. `limit` has the limit and what remains of it. Nothing is held.',
    remedy:
      'Reserve less, or wait the seconds in `Retry-After` if the response has it. Without it, waiting does not help; ask the operator of the service for a higher limit.',
  },
  market_closed: {
    meaning:
      'The market does not take orders: it is closed or not open yet, or the venue has paused trading.',
    remedy: "Check the market's `status` and `closeTime`.",
  },
  request_timeout: {
    meaning: 'The headers did not arrive within 10 seconds, or the whole request within 30.',
    remedy: 'Repeat the request on a new connection; this one is closed.',
  },
  headers_too_large: {
    meaning: 'The headers of the request exceed 16 KiB in total.',
    remedy: 'Send fewer or shorter headers; a browser may have to delete cookies.',
  },
  body_too_large: {
    meaning: 'The body has more bytes than the route accepts.',
    remedy: 'Send smaller batches.',
  },
  batch_too_large: {
    meaning: 'The list has more items than the route accepts.',
    remedy: 'Split it into several requests.',
  },
  unsupported_media_type: {
    meaning: 'The body has a content type or a compression that the route does not accept.',
    remedy:
      'Send `Content-Type: application/json` in UTF-8, plain or with `Content-Encoding: gzip`, `deflate` or `br`. The sign-in takes a form.',
  },
  unknown_metric: {
    meaning: 'The product counts a different metric than the one in the event.',
    remedy: "Send the product's `usageMetric`, which `GET /api/entitlements` shows.",
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
  insufficient_funds: {
    meaning: 'The account does not have enough cash for the order at its limit price, fee included.',
    remedy: 'Order less, or sell something. `GET /portfolio` shows what is available.',
  },
  insufficient_position: {
    meaning: 'The account does not hold the contracts to sell.',
    remedy: 'Sell at most the contracts held. To bet against an outcome, buy the other side.',
  },
  risk_limit: {
    meaning:
      'A risk limit, the kill switch or a data check stopped the order. `detail` begins with its name and has its value and the requested amount. The names: `halt`, `reduce_only`, `data_age`, `clock_skew`, `data_source`, `exchange_paused`, `not_held`, `max_order_contracts`, `price_collar`, `max_open_orders`, `max_order_cost`, `max_position_contracts`, `max_event_loss`, `max_daily_loss`, and `unknown_state` if a check cannot be computed.',
    remedy:
      'Order within the limit. The operator of the service sets the limits; owners and admins can also set the kill switch.',
  },
  price_moved: {
    meaning: 'The order book has no contracts at the limit price or better.',
    remedy: 'Read the book again and decide at the current price.',
  },
  rate_limited: {
    meaning: 'Too many requests in the window of the limit.',
    remedy: 'Wait the number of seconds in `Retry-After`, then repeat the request unchanged.',
  },
  unavailable: {
    meaning:
      'The service is overloaded or stopping, or cannot reach its database. Whether a change was made is unknown.',
    remedy:
      'Wait the number of seconds in `Retry-After`, then repeat the request unchanged. Usage events are counted once by their idempotency keys.',
  },
  market_data_unavailable: {
    meaning: 'No market data has been loaded since the service started.',
    remedy: 'Try again later. `/readyz` and `sources` show what is missing.',
  },
  market_data_stale: {
    meaning: 'The market data is too old to trade on.',
    remedy: 'Reads continue with the last good data. Try again when `stale` is false.',
  },
  internal: {
    meaning: 'An internal error of the service.',
    remedy:
      'Report the `requestId`. Usage events are safe to repeat: their idempotency keys count each event once.',
  },
};
