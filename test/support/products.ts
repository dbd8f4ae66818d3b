import type { createApp } from '../../src/app.js';
import { startTrading, type TradingOptions, type TradingService } from '../markets/support/trading.js';
import type { AppContext } from './service.js';

/** The only file of `test/support` that names a product. Without the product, its line in each of these is left out. */
export interface ProductOptions extends TradingOptions {}
export interface ProductServices extends TradingService {}

export function startProducts(context: AppContext, options: ProductOptions) {
  const trading = startTrading(context, options);
  return {
    services: { trading } satisfies ProductServices,
    mounted: (context.config.hasMarkets ? trading : undefined) satisfies Parameters<typeof createApp>[2],
    stop: () => trading.stop(),
  };
}
