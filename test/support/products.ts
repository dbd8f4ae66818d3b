import type { ProductOptions } from '../../src/product.js';
import { marketsDefaults } from '../markets/support/trading.js';

/** The only file in `test/support` that names a product. To remove a product, delete the lines that name it. */
export const withTestDefaults = (options: ProductOptions): ProductOptions => ({
  ...options,
  ...marketsDefaults(options),
});
