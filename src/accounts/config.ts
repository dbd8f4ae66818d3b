declare module '../core/config.js' {
  interface ServiceConfig {
    /** If false, no page or response mentions markets. */
    hasMarkets: boolean;
    /** Preselected for a new Organization. In production, the default must not grant access to real markets. */
    firstMarketAccess: 'none' | 'trade';
  }
}

/** The markets product overrides these. */
export const withoutMarkets = { hasMarkets: false, firstMarketAccess: 'none' } as const;
