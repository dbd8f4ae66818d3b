declare module '../core/config.js' {
  interface ServiceConfig {
    /** Whether the service has markets, forecasts, portfolios and orders. If not, no page or answer mentions them. */
    hasMarkets: boolean;
    /** Preselected access of a new Organization: in production the default must not grant real markets. */
    firstMarketAccess: 'none' | 'trade';
  }
}

/** The access of a service without markets; the markets replace it with theirs. */
export const withoutMarkets = { hasMarkets: false, firstMarketAccess: 'none' } as const;
