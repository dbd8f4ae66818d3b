import type { ErrorCode } from '../errors.js';

/** What each code means and what its caller can do: the text of `/docs/errors`. */
export const errorGuide: Record<ErrorCode, { meaning: string; remedy: string }> = {
  invalid_json: {
    meaning: 'The body is not JSON, or not UTF-8.',
    remedy: 'Correct the body. The same request will fail again.',
  },
  invalid_request: {
    meaning:
      'The body, a header or a parameter does not fit the schema of the route, or has a field that it does not know.',
    remedy:
      '`errors` lists every offending place of a body as a JSON pointer. Correct them all; the same request will fail again.',
  },
  session_cookie_not_allowed: {
    meaning: 'A route for API keys was called with a session cookie.',
    remedy:
      'Call it from a program that sends the key alone; in a browser, without credentials (`credentials: "omit"`).',
  },
  key_in_query_string: {
    meaning: 'The address seems to carry a key. Addresses end up in logs and histories.',
    remedy:
      'Send the key in the `Authorization` header. Rotate it if it was a real one: it may have been logged on the way.',
  },
  missing_key: {
    meaning: 'The request has no `Authorization` header.',
    remedy:
      'Send `Authorization: Bearer` and the API key; on the routes of the operator, the operator token.',
  },
  invalid_key: {
    meaning: 'The `Authorization` header holds no key that exists, or not the operator token.',
    remedy:
      'Check that the whole secret was copied. A lost secret cannot be shown again: rotate the key or create another.',
  },
  key_expired: {
    meaning: 'The key has reached its expiry, or the grace period after its rotation has passed.',
    remedy: "Use the key's successor, or create a new key.",
  },
  key_revoked: {
    meaning:
      'The key has been revoked, which cannot be undone, or its Organization was archived, as `detail` then says.',
    remedy: 'Create a new key, or ask the operator of the service to restore the Organization.',
  },
  not_signed_in: {
    meaning:
      'There is no session, or it has ended: by signing out, by its age, or because the password or the membership changed. From the sign-in itself: the address or the password is wrong, or the second factor is due.',
    remedy: 'Sign in.',
  },
  insufficient_scope: {
    meaning: 'The key is good, but it does not have the scope of this route.',
    remedy: 'Use a key with the scope that the route names. The scopes of a key never change.',
  },
  forbidden_role: {
    meaning:
      'The signed-in person may not do this in this Organization (changing keys takes an owner or an admin), or belongs to none.',
    remedy: 'Ask an owner or an admin of the Organization.',
  },
  cross_site_request: {
    meaning: 'A browser sent this change from another site.',
    remedy:
      "Send it from the service's own pages, or from a program that sends neither `Sec-Fetch-Site` nor `Origin`.",
  },
  entitlement_required: {
    meaning:
      'The Organization has no live entitlement for the product, the product was archived, or there is no such product. For routes of trading: the Organization has no access to markets.',
    remedy:
      'Check the slug, and whether the entitlement has begun and has not ended. With `Prefer: handling=lenient` the other events of the batch are recorded.',
  },
  entitlement_read_only: {
    meaning:
      'The entitlement lets the Organization read, not use. For an order: the Organization may read markets and close what it holds, and this order would open or enlarge a position.',
    remedy: 'Ask the operator of the service for a live entitlement, or for access to markets that trades.',
  },
  live_trading_disabled: {
    meaning:
      'A live order needs a live key, the live switch of the server, the Organization named in its configuration, and a market of which it is certain what it is about. One of them is missing.',
    remedy: 'Trade with `"mode": "paper"`, or ask the operator of the service.',
  },
  not_found: {
    meaning: 'There is nothing at this address, or nothing that the caller may know of.',
    remedy: 'Check the address and the id.',
  },
  method_not_allowed: {
    meaning: 'The address takes other methods than the one of the request.',
    remedy: 'The header `Allow` lists them.',
  },
  entitlement_not_found: {
    meaning: 'No entitlement of the Organization for this product is in effect.',
    remedy: 'Check the slug, and whether the entitlement has begun and has not ended.',
  },
  event_not_found: {
    meaning:
      'No event with this idempotency key was recorded for the Organization in the mode of the key, or its month was archived.',
    remedy: 'Send it, if it has to be counted and its month was not archived.',
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
    meaning: 'The key has a successor already and is in its grace period.',
    remedy: 'Use or rotate the successor.',
  },
  idempotency_conflict: {
    meaning:
      'This idempotency key (of a correction: its `correctionKey`) was used before for another order, reservation or correction, or the reservation was settled before with another body.',
    remedy: 'Use a new key for a new one, and the same key only to repeat the same one.',
  },
  backfill_state: {
    meaning:
      'The backfill is in a state that does not allow the step: events are staged into an open one, an open one is applied or discarded, and an applied one reverted.',
    remedy: 'Read the backfill: `state` says where it is. A step that runs in the background ends by itself.',
  },
  limit_reached: {
    meaning:
      'A limit of the entitlement that blocks does not leave room for the reservation. `limit` says which, and what is left. Nothing is held.',
    remedy:
      'Reserve less, or wait for the seconds of `Retry-After` where the answer has it. Without it time alone will not do: ask the operator of the service for a higher limit.',
  },
  market_closed: {
    meaning:
      'The market does not take orders: it is closed or not open yet, or the venue has paused trading.',
    remedy: '`status` and `closeTime` of the market say until when it can be traded.',
  },
  request_timeout: {
    meaning: 'The headers did not arrive within 10 seconds, or the whole request within 30.',
    remedy: 'Repeat the request over a new connection; this one is closed.',
  },
  headers_too_large: {
    meaning: 'The headers of the request are larger than 16 KiB together.',
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
    meaning:
      'The body is not declared as what the route reads, or is compressed in a way that the service does not read.',
    remedy:
      'Send `Content-Type: application/json` in UTF-8, plain or with `Content-Encoding: gzip`, `deflate` or `br`. The sign-in reads a form.',
  },
  unknown_metric: {
    meaning: 'The product counts another metric than the event names.',
    remedy: 'Send the `usageMetric` of the product, as `GET /api/entitlements` shows it.',
  },
  timestamp_out_of_range: {
    meaning:
      '`occurredAt` lies more than 7 days before or 5 minutes after the receipt of the request; or an event that is to be corrected was received more than 35 days ago.',
    remedy:
      'Send events within 7 days, and set the clock. Leave `occurredAt` out for the time of receipt. Older events are corrected by the operator of the service, or by an owner or admin on the page of the event.',
  },
  quantity_out_of_range: {
    meaning: "`quantity` is above what one event of the product may count: the product's `maxQuantity`.",
    remedy: 'Look for a wrong unit or a wrong number. The operator can raise the ceiling of the product.',
  },
  insufficient_funds: {
    meaning: 'The account does not hold what the order may cost at its limit price, fee included.',
    remedy: 'Order less, or sell something. `GET /portfolio` says what there is.',
  },
  insufficient_position: {
    meaning: 'The account does not hold the contracts that are to be sold.',
    remedy: 'Sell at most what is held. To be against an outcome, buy the other side.',
  },
  risk_limit: {
    meaning:
      'A risk limit, the kill switch or a check of the data stops the order. `detail` begins with its name and says its value and what was asked. The names: `halt`, `reduce_only`, `data_age`, `clock_skew`, `data_source`, `exchange_paused`, `not_held`, `max_order_contracts`, `price_collar`, `max_open_orders`, `max_order_cost`, `max_position_contracts`, `max_event_loss`, `max_daily_loss`, and `unknown_state` where something cannot be computed.',
    remedy:
      'Order within the limit. Limits are set by the operator of the service; the kill switch also by owners and admins.',
  },
  price_moved: {
    meaning: 'The order book has nothing at the limit price or better.',
    remedy: 'Read the book again and decide on its present price.',
  },
  rate_limited: {
    meaning: 'There were too many requests in the window of the limit.',
    remedy: 'Wait for the seconds of `Retry-After`, then repeat the request as it was.',
  },
  unavailable: {
    meaning:
      'The service is overloaded or stopping, or cannot reach its database. Whether a change was made is unknown.',
    remedy:
      'Wait for the seconds of `Retry-After`, then repeat the request as it was: usage events are counted once by their idempotency keys.',
  },
  market_data_unavailable: {
    meaning: 'No market data could be loaded since the service was started.',
    remedy: 'Try again. `/readyz` and `sources` say what is missing.',
  },
  market_data_stale: {
    meaning: 'The market data is too old to trade on.',
    remedy: 'Reads continue with the last good data. Try again when `stale` is false.',
  },
  internal: {
    meaning: 'An internal error of the service.',
    remedy:
      'Report the `requestId`. Repeating usage events is safe: they are counted once by their idempotency keys.',
  },
};
