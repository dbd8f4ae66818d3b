declare module '../core/config.js' {
  interface ServiceConfig {
    /**
     * Whether the service has markets, forecasts, portfolios and orders. If false, no page or response mentions them.
     */
    hasMarkets: boolean;
    /**
     * Market access preselected for a new Organization. In production, the default must not grant access to real
     * markets.
     */
    firstMarketAccess: 'none' | 'trade';
  }
}

/** Settings for a service without markets. The markets product overrides them. */
export const withoutMarkets = { hasMarkets: false, firstMarketAccess: 'none' } as const;
