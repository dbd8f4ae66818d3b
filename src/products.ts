import { createKeyReader } from './accounts/api-keys/bearer-key.js';
import { createKeyUse } from './accounts/api-keys/key-use.js';
import { joinTypes } from './accounts/webhooks/types.js';
import type { Context } from './core/http/context.js';
import { markets } from './markets/product.js';
import { metering } from './metering/product.js';
import type { Product, ProductOptions, RunningProduct, Services } from './product.js';

/** To remove a product, delete its name here, its import above, and its folders in `src`, `views` and `test`. */
export const products: Product[] = [metering, markets];

/** Includes products that are off, because endpoints keep the types they subscribed to. */
export const webhookTypes = joinTypes(products.map((product) => product.webhookTypes));

export interface Running {
  products: RunningProduct[];
  services: Services;
}

export function createProducts(context: Context, options: ProductOptions = {}): Running {
  const calls = { keys: createKeyReader(context), keyUse: createKeyUse(context) };
  const running = products
    .filter(({ isOn }) => isOn?.(context.config) ?? true)
    .map((product) => ({ ...product, ...product.create(context, calls, options) }));
  const services = Object.assign({}, calls, ...running.map((product) => product.services)) as Services;
  return { products: running, services };
}
