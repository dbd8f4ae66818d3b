import type { ProductOptions } from '../../src/product.js';
import { marketsDefaults } from '../markets/support/trading.js';

/** The only file of `test/support` that names a product. To leave a product out, delete the lines that name it. */
export const withTestDefaults = (options: ProductOptions): ProductOptions => ({
  ...options,
  ...marketsDefaults(options),
});
