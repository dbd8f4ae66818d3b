import type { ConsoleDeps } from '../../console/page.js';
import type { LiveTrading } from '../live/live.js';

export interface MarketConsoleDeps extends ConsoleDeps {
  /** Undefined unless the configuration allows live trading. */
  live: LiveTrading | undefined;
}
