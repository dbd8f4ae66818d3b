import type { ConsoleDeps } from '../../console/page.js';
import type { TradingContext } from '../config.js';
import type { LiveTrading } from '../live/live.js';

export interface MarketConsoleDeps extends ConsoleDeps {
  config: TradingContext['config'];
  /** Undefined unless the configuration allows an Organization to trade live. */
  live: LiveTrading | undefined;
}
