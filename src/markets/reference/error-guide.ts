import type { ErrorGuide } from '../../core/reference/error-guide.js';

export const errorGuide: ErrorGuide = {
  entitlement_required: {
    meaning: 'On trading routes: the Organization has no access to markets.',
  },
  entitlement_read_only: {
    meaning:
      'On an order: the Organization may read markets and close positions, and this order would open or increase a position.',
    remedy: 'On an order: ask for trading access to markets.',
  },
  live_trading_disabled: {
    meaning:
      "A live order needs a live key, the server's live switch, the Organization named in the server's configuration, and a market whose subject is certain. One of these is missing.",
    remedy: 'Trade with `"mode": "paper"`, or ask the operator of the service.',
  },
  unknown_station: {
    meaning: 'There is no such station.',
    remedy: '`GET /stations` lists them; ids are like `KNYC`.',
  },
  unknown_market: {
    meaning: 'There is no such market, or it is no longer listed.',
    remedy: '`GET /markets` lists them.',
  },
  market_closed: {
    meaning:
      'The market does not take orders: it is closed or not open yet, or the venue has paused trading.',
    remedy: "Check the market's `status` and `closeTime`.",
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
  market_data_unavailable: {
    meaning: 'No market data has been loaded since the service started.',
    remedy: 'Try again later. `/readyz` and `sources` show what is missing.',
  },
  market_data_stale: {
    meaning: 'The market data is too old to trade on.',
    remedy: 'Reads continue with the last good data. Try again when `stale` is false.',
  },
};
