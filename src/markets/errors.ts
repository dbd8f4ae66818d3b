export const marketStatuses = {
  live_trading_disabled: 403,
  unknown_station: 404,
  unknown_market: 404,
  market_closed: 409,
  insufficient_funds: 422,
  insufficient_position: 422,
  risk_limit: 422,
  price_moved: 422,
  market_data_unavailable: 503,
  market_data_stale: 503,
} as const;

type MarketStatuses = typeof marketStatuses;

declare module '../core/errors.js' {
  interface ErrorStatuses extends MarketStatuses {}
}
