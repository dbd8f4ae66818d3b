import {
  createTradingServices,
  type TradingOverrides,
  type TradingServices,
} from '../../../src/markets/services/services.js';
import { leadingStations, type Selection } from '../../../src/markets/venue/simulation/world.js';
import type { AppContext } from '../../support/service.js';

export interface TradingOptions {
  trading?: TradingOverrides;
}

export interface TradingService {
  /** The snapshot is empty until a test calls `trading.refresher.refresh()`, because no job runs here. */
  trading: TradingServices;
}

/** A few of the invented world's twenty-four cities with four kinds of market each. */
const fewMarkets: Selection = { stations: leadingStations, kinds: ['daily_maximum'] };

export const startTrading = (context: AppContext, { trading }: TradingOptions): TradingServices =>
  createTradingServices(context, { selection: fewMarkets, ...trading });
