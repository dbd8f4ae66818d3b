import type { ProductOptions } from '../../src/product.js';
import { fewMarkets } from '../markets/support/trading.js';

/** The only file of `test/support` that names a product. Without the product, its line is left out. */
export const withTestDefaults = (options: ProductOptions): ProductOptions => ({
  ...options,
  trading: { selection: fewMarkets, ...options.trading },
});
