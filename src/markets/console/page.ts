import type { TradingContext } from '../config.js';
import type { LiveTrading } from '../live/live.js';

export interface MarketConsoleDeps extends Pick<TradingContext, 'db' | 'clock' | 'config'> {
  /** Undefined unless the configuration allows an Organization to trade live. */
  live: LiveTrading | undefined;
}
